/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Erased batches: the same bits in every mode and on every device, and each row as
 * mr_transform_explain() says.
 */
#include "tests/loader/rig.h"
#include "tests/support/assert_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_FLOATS = 100 * RIG_BYTES, LINE = 1024 };

static void take_epoch(struct rig *rig, const char *text, const mr_loader_options *options,
                       float floats_out[N_FLOATS])
{
    mr_transform *transform;
    mr_loader *loader = NULL;
    mr_batch *batch;
    mr_error error;
    size_t n = 0;
    if (mr_transform_parse(text, &transform, &error) != MR_OK ||
        mr_loader_create(rig->dataset, transform, options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_transform_destroy(transform);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        size_t rows = mr_batch_size(batch);
        memcpy(floats_out + n, mr_batch_data(batch, "image"), rows * RIG_BYTES * sizeof(float));
        n += rows * RIG_BYTES;
        mr_batch_release(batch);
    }
    assert_int_equal(n, N_FLOATS);
    mr_loader_destroy(loader);
}

static mr_loader_options floats_of(const struct rig_mode *mode)
{
    mr_loader_options options = rig_options_of(mode);
    options.dtype = MR_F32;
    options.seed = 21;
    return options;
}

static void every_mode_gives_the_same_bits(void **state)
{
    static const char *const texts[] = {
        "random_erasing(0.7,0.1:0.5,count=4)",
        "normalize(mean=0.5,std=0.2)+random_erasing(0.7,0.1:0.5,value=random)",
        "hflip+random_erasing(0.7,0.1:0.5,value=rand,count=2)"};
    float *first = malloc(N_FLOATS * sizeof *first), *other = malloc(N_FLOATS * sizeof *other);
    assert_non_null(first);
    assert_non_null(other);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mr_loader_options options = floats_of(&rig_modes[0]);
        take_epoch(*state, texts[i], &options, first);
        for (unsigned m = 1; m < rig_n_modes; m++) {
            options = floats_of(&rig_modes[m]);
            take_epoch(*state, texts[i], &options, other);
            assert_memory_equal(first, other, N_FLOATS * sizeof *first);
        }
        options = floats_of(&rig_modes[0]);
        options.device = "host:1";
        take_epoch(*state, texts[i], &options, other);
        assert_memory_equal(first, other, N_FLOATS * sizeof *first);
    }
    free(first);
    free(other);
}

/* i, j, h, w of the only box. False if there is no box. */
static bool explained_box(const mr_transform *transform, int64_t index, int box_out[4])
{
    char line[LINE];
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    options.seed = 21;
    options.epoch = 1;
    options.index = index;
    options.width = RIG_WIDTH;
    options.height = RIG_HEIGHT;
    options.raw_channels = RIG_CHANNELS;
    assert_int_equal(mr_transform_explain(transform, &options, line, sizeof line, NULL, NULL),
                     MR_OK);
    const char *at = strstr(line, "{\"i\":");
    return at && sscanf(at, "{\"i\":%d,\"j\":%d,\"h\":%d,\"w\":%d", &box_out[0], &box_out[1],
                        &box_out[2], &box_out[3]) == 4;
}

static void rows_are_as_explained(void **state)
{
    static const char text[] = "random_erasing(0.6,0.1:0.5,value=7)";
    float *plain = malloc(N_FLOATS * sizeof *plain), *erased = malloc(N_FLOATS * sizeof *erased);
    mr_loader_options options = floats_of(&rig_modes[0]);
    mr_transform *transform;
    unsigned n_erased = 0;
    assert_non_null(plain);
    assert_non_null(erased);
    options.layout = MR_NHWC;
    take_epoch(*state, "none", &options, plain);
    take_epoch(*state, text, &options, erased);
    assert_int_equal(mr_transform_parse(text, &transform, NULL), MR_OK);
    for (int64_t index = 0; index < 100; index++) {
        int box[4];
        bool has_box = explained_box(transform, index, box);
        n_erased += has_box;
        for (int k = 0; k < RIG_BYTES; k++) {
            int y = k / (RIG_WIDTH * RIG_CHANNELS), x = k / RIG_CHANNELS % RIG_WIDTH;
            bool inside =
                has_box && y >= box[0] && y < box[0] + box[2] && x >= box[1] && x < box[1] + box[3];
            size_t at = (size_t)index * RIG_BYTES + (size_t)k;
            assert_true(erased[at] == (inside ? 7.0f : plain[at]));
        }
    }
    assert_in_range(n_erased, 30, 80);
    mr_transform_destroy(transform);
    free(plain);
    free(erased);
}

static void unsupported_erasing_is_refused(void **state)
{
    struct rig *rig = *state;
    mr_transform *transform;
    mr_loader *loader;
    mr_error error;
    mr_loader_options options = rig_options_of(&rig_modes[0]);
    assert_int_equal(mr_transform_parse("random_erasing", &transform, NULL), MR_OK);
    assert_error(mr_loader_create(rig->dataset, transform, &options, &loader, &error),
                 MR_ERR_INVALID, &error, "dtype is u8");
    mr_transform_destroy(transform);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(every_mode_gives_the_same_bits),
        RIG_TEST(rows_are_as_explained),
        RIG_TEST(unsupported_erasing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
