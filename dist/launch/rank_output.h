/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the lines of all ranks to this process's stdout and stderr, each after its rank's number.
 */
#ifndef DIST_LAUNCH_RANK_OUTPUT_H
#define DIST_LAUNCH_RANK_OUTPUT_H

#include "base/error.h"

#include <poll.h>

#define MR_RANK_LINE 4080 /* bytes; a longer line is cut into pieces, each with the prefix */

enum { MR_RANK_STDOUT = 0, MR_RANK_STDERR = 1, MR_RANK_STREAMS = 2 };

struct mr_rank_output;

/* NULL on failure. Prefixes count from first_rank. */
struct mr_rank_output *mr_rank_output_create(uint32_t n_ranks, uint32_t first_rank,
                                             mr_error *error);
void mr_rank_output_destroy(struct mr_rank_output *output);

/* Read this stream of a rank from fd, which must not block. Ownership: takes fd. */
void mr_rank_output_add(struct mr_rank_output *output, uint32_t local_rank, int stream, int fd);
/* Close the descriptors in a forked child that does not use them. */
void mr_rank_output_drop(struct mr_rank_output *output);

/*
 * n_polls is the largest number of descriptors to wait for. set_polls fills them and returns their
 * number for this turn.
 */
uint32_t mr_rank_output_n_polls(const struct mr_rank_output *output);
uint32_t mr_rank_output_set_polls(struct mr_rank_output *output, struct pollfd *polls);
/* After poll(): read and write what is possible without blocking. */
void mr_rank_output_pump(struct mr_rank_output *output, const struct pollfd *polls);

/* All ranks have ended: the pipes get no more output. */
void mr_rank_output_finish(struct mr_rank_output *output);
/* Has everything been read and written? */
bool mr_rank_output_is_done(const struct mr_rank_output *output);
/* errno of the failed write to stdout or stderr; 0: none failed. */
int mr_rank_output_failure(const struct mr_rank_output *output, int stream);

#endif
