/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One schedule: workers, copier and consumer over pinned/copier.h on the double. One thread of the
 * operating system plays all of them, in an order drawn from a seed.
 */
#ifndef TESTS_PINNED_SCHEDULE_RIG_H
#define TESTS_PINNED_SCHEDULE_RIG_H

#include "tests/double/cuda_double.h"
#include "tests/pinned/schedule_plan.h"

#include "pinned/copier.h"

/* Which of the copier's functions is running. */
enum schedule_phase {
    PHASE_OTHER,
    PHASE_ISSUE,
    PHASE_AWAIT,
    PHASE_USE,
    PHASE_RELEASE,
    PHASE_DESTROY
};

/* The rules that a schedule breaks on purpose. */
struct schedule_faults {
    const struct mr_device_ops *cuda;   /* in place of the real table */
    void (*phase)(enum schedule_phase); /* called when the phase changes */
    /* The workers get the slot back before its copy has ended. */
    bool refill_at_issue;
    bool reissue_unreleased; /* the consumer's release never reaches the copier */
    bool read_without_use;   /* a stream reads that was never made to wait */
    bool forget_reader;      /* streams that read are not named before the release */
    /* A release for the host before the streams have finished their reads. */
    bool release_unsynced;
    bool take_early; /* taken without a stream, before await has returned */
};

struct schedule_result {
    bool ok;              /* the next three are 0, everything was given back, all reads have run */
    uint32_t n_found;     /* findings of the double: unordered accesses, misuse, leftovers */
    uint32_t n_unordered; /* the unordered accesses among them */
    uint32_t n_wrong;     /* reads that found wrong bytes */
    uint32_t n_failed;    /* calls with an unexpected result */
    uint32_t n_reads;     /* kernels of the consumer */
    uint32_t n_issued;
    char why[1200]; /* the first failure, the plan, and the double's report */
};

/* Run a schedule; opens and closes the double. wish and faults may be NULL. */
void schedule_run(uint64_t seed, const struct schedule_wish *wish,
                  const struct schedule_faults *faults, struct schedule_result *result_out);

/* ---- between the files of the rig ---- */

enum schedule_thread { THREAD_WORKERS = 1, THREAD_COPIER, THREAD_CONSUMER, THREAD_RELEASER };

/* A stream that reads a batch. */
struct schedule_lane {
    int gpu;
    cudaStream_t stream;
    bool named; /* by use or remember, so the release waits for it */
};
#define SCHEDULE_MAX_LANES 5

struct schedule_buffer {
    uint64_t sequence;
    uint32_t n_rows;
    uint32_t slot;
    bool busy; /* from issue until awaited and released */
    bool awaited;
    bool taken;
    bool released;
    bool lanes_wait; /* taken for streams, which were made to wait */
    /* The same for the previous batch in this buffer: then it is known whether it was in time. */
    bool before_asked;
    uint32_t n_parts;
    uint32_t n_lanes[SCHEDULE_MAX_PARTS];
    struct schedule_lane lanes[SCHEDULE_MAX_PARTS][SCHEDULE_MAX_LANES];
    /* Tokens passed from thread to thread: only their addresses matter. */
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
    4 /* streams of the consumer per GPU: the default one, a blocking one, two others */

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
    uint32_t n_filled; /* batches filled so far, which is also the next batch's number */
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
/* Check that a call returned MR_OK; otherwise notes a failure and returns false. */
bool schedule_expect(struct schedule_rig *rig, const char *what, mr_status status,
                     const mr_error *error);
/* The same for a call of the test itself. */
bool schedule_expect_cuda(struct schedule_rig *rig, const char *what, cudaError_t status);

/* The consumer's actions. Each returns at once if it is not possible now. */
void schedule_consumer_open(struct schedule_rig *rig);
void schedule_consumer_take(struct schedule_rig *rig);
void schedule_consumer_read(struct schedule_rig *rig);
void schedule_consumer_release(struct schedule_rig *rig);
/* The last action that needs the copier. */
void schedule_consumer_leave(struct schedule_rig *rig);
void schedule_consumer_close(struct schedule_rig *rig);

#endif
