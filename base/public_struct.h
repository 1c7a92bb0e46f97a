/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of a caller that may be compiled against another version of the public headers. Each
 * begins with size_t struct_size and grows only at its end: a caller's struct is initialised, and a
 * result is written to one. Options are in options.h.
 */
#ifndef BASE_PUBLIC_STRUCT_H
#define BASE_PUBLIC_STRUCT_H

#include "base/export.h"

#include <millrace/status.h>

/*
 * Check before the work that out can be written: its struct_size must be from sizeof(size_t) to
 * size, the size in this version. NULL is accepted.
 *
 * name  the type's name, for the error
 */
MR_BASE_EXPORT mr_status mr_out_struct_check(const void *out, size_t size, const char *name,
                                             mr_error *error);
/*
 * After that check: copy src, which has `size` bytes, to out, up to out's struct_size. struct_size
 * itself is not changed. NULL does nothing.
 */
MR_BASE_EXPORT void mr_out_struct_write(void *out, const void *src, size_t size);

/*
 * Set size bytes to zero and the first field, struct_size, to size. Only the caller knows how large
 * its struct is. Does nothing for NULL, and for a size without room for struct_size.
 */
MR_BASE_EXPORT void mr_struct_init(void *made, size_t size);

/* The function type_init() of the public headers. */
#define MR_STRUCT_INIT_FUNCTION(type)                                                              \
    void type##_init(type *made, size_t size)                                                      \
    {                                                                                              \
        mr_struct_init(made, size);                                                                \
    }

#endif
