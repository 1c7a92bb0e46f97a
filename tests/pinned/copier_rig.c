/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See copier_rig.h. The oracle is written separately, value by value, and shares nothing with
 * pinned/finish.c.
 */
#include "tests/pinned/copier_rig.h"
#include "tests/pinned/plain_columns.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/checked.h"

enum {
    PIXELS = COPIER_RIG_HEIGHT * COPIER_RIG_WIDTH,
    SAMPLE_BYTES = PIXELS * COPIER_RIG_CHANNELS,
    LABEL_BYTES = 8,
    HEAD_BYTES = 100
};

void copier_rig_init(struct copier_rig *rig, uint32_t batch_size, bool floats)
{
    mr_error error;
    memset(rig, 0, sizeof *rig);
    assert_int_equal(mr_slot_layout_init(&rig->layout,
                                         &(struct mr_slot_shape){
                                             .head_bytes = HEAD_BYTES,
                                             .n_slots = COPIER_RIG_SLOTS,
                                             .n_workers = 1,
                                             .batch_size = batch_size,
                                             .erases = floats,
                                             .columns = PLAIN_COLUMNS(SAMPLE_BYTES, LABEL_BYTES)},
                                         &error),
                     MR_OK);
    rig->slab = aligned_alloc(4096, mr_align_up(rig->layout.slab_bytes, 4096));
    assert_non_null(rig->slab);
    memset(rig->slab, 0, rig->layout.slab_bytes);
    if (!floats)
        return;
    rig->finish = (struct mr_finish){
        .needed = 1,
        .height = COPIER_RIG_HEIGHT,
        .width = COPIER_RIG_WIDTH,
        .channels = COPIER_RIG_CHANNELS,
        .out_channels = COPIER_RIG_CHANNELS,
        .layout = MR_NCHW,
        .dtype = MR_F32,
        .exact = batch_size % 2, /* odd batches use the table */
    };
    for (uint32_t c = 0; c < COPIER_RIG_CHANNELS; c++) {
        rig->finish.scale[c] = 1.0f / (53.0f + (float)c);
        rig->finish.bias[c] = -0.3f * (float)(c + 1);
        for (uint32_t x = 0; x < 256; x++)
            rig->finish.table[c][x] = (float)x * 3.0f + (float)c;
    }
}

void copier_rig_place(struct copier_rig *rig, const struct mr_device_ops *ops, int32_t first_id,
                      uint32_t n_parts)
{
    rig->placement = (struct mr_placement){.n_parts = n_parts, .n_devices = n_parts};
    for (uint32_t i = 0; i < n_parts; i++) {
        rig->placement.devices[i] = (struct mr_device_name){ops, first_id + (int32_t)i};
        rig->placement.image[i] = rig->placement.label[i] = i;
    }
}

void copier_rig_place_labels(struct copier_rig *rig, const struct mr_device_ops *ops, int32_t id)
{
    struct mr_placement *p = &rig->placement;
    uint32_t d = 0;
    while (d < p->n_devices && (p->devices[d].ops != ops || p->devices[d].id != id))
        d++;
    if (d == p->n_devices)
        p->devices[p->n_devices++] = (struct mr_device_name){ops, id};
    for (uint32_t i = 0; i < p->n_parts; i++)
        p->label[i] = d;
}

mr_status copier_rig_create(struct copier_rig *rig, uint32_t n_buffers, mr_error *error)
{
    const struct mr_copier_options options = {
        .layout = &rig->layout,
        .slab = rig->slab,
        .placement = &rig->placement,
        .finish = &rig->finish,
        .n_buffers = n_buffers,
    };
    mr_status status = mr_copier_create(&options, &rig->copier, error);
    return status ? status : mr_copier_pin(rig->copier, error);
}

void copier_rig_fini(struct copier_rig *rig)
{
    mr_copier_destroy(rig->copier);
    free(rig->slab);
    memset(rig, 0, sizeof *rig);
}

struct mr_slot_view copier_rig_fill(struct copier_rig *rig, uint32_t slot, uint32_t seed)
{
    struct mr_slot_view view = mr_slot_at(&rig->layout, rig->slab, slot);
    uint32_t state = seed * 2654435761u + 1;
    for (uint64_t i = 0; i < rig->layout.used_bytes; i++) {
        state = state * 1664525u + 1013904223u;
        view.data[i] = (uint8_t)(state >> 24);
    }
    for (uint32_t row = 0; row < rig->layout.batch_size; row++) {
        *mr_slot_mask(&view, row) = 1;
        *mr_slot_index(&view, row) = 1000 + (int64_t)row;
    }
    return view;
}

static void check_floats(const struct copier_rig *rig, const uint8_t *lent, const uint8_t *pixels)
{
    for (uint32_t c = 0; c < COPIER_RIG_CHANNELS; c++)
        for (uint32_t i = 0; i < PIXELS; i++) {
            uint8_t x = pixels[i * COPIER_RIG_CHANNELS + c];
            float want = rig->finish.exact
                             ? rig->finish.table[c][x]
                             : fmaf((float)x, rig->finish.scale[c], rig->finish.bias[c]);
            assert_memory_equal(lent + (c * PIXELS + i) * sizeof want, &want, sizeof want);
        }
}

static void check_part(const struct copier_rig *rig, const struct mr_copied_part *part,
                       const struct mr_slot_view *slot)
{
    uint64_t row_bytes = rig->finish.needed ? SAMPLE_BYTES * sizeof(float) : SAMPLE_BYTES;
    for (uint32_t i = 0; i < part->n_rows; i++) {
        const uint8_t *pixels = slot->data + (part->first_row + i) * rig->layout.sample_bytes;
        const uint8_t *lent = part->image + i * row_bytes;
        if (rig->finish.needed)
            check_floats(rig, lent, pixels);
        else
            assert_memory_equal(lent, pixels, SAMPLE_BYTES);
    }
    assert_memory_equal(part->small, slot->data + rig->layout.small_off, rig->layout.small_bytes);
}

void copier_rig_check(const struct copier_rig *rig, uint32_t buffer,
                      const struct mr_slot_view *slot, uint32_t n_rows)
{
    uint32_t next_row = 0;
    uint32_t n_parts = mr_copier_n_parts(rig->copier, buffer);
    assert_in_range(n_parts, 1, rig->placement.n_parts);
    for (uint32_t i = 0; i < n_parts; i++) {
        struct mr_copied_part part = mr_copier_part(rig->copier, buffer, i);
        assert_int_equal(part.first_row, next_row);
        assert_true(part.n_rows > 0 || n_rows == 0);
        next_row += part.n_rows;
        assert_int_equal(part.image_device.id, rig->placement.devices[rig->placement.image[i]].id);
        assert_int_equal(part.label_device.id, rig->placement.devices[rig->placement.label[i]].id);
        check_part(rig, &part, slot);
    }
    assert_int_equal(next_row, n_rows);
}

void copier_rig_do_create(struct copier_rig *rig)
{
    mr_error error = {0};
    if (copier_rig_create(rig, 2, &error))
        fail_msg("%s", error.text);
}

void copier_rig_do_issue(struct copier_rig *rig, uint32_t buffer, uint32_t n_rows)
{
    mr_error error = {0};
    struct mr_slot_view slot = copier_rig_fill(rig, 0, n_rows);
    if (mr_copier_issue(rig->copier, buffer, &slot, n_rows, &error))
        fail_msg("%s", error.text);
}

struct mr_copy_report copier_rig_do_await(struct copier_rig *rig, uint32_t buffer)
{
    mr_error error = {0};
    struct mr_copy_report report = {0};
    if (mr_copier_await(rig->copier, buffer, &report, &error))
        fail_msg("%s", error.text);
    return report;
}

void copier_rig_do_use(struct copier_rig *rig, uint32_t buffer, uint32_t part, void *stream)
{
    mr_error error = {0};
    if (mr_copier_use(rig->copier, buffer, part, stream, false, &error))
        fail_msg("%s", error.text);
}

void copier_rig_do_use_label(struct copier_rig *rig, uint32_t buffer, void *stream)
{
    mr_error error = {0};
    if (mr_copier_use_label(rig->copier, buffer, 0, stream, &error))
        fail_msg("%s", error.text);
}

void copier_rig_do_release(struct copier_rig *rig, uint32_t buffer)
{
    mr_error error = {0};
    if (mr_copier_release(rig->copier, buffer, &error))
        fail_msg("%s", error.text);
}
