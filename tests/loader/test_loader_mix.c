/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed batches: rows, labels and lambdas follow from the unmixed rows and the batch's draws, in
 * every mode and on every device; with holes, short batches, repetitions, and after a resumption.
 */
#include "tests/loader/rig.h"
#include "tests/support/assert_words.h"

#include "base/clock.h"
#include "base/mix.h"
#include "loader/loader.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/mixing/mix_store.h"
#include "transforms/transform.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 100, BATCH = 8, SEED = 21, MAX_ROWS = 400, N_CLASSES = 7 };

static uint8_t samples[N][RIG_BYTES];
static bool fails[N];
static _Atomic bool blocks;
static _Atomic unsigned n_blocked;
static mr_dataset *dataset;

static int get_sample(void *user, int64_t index, mr_sample *sample)
{
    (void)user;
    n_blocked += blocks;
    while (blocks)
        mr_clock_sleep_ms(1);
    sample->bytes = samples[index];
    sample->len_bytes = RIG_BYTES;
    sample->label = index % N_CLASSES;
    return fails[index];
}

static int make_dataset(void **state)
{
    (void)state;
    mr_callbacks c = MR_CALLBACKS_INIT;
    c.n_samples = N;
    c.get = get_sample;
    c.dtype = MR_U8;
    c.ndim = 3;
    c.shape[0] = RIG_CHANNELS;
    c.shape[1] = RIG_HEIGHT;
    c.shape[2] = RIG_WIDTH;
    c.layout = MR_NCHW;
    for (int64_t i = 0; i < N; i++)
        for (unsigned k = 0; k < RIG_BYTES; k++)
            samples[i][k] = rig_byte(i, k);
    return mr_dataset_from_callbacks(&c, &dataset, NULL);
}

static int drop_dataset(void **state)
{
    (void)state;
    mr_dataset_destroy(dataset);
    return 0;
}

static int repair_samples(void **state)
{
    (void)state;
    memset(fails, 0, sizeof fails);
    return 0;
}

/* The results of an epoch, row by row. */
struct row {
    uint64_t batch;
    uint32_t place, n;
    int64_t index, label, mix_label;
    uint8_t mask;
    float lambda;
    float soft[N_CLASSES];
    float image[RIG_BYTES];
};
struct epoch {
    unsigned n;
    struct row rows[MAX_ROWS];
};

static mr_loader_options options_of(const struct rig_mode *mode)
{
    mr_loader_options options = rig_options_of(mode);
    options.dtype = MR_F32;
    options.seed = SEED;
    options.no_shuffle = false;
    options.batch_size = BATCH;
    return options;
}

static mr_loader *loader_of(const char *text, const mr_loader_options *options)
{
    mr_transform *transform = NULL;
    mr_loader *loader = NULL;
    mr_error error;
    if (mr_transform_parse(text, &transform, &error) != MR_OK ||
        mr_loader_create(dataset, transform, options, &loader, &error) != MR_OK)
        fail_msg("%s: %s", text, error.text);
    mr_transform_destroy(transform);
    return loader;
}

static void keep_rows(mr_batch *batch, struct epoch *epoch)
{
    const float *lambdas = mr_batch_data(batch, "mix_lambda"),
                *soft = mr_batch_data(batch, "soft_label");
    const int64_t *mix_labels = mr_batch_data(batch, "mix_label");
    const float *images = mr_batch_data(batch, "image");
    for (uint32_t i = 0; i < mr_batch_size(batch); i++) {
        assert_true(epoch->n < MAX_ROWS);
        struct row *row = &epoch->rows[epoch->n++];
        *row = (struct row){.batch = mr_batch_number(batch), .place = i, .n = mr_batch_size(batch)};
        row->index = ((const int64_t *)mr_batch_data(batch, "index"))[i];
        row->label = ((const int64_t *)mr_batch_data(batch, "label"))[i];
        row->mask = ((const uint8_t *)mr_batch_data(batch, "mask"))[i];
        row->mix_label = mix_labels ? mix_labels[i] : 0;
        row->lambda = lambdas ? lambdas[i] : 0;
        memcpy(row->image, images + (size_t)i * RIG_BYTES, sizeof row->image);
        if (soft)
            memcpy(row->soft, soft + (size_t)i * N_CLASSES, sizeof row->soft);
    }
}

static void take_batches(mr_loader *loader, unsigned most, struct epoch *epoch)
{
    mr_batch *batch;
    epoch->n = 0;
    while (most-- > 0 && mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        keep_rows(batch, epoch);
        mr_batch_release(batch);
    }
}

static struct epoch *take_epoch(const char *text, const mr_loader_options *options)
{
    struct epoch *epoch = malloc(sizeof *epoch);
    mr_loader *loader = loader_of(text, options);
    assert_non_null(epoch);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    take_batches(loader, UINT32_MAX, epoch);
    mr_loader_destroy(loader);
    return epoch;
}

/* The last operation of a transform's text. */
static struct mr_op op_of(const char *text)
{
    mr_transform *transform;
    assert_int_equal(mr_transform_parse(text, &transform, NULL), MR_OK);
    struct mr_op op = transform->ops[transform->n_ops - 1];
    mr_transform_destroy(transform);
    return op;
}

/* Check a row by torchvision's rule, from the unmixed rows. */
static void check_row(const struct epoch *plain, const struct epoch *mixed, unsigned i,
                      const struct mr_op *op, uint32_t rank, unsigned n_kinds[3])
{
    const struct row *got = &mixed->rows[i], *own = &plain->rows[i];
    const struct row *other = own - own->place + (own->place > 0 ? own->place : own->n) - 1;
    struct mr_mix mix;
    float soft[N_CLASSES] = {0};
    mr_mix_draw_batch(op, false, SEED, 1, got->batch, rank, RIG_WIDTH, RIG_HEIGHT, &mix);
    if (other == own || !own->mask || !other->mask) {
        mix = (struct mr_mix){.kind = MR_MIX_NONE, .lambda = 1};
        other = own;
    }
    n_kinds[mix.kind]++;
    assert_int_equal(got->index, own->index);
    assert_int_equal(got->label, own->label);
    assert_int_equal(got->mask, own->mask);
    assert_int_equal(got->mix_label, other->label);
    assert_true(got->lambda == mix.lambda);
    if (own->mask)
        mr_mix_store_label(&mix, 0, own->label, other->label, N_CLASSES, soft);
    assert_memory_equal(got->soft, soft, sizeof soft);
    for (unsigned k = 0; k < RIG_BYTES; k++) {
        int x = (int)(k % RIG_WIDTH), y = (int)(k / RIG_WIDTH % RIG_HEIGHT);
        float want = mix.kind == MR_MIX_UP    ? mr_mix_floats(&mix, own->image[k], other->image[k])
                     : mix.kind == MR_MIX_CUT ? (mr_mix_in_box(&mix, x, y) ? other : own)->image[k]
                                              : own->image[k];
        if (got->image[k] != want)
            fail_msg("row %u, element %u: %g, not %g", i, k, (double)got->image[k], (double)want);
    }
}

/* Check an epoch of `base` + `mixing` against one of `base`. */
static void check_epoch(const char *base, const char *mixing, mr_loader_options options,
                        unsigned n_rows)
{
    char text[256];
    unsigned n_kinds[3] = {0};
    struct mr_op op = op_of(mixing);
    snprintf(text, sizeof text, "%s+%s", base, mixing);
    struct epoch *plain = take_epoch(base, &options);
    options.soft_labels = N_CLASSES;
    struct epoch *mixed = take_epoch(text, &options);
    assert_int_equal(plain->n, n_rows);
    assert_int_equal(mixed->n, n_rows);
    for (unsigned i = 0; i < n_rows; i++)
        check_row(plain, mixed, i, &op, options.rank, n_kinds);
    assert_true(n_kinds[MR_MIX_UP] + n_kinds[MR_MIX_CUT] > n_rows / 2);
    free(plain);
    free(mixed);
}

static void rows_are_mixed_in_every_mode(void **state)
{
    (void)state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = options_of(&rig_modes[m]);
        check_epoch("normalize(mean=0.5,std=0.2)+random_erasing(0.7,0.1:0.5,value=random)",
                    "mixup_or_cutmix(0.5,1)", options, N);
        options.device = "host:1";
        check_epoch("hflip+random_erasing(0.7,0.1:0.5,value=rand,count=2)", "mixup_or_cutmix(0.4)",
                    options, N);
    }
}

static void layouts_and_batches_of_every_size_are_mixed(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[1]);
    for (unsigned batch_size = 1; batch_size < 12; batch_size += 2) {
        options.batch_size = batch_size;
        if (batch_size > 1)
            check_epoch("hflip", "cutmix", options, N);
    }
    /* the last batch is short: its row 0 is mixed with its own last row */
    options.batch_size = BATCH;
    options.drop_last = true;
    check_epoch("hflip", "mixup", options, N - N % BATCH);
    options.drop_last = false;
    options.tail = MR_TAIL_EXACT;
    options.world_size = 3;
    options.rank = 2;
    check_epoch("hflip", "mixup", options, N / 3);
    options.world_size = 12; /* rank 0 has 8 rows and 1, rank 11 has 8 and an empty batch */
    for (options.rank = 0; options.rank < 12; options.rank += 11) {
        options.device = NULL;
        check_epoch("hflip", "mixup", options, options.rank == 0 ? 9 : 8);
        options.device = "host:1";
        check_epoch("hflip", "mixup", options, options.rank == 0 ? 9 : 8);
    }
}

static void a_batch_of_one_row_stays_as_it_is(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[1]);
    options.batch_size = 1;
    struct epoch *plain = take_epoch("hflip", &options),
                 *mixed = take_epoch("hflip+mixup", &options);
    for (unsigned i = 0; i < N; i++) {
        assert_true(mixed->rows[i].lambda == 1.0f);
        assert_int_equal(mixed->rows[i].mix_label, plain->rows[i].label);
        assert_memory_equal(mixed->rows[i].image, plain->rows[i].image,
                            sizeof plain->rows[i].image);
    }
    free(plain);
    free(mixed);
}

static void rows_whose_partner_is_a_hole_stay_as_they_are(void **state)
{
    (void)state;
    for (int i = 3; i < N; i += 9)
        fails[i] = true;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = options_of(&rig_modes[m]);
        options.on_error = MR_ON_ERROR_ZERO; /* zeros, which are not normalized */
        check_epoch("hflip+normalize(mean=0.5,std=0.2)", "mixup_or_cutmix", options, N);
        options.on_error = MR_ON_ERROR_SKIP; /* substitutes, which are mixed like other samples */
        check_epoch("hflip", "mixup_or_cutmix", options, N);
        options.tail = MR_TAIL_EXACT; /* holes */
        check_epoch("hflip", "mixup_or_cutmix", options, N);
        options.device = "host:1";
        check_epoch("hflip+normalize(mean=0.5,std=0.2)", "mixup_or_cutmix", options, N);
    }
}

static void repetitions_keep_their_own_draws(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[1]);
    options.repeat = 3;
    options.repeat_form = MR_REPEAT_TIMM;
    struct epoch *epoch = take_epoch("hflip", &options);
    unsigned n = epoch->n;
    free(epoch);
    check_epoch("hflip+random_erasing(0.7,0.1:0.5,value=rand)", "mixup", options, n);
}

/* Bytes are mixed with rounding, the partner counts from the other end, then floats and erasing. */
static void timms_rule_mixes_bytes(void **state)
{
    (void)state;
    static const char mixing[] = "timm_mixup(mixup=0.8,cutmix=1,prob=0.9,label_smoothing=0.2)";
    const struct mr_op op = op_of(mixing);
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = options_of(&rig_modes[m]);
        options.soft_labels = N_CLASSES;
        char text[256];
        snprintf(text, sizeof text, "normalize(mean=0.5,std=0.25)+%s", mixing);
        struct epoch *epoch = take_epoch(text, &options);
        assert_int_equal(epoch->n, N);
        for (unsigned i = 0; i < N; i++) {
            const struct row *row = &epoch->rows[i],
                             *other = row - row->place + row->n - 1 - row->place;
            struct mr_mix mix;
            float soft[N_CLASSES];
            mr_mix_draw_batch(&op, false, SEED, 1, row->batch, 0, RIG_WIDTH, RIG_HEIGHT, &mix);
            assert_true(row->lambda == mix.lambda);
            assert_int_equal(row->mix_label, mix.kind == MR_MIX_NONE ? row->label : other->label);
            mr_mix_store_label(&mix, 0.2, row->label, row->mix_label, N_CLASSES, soft);
            assert_memory_equal(row->soft, soft, sizeof soft);
            for (unsigned k = 0; k < RIG_BYTES; k++) {
                int x = (int)(k % RIG_WIDTH), y = (int)(k / RIG_WIDTH % RIG_HEIGHT);
                uint8_t a = samples[row->index][k], b = samples[other->index][k];
                uint8_t byte = mix.kind == MR_MIX_UP       ? mr_mix_bytes(&mix, a, b)
                               : mr_mix_in_box(&mix, x, y) ? b
                                                           : a;
                assert_true(row->image[k] ==
                            fmaf((float)byte, (float)(1.0 / (255.0 * 0.25)), -2.0f));
            }
        }
        free(epoch);
    }
}

static void a_resumption_mixes_as_before(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[1]);
    struct epoch *first = malloc(sizeof *first), *rest = malloc(sizeof *rest);
    mr_loader *loader = loader_of("hflip+mixup_or_cutmix", &options), *other;
    uint8_t position[MR_LOADER_STATE_MAX];
    size_t len;
    assert_true(first && rest);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    take_batches(loader, 5, first);
    assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
    take_batches(loader, UINT32_MAX, first);
    mr_loader_destroy(loader);
    options.num_workers = 3;
    other = loader_of("hflip+mixup_or_cutmix", &options);
    assert_int_equal(mr_loader_restore(other, position, len), MR_OK);
    take_batches(other, UINT32_MAX, rest);
    mr_loader_destroy(other);
    assert_int_equal(rest->n, first->n);
    for (unsigned i = 0; i < rest->n; i++) {
        assert_int_equal(rest->rows[i].batch, first->rows[i].batch);
        assert_memory_equal(rest->rows[i].image, first->rows[i].image, sizeof rest->rows[i].image);
        assert_true(rest->rows[i].lambda == first->rows[i].lambda);
    }
    free(first);
    free(rest);
}

static void arrays_have_their_names_and_are_copied(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[1]);
    options.soft_labels = N_CLASSES;
    mr_loader *loader = loader_of("mixup", &options);
    mr_batch *batch = rig_next(loader), *copy;
    static const char *const names[] = {"image",    "label",     "index",      "mask",
                                        "geometry", "mix_label", "mix_lambda", "soft_label"};
    assert_int_equal(mr_batch_n_arrays(batch), 8);
    assert_int_equal(mr_batch_copy(batch, &copy), MR_OK);
    for (uint32_t i = 0; i < 8; i++) {
        const mr_array *a = mr_batch_array_at(batch, i), *b = mr_batch_array(copy, names[i]);
        assert_string_equal(a->name, names[i]);
        assert_memory_equal(a->data, b->data, (size_t)(a->shape[0] * a->strides[0]));
    }
    const mr_array *soft = mr_batch_array(batch, "soft_label");
    assert_true(soft->dtype == MR_F32 && soft->ndim == 2 && soft->shape[1] == N_CLASSES);
    assert_true(mr_batch_array(batch, "mix_label")->dtype == MR_I64);
    assert_true(mr_batch_array(batch, "mix_lambda")->dtype == MR_F32);
    mr_batch_release(copy);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    options.soft_labels = 0;
    loader = loader_of("mixup", &options);
    batch = rig_next(loader);
    assert_int_equal(mr_batch_n_arrays(batch), 7);
    assert_null(mr_batch_array(batch, "soft_label"));
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void a_dropped_epoch_leaves_nothing_behind(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[1]);
    struct epoch *want = take_epoch("hflip+mixup", &options), *got = malloc(sizeof *got);
    mr_loader *loader = loader_of("hflip+mixup", &options);
    assert_non_null(got);
    for (uint64_t e = 7; e > 0; e--) {
        assert_int_equal(mr_loader_set_epoch(loader, e), MR_OK);
        take_batches(loader, e == 1 ? UINT32_MAX : (unsigned)e % 3, got);
    }
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->rows, want->rows, got->n * sizeof *got->rows);
    mr_loader_destroy(loader);
    free(want);
    free(got);
}

/* Like a worker up to DONE: the pixels for "mixup", and the values stored beside them. */
static void make_row(const struct mr_slot_view *view, uint32_t place)
{
    int64_t index = atomic_load(&view->want[place]);
    uint8_t *pixels = mr_slot_source(view, place);
    uint64_t held;
    for (unsigned k = 0; k < RIG_BYTES; k++)
        pixels[k] =
            samples[index][k % RIG_CHANNELS * (RIG_BYTES / RIG_CHANNELS) + k / RIG_CHANNELS];
    *(int64_t *)mr_slot_row(view, MR_COLUMN_LABEL, place) = index % N_CLASSES;
    *mr_slot_index(view, place) = index;
    *mr_slot_mask(view, place) = 1;
    atomic_store(&view->outcome[place], MR_OUTCOME_GOOD);
    assert_true(mr_place_take(&view->places[place], mr_place_load(&view->places[place]), 0, &held));
    assert_true(mr_place_finish(&view->places[place], held));
}

/* A worker that dies after DONE and before it mixes leaves the rows like this. */
static void rows_that_a_dead_worker_left_are_mixed(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[0]);
    struct epoch *want = take_epoch("mixup", &options), *got = malloc(sizeof *got);
    mr_loader *loader = loader_of("mixup", &options);
    mr_batch *batch;
    assert_non_null(got);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    struct mr_host *host = loader->host;
    const struct mr_slot_view view =
        mr_host_slot(host, mr_host_slot_of(host, host->shared.control->head));
    for (uint32_t i = 0; i < BATCH; i++)
        make_row(&view, i);
    assert_int_equal(mr_loader_next(loader, 20000, &batch), MR_OK);
    got->n = 0;
    keep_rows(batch, got);
    assert_int_equal(got->n, BATCH);
    assert_memory_equal(got->rows, want->rows, BATCH * sizeof *got->rows);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    free(want);
    free(got);
}

static void *let_samples_pass(void *unused)
{
    mr_clock_sleep_ms(200); /* until next() sleeps, most likely */
    blocks = false;
    return unused;
}

/*
 * All slots are dropped and busy, so next() waits for the end of samples that are not needed any
 * more.
 */
static void the_end_of_a_dropped_sample_wakes_the_host(void **state)
{
    (void)state;
    mr_loader_options options = options_of(&rig_modes[1]);
    mr_batch *batch;
    pthread_t thread;
    options.batch_size = 1;
    options.n_slots = options.num_workers;
    n_blocked = 0;
    blocks = true;
    mr_loader *loader = loader_of("mixup", &options);
    while (n_blocked < options.num_workers)
        mr_clock_sleep_ms(1);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    assert_int_equal(pthread_create(&thread, NULL, let_samples_pass, NULL), 0);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    pthread_join(thread, NULL);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void refuse(const char *text, const mr_loader_options *options, const char *words)
{
    mr_transform *transform;
    mr_loader *loader;
    mr_error error;
    assert_int_equal(mr_transform_parse(text, &transform, NULL), MR_OK);
    assert_error(mr_loader_create(dataset, transform, options, &loader, &error), MR_ERR_INVALID,
                 &error, words);
    mr_transform_destroy(transform);
}

static void unsupported_mixing_is_refused(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0", "host:1"};
    mr_loader_options options = options_of(&rig_modes[0]);
    options.dtype = MR_U8;
    refuse("mixup", &options, "dtype is u8, and it mixes floats");
    options.dtype = MR_F32;
    options.batch_size = 7;
    refuse("timm_mixup", &options, "timm_mixup needs an even batch_size, not 7");
    options.batch_size = BATCH;
    options.soft_labels = N_CLASSES;
    refuse("hflip", &options, "soft_labels 7: the transform does not mix");
    options.soft_labels = 0;
    options.devices = devices;
    options.n_devices = 2;
    refuse("cutmix", &options, "cutmix cannot be applied: batches are split over 2 devices");
}

int main(void)
{
#define MIX_TEST(name) cmocka_unit_test_setup_teardown(name, NULL, repair_samples)
    const struct CMUnitTest tests[] = {
        MIX_TEST(rows_are_mixed_in_every_mode),
        MIX_TEST(layouts_and_batches_of_every_size_are_mixed),
        MIX_TEST(a_batch_of_one_row_stays_as_it_is),
        MIX_TEST(rows_whose_partner_is_a_hole_stay_as_they_are),
        MIX_TEST(repetitions_keep_their_own_draws),
        MIX_TEST(timms_rule_mixes_bytes),
        MIX_TEST(a_resumption_mixes_as_before),
        MIX_TEST(arrays_have_their_names_and_are_copied),
        MIX_TEST(a_dropped_epoch_leaves_nothing_behind),
        MIX_TEST(rows_that_a_dead_worker_left_are_mixed),
        MIX_TEST(the_end_of_a_dropped_sample_wakes_the_host),
        MIX_TEST(unsupported_mixing_is_refused),
    };
    return cmocka_run_group_tests(tests, make_dataset, drop_dataset);
}
