/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers write into a slot for batch number `sequence`, and what must then be on the devices.
 */
#ifndef TESTS_PINNED_SCHEDULE_ORACLE_H
#define TESTS_PINNED_SCHEDULE_ORACLE_H

#include "pinned/finish.h"
#include "pinned/slot.h"

struct oracle {
    struct mr_slot_layout layout;
    struct mr_finish finish;
    uint64_t row_bytes; /* of a row of images on the device */
    uint32_t bits[MR_FINISH_CHANNELS][256];
    bool known[MR_FINISH_CHANNELS][256];
};

/*
 * Write all rows of a batch, like the workers. Some rows are holes; with a finish, some ask to be
 * mirrored.
 */
void oracle_fill(const struct oracle *oracle, const struct mr_slot_view *view, uint64_t sequence);
/* Write bytes that no consumer may see: the slot before its batch is written. */
void oracle_scribble(const struct oracle *oracle, const struct mr_slot_view *view);

/* The bits of one finished pixel in the output's dtype. */
uint32_t oracle_value(struct oracle *oracle, uint32_t channel, uint8_t pixel);

/*
 * Check rows [first, first + n) of the images. Returns false, and a line in why, at the first byte
 * that differs.
 */
bool oracle_check_image(struct oracle *oracle, uint64_t sequence, uint32_t first, uint32_t n,
                        const uint8_t *image, char why[160]);
/* Check n rows of labels, indices, mask and geometry in a small block. */
bool oracle_check_small(const struct oracle *oracle, uint64_t sequence, uint32_t n,
                        const uint8_t *small, char why[160]);

#endif
