/* SPDX-License-Identifier: Apache-2.0 */
/* Words for numbers of the operating system, in English whatever the locale is. */
#ifndef BASE_OS_WORDS_H
#define BASE_OS_WORDS_H

#include "base/export.h"

/* "No such file or directory" for an errno; NULL for a number that is none. Any thread. */
MR_BASE_EXPORT const char *mr_os_words_error(int os_error);
/* "SEGV" for a signal; NULL for a number that is none. Any thread. */
MR_BASE_EXPORT const char *mr_os_words_signal(int signal);

#endif
