/* SPDX-License-Identifier: Apache-2.0 */
/* The live line: one line on stderr that is redrawn, only on a terminal. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <millrace/status.h>

struct mr_progress {
    bool on; /* stderr is a terminal */
    bool drawn;
    double due_s;
};

/* Seconds of CLOCK_MONOTONIC. */
double mr_progress_now(void);

void mr_progress_init(struct mr_progress *progress);
/* True if the line may be redrawn: at most five times a second, never without a terminal. */
bool mr_progress_due(struct mr_progress *progress);
void mr_progress_draw(struct mr_progress *progress, const char *format, ...) MR_PRINTF(2, 3);
/* Erase the line. Call this before anything else is written. */
void mr_progress_clear(struct mr_progress *progress);
/* For mr_dataset_options.progress; user is a struct mr_progress. */
void mr_progress_files(void *user, uint64_t n_files);

#endif
