/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the live line. A line that is longer than the terminal is wide cannot be erased, so lines
 * are short. A terminal without escape sequences (TERM=dumb) gets no live line.
 */
#include "tools/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_S 0.2

enum { LINE_BYTES = 80 };

double mr_progress_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void mr_progress_init(struct mr_progress *progress)
{
    const char *term = getenv("TERM");

    *progress = (struct mr_progress){.on = isatty(STDERR_FILENO) == 1 && term != NULL &&
                                           strcmp(term, "dumb") != 0};
}

bool mr_progress_due(struct mr_progress *progress)
{
    if (!progress->on)
        return false;
    double now = mr_progress_now();
    if (now < progress->due_s)
        return false;
    progress->due_s = now + INTERVAL_S;
    return true;
}

void mr_progress_draw(struct mr_progress *progress, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;

    if (!progress->on)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "\r\033[K%s", line);
    progress->drawn = true;
}

void mr_progress_clear(struct mr_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}

void mr_progress_files(void *user, uint64_t n_files)
{
    struct mr_progress *progress = user;

    if (mr_progress_due(progress))
        mr_progress_draw(progress, "listing: %" PRIu64 " %s", n_files,
                         n_files == 1 ? "file" : "files");
}
