/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What views share: operations that are drawn once for all of them, and pictures inside those of
 * another view. Each picture equals that of a loader with its view alone.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/assert_words.h"
#include "tests/system/views_rig.h"

enum { SIDE = 48, LOCAL = 16, PATCH = 8, N_LOCAL = 4 };

#define NORMAL "+normalize(mean=0.4:0.5:0.6,std=0.2:0.3:0.4)"
#define JITTER "random_apply(color_jitter(0.9,0.4,0.2,0.1),0.7)+random_grayscale(0.4)"
#define CROP "random_resized_crop(48,scale=0.3:1,interp=random)+hflip(0.5)"
#define A "shared(" JITTER ")+solarize(128,0.5)+" CROP NORMAL
#define B                                                                                          \
    "shared(" JITTER                                                                               \
    ")+random_resized_crop(20:16,scale=0.05:0.4)+random_apply(gaussian_blur(3),0.5)"
#define INSIDE "inside(global1," CROP ")"
#define L INSIDE "+color_jitter(0.4)+patch_crop(16,8)" NORMAL
#define BOTH_G "shared(" JITTER ")+" CROP
#define BOTH_L "shared(" JITTER ")+" INSIDE "+invert(0.5)+patch_crop(16,8)"

/* A view of a text, made alone; k is negative if it has one picture. */
struct part {
    const char *name, *recipe;
    int64_t n;
};

static void assert_parts(const char *text, const struct part *parts, size_t n_parts)
{
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    for (int source = 0; source < VIEWS_SOURCES; source++)
        for (size_t i = 0; i < 3; i++) {
            mr_loader_options o = views_options(workers[i]);
            struct views_taken t = views_take(views_open(source), text, &o);
            for (size_t p = 0; p < n_parts; p++)
                for (int64_t k = 0; k < parts[p].n; k++) {
                    int64_t number = parts[p].n > 1 ? k : -1;
                    struct views_taken alone =
                        views_take_alone(parts[p].name, number, parts[p].recipe);
                    views_assert_same(&t, &alone, parts[p].name, number);
                    views_give_back(&alone);
                }
            views_give_back(&t);
        }
}

static void views_that_share_equal_loaders_of_one_view_from_every_source(void **state)
{
    (void)state;
    static const struct part shared[] = {{"a", A, 1}, {"b", B, 2}};
    assert_parts("view(a," A ")|view(b,2," B ")", shared, 2);
    static const struct part inside[] = {{"global1", CROP, 1}, {"local", L, 2}};
    assert_parts("view(local,2," L ")|view(global1," CROP ")", inside, 2);
    static const struct part both[] = {{"global1", BOTH_G, 1}, {"local", BOTH_L, 2}};
    assert_parts("view(global1," BOTH_G ")|view(local,2," BOTH_L ")", both, 2);
    /* a view without them, and one with others */
    static const struct part some[] = {{"a", A, 1}, {"b", "center_crop(30)", 1}, {"c", B, 2}};
    assert_parts("view(a," A ")|view(b,center_crop(30))|view(c,2," B ")", some, 3);
}

static void assert_equal_rows(const struct views_taken *a, const char *a_name, int64_t a_picture,
                              const struct views_taken *b, const char *b_name, int64_t b_picture)
{
    for (int64_t row = 0; row < VIEWS_N; row++) {
        size_t len, other_len;
        const uint8_t *one = views_picture(a, a_name, row, a_picture, &len);
        const uint8_t *other = views_picture(b, b_name, row, b_picture, &other_len);
        assert_int_equal(len, other_len);
        assert_memory_equal(one, other, len);
    }
}

/* The draws are also those of a transform without views. */
static void shared_operations_are_drawn_once(void **state)
{
    (void)state;
    struct views_taken t = views_take_plain("view(a,shared(" JITTER ")+resize(40:40))|"
                                            "view(b,2,shared(" JITTER ")+resize(40:40))");
    struct views_taken image = views_take_plain(JITTER "+resize(40:40)");
    struct views_taken plain = views_take_plain("resize(40:40)");
    assert_equal_rows(&t, "a", -1, &image, "image", -1);
    for (int64_t k = 0; k < 2; k++)
        assert_equal_rows(&t, "b", k, &image, "image", -1);
    int n_changed = 0;
    for (int64_t row = 0; row < VIEWS_N; row++) {
        size_t len;
        const uint8_t *made = views_picture(&image, "image", row, -1, &len);
        n_changed += memcmp(made, views_picture(&plain, "image", row, -1, &len), len) != 0;
    }
    assert_in_range(n_changed, 2, VIEWS_N - 1); /* so both ways of a sample were taken */
    views_give_back(&t);
    views_give_back(&image);
    views_give_back(&plain);
}

/* Is the picture of [LOCAL][LOCAL][3] in the one of [SIDE][SIDE][3] at that place? */
static bool is_at(const uint8_t *local, const uint8_t *global, int y, int x)
{
    for (int i = 0; i < LOCAL; i++)
        if (memcmp(local + 3 * LOCAL * i, global + 3 * (SIDE * (y + i) + x), 3 * LOCAL) != 0)
            return false;
    return true;
}

static void pictures_inside_another_one_are_at_its_patches(void **state)
{
    (void)state;
    mr_loader_options o = views_options(2);
    uint32_t seen = 0;
    o.dtype = MR_U8;
    o.layout = MR_NHWC;
    struct views_taken t = views_take(
        views_open(0),
        "view(global,2," CROP ")|view(local,4,inside(global#1," CROP ")+patch_crop(16,8))", &o);
    for (int64_t row = 0; row < VIEWS_N; row++)
        for (int64_t k = 0; k < N_LOCAL; k++) {
            size_t len;
            const uint8_t *global = views_picture(&t, "global", row, 1, &len);
            const uint8_t *local = views_picture(&t, "local", row, k, &len);
            int n_found = 0;
            /* as numpy's randint((48 - 16) // 8) * 8 draws them: the last patch never */
            for (int y = 0; y < SIDE - LOCAL; y += PATCH)
                for (int x = 0; x < SIDE - LOCAL; x += PATCH)
                    if (is_at(local, global, y, x)) {
                        n_found++;
                        seen |= 1u << (y / PATCH * 4 + x / PATCH);
                    }
            assert_int_equal(n_found, 1);
        }
    assert_in_range(__builtin_popcount(seen), 10, 16);
    views_give_back(&t);
}

static void a_crop_without_room_begins_at_0(void **state)
{
    (void)state;
    struct views_taken t = views_take_plain("view(a,resize(23:30)+patch_crop(16,8))|"
                                            "view(b,resize(23:30)+patch_crop(23:30,8))");
    struct views_taken whole = views_take_plain("view(b,resize(23:30))");
    assert_equal_rows(&t, "b", -1, &whole, "b", -1);
    views_give_back(&t);
    views_give_back(&whole);
}

static void the_long_form_reads_back(void **state)
{
    (void)state;
    static const char *const forms[] = {
        ("view(a,exif+shared(invert(1)+random_apply(equalize(0.5),0.5))+inside(b#3,resize(30:30))+"
         "patch_crop(24:16,8))|view(b,exif+resize(30:30))"),
        "view(a,shared(invert(1)))", "view(a,inside(b,invert(1)+hflip(0.5)))"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char form[VIEWS_TEXT];
        mr_transform *transform;
        mr_error error = {0};
        assert_ok(mr_transform_parse(forms[i], &transform, &error), &error);
        mr_transform_format(transform, form, sizeof form);
        assert_string_equal(form, forms[i]);
        mr_transform_destroy(transform);
    }
}

static void expect_refused(const char *text, const char *words)
{
    mr_loader_options o = views_options(MR_NO_WORKERS);
    views_expect_refused(text, &o, words);
}

static void what_cannot_be_shared_is_refused_by_name(void **state)
{
    (void)state;
    static const char first[] = "shared(...), then inside(NAME,...), are what a view begins with";
    expect_refused("shared(invert)", first);
    expect_refused("inside(a,hflip)", first);
    expect_refused("view(a,hflip+shared(invert))", first);
    expect_refused("view(a,inside(b,hflip)+shared(invert))", first);
    expect_refused("view(a,shared(invert)+shared(invert))", first);
    expect_refused("view(a,inside(b,inside(c,hflip)))", first);
    expect_refused("view(a,shared(shared(invert)))", first);
    expect_refused("view(a,random_apply(shared(invert)))", first);
    expect_refused("view(a,shared(train:24))", "only image operations and structures can be");
    expect_refused("view(a,shared(grayscale(1)))", "images keep their channels");
    expect_refused("view(a,inside(b,resize(30)+five_crop(24)))", "only geometry and image");
    expect_refused("view(a,inside(b,exif))", "only geometry and image operations can be in it");
    expect_refused("view(a,inside(b))", "',' and operations are expected");
    expect_refused("view(a,shared)", "'(' and operations are expected");
    expect_refused("view(a,patch_crop(24,0))", "patch");
    expect_refused("view(a,train:24)|view(b,inside(a,resize(30:30)))",
                   "view 'b' is inside 'a', but does not begin with its operations");
    expect_refused("view(a,shared(invert)+hflip+resize(9:9))|view(b,inside(a,hflip)+resize(9:9))",
                   "view 'b' is inside 'a', but does not begin with its operations");
    expect_refused("view(a,2,resize(9:9))|view(b,inside(a#2,resize(9:9)))",
                   "view 'b' is inside picture #2 of 'a': pictures are 0 to 1");
    expect_refused("view(a,resize(9:9)+five_crop(5))|view(b,inside(a#1,resize(9:9)))",
                   "view 'b' is inside picture #1 of 'a': pictures are 0 to 0");
    expect_refused("view(a,hflip+resize(9:9))|view(b,2,inside(aa,hflip)+resize(9:9))",
                   "view 'b' is inside 'aa', which is no view of the text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_that_share_equal_loaders_of_one_view_from_every_source),
        cmocka_unit_test(shared_operations_are_drawn_once),
        cmocka_unit_test(pictures_inside_another_one_are_at_its_patches),
        cmocka_unit_test(a_crop_without_room_begins_at_0),
        cmocka_unit_test(the_long_form_reads_back),
        cmocka_unit_test(what_cannot_be_shared_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, views_set_up, views_tear_down);
}
