/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for errno values and signals, in English with every locale. */
#ifndef BASE_OS_WORDS_H
#define BASE_OS_WORDS_H

#include "base/export.h"

/* "No such file or directory" for ENOENT; NULL for a number that is not an errno. Any thread. */
MR_BASE_EXPORT const char *mr_os_words_error(int os_error);
/* "SEGV" for SIGSEGV; NULL for a number that is not a signal. Any thread. */
MR_BASE_EXPORT const char *mr_os_words_signal(int signal);

#endif
