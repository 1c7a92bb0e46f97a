/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of a kind of device: one table of pinned/device.h that writes down every call in short
 * words and fails where the test says. It copies at once and orders nothing. It proves which calls
 * are made, in which order, and that everything taken is given back once.
 *
 * The words, one per call that matters to the order, with one space between them:
 *   wait0:A@c      stream c of device 0 waits for event A; copy streams are c
 *   record0:B@s    event B is recorded on stream s; events are named A to Z, 26, 27, ... as they
 *                  are first seen
 *   check0@s  sync0:B  elapsed0:A-B  copy_in0  copy_out0  finish0  pin0  unpin0  enter0
 */
#ifndef TESTS_PINNED_SCRIPTED_DEVICE_H
#define TESTS_PINNED_SCRIPTED_DEVICE_H

#include "pinned/device.h"

enum { SCRIPTED_DEVICES = 4 };

/* The functions that can fail. */
enum scripted_call {
    SCRIPTED_OPEN,
    SCRIPTED_ENTER,
    SCRIPTED_PIN,
    SCRIPTED_ALLOC,
    SCRIPTED_COPY_IN,
    SCRIPTED_COPY_OUT,
    SCRIPTED_FINISH,
    SCRIPTED_EVENT_CREATE,
    SCRIPTED_RECORD,
    SCRIPTED_WAIT,
    SCRIPTED_SYNC,
    SCRIPTED_ELAPSED,
    SCRIPTED_CHECK_CAPTURE,
    SCRIPTED_CALLS
};
extern const char *const scripted_names[SCRIPTED_CALLS];

/* A consumer's stream. NULL, the default stream, is of whichever device is asked, and called 0. */
struct scripted_stream {
    char name; /* s, t, ... */
    int32_t device;
    bool is_captured;
};

struct scripted_device {
    struct mr_device_handle handle;
    struct scripted_stream copy_stream;
};

extern const struct mr_device_ops scripted_table;

/* All calls succeed; nothing is written down yet. Asserts that nothing is still taken. */
void scripted_reset(void);
/*
 * The n-th call of a function fails, counted from 1 and from the reset; where it is sticky every
 * later one too.
 */
void scripted_fail(enum scripted_call call, uint32_t n, bool is_sticky);
/* Has it? */
bool scripted_has_failed(void);
uint32_t scripted_count(enum scripted_call call);
/* Memory, events, handles and pins that are taken. */
uint32_t scripted_n_taken(void);
/* What was called since the last clear. */
const char *scripted_log(void);
void scripted_clear(void);
/* Exactly these words, and clear. */
void scripted_expect(const char *words);
/* What elapsed() says from now on. */
void scripted_set_elapsed(int64_t ns);

#endif
