/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole epochs, reduced to what tests compare: a checksum over every byte that a training loop
 * would receive, and the indices in order.
 */
#ifndef TESTS_SUPPORT_EPOCHS_H
#define TESTS_SUPPORT_EPOCHS_H

#include <millrace/millrace.h>

struct mr_test_epoch {
    mr_status status; /* that ended it; MR_END is the normal end */
    uint64_t n_batches;
    uint64_t n_samples;
    uint64_t n_valid;
    uint64_t digest;       /* of all arrays of all batches, in order */
    uint64_t n_failures;   /* batches whose place was taken by an error */
    mr_error first_error;  /* of them */
    int64_t *indices;      /* n_samples of them */
    uint64_t *row_digests; /* of each sample's image and label */
};

/*
 * Go to the epoch and take all of it. Errors in place of batches are counted; any other one ends
 * it.
 */
struct mr_test_epoch mr_test_epoch_run(mr_loader *loader, uint64_t epoch);
/* Take what is left of the present epoch. */
struct mr_test_epoch mr_test_epoch_rest(mr_loader *loader);
void mr_test_epoch_free(struct mr_test_epoch *epoch);

/*
 * Open dataset and loader; what fails prints the words and ends the program. transform NULL: the
 * default.
 */
mr_dataset *mr_test_dataset(const char *spec);
mr_loader *mr_test_loader(mr_dataset *dataset, const char *transform,
                          const mr_loader_options *options);

/* Number of millrace-worker processes on this machine whose parent or ancestor is pid, by /proc. */
uint32_t mr_test_count_workers(int64_t pid);
/*
 * Wait until there are so many, at most 20 s: a started program gets its name a moment later.
 * Returns how many.
 */
uint32_t mr_test_await_workers(int64_t pid, uint32_t n);
/* Send them all a signal; returns how many there were. */
uint32_t mr_test_signal_workers(int64_t pid, int signal);

#endif
