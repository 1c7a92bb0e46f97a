/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All 256 values of every channel, in every dtype and layout, padded and exact. The copier's result
 * on the double's GPU is compared bit for bit with the host's finishing, and with the oracle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/pinned/copier_fixture.h"
#include "tests/pinned/plain_columns.h"

enum { SIDE = 16, N_ROWS = 2 };

static const uint32_t dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};

/* torchvision's usual numbers, one much larger, one tiny. */
static const float scales[] = {1 / 255.0f / 0.229f, 1 / 255.0f / 0.224f, -3.7e-5f, 1.9f};
static const float biases[] = {-0.485f / 0.229f, -0.456f / 0.224f, 6.1e-5f, -201.3f};

static void set_finish(struct mr_finish *f, uint32_t channels, uint32_t dtype, uint32_t layout,
                       uint32_t pad, bool exact)
{
    *f = (struct mr_finish){.needed = 1,
                            .height = SIDE,
                            .width = SIDE,
                            .channels = channels,
                            .out_channels = pad > channels ? pad : channels,
                            .layout = layout,
                            .dtype = dtype,
                            .exact = exact};
    for (uint32_t c = 0; c < MR_FINISH_CHANNELS; c++) {
        f->scale[c] = scales[c];
        f->bias[c] = biases[c];
        for (uint32_t x = 0; x < 256; x++)
            f->table[c][x] = (float)x / 255.0f / 0.225f - 1.8f - (float)c / 7.0f;
    }
}

/* Every channel takes all 256 values; the second row is the first one backwards. */
static void fill(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                 uint32_t channels)
{
    for (uint32_t row = 0; row < N_ROWS; row++) {
        for (uint32_t i = 0; i < layout->sample_bytes; i++)
            view->data[row * layout->sample_bytes + i] =
                (uint8_t)(row == 0 ? i / channels + 37 * (i % channels) : 255 - i / channels);
        *mr_slot_mask(view, row) = 1;
    }
}

static void compare_with_host(const struct mr_finish *finish, const struct mr_slot_view *view,
                              const uint8_t *found)
{
    uint64_t len = N_ROWS * mr_finish_out_bytes(finish);
    uint8_t *out = malloc(len);
    assert_non_null(out);
    const struct mr_finish_job job = {.finish = finish,
                                      .tables = &finish->table[0][0],
                                      .mask = mr_slot_mask(view, 0),
                                      .n = N_ROWS,
                                      .staging = view->data,
                                      .out = out};
    mr_finish_run(&job);
    for (uint64_t i = 0; i < len; i++)
        if (found[i] != out[i])
            fail_msg("%ux%u channels, %s, layout %u: byte %llu is %u, the host's %u",
                     finish->channels, finish->out_channels, mr_dtype_name((mr_dtype)finish->dtype),
                     finish->layout, (unsigned long long)i, found[i], out[i]);
    free(out);
}

/* The oracle shares no code with either. */
static void compare_with_oracle(const struct mr_finish *finish, const struct mr_slot_view *view,
                                const uint8_t *found)
{
    struct oracle *oracle = calloc(1, sizeof *oracle);
    assert_non_null(oracle);
    oracle->finish = *finish;
    size_t size = mr_dtype_size((mr_dtype)finish->dtype);
    for (uint32_t pixel = 0; pixel < SIDE * SIDE; pixel++)
        for (uint32_t c = 0; c < finish->out_channels; c++) {
            uint64_t at = finish->layout == MR_NCHW ? (uint64_t)c * SIDE * SIDE + pixel
                                                    : (uint64_t)pixel * finish->out_channels + c;
            uint8_t byte = c < finish->channels ? view->data[pixel * finish->channels + c] : 0;
            uint32_t expected = c < finish->channels ? oracle_value(oracle, c, byte) : 0;
            uint32_t bits = 0;
            memcpy(&bits, found + at * size, size);
            if (bits != expected)
                fail_msg("%s, channel %u, value %u: %#x, the oracle's %#x",
                         mr_dtype_name((mr_dtype)finish->dtype), c, byte, bits, expected);
        }
    free(oracle);
}

static void run(const struct mr_finish *finish)
{
    struct mr_slot_layout layout;
    struct mr_placement placement;
    struct mr_copier *copier;
    struct mr_copy_report report;
    mr_error error = {0};
    double_open(&(struct double_options){.policy = DOUBLE_LATE});
    assert_int_equal(mr_slot_layout_init(
                         &layout,
                         &(struct mr_slot_shape){
                             .n_slots = 1,
                             .n_workers = 1,
                             .batch_size = N_ROWS,
                             .erases = finish->erases,
                             .columns = PLAIN_COLUMNS(
                                 (uint64_t)finish->height * finish->width * finish->channels, 8)},
                         &error),
                     MR_OK);
    assert_int_equal(
        mr_placement_resolve(&(struct mr_placement_names){.device = "cuda:0"}, &placement, &error),
        MR_OK);
    uint8_t *slab = aligned_alloc(4096, (layout.slab_bytes + 4095) / 4096 * 4096);
    assert_non_null(slab);
    memset(slab, 0, layout.slab_bytes);
    struct mr_slot_view view = mr_slot_at(&layout, slab, 0);
    fill(&layout, &view, finish->channels);
    struct mr_copier_options options = {
        .layout = &layout, .slab = slab, .placement = &placement, .finish = finish, .n_buffers = 1};
    assert_int_equal(mr_copier_create(&options, &copier, &error), MR_OK);
    assert_int_equal(mr_copier_pin(copier, &error), MR_OK);
    assert_int_equal(mr_copier_issue(copier, 0, &view, N_ROWS, &error), MR_OK);
    assert_int_equal(mr_copier_await(copier, 0, &report, &error), MR_OK);
    const uint8_t *found = double_host_view(mr_copier_part(copier, 0, 0).image);
    assert_non_null(found);
    compare_with_host(finish, &view, found);
    compare_with_oracle(finish, &view, found);
    assert_int_equal(mr_copier_release(copier, 0, &error), MR_OK);
    mr_copier_destroy(copier);
    assert_int_equal(double_close(), 0);
    free(slab);
}

static void all_values_are_the_hosts(void **state)
{
    static const uint32_t channels[] = {1, 3, 4};
    (void)state;
    struct mr_finish finish;
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t d = 0; d < 4; d++)
            for (uint32_t layout = 0; layout < 2; layout++)
                for (uint32_t pad = 0; pad <= 8; pad += 4)
                    for (uint32_t exact = 0; exact <= (dtypes[d] != MR_U8); exact++) {
                        set_finish(&finish, channels[c], dtypes[d], layout, pad, exact);
                        run(&finish);
                    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_values_are_the_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
