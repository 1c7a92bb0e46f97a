/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One schedule: workers, copier and consumer over pinned/copier.h on the double, in one thread of
 * the operating system that plays all of them, in an order drawn from a seed.
 */
#ifndef TESTS_PINNED_SCHEDULE_RIG_H
#define TESTS_PINNED_SCHEDULE_RIG_H

#include "tests/double/cuda_double.h"
#include "tests/pinned/schedule_plan.h"

#include "pinned/copier.h"

/* Which of the copier's functions is being called. */
enum schedule_phase {
    PHASE_OTHER,
    PHASE_ISSUE,
    PHASE_AWAIT,
    PHASE_USE,
    PHASE_RELEASE,
    PHASE_DESTROY
};

/* What a schedule breaks on purpose. */
struct schedule_faults {
    const struct mr_device_ops *cuda;   /* in place of the real table */
    void (*phase)(enum schedule_phase); /* is told */
    bool refill_at_issue;               /* the slot is the workers' again before its copy has
                                           ended */
    bool reissue_unreleased;            /* the consumer's release never reaches the copier */
    bool read_without_use;              /* one stream reads that was never made to wait */
    bool forget_reader;                 /* streams that read are not named before the release */
    bool release_unsynced;              /* a host-synchronous release before the streams have
                                           done their reads */
    bool take_early;                    /* without a stream, before await has returned */
};

struct schedule_result {
    bool ok;              /* none of the next three, everything given back, all reads have run */
    uint32_t n_found;     /* by the double: accesses without an order, misuse, what was left over */
    uint32_t n_unordered; /* of those */
    uint32_t n_wrong;     /* reads that found wrong bytes */
    uint32_t n_failed;    /* calls that did not do what they should */
    uint32_t n_reads;     /* kernels of the consumer */
    uint32_t n_issued;
    char why[1200]; /* the first of all this, the plan, and what the double says */
};

/* wish, faults: may be NULL. Opens and closes the double. */
void schedule_run(uint64_t seed, const struct schedule_wish *wish,
                  const struct schedule_faults *faults, struct schedule_result *result_out);

/* ---- between the files of the rig ---- */

enum schedule_thread { THREAD_WORKERS = 1, THREAD_COPIER, THREAD_CONSUMER, THREAD_RELEASER };

/* A stream that reads a batch. */
struct schedule_lane {
    int gpu;
    cudaStream_t stream;
    bool named; /* by use or remember: the release waits for it */
};
#define SCHEDULE_MAX_LANES 5

struct schedule_buffer {
    uint64_t sequence;
    uint32_t n_rows;
    uint32_t slot;
    bool busy; /* from issue until it was awaited and released */
    bool awaited;
    bool taken;
    bool released;
    bool lanes_wait;   /* taken for streams, which were made to wait */
    bool before_asked; /* so was the batch before in this buffer: it is known whether it came in
                          time */
    uint32_t n_parts;
    uint32_t n_lanes[SCHEDULE_MAX_PARTS];
    struct schedule_lane lanes[SCHEDULE_MAX_PARTS][SCHEDULE_MAX_LANES];
    /* What is handed from thread to thread: only the addresses mean anything. */
    char issued_token, awaited_token, released_token;
};

struct schedule_slot {
    bool filled;
    bool copying;
    char filled_token, free_token;
};

struct schedule_rig;

/* One kernel of the consumer. */
struct schedule_read {
    struct schedule_rig *rig;
    uint64_t sequence;
    uint32_t first;
    uint32_t n;
    bool small;
    bool done;
};
#define SCHEDULE_MAX_READS 1024

#define SCHEDULE_STREAMS                                                                           \
    4 /* of the consumer, per GPU: the default one, a blocking one, two others */

struct schedule_rig {
    struct schedule_plan plan;
    struct schedule_faults faults;
    struct schedule_result *result;
    struct mr_placement placement;
    uint8_t *slab;
    struct mr_copier *copier;
    struct schedule_slot slots[SCHEDULE_MAX_SLOTS];
    struct schedule_buffer buffers[SCHEDULE_MAX_BUFFERS];
    uint32_t slot_of[SCHEDULE_MAX_BATCHES];
    uint32_t buffer_of[SCHEDULE_MAX_BATCHES];
    uint32_t n_filled; /* batches that are so far; each is the number of the next one */
    uint32_t n_issued;
    uint32_t n_awaited;
    uint32_t n_taken;
    uint32_t n_released;
    cudaStream_t streams[SCHEDULE_GPUS][SCHEDULE_STREAMS];
    char created_token;
    struct schedule_read reads[SCHEDULE_MAX_READS];
    uint32_t n_reads;
};

void schedule_fail(struct schedule_rig *rig, const char *format, ...) MR_PRINTF(2, 3);
void schedule_phase(const struct schedule_rig *rig, enum schedule_phase phase);
/* A call that must be MR_OK; false and a failure where it is not. */
bool schedule_expect(struct schedule_rig *rig, const char *what, mr_status status,
                     const mr_error *error);
/* The same of a call of the test itself. */
bool schedule_expect_cuda(struct schedule_rig *rig, const char *what, cudaError_t status);

/* The consumer's actions; each returns at once where it is not possible now. */
void schedule_consumer_open(struct schedule_rig *rig);
void schedule_consumer_take(struct schedule_rig *rig);
void schedule_consumer_read(struct schedule_rig *rig);
void schedule_consumer_release(struct schedule_rig *rig);
/* The last one that needs the copier. */
void schedule_consumer_leave(struct schedule_rig *rig);
void schedule_consumer_close(struct schedule_rig *rig);

#endif
