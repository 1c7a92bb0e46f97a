/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: several pictures of a sample from one read. Each picture equals that of a loader with its
 * view alone, from every source, with any number of workers.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/system/views_rig.h"

#include <millrace/loader.h>

enum { N_LOCAL = 3 };

#define NORMAL "+normalize(mean=0.4:0.5:0.6,std=0.2:0.3:0.4)"
#define BIG "random_resized_crop(48,scale=0.4:1,interp=bicubic)+hflip+color_jitter(0.4,0.4,0.2,0.1)"
#define SMALL "random_resized_crop(24:20,scale=0.05:0.4)+hflip+random_apply(gaussian_blur(3),0.5)"
#define GLOBAL1 BIG NORMAL
#define GLOBAL2 BIG "+solarize(128,0.5)+random_erasing(0.7,value=random)"
#define LOCAL SMALL NORMAL
static const char views[] =
    "view(global1," GLOBAL1 ")|view(global2," GLOBAL2 ")|view(local,3," LOCAL ")";

/* All pictures of `views`, made alone from the files. */
struct alone {
    struct views_taken global1, global2, local[N_LOCAL];
};

static struct alone take_all_alone(void)
{
    struct alone all = {.global1 = views_take_alone("global1", -1, GLOBAL1),
                        .global2 = views_take_alone("global2", -1, GLOBAL2)};
    for (int k = 0; k < N_LOCAL; k++)
        all.local[k] = views_take_alone("local", k, LOCAL);
    return all;
}

static void give_back_all(struct alone *all)
{
    views_give_back(&all->global1);
    views_give_back(&all->global2);
    for (int k = 0; k < N_LOCAL; k++)
        views_give_back(&all->local[k]);
}

static void assert_all_same(const struct views_taken *t, const struct alone *all)
{
    assert_int_equal(mr_batch_valid(t->batch), VIEWS_N);
    assert_string_equal(mr_batch_array_at(t->batch, 0)->name, "global1");
    views_assert_same(t, &all->global1, "global1", -1);
    views_assert_same(t, &all->global2, "global2", -1);
    for (int k = 0; k < N_LOCAL; k++)
        views_assert_same(t, &all->local[k], "local", k);
}

static void views_equal_loaders_of_one_view_from_every_source(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    struct alone all = take_all_alone();
    for (int source = 0; source < VIEWS_SOURCES; source++)
        for (size_t i = 0; i < 3; i++) {
            mr_loader_options o = views_options(workers[i]);
            struct views_taken t = views_take(views_open(source), views, &o);
            assert_all_same(&t, &all);
            views_give_back(&t);
        }
    give_back_all(&all);
}

static void devices_get_the_same_views(void **state)
{
    (void)state;
    struct alone all = take_all_alone();
    mr_loader_options o = views_options(2);
    o.device = "host:0";
    struct views_taken t = views_take(views_open(0), views, &o);
    assert_all_same(&t, &all);
    views_give_back(&t);
    give_back_all(&all);
}

static void a_cache_changes_nothing(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    struct alone all = take_all_alone();
    usleep(70000); /* a cache skips files that changed a moment ago */
    for (size_t f = 0; f < 2; f++)
        for (uint32_t run = 0; run < 3; run++) {
            mr_loader_options o = views_options(run == 0 ? MR_NO_WORKERS : 2);
            o.cache = views_at(f ? "index" : "packed");
            o.cache_form = forms[f];
            o.cache_slowdown = 100;
            struct views_taken t = views_take(views_open(0), views, &o);
            assert_all_same(&t, &all);
            views_give_back(&t);
        }
    give_back_all(&all);
}

static void other_views_change_no_picture(void **state)
{
    (void)state;
    struct views_taken two = views_take_plain("view(a," GLOBAL2 ")|view(b,2," LOCAL ")");
    struct views_taken more =
        views_take_plain("view(new,none+center_crop(30))|view(b,2," LOCAL ")|view(a," GLOBAL2 ")");
    struct views_taken b0 = views_take_alone("b", 0, LOCAL), a = views_take_alone("a", -1, GLOBAL2);
    struct views_taken c = views_take_alone("c", -1, GLOBAL2);
    size_t len;
    views_assert_same(&two, &a, "a", -1);
    views_assert_same(&more, &a, "a", -1);
    views_assert_same(&two, &b0, "b", 0);
    views_assert_same(&more, &b0, "b", 0);
    /* another name and another number have other draws */
    const uint8_t *first = views_picture(&a, "a", 0, -1, &len);
    assert_memory_not_equal(first, views_picture(&c, "c", 0, -1, &len), len);
    first = views_picture(&two, "b", 0, 0, &len);
    assert_memory_not_equal(first, views_picture(&two, "b", 0, 1, &len), len);
    views_give_back(&two);
    views_give_back(&more);
    views_give_back(&b0);
    views_give_back(&a);
    views_give_back(&c);
}

static void exif_turns_all_views(void **state)
{
    (void)state;
    struct views_taken both = views_take_plain("view(a,exif+" LOCAL ")|view(b,2,exif+" GLOBAL1 ")");
    struct views_taken a = views_take_alone("a", -1, "exif+" LOCAL),
                       b = views_take_alone("b", 1, "exif+" GLOBAL1);
    views_assert_same(&both, &a, "a", -1);
    views_assert_same(&both, &b, "b", 1);
    views_give_back(&both);
    views_give_back(&a);
    views_give_back(&b);
}

static void nothing_is_lost_when_workers_are_killed(void **state)
{
    (void)state;
    mr_dataset *dataset = views_open(0);
    uint64_t digest = 0;
    for (int kills = 0; kills < 2; kills++) {
        mr_loader_options o = views_options(kills ? 2 : MR_NO_WORKERS);
        o.batch_size = 2;
        mr_loader *loader = mr_test_loader(dataset, views, &o);
        if (kills) {
            assert_int_equal(mr_test_await_workers(getpid(), 2), 2);
            mr_test_signal_workers(getpid(), SIGKILL);
        }
        struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
        assert_int_equal(epoch.status, MR_END);
        assert_int_equal(epoch.n_valid, VIEWS_N);
        if (kills)
            assert_true(epoch.digest == digest);
        digest = epoch.digest;
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

static void a_restored_loader_makes_the_same_views(void **state)
{
    (void)state;
    mr_dataset *dataset = views_open(1);
    mr_loader_options o = views_options(1);
    o.batch_size = 4;
    uint8_t position[MR_LOADER_STATE_MAX];
    uint64_t digest = 0;
    size_t len = 0;
    for (int run = 0; run < 2; run++) {
        mr_loader *loader = mr_test_loader(dataset, views, &o);
        mr_batch *batch;
        if (run == 0) {
            assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
            mr_batch_release(batch);
            assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
        } else {
            assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
        }
        struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
        assert_int_equal(epoch.n_samples, VIEWS_N - 4);
        if (run == 1)
            assert_true(epoch.digest == digest);
        digest = epoch.digest;
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

static void damaged_samples_are_zeros_in_all_views(void **state)
{
    (void)state;
    views_damage_image(5);
    mr_loader_options o = views_options(2);
    o.on_error = MR_ON_ERROR_ZERO;
    struct views_taken t = views_take(views_open(0), views, &o);
    assert_int_equal(mr_batch_valid(t.batch), VIEWS_N - 1);
    static const char *const names[] = {"global1", "global2", "local", "local.geometry"};
    for (size_t n = 0; n < 4; n++) {
        size_t len;
        const uint8_t *row = views_picture(&t, names[n], 5, -1, &len);
        for (size_t i = 0; i < len; i++)
            assert_int_equal(row[i], 0);
    }
    views_give_back(&t);
    views_write_image(5);
}

/* Crops. The oracle cuts them out of the whole picture. */

static void assert_crop(const struct views_taken *whole, const struct views_taken *crops, int64_t k,
                        bool is_vertical)
{
    enum { HEIGHT = 41, WIDTH = 50, CROP_HEIGHT = 24, CROP_WIDTH = 29 };
    /* round(21 / 2) is 10, because halves are rounded to even; round(17 / 2) is 8 */
    static const int tops[5] = {0, 0, HEIGHT - CROP_HEIGHT, HEIGHT - CROP_HEIGHT, 8},
                     lefts[5] = {0, WIDTH - CROP_WIDTH, 0, WIDTH - CROP_WIDTH, 10};
    bool hflip = k >= 5 && !is_vertical, vflip = k >= 5 && is_vertical;
    for (int64_t row = 0; row < VIEWS_N; row++) {
        size_t len;
        const uint8_t *from = views_picture(whole, "image", row, -1, &len);
        const uint8_t *crop = views_picture(crops, "image", row, k, &len);
        assert_int_equal(len, CROP_HEIGHT * CROP_WIDTH * 3);
        for (int y = 0; y < CROP_HEIGHT; y++)
            for (int x = 0; x < CROP_WIDTH; x++) {
                int in_y = tops[k % 5] + y, in_x = lefts[k % 5] + x;
                in_y = vflip ? HEIGHT - 1 - in_y : in_y;
                in_x = hflip ? WIDTH - 1 - in_x : in_x;
                assert_memory_equal(&crop[3 * (y * CROP_WIDTH + x)],
                                    &from[3 * (in_y * WIDTH + in_x)], 3);
            }
    }
}

static void assert_crops(const char *before, const char *crop, int64_t n, bool is_vertical)
{
    mr_loader_options o = views_options(MR_NO_WORKERS);
    char text[VIEWS_TEXT];
    o.dtype = MR_U8;
    o.layout = MR_NHWC;
    struct views_taken whole = views_take(views_open(0), before, &o);
    snprintf(text, sizeof text, "%s+%s", before, crop);
    struct views_taken crops = views_take(views_open(0), text, &o);
    const mr_array *image = mr_batch_array(crops.batch, "image");
    assert_int_equal(image->ndim, 5);
    assert_int_equal(image->shape[1], n);
    assert_int_equal(mr_batch_array(crops.batch, "geometry")->shape[1], n);
    for (int64_t k = 0; k < n; k++)
        assert_crop(&whole, &crops, k, is_vertical);
    views_give_back(&whole);
    views_give_back(&crops);
}

static void crops_are_cut_out_of_one_picture(void **state)
{
    (void)state;
    assert_crops("resize(41:50)", "five_crop(24:29)", 5, false);
    assert_crops("random_resized_crop(41:50)+hflip", "five_crop(24:29)", 5, false);
    assert_crops("random_resized_crop(41:50)+vflip+color_jitter(0.4,0.4)", "ten_crop(24:29)", 10,
                 false);
    assert_crops("resize(41:50)+hflip(1)", "ten_crop(24:29,vertical_flip)", 10, true);
}

static void each_crop_has_its_draws_for_what_follows(void **state)
{
    (void)state;
    static const char text[] = "resize(40)+five_crop(30)+color_jitter(0.9)" NORMAL;
    struct views_taken crops = views_take_plain(text);
    struct views_taken third = views_take_alone("x", 3, text);
    struct views_taken named =
        views_take_plain("view(x,resize(40)+five_crop(30)+color_jitter(0.9)" NORMAL ")");
    views_assert_same(&named, &third, "x", 3);
    size_t len;
    /* the same part of the picture, but of another brightness */
    struct views_taken same =
        views_take_plain("view(a,resize(30:30)+five_crop(30)+color_jitter(0.9))");
    const uint8_t *first = views_picture(&same, "a", 0, 0, &len);
    assert_memory_not_equal(first, views_picture(&same, "a", 0, 1, &len), len);
    views_give_back(&crops);
    views_give_back(&third);
    views_give_back(&named);
    views_give_back(&same);
}

/* What is refused. */

static void expect_refused(const char *text, const char *words)
{
    mr_loader_options o = views_options(MR_NO_WORKERS);
    o.ragged = strstr(words, "ragged") != NULL;
    o.max_row_bytes = o.ragged ? 120000 : 0;
    o.pad_channels = strstr(words, "pad_channels") ? 4 : 0;
    views_expect_refused(text, &o, words);
}

static void what_cannot_be_a_view_is_refused_by_name(void **state)
{
    (void)state;
    expect_refused("view(a,train:24)|view(a,train:24)", "character 23: two views have this name");
    expect_refused("view(label,train:24)", "the view 'label' has the name of another array");
    expect_refused("view(a,train:24)|view(mask,train:24)", "the view 'mask' has the name");
    expect_refused("view(a,0,train:24)", "character 8: a number from 1 to 64 is expected");
    expect_refused("view(a,65,train:24)", "a number from 1 to 64");
    expect_refused("view(a#64,train:24)", "a number from 0 to 63");
    expect_refused("view(a#1,2,train:24)", "one picture of a view has no count");
    expect_refused("view(a,unknown)", "character 8: no operation has this name");
    expect_refused("view(a)", "',' and a transform are expected");
    expect_refused("view(a,train:24", "')' after the view");
    expect_refused("view", "view(NAME,TRANSFORM) is expected");
    expect_refused("train:24|train:24", "'|' joins views");
    expect_refused("view(a,train:24)|train:24", "view(NAME,TRANSFORM) is expected");
    expect_refused("view(a,train:24)+hflip", "a view is a whole transform");
    expect_refused("hflip+view(a,train:24)", "a view is a whole transform");
    expect_refused("view(a,view(b,train:24))", "a view is a whole transform");
    expect_refused("random_apply(view(b,hflip))", "a view is a whole transform");
    expect_refused("view(a,dino)", "in dino: a view is a whole transform");
    expect_refused("exif+dino", "in dino: a view is a whole transform");
    expect_refused("dino+hflip", "a view is a whole transform");
    expect_refused("dino|view(local,train:24)", "two views have this name");
    expect_refused("view(a,hflip)|view(b,hflip)|view(c,hflip)|view(d,hflip)|view(e,hflip)|"
                   "view(f,hflip)|view(g,hflip)|view(h,hflip)|view(i,hflip)",
                   "at most 8 views");
    expect_refused("view(a,train:24+mask)", "view 'a': mask cannot be applied: the samples have");
    expect_refused("view(a,train:24)|view(b,exif+train:24)",
                   "exif is in view 'b' and not in view 'a'");
    expect_refused("view(a,2,five_crop(24))", "view 'a': the count 2: five_crop has its own");
    expect_refused("view(a#5,five_crop(24))", "picture #5: those of five_crop are 0 to 4");
    expect_refused("five_crop(24)+hflip", "hflip is after five_crop");
    expect_refused("five_crop(24)+ten_crop(24)", "ten_crop is after five_crop");
    expect_refused("view(a,train:24)", "ragged cannot be applied to views and crops");
    expect_refused("ten_crop(24)", "pad_channels 4: views and crops are not padded");
}

static void callbacks_have_no_aspect_ratio_groups(void **state)
{
    (void)state;
    mr_loader *loader;
    mr_error error = {0};
    mr_dataset *dataset = views_open(5);
    mr_loader_options o = views_options(MR_NO_WORKERS);
    o.aspect_ratio_groups = 3;
    o.batch_size = 2;
    o.no_shuffle = false;
    assert_error(mr_loader_create(dataset, NULL, &o, &loader, &error), MR_ERR_INVALID, &error,
                 "aspect_ratio_groups cannot be made: the samples come from callbacks");
    mr_dataset_destroy(dataset);
}

static void a_crop_beyond_the_image_is_damage(void **state)
{
    (void)state;
    mr_dataset *dataset = views_open(0);
    mr_loader_options o = views_options(MR_NO_WORKERS);
    mr_loader *loader = mr_test_loader(dataset, "five_crop(70:91)", &o);
    struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
    assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
    assert_words(epoch.first_error.text, "00.jpg (index 0): crop 91x70 is larger than the image");
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* Text, fingerprint and words. */

static void assert_long_form(const char *text, const char *wanted)
{
    char form[VIEWS_TEXT];
    mr_transform *transform;
    mr_error error = {0};
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    mr_transform_format(transform, form, sizeof form);
    assert_string_equal(form, wanted);
    mr_transform_destroy(transform);
}

static void the_long_form_reads_back(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "view(a,resize(40:40))|view(b,2,hflip(0.5)+center_crop(24))|view(c#7,none)",
        "resize(40)+ten_crop(24:30,vertical_flip)+grayscale(3)", "ten_crop(24)",
        "view(x,five_crop(24))"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        assert_long_form(forms[i], forms[i]);
    assert_long_form(" view ( a , 2 , hflip ) | view(b,vflip) ",
                     "view(a,2,hflip(0.5))|view(b,vflip(0.5))");
}

static void text_is_appended_to_each_view(void **state)
{
    (void)state;
    char form[VIEWS_TEXT];
    mr_transform *transform;
    mr_error error = {0};
    assert_ok(mr_transform_parse("view(a,vflip)|view(b,2,five_crop(24))", &transform, &error),
              &error);
    assert_error(mr_transform_append(transform, "hflip", &error), MR_ERR_INVALID, &error,
                 "hflip is after five_crop");
    assert_error(mr_transform_append(transform, "view(c,hflip)", &error), MR_ERR_INVALID, &error,
                 "a view is a whole transform");
    assert_ok(mr_transform_append(transform, "invert(1)", &error), &error);
    mr_transform_format(transform, form, sizeof form);
    assert_string_equal(form, "view(a,vflip(0.5)+invert(1))|view(b,2,five_crop(24)+invert(1))");
    mr_transform_destroy(transform);
}

static uint64_t fingerprint_of(const char *transform)
{
    mr_dataset *dataset = views_open(0);
    mr_loader_options o = views_options(MR_NO_WORKERS);
    mr_loader *loader = mr_test_loader(dataset, transform, &o);
    uint64_t fingerprint = mr_loader_fingerprint(loader);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return fingerprint;
}

static void ranks_with_other_views_have_another_fingerprint(void **state)
{
    (void)state;
    uint64_t two = fingerprint_of("view(a,train:24)|view(b#3,eval:24:24)");
    assert_true(two == fingerprint_of("view(a,train:24)|view(b#3,eval:24:24)"));
    assert_true(two != fingerprint_of("view(a,train:24)|view(b#4,eval:24:24)"));
    assert_true(two != fingerprint_of("view(a,train:24)|view(b#3,eval:25:24)"));
    assert_true(two != fingerprint_of("view(a,train:24)"));
    assert_true(fingerprint_of("five_crop(24)") != fingerprint_of("center_crop(24)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_equal_loaders_of_one_view_from_every_source),
        cmocka_unit_test(devices_get_the_same_views),
        cmocka_unit_test(a_cache_changes_nothing),
        cmocka_unit_test(other_views_change_no_picture),
        cmocka_unit_test(exif_turns_all_views),
        cmocka_unit_test(nothing_is_lost_when_workers_are_killed),
        cmocka_unit_test(a_restored_loader_makes_the_same_views),
        cmocka_unit_test(damaged_samples_are_zeros_in_all_views),
        cmocka_unit_test(crops_are_cut_out_of_one_picture),
        cmocka_unit_test(each_crop_has_its_draws_for_what_follows),
        cmocka_unit_test(what_cannot_be_a_view_is_refused_by_name),
        cmocka_unit_test(callbacks_have_no_aspect_ratio_groups),
        cmocka_unit_test(a_crop_beyond_the_image_is_damage),
        cmocka_unit_test(the_long_form_reads_back),
        cmocka_unit_test(text_is_appended_to_each_view),
        cmocka_unit_test(ranks_with_other_views_have_another_fingerprint),
    };
    return cmocka_run_group_tests(tests, views_set_up, views_tear_down);
}
