/* SPDX-License-Identifier: Apache-2.0 */
/* A small copier on the double, step by step, for tests of single calls. */
#ifndef TESTS_PINNED_COPIER_FIXTURE_H
#define TESTS_PINNED_COPIER_FIXTURE_H

#include "tests/double/cuda_double.h"
#include "tests/pinned/schedule_oracle.h"

#include "pinned/copier.h"

enum { FIXTURE_SLOTS = 3, FIXTURE_BATCH = 4, FIXTURE_BUFFERS = 2 };

struct copier_fixture {
    struct oracle oracle;
    struct mr_placement placement;
    uint8_t *slab;
    /* From the environment, as in a loader; may be changed before create. */
    bool overlaps;
    struct mr_copier *copier; /* NULL until created */
    uint32_t n_batches;       /* issued so far; the next batch's number */
    mr_error error;           /* of the last step that failed */
};

/*
 * Open the double; names NULL: "cuda:0". Slots have 4 samples of 5 x 4 x 3 u8, finished to f32
 * NCHW.
 */
void fixture_open(struct copier_fixture *f, const struct double_options *options,
                  const struct mr_placement_names *names);
/*
 * Destroy the copier, if there is one, and the slab, and close the double; returns the double's
 * findings.
 */
uint32_t fixture_close(struct copier_fixture *f);

mr_status fixture_create(struct copier_fixture *f);
mr_status fixture_pin(struct copier_fixture *f);
/* Issue the next batch; slots and buffers are used in turn. */
mr_status fixture_issue(struct copier_fixture *f, uint32_t *buffer_out);
mr_status fixture_await(struct copier_fixture *f, uint32_t buffer);
mr_status fixture_use(struct copier_fixture *f, uint32_t buffer, uint32_t part, void *stream);
mr_status fixture_release(struct copier_fixture *f, uint32_t buffer);
/* create, pin, issue and await. */
void fixture_begin(struct copier_fixture *f, uint32_t *buffer_out);

/* Check the bytes of a buffer that are on the devices now. */
void fixture_check(struct copier_fixture *f, uint32_t buffer, uint64_t sequence);

#endif
