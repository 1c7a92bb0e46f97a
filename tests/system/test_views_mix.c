/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixing with views: all pictures of a row have the same partner and lambda. The oracle mixes the
 * rows of a loader that does not mix.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/system/views_rig.h"
#include "tests/support/assert_words.h"

#include "base/mix.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/mixing/mix_store.h"
#include "transforms/transform.h"

enum { N_CLASSES = 3, N_B = 2 };

#define NORMAL "+normalize(mean=0.4:0.5:0.6,std=0.2:0.3:0.4)"
#define A "random_resized_crop(24:20)+hflip+color_jitter(0.4)" NORMAL "+random_erasing(0.7)"
#define B "random_resized_crop(16)+hflip" NORMAL "+random_erasing(0.5,value=random)"
#define C "resize(12:14)"
#define MIX "+mixup_or_cutmix(0.5,1)"
#define ALONE "view(x,hflip" MIX ")"
#define PLAIN "view(c," C ")|view(a," A ")|view(b,2," B ")"
#define MIXED "view(c," C ")|view(a," A MIX ")|view(b,2," B MIX ")"

static mr_loader_options options_of(uint32_t n_workers, uint64_t seed)
{
    mr_loader_options o = views_options(n_workers);
    o.seed = seed;
    o.on_error = MR_ON_ERROR_ZERO;
    return o;
}

/* The last operation of a text. */
static struct mr_op op_of(const char *text)
{
    mr_transform *transform;
    assert_int_equal(mr_transform_parse(text, &transform, NULL), MR_OK);
    struct mr_op op = transform->ops[transform->n_ops - 1];
    mr_transform_destroy(transform);
    return op;
}

static bool has_sample(const struct views_taken *t, int64_t row)
{
    return ((const uint8_t *)mr_batch_data(t->batch, "mask"))[row] != 0;
}

/* What the batch's draws are for a view of that size. */
static struct mr_mix draw(const char *text, uint64_t seed, uint32_t height, uint32_t width)
{
    const struct mr_op op = op_of(text);
    struct mr_mix mix;
    mr_mix_draw_batch(&op, strstr(text, "view"), seed, 0, 0, 0, width, height, &mix);
    return mix;
}

/* Check picture k of a row, [3, height, width], against those of the unmixed batch. */
static void check_picture(const struct views_taken *plain, const struct views_taken *mixed,
                          const char *name, int64_t row, int64_t partner, int64_t k,
                          const struct mr_mix *mix, uint32_t height, uint32_t width)
{
    size_t len;
    const float *own = (const void *)views_picture(plain, name, row, k, &len);
    const float *other = (const void *)views_picture(plain, name, partner, k, &len);
    const float *got = (const void *)views_picture(mixed, name, row, k, &len);
    assert_int_equal(len, 3 * height * width * sizeof *got);
    for (uint32_t i = 0; i < 3 * height * width; i++) {
        int x = (int)(i % width), y = (int)(i / width % height);
        float want = mix->kind == MR_MIX_UP    ? mr_mix_floats(mix, own[i], other[i])
                     : mix->kind == MR_MIX_CUT ? (mr_mix_in_box(mix, x, y) ? other : own)[i]
                                               : own[i];
        if (memcmp(&want, &got[i], sizeof want) != 0)
            fail_msg("%s#%d, row %d, element %u: %g, not %g", name, (int)k, (int)row, i,
                     (double)got[i], (double)want);
    }
}

static void check_labels(const struct views_taken *mixed, int64_t row, int64_t partner,
                         const struct mr_mix *mix)
{
    const int64_t *label = mr_batch_data(mixed->batch, "label");
    float soft[N_CLASSES] = {0};
    if (has_sample(mixed, row))
        mr_mix_store_label(mix, 0, label[row], label[partner], N_CLASSES, soft);
    assert_int_equal(((const int64_t *)mr_batch_data(mixed->batch, "mix_label"))[row],
                     label[partner]);
    assert_true(((const float *)mr_batch_data(mixed->batch, "mix_lambda"))[row] == mix->lambda);
    assert_memory_equal((const float *)mr_batch_data(mixed->batch, "soft_label") + row * N_CLASSES,
                        soft, sizeof soft);
}

static void check_batch(const struct views_taken *plain, const struct views_taken *mixed,
                        uint64_t seed)
{
    const struct mr_mix none = {.kind = MR_MIX_NONE, .lambda = 1};
    const struct mr_mix a = draw(ALONE, seed, 24, 20), b = draw(ALONE, seed, 16, 16);
    assert_int_equal(a.kind, b.kind);
    assert_true(a.kind == MR_MIX_CUT || a.lambda == b.lambda);
    for (int64_t row = 0; row < VIEWS_N; row++) {
        int64_t partner = row > 0 ? row - 1 : VIEWS_N - 1;
        bool mixes = has_sample(plain, row) && has_sample(plain, partner);
        partner = mixes ? partner : row;
        check_picture(plain, mixed, "c", row, row, -1, &none, 12, 14);
        check_picture(plain, mixed, "a", row, partner, -1, mixes ? &a : &none, 24, 20);
        for (int64_t k = 0; k < N_B; k++)
            check_picture(plain, mixed, "b", row, partner, k, mixes ? &b : &none, 16, 16);
        check_labels(mixed, row, partner, mixes ? &a : &none);
    }
}

static void check_seeds(uint32_t n_workers, const char *device)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        mr_loader_options o = options_of(n_workers, seed);
        o.device = device;
        struct views_taken plain = views_take(views_open(0), PLAIN, &o);
        o.soft_labels = N_CLASSES;
        struct views_taken mixed = views_take(views_open(0), MIXED, &o);
        check_batch(&plain, &mixed, seed);
        views_give_back(&plain);
        views_give_back(&mixed);
    }
}

static void all_pictures_have_one_partner_and_one_lambda(void **state)
{
    (void)state;
    unsigned n_kinds[3] = {0};
    for (uint64_t seed = 1; seed <= 6; seed++)
        n_kinds[draw(ALONE, seed, 24, 20).kind]++;
    assert_true(n_kinds[MR_MIX_UP] > 0 && n_kinds[MR_MIX_CUT] > 0);
    check_seeds(MR_NO_WORKERS, NULL);
    check_seeds(2, NULL);
    check_seeds(2, "host:0");
}

/* The same part of pictures of all sizes, up to one pixel at each side. */
static void boxes_of_views_scale(void **state)
{
    (void)state;
    unsigned n_cut = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct mr_mix big = draw(ALONE, seed, 700, 900), small = draw(ALONE, seed, 70, 90);
        assert_int_equal(big.kind, small.kind);
        if (big.kind != MR_MIX_CUT)
            continue;
        n_cut++;
        assert_true(abs(big.x1 - 10 * small.x1) < 30 && abs(big.x2 - 10 * small.x2) < 30);
        assert_true(abs(big.y1 - 10 * small.y1) < 30 && abs(big.y2 - 10 * small.y2) < 30);
    }
    assert_true(n_cut > 50);
}

static void a_hole_is_zeros_and_leaves_its_partner_alone(void **state)
{
    (void)state;
    views_damage_image(5);
    check_seeds(MR_NO_WORKERS, NULL);
    mr_loader_options o = options_of(2, 1);
    struct views_taken t = views_take(views_open(0), MIXED, &o);
    static const char *const names[] = {"a", "b", "c", "a.geometry", "b.geometry"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t len;
        const uint8_t *row = views_picture(&t, names[n], 5, -1, &len);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(row[i], 0);
    }
    views_give_back(&t);
    views_write_image(5);
}

static void mixed_views_equal_loaders_of_one_view_from_every_source(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    struct views_taken a = views_take_alone("a", -1, A MIX), c = views_take_alone("c", -1, C);
    struct views_taken b[N_B];
    for (int k = 0; k < N_B; k++)
        b[k] = views_take_alone("b", k, B MIX);
    for (int source = 0; source < VIEWS_SOURCES; source++)
        for (size_t i = 0; i < 3; i++) {
            mr_loader_options o = views_options(workers[i]);
            struct views_taken t = views_take(views_open(source), MIXED, &o);
            views_assert_same(&t, &a, "a", -1);
            views_assert_same(&t, &c, "c", -1);
            for (int k = 0; k < N_B; k++)
                views_assert_same(&t, &b[k], "b", k);
            views_give_back(&t);
        }
    views_give_back(&a);
    views_give_back(&c);
    for (int k = 0; k < N_B; k++)
        views_give_back(&b[k]);
}

/* timm's rule: bytes are mixed, row i with n - 1 - i; then floats are made and erased. */
static void timms_rule_mixes_the_bytes_of_each_picture(void **state)
{
    (void)state;
    static const char mixing[] = "+timm_mixup(mixup=0.8,cutmix=1)";
    for (uint64_t seed = 1; seed <= 4; seed++) {
        mr_loader_options o = options_of(2, seed);
        o.dtype = MR_U8;
        o.layout = MR_NHWC;
        char text[VIEWS_TEXT];
        snprintf(text, sizeof text, "view(x,2,random_resized_crop(16)%s)", mixing);
        struct views_taken plain =
                               views_take(views_open(0), "view(x,2,random_resized_crop(16))", &o),
                           mixed = views_take(views_open(0), text, &o);
        const struct mr_mix mix = draw(text, seed, 16, 16);
        for (int64_t row = 0; row < VIEWS_N; row++)
            for (int64_t k = 0; k < 2; k++) {
                size_t len;
                const uint8_t *own = views_picture(&plain, "x", row, k, &len);
                const uint8_t *other = views_picture(&plain, "x", VIEWS_N - 1 - row, k, &len);
                const uint8_t *got = views_picture(&mixed, "x", row, k, &len);
                for (int i = 0; i < 16 * 16 * 3; i++) {
                    bool inside = mr_mix_in_box(&mix, i / 3 % 16, i / 48);
                    uint8_t want = mix.kind == MR_MIX_UP ? mr_mix_bytes(&mix, own[i], other[i])
                                                         : (inside ? other : own)[i];
                    assert_int_equal(got[i], want);
                }
            }
        views_give_back(&plain);
        views_give_back(&mixed);
    }
}

static void erased_pictures_of_timms_rule_equal_those_of_one_view(void **state)
{
    (void)state;
    static const char mixing[] = "+timm_mixup(mixup=0.8,cutmix=1)";
    char text[VIEWS_TEXT], recipe[VIEWS_TEXT];
    snprintf(text, sizeof text, "view(c," C ")|view(b,2," B "%s)|view(a," A "%s)", mixing, mixing);
    mr_loader_options o = views_options(2);
    struct views_taken t = views_take(views_open(0), text, &o);
    snprintf(recipe, sizeof recipe, "%s%s", B, mixing);
    for (int k = 0; k < N_B; k++) {
        struct views_taken b = views_take_alone("b", k, recipe);
        views_assert_same(&t, &b, "b", k);
        views_give_back(&b);
    }
    snprintf(recipe, sizeof recipe, "%s%s", A, mixing);
    struct views_taken a = views_take_alone("a", -1, recipe);
    views_assert_same(&t, &a, "a", -1);
    views_give_back(&a);
    views_give_back(&t);
}

static void crops_are_mixed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        mr_loader_options o = options_of(1, seed);
        struct views_taken plain = views_take(views_open(0), "resize(40)+five_crop(24)", &o),
                           mixed = views_take(views_open(0), "resize(40)+five_crop(24)" MIX, &o);
        const struct mr_mix mix = draw("hflip" MIX, seed, 24, 24);
        for (int64_t row = 0; row < VIEWS_N; row++)
            for (int64_t k = 0; k < 5; k++)
                check_picture(&plain, &mixed, "image", row, row > 0 ? row - 1 : VIEWS_N - 1, k,
                              &mix, 24, 24);
        views_give_back(&plain);
        views_give_back(&mixed);
    }
}

static struct mr_test_epoch run_rest(mr_loader *loader)
{
    struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
    assert_int_equal(epoch.status, MR_END);
    return epoch;
}

static void kills_and_resumptions_change_nothing(void **state)
{
    (void)state;
    uint8_t position[MR_LOADER_STATE_MAX];
    uint64_t digest = 0;
    size_t len = 0;
    mr_dataset *dataset = views_open(0);
    for (int run = 0; run < 3; run++) {
        mr_loader_options o = views_options(run ? 2 : MR_NO_WORKERS);
        mr_batch *batch;
        o.batch_size = 2;
        mr_loader *loader = mr_test_loader(dataset, MIXED, &o);
        if (run == 2) {
            assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
        } else {
            assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
            mr_batch_release(batch);
            assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
        }
        if (run == 1)
            mr_test_signal_workers(getpid(), SIGKILL);
        struct mr_test_epoch epoch = run_rest(loader);
        assert_int_equal(epoch.n_valid, VIEWS_N - 2);
        assert_true(run == 0 || epoch.digest == digest);
        digest = epoch.digest;
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

static void expect_refused(const char *text, mr_dtype dtype, uint32_t batch_size, const char *words)
{
    mr_transform *transform;
    mr_loader *loader;
    mr_error error = {0};
    mr_dataset *dataset = views_open(0);
    mr_loader_options o = views_options(MR_NO_WORKERS);
    o.dtype = dtype;
    o.batch_size = batch_size;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    assert_error(mr_loader_create(dataset, transform, &o, &loader, &error), MR_ERR_INVALID, &error,
                 words);
    mr_transform_destroy(transform);
    mr_dataset_destroy(dataset);
}

static void what_views_cannot_share_is_refused_by_name(void **state)
{
    (void)state;
    expect_refused("view(a,train:24+mixup)|view(b,train:16)|view(c,train:24+cutmix)", MR_F32, 4,
                   "cutmix of view 'c' differs from mixup of view 'a'; views that are mixed share "
                   "one operation");
    expect_refused("view(a,train:24)|view(b,train:16+mixup(0.2))|view(c,train:24+mixup(0.3))",
                   MR_F32, 4, "mixup of view 'c' differs from mixup of view 'b'");
    expect_refused("view(a,train:24)|view(b,train:24+mixup)", MR_U8, 4,
                   "view 'b': mixup cannot be applied: dtype is u8");
    expect_refused("view(a,train:24)|view(b,train:24+timm_mixup(mixup=1))", MR_U8, 3,
                   "timm_mixup needs an even batch_size, not 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pictures_have_one_partner_and_one_lambda),
        cmocka_unit_test(boxes_of_views_scale),
        cmocka_unit_test(a_hole_is_zeros_and_leaves_its_partner_alone),
        cmocka_unit_test(mixed_views_equal_loaders_of_one_view_from_every_source),
        cmocka_unit_test(timms_rule_mixes_the_bytes_of_each_picture),
        cmocka_unit_test(erased_pictures_of_timms_rule_equal_those_of_one_view),
        cmocka_unit_test(crops_are_mixed),
        cmocka_unit_test(kills_and_resumptions_change_nothing),
        cmocka_unit_test(what_views_cannot_share_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, views_set_up, views_tear_down);
}
