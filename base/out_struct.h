/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a result struct of a caller that may be compiled against an older header. As options, the
 * struct begins with size_t struct_size and grows only at its end.
 */
#ifndef BASE_OUT_STRUCT_H
#define BASE_OUT_STRUCT_H

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

#endif
