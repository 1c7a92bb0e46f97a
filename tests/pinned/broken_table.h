/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device table that forwards to mr_device_cuda and breaks one rule of the order. The test reports
 * which of the copier's functions is running, because the same calls mean different things in each.
 */
#ifndef TESTS_PINNED_BROKEN_TABLE_H
#define TESTS_PINNED_BROKEN_TABLE_H

#include "tests/pinned/schedule_rig.h"

enum broken_rule {
    BROKEN_NOTHING,
    /* The copy does not wait for the streams that have the buffer. */
    BROKEN_COPY_DOES_NOT_WAIT,
    BROKEN_COPY_WAITS_FOR_ONE,   /* the copy waits for the first of them only */
    BROKEN_STREAM_DOES_NOT_WAIT, /* use does not make the stream wait */
    /* Use waits only for the images, while the labels are copied on another device. */
    BROKEN_STREAM_WAITS_FOR_ONE_DEVICE,
    BROKEN_RELEASE_RECORDS_NOTHING, /* the events keep what was recorded at use */
    BROKEN_RELEASE_RECORDS_ONE,     /* one of two streams is forgotten */
    BROKEN_RELEASE_RECORDS_LATE,    /* after the next copy has waited */
    BROKEN_FILLED_BEFORE_COPY,
    BROKEN_FILLED_BEFORE_FINISH,
    BROKEN_FINISH_ON_ANOTHER_STREAM,
    BROKEN_SMALL_ON_ANOTHER_STREAM,
    /* If the finish has its own stream: it begins before the copy has ended, */
    BROKEN_FINISH_WAITS_FOR_NO_COPY,
    BROKEN_COPY_WAITS_FOR_NO_FINISH,   /* the copy overwrites a staging that the finish still reads,
                                        */
    BROKEN_FILLED_BEFORE_OTHER_FINISH, /* or *filled* is recorded on the copy stream */
    BROKEN_AWAIT_DOES_NOT_SLEEP,       /* the slot is free while its copy still runs */
    BROKEN_N_RULES
};

/* The table that breaks this rule. Only one rule at a time. */
const struct mr_device_ops *broken_table(enum broken_rule rule);
void broken_table_phase(enum schedule_phase phase);

#endif
