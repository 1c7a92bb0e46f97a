/* SPDX-License-Identifier: Apache-2.0 */
/* What all functions mr_..._init() of the public headers do. */
#ifndef BASE_STRUCT_INIT_H
#define BASE_STRUCT_INIT_H

#include "base/export.h"

#include <millrace/status.h>

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
