/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the same torch stream, the operations draw the parameters that torchvision draws, in its
 * order, if they draw from torch's generator (tests/data/make_draws.py).
 */
#include "tests/transforms/file_plan.h"
#include "transforms/geometry.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { MAX_TEXT = 16384 };

static uint32_t count_values(const struct mr_image_arg *arg)
{
    if (arg->kind == MR_ARG_SIZE || arg->kind == MR_ARG_CONSTANT)
        return 0;
    return arg->kind == MR_ARG_FILL ? 3 : arg->n ? arg->n : 1;
}

static size_t write_call(const struct mr_image_call *call, char *text, size_t size)
{
    const struct mr_image_call_ops *ops = &mr_image_call_ops[call->kind];
    const double *values = call->args;
    size_t n = (size_t)snprintf(text, size, "%s", ops->name);
    for (uint32_t i = 0; i < MR_CALL_MAX_NAMED && ops->args[i].name; i++) {
        for (uint32_t k = count_values(&ops->args[i]); k > 0; k--, values++) {
            if (ops->args[i].kind == MR_ARG_FILTER)
                n += (size_t)snprintf(text + n, size - n, " %s",
                                      mr_transform_interpolations[(uint32_t)*values]);
            else
                n += (size_t)snprintf(text + n, size - n, " %.12g", *values);
        }
    }
    return n + (size_t)snprintf(text + n, size - n, "\n");
}

/* The crop and the flips, then a line for each call, as make_draws.py writes them. */
static size_t write_draws(const struct mr_plan *plan, const struct mr_geometry *g, char *text,
                          size_t size)
{
    bool is_crop = plan->ops[0].kind == MR_OP_RANDOM_CROP;
    const struct mr_box *box = is_crop ? &g->stages[0].window : &g->crop;
    uint32_t hflip = 0, vflip = 0;
    for (uint32_t i = 0; i < g->n_stages; i++) {
        hflip ^= g->stages[i].hflip;
        vflip ^= g->stages[i].vflip;
    }
    size_t n = (size_t)snprintf(text, size, "box %lld %lld %lld %lld %u %u\n", (long long)box->x,
                                (long long)box->y, (long long)box->width, (long long)box->height,
                                hflip, vflip);
    for (uint32_t i = 0; i < g->calls.n && n < size; i++)
        n += write_call(&g->calls.calls[i], text + n, size - n);
    assert_true(n < size);
    return n;
}

struct recorded {
    const char *text;
    const char *first; /* the lines of the first image of the first seed */
    uint32_t width;
    uint32_t height;
    uint32_t n_seeds;
    uint32_t n_images; /* of a seed, from one stream */
    uint32_t crc32;
};

static void expect_draws(const struct recorded *want)
{
    struct mr_plan plan = file_plan(want->text);
    struct mr_geometry *g = malloc(sizeof *g);
    char *text = malloc(MAX_TEXT);
    uLong crc = 0;
    assert_non_null(g);
    assert_non_null(text);
    for (uint32_t seed = 0; seed < want->n_seeds; seed++) {
        struct mr_mt19937 mt;
        struct mr_rng rng;
        mr_mt19937_init(&mt, seed);
        mr_rng_init_torch(&rng, &mt);
        for (uint32_t i = 0; i < want->n_images; i++) {
            assert_int_equal(mr_geometry_make(&plan, want->width, want->height, &rng, g, NULL),
                             MR_OK);
            size_t len = write_draws(&plan, g, text, MAX_TEXT);
            if (seed == 0 && i == 0 && strcmp(text, want->first) != 0)
                fail_msg("%s: the first draws are\n%sinstead of\n%s", want->text, text,
                         want->first);
            crc = crc32(crc, (const Bytef *)text, (uInt)len);
        }
    }
    if (crc != want->crc32)
        fail_msg("%s of %ux%u: other draws than torchvision's after the first", want->text,
                 want->width, want->height);
    free(text);
    free(g);
}

static uint32_t read_integer(json_t *object, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(object, name));
}

static void draws_are_torchvision_s(void **state)
{
    (void)state;
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/draws.json", 0, &why), *one;
    assert_non_null(root);
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, one)
    {
        json_t *size = json_object_get(one, "size");
        const struct recorded want = {
            .text = json_string_value(json_object_get(one, "text")),
            .first = json_string_value(json_object_get(one, "first")),
            .width = (uint32_t)json_integer_value(json_array_get(size, 0)),
            .height = (uint32_t)json_integer_value(json_array_get(size, 1)),
            .n_seeds = read_integer(root, "seeds"),
            .n_images = read_integer(root, "images"),
            .crc32 = read_integer(one, "crc32"),
        };
        expect_draws(&want);
    }
    json_decref(root);
    assert_true(i >= 173);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(draws_are_torchvision_s)};
    return cmocka_run_group_tests_name("draws", tests, NULL, NULL);
}
