/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the command's messages on stderr, one line each, after the program's name. */
#ifndef TOOLS_SAY_H
#define TOOLS_SAY_H

#include <stdbool.h>
#include <stdio.h>

#include <millrace/status.h>

/* Exit statuses of the program. */
enum {
    MR_EXIT_OK = 0,
    MR_EXIT_FAILED = 1, /* the data or the work failed */
    MR_EXIT_USAGE = 2,  /* wrong usage */
};

/* Print "millrace export: ..." and a newline. Control characters are written as '?'. */
void mr_say_error(const char *format, ...) MR_PRINTF(1, 2);
/* Like mr_say_error(), followed by ": " and the text of this errno. */
void mr_say_errno(int os_error, const char *format, ...) MR_PRINTF(2, 3);
/*
 * Print the library's error. Returns the exit status: MR_EXIT_USAGE for MR_ERR_INVALID (a wrong
 * argument), MR_EXIT_FAILED for every other status.
 */
int mr_say_status(mr_status status, const mr_error *error);
/* Print a sample's error; the index is added if the text does not contain it. */
void mr_say_sample(const mr_error *error);
/* Write text, with '?' for each control character. */
void mr_say_put(FILE *stream, const char *text);
/* Write all bytes. On failure, print a message that names the file `name`, and return false. */
bool mr_say_write(int fd, const char *name, const void *bytes, size_t len_bytes);
/*
 * Flush stdout. Returns exit_status, or MR_EXIT_FAILED after a message if the output could not be
 * written.
 */
int mr_say_finish(int exit_status);

#endif
