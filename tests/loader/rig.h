/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset of callbacks, and loaders over it. Its samples can be recomputed from their index. It
 * counts the calls, also those in forked workers. A failure here ends the test.
 */
#ifndef TESTS_LOADER_RIG_H
#define TESTS_LOADER_RIG_H

#include <stdarg.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <millrace/loader.h>

enum { RIG_MAX = 1024, RIG_CHANNELS = 3, RIG_HEIGHT = 4, RIG_WIDTH = 5, RIG_BYTES = 60 };

/* In memory that forked workers share. */
struct rig_shared {
    _Atomic uint32_t gets[RIG_MAX]; /* per index */
    _Atomic uint32_t n_gets;
    _Atomic uint32_t n_live; /* samples not yet released */
    _Atomic uint32_t gate;   /* 1: get waits until it is 0 again */
    _Atomic uint32_t n_at_gate;
    bool fails[RIG_MAX];
    uint32_t slow_us; /* each get takes this long */
    int64_t late;     /* get of this index waits until there were this many gets: */
    uint32_t late_gets;
};

struct rig {
    int64_t n;
    struct rig_shared *shared;
    mr_dataset *dataset;
};

/* A way to run workers. */
struct rig_mode {
    const char *name;
    uint32_t num_workers;
    mr_start start;
};
/*
 * Every mode that this build can run: no workers, threads and, except under ThreadSanitizer, forked
 * processes.
 */
extern const struct rig_mode rig_modes[];
extern const unsigned rig_n_modes;
/* Skip the test if workers cannot be forked. */
void rig_needs_fork(void);

/* cmocka's setup and teardown: *state becomes a struct rig of 100 samples. */
int rig_setup(void **state);
int rig_teardown(void **state);

struct rig *rig_create(int64_t n);
/* Also checks that every sample was released. */
void rig_destroy(struct rig *rig);

/* Byte i of sample index, and its label. */
uint8_t rig_byte(int64_t index, unsigned i);
int64_t rig_label(int64_t index);

/* Options of two threads and batches of 8, in sequence. */
mr_loader_options rig_options(void);
mr_loader_options rig_options_of(const struct rig_mode *mode);
mr_loader *rig_loader(struct rig *rig, const mr_loader_options *options);
/* Expect creation to fail with this status and this text in the error. */
void rig_refuses(struct rig *rig, const mr_loader_options *options, mr_status status,
                 const char *words);

/* The next batch, or fail. */
mr_batch *rig_next(mr_loader *loader);
void rig_expect(mr_loader *loader, mr_status expected);
/* Check every sample of a batch against its index. */
void rig_check(mr_batch *batch);
/*
 * Take, check and release the rest of the epoch. Writes the indices, -1 for holes and, with
 * boundaries, a -2 after each batch. Returns how many were written, at most max.
 */
unsigned rig_drain(mr_loader *loader, bool boundaries, int64_t *indices_out, unsigned max);

/* Capture this process's log lines, count those that were captured, get the last one. */
void rig_log_capture(void);
unsigned rig_log_count(const char *words);
void rig_log_end(void);

#define RIG_TEST(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)

#endif
