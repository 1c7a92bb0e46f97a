/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader as a whole against the speed of light and against itself. One file for each group of
 * cases.
 */
#ifndef BENCH_END_TO_END_H
#define BENCH_END_TO_END_H

#include "bench/engine.h"
#include "bench/roi_decode.h"

#include <millrace/loader.h>

#define MR_E2E_BATCH 64
#define MR_E2E_LISTED 1281167
#define MR_E2E_SAMPLES 1000000

struct mr_end_to_end {
    struct mr_engine *engine;
    struct mr_photos photos; /* all samples of photos.dataset, in the order of epoch 0 */
    uint32_t n_epochs;       /* of one measured run */
    char folder[64];         /* temporary, for lists; removed at the end */
    char listed[96];         /* list of MR_E2E_LISTED files that do not exist */
    /* List of MR_E2E_SAMPLES entries that repeat the photographs. */
    char repeated[96];
};

/* All defaults, u8, train:224, batches of MR_E2E_BATCH. */
mr_loader_options mr_end_to_end_options(uint32_t num_workers);

/*
 * Take all batches of an epoch, and count samples. A sample that does not appear exactly once
 * counts as wrong.
 */
mr_status mr_end_to_end_epoch(struct mr_end_to_end *bench, mr_loader *loader,
                              uint64_t *n_samples_out, uint64_t *n_wrong_out, mr_error *error);

void mr_e2e_throughput_add(struct mr_end_to_end *bench);
void mr_e2e_startup_add(struct mr_end_to_end *bench);
void mr_e2e_memory_add(struct mr_end_to_end *bench);
void mr_e2e_gaps_add(struct mr_end_to_end *bench);
void mr_e2e_throughput_figures(struct mr_engine *engine);
void mr_e2e_startup_figures(struct mr_engine *engine);
void mr_e2e_memory_figures(struct mr_engine *engine);
void mr_e2e_gaps_figures(struct mr_engine *engine);

/* Write the two lists into bench->folder. */
mr_status mr_e2e_lists_write(struct mr_end_to_end *bench, mr_error *error);
/* Write a list of the photographs with absolute paths. */
mr_status mr_e2e_lists_photos(const struct mr_photos *photos, const char *path, mr_error *error);

#endif
