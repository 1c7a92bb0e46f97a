/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole epochs, reduced to what tests compare: a checksum over every byte that a training loop
 * receives, and the indices in order.
 */
#ifndef TESTS_SUPPORT_EPOCHS_H
#define TESTS_SUPPORT_EPOCHS_H

#include <millrace/millrace.h>

struct mr_test_epoch {
    mr_status status; /* how the epoch ended; MR_END is the normal end */
    uint64_t n_batches;
    uint64_t n_samples;
    uint64_t n_valid;
    uint64_t digest;       /* of all arrays of all batches, in order */
    uint64_t n_failures;   /* errors that took a batch's place */
    mr_error first_error;  /* the first of these errors */
    int64_t *indices;      /* n_samples of them */
    uint64_t *row_digests; /* of each sample's image and label */
};

/*
 * Go to the epoch and take all its batches. Errors in place of batches are counted; any other error
 * ends it.
 */
struct mr_test_epoch mr_test_epoch_run(mr_loader *loader, uint64_t epoch);
/* Take the remaining batches of the current epoch. */
struct mr_test_epoch mr_test_epoch_rest(mr_loader *loader);
void mr_test_epoch_free(struct mr_test_epoch *epoch);

/*
 * Open a dataset or a loader. A failure prints the error and ends the program. transform NULL: the
 * default.
 */
mr_dataset *mr_test_dataset(const char *spec);
mr_loader *mr_test_loader(mr_dataset *dataset, const char *transform,
                          const mr_loader_options *options);

/* Number of millrace-worker processes on this machine whose parent or ancestor is pid, by /proc. */
uint32_t mr_test_count_workers(int64_t pid);
/*
 * Wait until there are n, at most 20 s, because a started program gets its name a moment later.
 * Returns how many there are.
 */
uint32_t mr_test_await_workers(int64_t pid, uint32_t n);
/* Send a signal to all of them. Returns their number. */
uint32_t mr_test_signal_workers(int64_t pid, int signal);

#endif
