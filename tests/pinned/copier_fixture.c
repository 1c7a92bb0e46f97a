/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixture of a small copier. Like real workers, it fills a slot only when the slot is free:
 * batch n is in slot n modulo the number of slots, and its copy is awaited before the slot is used
 * again.
 */
#include "tests/pinned/copier_fixture.h"
#include "tests/pinned/plain_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEIGHT = 5, WIDTH = 4, CHANNELS = 3 };

static void set_finish(struct mr_finish *finish)
{
    *finish = (struct mr_finish){.needed = 1,
                                 .height = HEIGHT,
                                 .width = WIDTH,
                                 .channels = CHANNELS,
                                 .out_channels = CHANNELS,
                                 .layout = MR_NCHW,
                                 .dtype = MR_F32};
    for (uint32_t c = 0; c < MR_FINISH_CHANNELS; c++) {
        finish->scale[c] = 0.017f + (float)c / 1000.0f;
        finish->bias[c] = -2.1f + (float)c / 10.0f;
    }
}

void fixture_open(struct copier_fixture *f, const struct double_options *options,
                  const struct mr_placement_names *names)
{
    static const struct mr_placement_names one = {.device = "cuda:0"};
    memset(f, 0, sizeof *f);
    f->overlaps = getenv("MR_FINISH_OVERLAP") != NULL;
    double_open(options);
    set_finish(&f->oracle.finish);
    f->oracle.row_bytes = (uint64_t)HEIGHT * WIDTH * CHANNELS * sizeof(float);
    assert_int_equal(
        mr_slot_layout_init(&f->oracle.layout,
                            &(struct mr_slot_shape){
                                .n_slots = FIXTURE_SLOTS,
                                .n_workers = 1,
                                .batch_size = FIXTURE_BATCH,
                                .columns = PLAIN_COLUMNS((uint64_t)HEIGHT * WIDTH * CHANNELS, 8)},
                            &f->error),
        MR_OK);
    assert_int_equal(mr_placement_resolve(names != NULL ? names : &one, &f->placement, &f->error),
                     MR_OK);
    f->slab = aligned_alloc(4096, (f->oracle.layout.slab_bytes + 4095) / 4096 * 4096);
    assert_non_null(f->slab);
    memset(f->slab, 0, f->oracle.layout.slab_bytes);
}

uint32_t fixture_close(struct copier_fixture *f)
{
    mr_copier_destroy(f->copier);
    f->copier = NULL;
    uint32_t n_found = double_close();
    free(f->slab);
    return n_found;
}

mr_status fixture_create(struct copier_fixture *f)
{
    struct mr_copier_options options = {.layout = &f->oracle.layout,
                                        .slab = f->slab,
                                        .placement = &f->placement,
                                        .finish = &f->oracle.finish,
                                        .n_buffers = FIXTURE_BUFFERS,
                                        .overlaps = f->overlaps};
    return mr_copier_create(&options, &f->copier, &f->error);
}

mr_status fixture_pin(struct copier_fixture *f)
{
    return mr_copier_pin(f->copier, &f->error);
}

mr_status fixture_issue(struct copier_fixture *f, uint32_t *buffer_out)
{
    struct mr_slot_view view = mr_slot_at(&f->oracle.layout, f->slab, f->n_batches % FIXTURE_SLOTS);
    oracle_fill(&f->oracle, &view, f->n_batches);
    *buffer_out = f->n_batches++ % FIXTURE_BUFFERS;
    return mr_copier_issue(f->copier, *buffer_out, &view, FIXTURE_BATCH, &f->error);
}

mr_status fixture_await(struct copier_fixture *f, uint32_t buffer)
{
    struct mr_copy_report report;
    return mr_copier_await(f->copier, buffer, &report, &f->error);
}

mr_status fixture_use(struct copier_fixture *f, uint32_t buffer, uint32_t part, void *stream)
{
    return mr_copier_use(f->copier, buffer, part, stream, part == 0, &f->error);
}

mr_status fixture_release(struct copier_fixture *f, uint32_t buffer)
{
    return mr_copier_release(f->copier, buffer, &f->error);
}

static void expect_ok(mr_status status, const struct copier_fixture *f)
{
    if (status != MR_OK)
        fail_msg("%s: %s", mr_status_name(status), f->error.text);
}

void fixture_begin(struct copier_fixture *f, uint32_t *buffer_out)
{
    expect_ok(fixture_create(f), f);
    expect_ok(fixture_pin(f), f);
    expect_ok(fixture_issue(f, buffer_out), f);
    expect_ok(fixture_await(f, *buffer_out), f);
}

/* Device memory is read where the double keeps it. */
static const uint8_t *find_view(const void *memory, mr_device device)
{
    return device.kind == MR_DEVICE_CUDA ? double_host_view(memory) : memory;
}

void fixture_check(struct copier_fixture *f, uint32_t buffer, uint64_t sequence)
{
    char why[160];
    for (uint32_t i = 0; i < mr_copier_n_parts(f->copier, buffer); i++) {
        struct mr_copied_part part = mr_copier_part(f->copier, buffer, i);
        if (!oracle_check_image(&f->oracle, sequence, part.first_row, part.n_rows,
                                find_view(part.image, part.image_device), why) ||
            !oracle_check_small(&f->oracle, sequence, FIXTURE_BATCH,
                                find_view(part.small, part.label_device), why))
            fail_msg("part %u: %s", i, why);
    }
}
