/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a struct that the caller has, who may be compiled against an older header. Like options it
 * begins with size_t struct_size, and grows at its end only.
 */
#ifndef BASE_OUT_STRUCT_H
#define BASE_OUT_STRUCT_H

#include "base/export.h"

#include <millrace/status.h>

/*
 * Check before the work that out can be written: its struct_size is from sizeof(size_t) to size,
 * that of this version.
 * NULL is accepted. name  of the type, for the error.
 */
MR_BASE_EXPORT mr_status mr_out_struct_check(const void *out, size_t size, const char *name,
                                             mr_error *error);
/*
 * After that check: copy src, of this size, to out as far as out's struct_size, which stays. NULL
 * does nothing.
 */
MR_BASE_EXPORT void mr_out_struct_write(void *out, const void *src, size_t size);

#endif
