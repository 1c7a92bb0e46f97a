/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the command's messages. The program's name is glibc's program_invocation_short_name, which
 * main.c sets to "millrace NAME". File names may contain control characters, which would disturb a
 * terminal, so these are replaced.
 */
#include "tools/say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 8192 };

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

void mr_say_put(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++)
        fputc(is_control(*text) ? '?' : *text, stream);
}

static void print_line(const char *tail, const char *format, va_list args)
{
    char line[LINE_BYTES];

    if (vsnprintf(line, sizeof line, format, args) < 0)
        line[0] = '\0';
    for (char *c = line; *c != '\0'; c++)
        if (is_control(*c))
            *c = '?'; /* in the buffer, because stderr has none: the line is then one write */
    fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, line, *tail ? ": " : "", tail);
}

void mr_say_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_line("", format, args);
    va_end(args);
}

void mr_say_errno(int os_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_line(strerror(os_error), format, args);
    va_end(args);
}

void mr_say_sample(const mr_error *error)
{
    char
        named[32]; /* the end of the library's text: "(index 7)", or "(NAME, index 7)" for a pack */

    snprintf(named, sizeof named, "index %" PRId64 ")", error->index);
    if (error->index >= 0 && strstr(error->text, named) == NULL)
        mr_say_error("%s (%s", error->text, named);
    else
        mr_say_error("%s", error->text);
}

int mr_say_status(mr_status status, const mr_error *error)
{
    if (error->text[0] == '\0')
        mr_say_error("%s", mr_status_name(status));
    else
        mr_say_sample(error);
    return status == MR_ERR_INVALID ? MR_EXIT_USAGE : MR_EXIT_FAILED;
}

bool mr_say_write(int fd, const char *name, const void *bytes, size_t len_bytes)
{
    const char *at = bytes;

    while (len_bytes > 0) {
        ssize_t n = write(fd, at, len_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            mr_say_errno(errno, "%s", name);
            return false;
        }
        at += n;
        len_bytes -= (size_t)n;
    }
    return true;
}

int mr_say_finish(int exit_status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_status;
    mr_say_errno(errno ? errno : EIO, "stdout");
    return MR_EXIT_FAILED;
}
