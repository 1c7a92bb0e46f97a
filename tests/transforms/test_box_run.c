/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes move as torchvision's v2 moves them; random_iou_crop is drawn for them. */
#include "tests/support/assert_words.h"
#include "transforms/boxes/box_run.h"
#include "transforms/geometry.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

static const struct mr_sample_kind with_boxes = {
    .encoded = 1, .picture = 1, .label_dtype = MR_I64, .label_bytes = 8, .n_extra = 1, .boxes = 1};

static mr_status compile(const char *text, struct mr_plan *plan, mr_error *error)
{
    mr_transform *transform;
    mr_status status = mr_transform_parse(text, &transform, error);
    if (status == MR_OK)
        status = mr_plan_compile(transform, &with_boxes, MR_U8, MR_NHWC, plan, error);
    mr_transform_destroy(transform);
    return status;
}

/* Move boxes by a transform of an image of width x height, with draws of index. */
static void run(const char *text, uint32_t width, uint32_t height, uint64_t index,
                struct mr_box_list *boxes, struct mr_geometry_steps *steps)
{
    static struct mr_plan plan;
    static struct mr_geometry g;
    struct mr_rng rng;
    mr_error error = {0};
    if (compile(text, &plan, &error) != MR_OK)
        fail_msg("%s: %s", text, error.text);
    mr_rng_init(&rng, 0, 0, index);
    if (mr_geometry_record(&plan, width, height, &rng, &g, steps, boxes, &error) != MR_OK)
        fail_msg("%s: %s", text, error.text);
}

/* Against torchvision: the images of tests/data/make_boxes.py, moved with torch's stream. */

enum { N_IMAGES = 300, GROUP = 25, MOST_BOXES = 40 };

static uint32_t draw_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

static float draw_place(uint32_t *state, uint32_t size)
{
    int64_t sixtyfourths = (int64_t)draw_below(state, 80 * size) - 8 * (int64_t)size;
    return (float)sixtyfourths / 64 * 1.1f;
}

static void draw_span(uint32_t *state, uint32_t size, bool is_sorted, float *from, float *to)
{
    float a = draw_place(state, size), b = draw_place(state, size);
    bool swaps = is_sorted && b < a;
    *from = swaps ? b : a;
    *to = swaps ? a : b;
}

static void make_image(uint32_t i, uint32_t *width, uint32_t *height, struct mr_box_list *boxes)
{
    uint32_t state = i;
    *width = 40 + draw_below(&state, 600);
    *height = 40 + draw_below(&state, 500);
    boxes->n = i % (MOST_BOXES + 1);
    for (uint32_t k = 0; k < boxes->n; k++) {
        struct mr_box_row *row = &boxes->rows[k];
        *row = (struct mr_box_row){.label = k};
        draw_span(&state, *width, k % 11 != 10, &row->x1, &row->x2);
        draw_span(&state, *height, k % 11 != 10, &row->y1, &row->y2);
        if (k % 5 == 1) {
            row->x1 = 0;
            row->x2 = (float)*width;
        }
        if (k % 7 == 3)
            row->y2 = row->y1;
    }
}

static uint32_t digest_image(const struct mr_plan *plan, uint32_t i, uint32_t crc)
{
    static struct mr_geometry g;
    struct mr_geometry_steps steps;
    struct mr_box_row rows[MOST_BOXES];
    struct mr_box_list boxes = {.rows = rows};
    struct mr_mt19937 mt;
    struct mr_rng rng;
    uint32_t width, height;
    make_image(i, &width, &height, &boxes);
    mr_mt19937_init(&mt, i);
    mr_rng_init_torch(&rng, &mt);
    assert_int_equal(mr_geometry_record(plan, width, height, &rng, &g, &steps, &boxes, NULL),
                     MR_OK);
    int64_t n = boxes.n;
    uLong digest = crc32(crc, (const Bytef *)&n, sizeof n);
    for (uint32_t k = 0; k < boxes.n; k++) {
        digest = crc32(digest, (const Bytef *)&rows[k], 4 * sizeof(float));
        digest = crc32(digest, (const Bytef *)&rows[k].label, sizeof rows[k].label);
    }
    return (uint32_t)digest;
}

static void boxes_have_the_bits_of_torchvision(void **state)
{
    (void)state;
    static struct mr_plan plan;
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/boxes.json", 0, &why), *goldens;
    const char *text;
    assert_non_null(root);
    json_object_foreach(root, text, goldens)
    {
        mr_error error = {0};
        assert_ok(compile(text, &plan, &error), &error);
        assert_int_equal(json_array_size(goldens), N_IMAGES / GROUP);
        for (uint32_t i = 0, crc = 0; i < N_IMAGES; i++) {
            crc = digest_image(&plan, i, i % GROUP ? crc : 0);
            if (i % GROUP == GROUP - 1 &&
                crc != json_integer_value(json_array_get(goldens, i / GROUP)))
                fail_msg("%s: boxes of the images %u to %u differ", text, i - GROUP + 1, i);
        }
    }
    assert_int_equal(json_object_size(root), 25);
    json_decref(root);
}

static void each_operation_moves_a_box(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float in[4], out[4];
    } cases[] = {
        {"none", {-3, -4, 500, 600}, {-3, -4, 500, 600}},
        {"hflip(1)", {100, 5, 40, 9}, {60, 5, -0.0f, 9}},
        {"vflip(1)", {1, 80, 2, 8}, {1, 72, 2, -0.0f}},
        {"resize(40:50)", {1, 2, 99.5f, 80}, {0.5f, 1, 49.75f, 40}},
        {"resize(80:100)", {-1, 2, 101, 80}, {-1, 2, 101, 80}},
        {"resize(30:33)", {10, 10, 20, 20}, {10 * (33 / 100.0f), 3.75f, 20 * (33 / 100.0f), 7.5f}},
        {"center_crop(40:50)", {20, 30, 30, 99}, {0, 10, 5, 40}},
        {"center_crop(80:103)", {0, 0, 10, 10}, {2, 0, 12, 10}},
        {"pad(1:2:3:4)", {-5, 3, 200, 4}, {0, 5, 104, 6}},
        {"pad(0)", {-0.0f, 3, 200, 80.5f}, {0, 3, 100, 80}},
        {"pad_if_smaller(90:100)", {-5, 3, 200, 4}, {0, 3, 100, 4}},
        {"pad_if_smaller(80:100)", {-5, 3, 200, 4}, {-5, 3, 200, 4}},
        {"fixed_size_crop(40:200)", {-5, -0.5f, 60, 90}, {0, 0, 60, 40}},
        {"fixed_size_crop(90:110)", {-5, 3, 200, 4}, {0, 3, 110, 4}},
        {"letterbox(100)", {10, 10, 20, 200}, {10, 20, 20, 100}},
        {"letterbox(200)", {10, 10, 20, 80}, {20, 40, 40, 180}},
        {"random_crop(80:100)", {-5, 3, 200, 4}, {-5, 3, 200, 4}},
        {"rotation(90:90,expand=1)", {-5, 3, 200, 4}, {3, 0, 4, 100}},
        {"affine(0,translate=0:0)", {-5, 3, 200, 4}, {0, 3, 100, 4}},
        {"random_apply(hflip(1)+vflip(1),1)", {-5, 3, 200, 4}, {-100, 76, 105, 77}},
        {"random_iou_crop(scale=1:1,trials=1)", {-5, 3, 200, 4}, {-5, 3, 200, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_geometry_steps steps;
        struct mr_box_row row = {.area = 7, .label = 3};
        memcpy(&row, cases[i].in, sizeof cases[i].in);
        struct mr_box_list boxes = {.rows = &row, .n = 1};
        run(cases[i].text, 100, 80, 0, &boxes, &steps);
        if (boxes.n != 1 || memcmp(&row, cases[i].out, sizeof cases[i].out) != 0)
            fail_msg("%s: %g %g %g %g instead of %g %g %g %g", cases[i].text, (double)row.x1,
                     (double)row.y1, (double)row.x2, (double)row.y2, (double)cases[i].out[0],
                     (double)cases[i].out[1], (double)cases[i].out[2], (double)cases[i].out[3]);
        assert_true(row.area == 7.0f && row.label == 3);
    }
}

static void sanitize_removes_rows_with_their_labels(void **state)
{
    (void)state;
    struct mr_box_row rows[] = {
        {0, 0, 100, 80, .label = 0},        {10, 10, 10.5f, 30, .label = 1},
        {10, 10, 30, 10.5f, .label = 2},    {10, 10, 11, 11, .label = 3, .is_crowd = 1, .area = 9},
        {-1, 0, 5, 5, .label = 4},          {90, 70, 100.5f, 80, .label = 5},
        {90, 70, 100, 80.5f, .label = 6},   {0, 0, 0, 0, .label = 7},
        {20, 20, 10, 30, .label = 8},       {NAN, 0, 5, 5, .label = 9},
        {50, 50, 51.5f, 51.5f, .label = 10}};
    struct mr_box_list boxes = {.rows = rows, .n = sizeof rows / sizeof *rows};
    struct mr_geometry_steps steps;
    run("sanitize", 100, 80, 0, &boxes, &steps);
    assert_int_equal(boxes.n, 3);
    assert_int_equal(rows[0].label, 0);
    assert_int_equal(rows[1].label, 3);
    assert_true(rows[1].is_crowd == 1 && rows[1].area == 9.0f);
    assert_int_equal(rows[2].label, 10);
    run("sanitize(min_area=2)", 100, 80, 0, &boxes, &steps);
    assert_int_equal(boxes.n, 2);
    assert_int_equal(rows[1].label, 10);
    run("sanitize(2)", 100, 80, 0, &boxes, &steps);
    assert_int_equal(boxes.n, 1);
}

enum { N_DRAWS = 4000 };

/* Each crop is within the ranges and has a box; boxes whose centres it cuts off become 0. */
static void iou_crops_have_boxes(void **state)
{
    (void)state;
    static const struct mr_box_row before[] = {
        {10, 10, 60, 50}, {100, 30, 180, 140}, {150, 20, 160, 30}, {0, 0, 200, 150}};
    enum { N = sizeof before / sizeof *before };
    uint32_t n_kept = 0;
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        struct mr_geometry_steps steps;
        struct mr_box_row rows[N];
        struct mr_box_list boxes = {.rows = rows, .n = N};
        uint32_t n_inside = 0;
        memcpy(rows, before, sizeof rows);
        run("random_iou_crop", 200, 150, i, &boxes, &steps);
        const struct mr_box *box = &steps.steps[0].box;
        if (box->width == 0) {
            n_kept++;
            assert_memory_equal(rows, before, sizeof rows);
            continue;
        }
        double ratio = (double)box->width / (double)box->height;
        assert_true(ratio >= 0.5 && ratio <= 2.0 && box->width >= 60 && box->height >= 45);
        assert_true(box->x >= 0 && box->y >= 0 && box->x + box->width <= 200 &&
                    box->y + box->height <= 150);
        for (uint32_t k = 0; k < N; k++) {
            bool inside = mr_box_run_is_inside(&before[k], box);
            n_inside += inside;
            assert_true(inside ? rows[k].x2 > rows[k].x1 && rows[k].x2 <= (float)box->width
                               : rows[k].x1 == 0.0f && rows[k].x2 == 0.0f && rows[k].y2 == 0.0f);
        }
        assert_true(n_inside > 0);
    }
    /* The option to keep the image has a chance of 1 in 7 each time that it is drawn. */
    assert_in_range(n_kept, N_DRAWS / 7, N_DRAWS / 3);
}

/* An image without boxes has no crop, and other draws are the same with any boxes. */
static void only_the_iou_crop_is_drawn_for_boxes(void **state)
{
    (void)state;
    static const char text[] = "random_resized_crop(90)+random_iou_crop+hflip(0.5)+vflip(0.5)";
    for (uint64_t i = 0; i < 200; i++) {
        struct mr_geometry_steps none, some;
        struct mr_box_row row = {20, 20, 190, 140, .label = 1};
        struct mr_box_list boxes = {.rows = &row, .n = 1}, empty = {0};
        run(text, 200, 150, i, &empty, &none);
        run(text, 200, 150, i, &boxes, &some);
        assert_int_equal(none.steps[1].box.width, 0);
        assert_memory_equal(&none.steps[0].box, &some.steps[0].box, sizeof(struct mr_box));
        assert_int_equal(none.steps[2].flips, some.steps[2].flips);
        assert_int_equal(none.steps[3].flips, some.steps[3].flips);
    }
}

static void what_cannot_move_boxes_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"exif+resize(9:9)", "exif is not applied to boxes"},
        {"resize(9:9)+augmix_v2", "augmix_v2 is not applied to boxes"},
        {"resize(9:9)+random_apply(timm('rand-m9'))", "timm is not applied to boxes"},
        {"resize(9:9)+timm_mixup", "timm_mixup is not applied to boxes"},
        {"pad(3,padding_mode=reflect)", "pad is not applied to boxes with padding_mode=reflect"},
        {"random_crop(9,padding=3,padding_mode=edge)",
         "random_crop is not applied to boxes with padding_mode=edge"},
        {"view(a,resize(9:9))|view(b,resize(8:8))", "views and crops are not applied to boxes"},
        {"sanitize(0.5)", "sanitize: min_size 0.5 and min_area 1 are not both 1 or more"},
        {"random_iou_crop(0:1)", "random_iou_crop: scale 0:1 is not a range above 0, up to 1"},
        {"random_iou_crop(trials=0)", "random_iou_crop: trials 0 is not 1 to 1000"}};
    static struct mr_plan plan;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_error error = {0};
        assert_error(compile(cases[i][0], &plan, &error), MR_ERR_INVALID, &error, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_have_the_bits_of_torchvision),
        cmocka_unit_test(each_operation_moves_a_box),
        cmocka_unit_test(sanitize_removes_rows_with_their_labels),
        cmocka_unit_test(iou_crops_have_boxes),
        cmocka_unit_test(only_the_iou_crop_is_drawn_for_boxes),
        cmocka_unit_test(what_cannot_move_boxes_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
