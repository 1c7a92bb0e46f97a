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
 * Copy the options src over dst_size zeros at dst; the copy's struct_size is dst_size. src NULL
 * means all defaults.
 * type  the struct's name, for errors: a macro of this name in capitals and _INIT initialises it.
 *       Returns MR_OK;
 * MR_ERR_INVALID when struct_size is 0 or impossible, or when src is longer and sets a field that
 * this version does not know. dst is unspecified on failure.
 */
MR_BASE_EXPORT mr_status mr_options_copy(void *dst, size_t dst_size, const void *src,
                                         const char *type, mr_error *error);

/* A struct_size of 0: MR_ERR_INVALID, with the macro that initialises this type. */
mr_status mr_options_refuse_zero(const char *type, mr_error *error);

#endif
