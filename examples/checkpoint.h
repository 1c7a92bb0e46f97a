/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of the training examples: a header, then weights, then velocities, in the network's
 * dtype and this machine's byte order. A file is written under another name and then renamed, so
 * the file under its final name is always complete.
 */
#ifndef EXAMPLES_CHECKPOINT_H
#define EXAMPLES_CHECKPOINT_H

#include <millrace/loader.h>

/* How far a run has come. All fields have 8 bytes, so that ranks can broadcast it as integers. */
struct checkpoint {
    char magic[8];
    uint64_t dtype;
    uint64_t n_params;
    uint64_t epoch;        /* the current epoch, or the next one; of train_tokens: steps */
    uint64_t in_epoch;     /* 1: the epoch was interrupted, and position says where */
    double best;           /* best test accuracy so far, 0 to 1 */
    uint64_t position_len; /* bytes of position, from mr_loader_save() */
    uint8_t position[MR_LOADER_STATE_MAX];
};

/*
 * numbers: n_params weights, then n_params velocities, of head's dtype. False: failed, and the
 * reason is on stderr.
 */
bool checkpoint_write(const char *folder, const char *name, const struct checkpoint *head,
                      const void *numbers);
/*
 * *head describes the network and receives the saved values. On failure it is unchanged, but
 * numbers may have changed.
 */
bool checkpoint_read(const char *path, struct checkpoint *head, void *numbers);

#endif
