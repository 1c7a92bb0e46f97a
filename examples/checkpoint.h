/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of the training examples: a header, then weights, then velocity, in the network's
 * type of number and this machine's byte order. A file is written under another name and renamed,
 * so that the file under its final name is always complete.
 */
#ifndef EXAMPLES_CHECKPOINT_H
#define EXAMPLES_CHECKPOINT_H

#include <millrace/loader.h>

/* Where a run stands. Fields of 8 bytes, so that ranks can broadcast it as integers. */
struct checkpoint {
    char magic[8];
    uint64_t dtype;
    uint64_t n_params;
    uint64_t epoch;    /* that comes next or is under way */
    uint64_t in_epoch; /* 1: under way, and the loader stands where position says */
    double best;       /* test accuracy so far, 0 to 1 */
    mr_loader_state position;
};

/*
 * numbers: n_params weights, then as many velocities, of head's dtype. False after a message on
 * stderr.
 */
bool checkpoint_write(const char *folder, const char *name, const struct checkpoint *head,
                      const void *numbers);
/*
 * *head describes the network and receives what was saved. On failure it is unchanged, but numbers
 * may have changed.
 */
bool checkpoint_read(const char *path, struct checkpoint *head, void *numbers);

#endif
