/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches finished by a device have the same bytes as those of a loader on the host: every dtype
 * and layout, normalised by either rule, raw pictures and files, and holes. Padded channels are
 * zeros.
 */
#include "tests/loader/stream_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/millrace.h>

#include "tests/support/assert_words.h"
#include "tests/support/devices.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

enum { N_RAW = 20, RAW_HEIGHT = 7, RAW_WIDTH = 6, BATCH = 8 };

/* How images are normalised; NONE for u8. */
enum rule { RULE_NONE, RULE_FUSED, RULE_EXACT, N_RULES };

struct source {
    const char *name;
    uint32_t channels; /* of the samples; 0: a folder of JPEGs */
    bool rgb;          /* the transform makes three channels */
};
static const struct source sources[] = {
    {"grey", 1, false}, {"grey as RGB", 1, true}, {"RGB", 3, false}, {"JPEG", 0, false}};
enum { N_SOURCES = sizeof sources / sizeof *sources };

struct place {
    const char *device;
    const char *devices[3];
    uint32_t n_devices;
};
static const struct place places[] = {
    {"host:0", {NULL}, 0}, {"cuda:1", {NULL}, 0}, {NULL, {"cuda:0", "cuda:2", "cuda:1"}, 3}};
enum { N_PLACES = sizeof places / sizeof *places };

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(2, 10);
    return 0;
}

/* All 256 values occur in each channel. */
static int get_raw(void *user, int64_t index, mr_sample *sample)
{
    uint32_t channels = ((const struct source *)user)->channels;
    size_t len = (size_t)channels * RAW_HEIGHT * RAW_WIDTH;
    uint8_t *bytes = malloc(len);
    if (!bytes)
        abort();
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)((uint64_t)index * 41 + i * 5 + i / 13);
    sample->bytes = sample->cookie = bytes;
    sample->len_bytes = len;
    sample->label = index * 3;
    return 0;
}

static void free_raw(void *user, mr_sample *sample)
{
    (void)user;
    free(sample->cookie);
}

static mr_dataset *open_source(const struct source *source)
{
    mr_dataset *dataset;
    mr_error error;
    char spec[600];
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = N_RAW;
    callbacks.get = get_raw;
    callbacks.release = free_raw;
    callbacks.user = (void *)(uintptr_t)source;
    callbacks.ndim = 3;
    callbacks.shape[0] = RAW_HEIGHT;
    callbacks.shape[1] = RAW_WIDTH;
    callbacks.shape[2] = source->channels;
    callbacks.layout = MR_NHWC;
    mr_status status = source->channels ? mr_dataset_from_callbacks(&callbacks, &dataset, &error)
                                        : mr_dataset_open(spec, NULL, &dataset, &error);
    assert_ok(status, &error);
    return dataset;
}

static mr_transform *make_transform(const struct source *source, enum rule rule)
{
    const char *mean = source->channels == 1 && !source->rgb ? "mean=0.485,std=0.229"
                                                             : "mean=0.485:0.456:0.406,"
                                                               "std=0.229:0.224:0.225";
    char text[256];
    snprintf(text, sizeof text, "%s%s%snone",
             source->channels == 0 ? "random_resized_crop(12:10,ratio=0.75:1.3333)+" : "",
             source->channels != 1 ? "hflip+" : "", source->rgb ? "rgb+" : "");
    mr_transform *t;
    assert_int_equal(mr_transform_parse(text, &t, NULL), MR_OK);
    snprintf(text, sizeof text, "normalize(%s%s)", mean, rule == RULE_EXACT ? ",exact" : "");
    if (rule != RULE_NONE)
        assert_int_equal(mr_transform_append(t, text, NULL), MR_OK);
    return t;
}

static mr_loader *open_loader(mr_dataset *dataset, const mr_transform *transform,
                              const mr_loader_options *options)
{
    mr_loader *loader;
    mr_error error;
    assert_ok(mr_loader_create(dataset, transform, options, &loader, &error), &error);
    return loader;
}

/* The offset in a row of element (c, y, x). */
static size_t offset_of(const mr_array *a, mr_layout layout, int64_t c, int64_t y, int64_t x)
{
    return (size_t)(layout == MR_NCHW ? c * a->strides[1] + y * a->strides[2] + x * a->strides[3]
                                      : y * a->strides[1] + x * a->strides[2] + c * a->strides[3]);
}

static void expect_row(const mr_array *got, const uint8_t *got_row, const mr_array *want,
                       const uint8_t *want_row, mr_layout layout)
{
    static const uint8_t zero[8] = {0};
    unsigned at_c = layout == MR_NCHW ? 1 : 3, at_y = layout == MR_NCHW ? 2 : 1, at_x = at_y + 1;
    size_t size = mr_dtype_size(want->dtype);
    for (int64_t c = 0; c < got->shape[at_c]; c++)
        for (int64_t y = 0; y < want->shape[at_y]; y++)
            for (int64_t x = 0; x < want->shape[at_x]; x++) {
                const uint8_t *expected = zero;
                if (c < want->shape[at_c])
                    expected = want_row + offset_of(want, layout, c, y, x);
                if (memcmp(got_row + offset_of(got, layout, c, y, x), expected, size) != 0)
                    fail_msg("%s: element c %d, y %d, x %d differs", mr_dtype_name(got->dtype),
                             (int)c, (int)y, (int)x);
            }
}

/* Expect that the parts' images, one after the other, are those of the host's batch. */
static void expect_images(mr_batch *batch, const mr_batch *plain, const mr_loader_options *o)
{
    const mr_array *want = mr_batch_array(plain, "image");
    const uint8_t *want_row = want->data;
    unsigned at_c = o->layout == MR_NCHW ? 1 : 3;
    int64_t channels = o->pad_channels ? o->pad_channels : want->shape[at_c];
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
        const mr_array *got = mr_batch_array(mr_batch_part(batch, p), "image");
        const uint8_t *row = mr_test_bytes(got);
        assert_int_equal(got->dtype, want->dtype);
        assert_int_equal(got->ndim, 4);
        assert_int_equal(mr_batch_channels(mr_batch_part(batch, p)), channels);
        for (unsigned i = 1; i < 4; i++)
            assert_int_equal(got->shape[i], i == at_c ? channels : want->shape[i]);
        for (int64_t i = 0; i < got->shape[0];
             i++, row += got->strides[0], want_row += want->strides[0])
            expect_row(got, row, want, want_row, o->layout);
    }
    assert_int_equal(want_row - (const uint8_t *)want->data, want->shape[0] * want->strides[0]);
}

/* Compare both loaders to the end. */
static void expect_same(mr_dataset *dataset, const mr_transform *transform,
                        const mr_loader_options *options)
{
    mr_loader_options plain = *options;
    plain.device = NULL;
    plain.devices = NULL;
    plain.n_devices = plain.pad_channels = 0;
    plain.finish_on_host = false;
    mr_loader *loader = open_loader(dataset, transform, options),
              *host = open_loader(dataset, transform, &plain);
    mr_batch *a, *b;
    unsigned n = 0;
    while (mr_loader_next(host, MR_FOREVER, &b) == MR_OK) {
        a = rig_next(loader);
        assert_int_equal(mr_batch_valid(a), mr_batch_valid(b));
        expect_images(a, b, options);
        stage_release(a, MR_OK);
        stage_release(b, MR_OK);
        n++;
    }
    rig_expect(loader, MR_END);
    assert_int_equal(n, mr_loader_n_batches(loader));
    mr_loader_destroy(loader);
    mr_loader_destroy(host);
}

static mr_loader_options options_at(const struct place *place)
{
    mr_loader_options options = rig_options();
    options.batch_size = BATCH;
    options.num_workers = MR_NO_WORKERS;
    options.seed = 5;
    options.device = place->device;
    options.devices = place->n_devices ? place->devices : NULL;
    options.n_devices = place->n_devices;
    return options;
}

static void try_shapes(mr_dataset *dataset, const mr_transform *transform,
                       mr_loader_options *options)
{
    static const uint32_t pads[] = {0, 4, 8};
    for (unsigned layout = 0; layout < 2; layout++)
        for (unsigned p = 0; p < 3; p++) {
            options->layout = layout ? MR_NHWC : MR_NCHW;
            options->pad_channels = pads[p];
            expect_same(dataset, transform, options);
        }
    options->pad_channels = 0;
    options->finish_on_host = true;
    expect_same(dataset, transform, options);
}

static void try_place(const struct place *place)
{
    static const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    for (unsigned s = 0; s < N_SOURCES; s++) {
        mr_dataset *dataset = open_source(&sources[s]);
        for (unsigned d = 0; d < 4; d++)
            for (int rule = 0; rule < (dtypes[d] == MR_U8 ? 1 : N_RULES); rule++) {
                mr_loader_options options = options_at(place);
                mr_transform *transform = make_transform(&sources[s], (enum rule)rule);
                options.dtype = dtypes[d];
                try_shapes(dataset, transform, &options);
                mr_transform_destroy(transform);
            }
        mr_dataset_destroy(dataset);
    }
}

static void devices_finish_as_the_host_does(void **state)
{
    (void)state;
    for (unsigned i = 0; i < N_PLACES; i++) {
        stage_open(
            &(struct double_options){.n_devices = 3, .policy = (enum double_policy)i, .seed = i});
        try_place(&places[i]);
        stage_close();
    }
}

/* Damaged samples under on_error zero; under skip another sample takes the place. */
static void holes_are_zeros_on_the_device_too(void **state)
{
    struct rig *rig = *state;
    static const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    static const char normalize[] = "normalize(mean=0.5:0.4:0.3,std=0.2:0.3:0.4)";
    static const char exact[] = "normalize(mean=0.5:0.4:0.3,std=0.2:0.3:0.4,exact)";
    for (unsigned i = 0; i < 100; i += 7)
        rig->shared->fails[i] = true;
    for (unsigned i = 40; i < 56; i++) /* also a whole batch */
        rig->shared->fails[i] = true;
    for (unsigned i = 0; i < N_PLACES; i++)
        for (unsigned d = 0; d < 4; d++) {
            stage_open(
                &(struct double_options){.n_devices = 3, .policy = DOUBLE_RANDOM, .seed = d});
            mr_transform *transform;
            assert_int_equal(mr_transform_parse(d == 0   ? "none"
                                                : d == 2 ? exact
                                                         : normalize,
                                                &transform, NULL),
                             MR_OK);
            mr_loader_options options = options_at(&places[i]);
            options.dtype = dtypes[d];
            options.on_error = d % 2 ? MR_ON_ERROR_SKIP : MR_ON_ERROR_ZERO;
            expect_same(rig->dataset, transform, &options);
            options.on_error = MR_ON_ERROR_ZERO;
            options.pad_channels = 4;
            expect_same(rig->dataset, transform, &options);
            mr_transform_destroy(transform);
            stage_close();
        }
}

/* No floats are copied from the host if the device makes them. */
static void pixels_are_copied_as_bytes(void **state)
{
    mr_loader_options options = stage_options("cuda:0");
    uint64_t bytes[3];
    options.n_epochs = 1;
    for (unsigned i = 0; i < 3; i++) {
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        stage_open(&(struct double_options){0});
        options.dtype = i == 0 ? MR_U8 : MR_F32;
        options.finish_on_host = i == 2;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *batch;
        while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK)
            stage_release(batch, MR_OK);
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
        bytes[i] = stats.h2d_bytes;
        mr_loader_destroy(loader);
        stage_close();
    }
    /* only a descriptor for each sample was added */
    assert_true(bytes[1] < bytes[0] + bytes[0] / 2 + 100 * 48 * 2);
    assert_int_equal(bytes[2] - bytes[0], 3 * 100 * RIG_BYTES);
}

static int get_record(void *user, int64_t index, mr_sample *sample)
{
    static const float record[4] = {1, 2, 3, 4};
    (void)user;
    (void)index;
    sample->bytes = record;
    sample->len_bytes = sizeof record;
    return 0;
}

static void padding_is_refused_without_a_device_that_pads(void **state)
{
    struct rig *rig = *state;
    stage_open(&(struct double_options){0});
    mr_loader_options options = stage_options("host");
    options.pad_channels = 4;
    rig_refuses(rig, &options, MR_ERR_INVALID,
                "pad_channels 4 needs a device with its own buffers, not host");
    options.device = "cuda:0";
    options.pad_channels = 5;
    rig_refuses(rig, &options, MR_ERR_INVALID, "pad_channels 5 is none of 0, 4, 8");
    options.pad_channels = 8;
    options.finish_on_host = true;
    rig_refuses(rig, &options, MR_ERR_INVALID, "exclude each other");
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = 8;
    callbacks.get = get_record;
    callbacks.dtype = MR_F32;
    callbacks.ndim = 1;
    callbacks.shape[0] = 4;
    struct rig records = *rig;
    mr_error error;
    assert_ok(mr_dataset_from_callbacks(&callbacks, &records.dataset, &error), &error);
    options.finish_on_host = false;
    rig_refuses(&records, &options, MR_ERR_INVALID,
                "pad_channels 8: these samples are no pictures");
    mr_dataset_destroy(records.dataset);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_finish_as_the_host_does),
        RIG_TEST(holes_are_zeros_on_the_device_too),
        RIG_TEST(pixels_are_copied_as_bytes),
        RIG_TEST(padding_is_refused_without_a_device_that_pads),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
