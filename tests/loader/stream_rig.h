/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaders on the double of the CUDA runtime, used like a training loop uses them: kernels on
 * streams read the batches, and what they saw is compared with what a loader on the host lends. A
 * failure here ends the test.
 */
#ifndef TESTS_LOADER_STREAM_RIG_H
#define TESTS_LOADER_STREAM_RIG_H

#include "tests/double/cuda_double.h"
#include "tests/loader/rig.h"

/* Open a machine; close it, expecting no fault and nothing left. */
void stage_open(const struct double_options *options);
void stage_close(void);
/* Expect no fault so far. What a broken device has lost is reported at the end only. */
void stage_expect_clean(void);

/* Create a stream on this device, whatever the current one is; destroy it, after waiting for it. */
cudaStream_t stage_stream(int device, unsigned flags);
void stage_end_stream(cudaStream_t stream);
/* Wait until this stream has finished. */
void stage_sync(cudaStream_t stream);

/* The next batch for a stream, or fail. */
mr_batch *stage_next_on(mr_loader *loader, void *stream);
/* Each fails, with the batch's error text, if the status is another one. */
void stage_use(mr_batch *batch, void *stream, mr_status expected);
void stage_release_on(mr_batch *batch, void *stream, mr_status expected);
void stage_release(mr_batch *batch, mr_status expected);
/* The options of rig_options() on one device, with two threads. */
mr_loader_options stage_options(const char *device);
/*
 * The same on the host, page-locked, with three slots; a loader whose page-locking was not refused.
 */
mr_loader_options stage_pin_options(void);
mr_loader *stage_pinned_loader(struct rig *rig, const mr_loader_options *options);

/* Arrays of a batch with mixing and soft labels, and of a batch without mixing. */
enum { SEEN_BATCHES = 64, SEEN_ARRAYS = 8, PLAIN_ARRAYS = 5 };

struct seen_batch {
    uint64_t epoch;
    uint64_t number;
    uint32_t n_rows;
    uint32_t n_valid;
    size_t len[SEEN_ARRAYS]; /* of all parts, one after the other */
    uint8_t *bytes[SEEN_ARRAYS];
};

/* What batches contained. Nothing is allocated after its creation. */
struct seen {
    uint32_t n;
    struct seen_batch batches[SEEN_BATCHES];
    uint8_t *memory;
    size_t used;
};

struct seen *seen_create(void);
void seen_free(struct seen *seen);
/* Read the batch now. */
void seen_add(struct seen *seen, mr_batch *batch);
/* Read it by kernels, arrays on device d on streams[d]. The kernels run at any later time. */
void seen_add_on(struct seen *seen, mr_batch *batch, const cudaStream_t *streams);
/*
 * Read the rest of the present epoch with next_on() and release_on(), and with one more stream for
 * each further device.
 */
void seen_epoch_on(struct seen *seen, mr_loader *loader, const cudaStream_t *streams);
/* The same with next() and release(). */
void seen_epoch(struct seen *seen, mr_loader *loader);
/* What a loader on the plain host lends in n_epochs with these options, without their devices. */
struct seen *seen_on_host(mr_dataset *dataset, const char *transform,
                          const mr_loader_options *options, uint64_t n_epochs);
/* Expect the same batches with the same bytes. */
void seen_expect_same(const struct seen *seen, const struct seen *expected);

/* The policies of the double, with a few seeds each; false after the last. */
bool stage_policy(unsigned i, struct double_options *options);

#endif
