/* SPDX-License-Identifier: Apache-2.0 */
/* Sends log lines to the program's function, one per process, or to stderr. */
#include "base/log.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

static void write_to_stderr(void *user, mr_log_level level, const char *line)
{
    (void)user;
    static const char *const names[] = {"", "error: ", "warning: ", ""};
    fprintf(stderr, "millrace: %s%s\n", (unsigned)level < 4 ? names[level] : "", line);
}

static mr_log_fn log_fn = write_to_stderr;
static void *log_user;

void mr_log_set(mr_log_fn fn, void *user)
{
    log_fn = fn ? fn : write_to_stderr;
    log_user = fn ? user : NULL;
}

void mr_log_line(mr_log_level level, const char *format, ...)
{
    char line[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    mr_error_keep_one_line(line);
    log_fn(log_user, level, line);
}
