/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the error record. The function that finds a failure calls mr_error_set(); callers above
 * pass the status on.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/export.h"

#include <millrace/status.h>

/*
 * Every function accepts a NULL error and returns status, so that a failing function can end with
 * `return mr_error_set(...)`.
 */
MR_BASE_EXPORT mr_status mr_error_set(mr_error *error, mr_status status, const char *format, ...)
    MR_PRINTF(3, 4);

/*
 * As above for a failed system call: os_error is an errno; ": <its text>" is appended to the
 * message.
 */
MR_BASE_EXPORT mr_status mr_error_os(mr_error *error, mr_status status, int os_error,
                                     const char *format, ...) MR_PRINTF(4, 5);

/* MR_ERR_NO_MEMORY for an allocation of len_bytes. */
MR_BASE_EXPORT mr_status mr_error_memory(mr_error *error, size_t len_bytes);

/*
 * Replace control characters by '?'. File names from outside must neither break the one line nor
 * send escape sequences to a terminal.
 */
void mr_error_keep_one_line(char *text);

/* The error that mr_batch_error(), mr_loader_error() and the like return for NULL. */
MR_BASE_EXPORT const mr_error *mr_error_null_handle(void);

/* Copy src to dst unless dst is NULL. */
MR_BASE_EXPORT void mr_error_copy(mr_error *dst, const mr_error *src);

#endif
