/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots, placements and a copier for the tests of the copier, and an oracle that checks every byte
 * of a buffer.
 *
 * The small block is copied whole, so its bytes past the batch's rows are checked too.
 */
#ifndef TESTS_PINNED_COPIER_RIG_H
#define TESTS_PINNED_COPIER_RIG_H

#include "pinned/copier.h"

enum { COPIER_RIG_HEIGHT = 5, COPIER_RIG_WIDTH = 7, COPIER_RIG_CHANNELS = 3, COPIER_RIG_SLOTS = 2 };

struct copier_rig {
    struct mr_slot_layout layout;
    struct mr_finish finish;
    struct mr_placement placement;
    uint8_t *slab;
    struct mr_copier *copier;
};

/*
 * Make slab, layout, and the finishing parameters; with floats, rows are finished to planes, else
 * nothing is finished.
 */
void copier_rig_init(struct copier_rig *rig, uint32_t batch_size, bool floats);
/*
 * mr_copier_create() with rig->placement, then mr_copier_pin(). rig->copier may exist after a
 * failure.
 */
mr_status copier_rig_create(struct copier_rig *rig, uint32_t n_buffers, mr_error *error);
/* These calls must succeed. use passes arrives = false. */
void copier_rig_do_create(struct copier_rig *rig);
/* from slot 0, filled again */
void copier_rig_do_issue(struct copier_rig *rig, uint32_t buffer, uint32_t n_rows);
struct mr_copy_report copier_rig_do_await(struct copier_rig *rig, uint32_t buffer);
void copier_rig_do_use(struct copier_rig *rig, uint32_t buffer, uint32_t part, void *stream);
/* For part 0. */
void copier_rig_do_use_label(struct copier_rig *rig, uint32_t buffer, void *stream);
void copier_rig_do_release(struct copier_rig *rig, uint32_t buffer);
/*
 * Place the parts' images on n_parts devices of the table, from first_id on; labels are with them,
 * or on the last device.
 */
void copier_rig_place(struct copier_rig *rig, const struct mr_device_ops *ops, int32_t first_id,
                      uint32_t n_parts);
void copier_rig_place_labels(struct copier_rig *rig, const struct mr_device_ops *ops, int32_t id);
void copier_rig_fini(struct copier_rig *rig);

/* Write every byte of a slot's data: what workers write, and random bytes elsewhere. */
struct mr_slot_view copier_rig_fill(struct copier_rig *rig, uint32_t slot, uint32_t seed);
/* Check that every byte of a buffer's parts is the slot's. */
void copier_rig_check(const struct copier_rig *rig, uint32_t buffer,
                      const struct mr_slot_view *slot, uint32_t n_rows);

#endif
