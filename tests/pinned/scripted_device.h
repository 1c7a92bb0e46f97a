/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of a kind of device: one table of pinned/device.h that logs every call in short words
 * and fails where the test asks for it. It copies at once and orders nothing. It shows which calls
 * are made and in which order, and that everything taken is given back once.
 *
 * The words, one per call that matters to the order, with one space between them:
 *   wait0:A@c      stream c of device 0 waits for event A; copy streams are c
 *   record0:B@s    event B is recorded on stream s; events are named A to Z, 26, 27, ... in the
 *                  order in which they first appear
 *   check0@s  sync0:B  elapsed0:A-B  copy_in0  finish0  pin0  unpin0  enter0
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

/*
 * A consumer's stream. NULL, the default stream, belongs to the device that is asked, and is called
 * 0.
 */
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

/* Start again: all calls succeed, the log is empty. Asserts that no resource is in use. */
void scripted_reset(void);
/*
 * Make the n-th call of a function fail, counted from 1 since the reset; if sticky, every later one
 * too.
 */
void scripted_fail(enum scripted_call call, uint32_t n, bool is_sticky);
/* True if that call has failed. */
bool scripted_has_failed(void);
uint32_t scripted_count(enum scripted_call call);
/* Resources in use: memory, events, handles and registrations. */
uint32_t scripted_n_taken(void);
/* The calls since the last clear. */
const char *scripted_log(void);
void scripted_clear(void);
/* Assert that the log is exactly these words, and clear it. */
void scripted_expect(const char *words);
/* Set the result of elapsed(). */
void scripted_set_elapsed(int64_t ns);

#endif
