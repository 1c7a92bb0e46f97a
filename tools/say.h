/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the command on stderr, one line each, after the program's name. */
#ifndef TOOLS_SAY_H
#define TOOLS_SAY_H

#include <stdbool.h>
#include <stdio.h>

#include <millrace/status.h>

/* Of the program. */
enum {
    MR_EXIT_OK = 0,
    MR_EXIT_FAILED = 1, /* the data or the work failed */
    MR_EXIT_USAGE = 2,  /* the call is wrong */
};

/* "millrace export: ..." and a newline; bytes that would disturb a terminal are written as '?'. */
void mr_say_error(const char *format, ...) MR_PRINTF(1, 2);
/* As above with ": " and the words of this errno. */
void mr_say_errno(int os_error, const char *format, ...) MR_PRINTF(2, 3);
/*
 * Print the library's error. Returns the exit status: MR_EXIT_USAGE for MR_ERR_INVALID (what the
 * caller gave), MR_EXIT_FAILED for others (what was found, among it the content of lists and
 * folders: MR_ERR_DAMAGED).
 */
int mr_say_status(mr_status status, const mr_error *error);
/* Print a sample's error; its index is added where the text does not name it. */
void mr_say_sample(const mr_error *error);
/* Write text as it is, but with '?' for each byte that would disturb a terminal. */
void mr_say_put(FILE *stream, const char *text);
/* Write all of the bytes. False after a message, which calls the file so. */
bool mr_say_write(int fd, const char *name, const void *bytes, size_t len_bytes);
/*
 * Flush stdout. Returns exit_status, or MR_EXIT_FAILED after a message when not everything could be
 * written.
 */
int mr_say_finish(int exit_status);

#endif
