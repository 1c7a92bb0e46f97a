/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_epochs FOLDER READER WORKERS EPOCHS: a loop that only takes batches, for valgrind and strace.
 */
#include "tests/support/epochs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16 };

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: run_epochs FOLDER uring|pread WORKERS EPOCHS\n");
        return 2;
    }
    uint64_t n_epochs = strtoul(argv[4], NULL, 10);
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = BATCH;
    o.num_workers = (int32_t)strtol(argv[3], NULL, 10);
    o.n_epochs = n_epochs;
    o.reader = strcmp(argv[2], "uring") == 0 ? MR_READER_URING : MR_READER_PREAD;
    mr_dataset *dataset = mr_test_dataset(argv[1]);
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    uint64_t n_samples = 0, n_batches = 0;
    mr_status status = MR_END;
    for (uint64_t i = 0; i < n_epochs && status == MR_END; i++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, i);
        status = epoch.status;
        n_samples += epoch.n_valid;
        n_batches += epoch.n_batches;
        mr_test_epoch_free(&epoch);
    }
    if (status != MR_END)
        fprintf(stderr, "%s\n", mr_loader_error(loader)->text);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    printf("%llu %llu\n", (unsigned long long)n_samples, (unsigned long long)n_batches);
    return status != MR_END;
}
