/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an options struct of a caller that was compiled against an older or a newer header. Every
 * such struct begins with size_t struct_size. New fields go at the end only.
 * tests/install/test_headers.sh checks that there is no padding.
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/export.h"

#include <millrace/status.h>

/*
 * Set dst_size bytes at dst to zero and copy the options src over them. The copy's struct_size is
 * dst_size. src NULL means all defaults.
 *
 * type  the struct's name, for errors; the macro that initialises it has this name in capitals with
 *       _INIT
 * Returns MR_OK; MR_ERR_INVALID if struct_size is 0 or impossible, or if src is longer and sets a
 * field that this version does not know. On failure dst is undefined.
 */
MR_BASE_EXPORT mr_status mr_options_copy(void *dst, size_t dst_size, const void *src,
                                         const char *type, mr_error *error);

/*
 * MR_ERR_INVALID unless the n bytes of a field "reserved" are zero. The error names the type.
 */
MR_BASE_EXPORT mr_status mr_options_check_reserved(const void *reserved, size_t n, const char *type,
                                                   mr_error *error);

/* MR_ERR_INVALID for a struct_size of 0. The error names the macro that initialises this type. */
mr_status mr_options_refuse_zero(const char *type, mr_error *error);

#endif
