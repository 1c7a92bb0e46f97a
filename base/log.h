/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of the library. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/export.h"

#include <millrace/status.h>

/*
 * Send one line, without a newline, to the function of mr_log_set(), or to stderr. Workers never
 * call it.
 */
MR_BASE_EXPORT void mr_log_line(mr_log_level level, const char *format, ...) MR_PRINTF(2, 3);

#endif
