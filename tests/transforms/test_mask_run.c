/* SPDX-License-Identifier: Apache-2.0 */
/* Masks move as torchvision's v2 moves them where a picture is turned or bent. */
#include "tests/support/assert_words.h"
#include "transforms/masks/mask_run.h"
#include "transforms/plan_compile.h"
#include "transforms/simd/kernels.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { N_IMAGES = 100, GROUP = 25, MOST_BYTES = 1 << 18 };

/* The masks of tests/data/make_masks.py. */
struct mask {
    uint32_t i;
    uint32_t n_bits; /* of an index: 8 or 16 */
    uint32_t width;
    uint32_t height;
};

static uint32_t draw_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

static struct mask make_mask(uint32_t i, uint32_t n_bits)
{
    uint32_t state = i;
    struct mask mask = {.i = i, .n_bits = n_bits};
    mask.width = 20 + draw_below(&state, 200);
    mask.height = 20 + draw_below(&state, 200);
    if (i % 7 == 0)
        mask.height = mask.width;
    return mask;
}

static uint8_t *put_u32(uint8_t *out, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *out++ = (uint8_t)(value >> shift);
    return out;
}

static uint8_t *put_chunk(uint8_t *out, const char *type, const uint8_t *bytes, uint32_t len)
{
    out = put_u32(out, len);
    memcpy(out, type, 4);
    if (len > 0)
        memcpy(out + 4, bytes, len);
    return put_u32(out + 4 + len, (uint32_t)crc32(0, out, len + 4));
}

/* A PNG of grey. Returns its length. */
static size_t write_png(const struct mask *mask, uint8_t out[MOST_BYTES])
{
    static uint8_t rows[MOST_BYTES], stream[MOST_BYTES];
    uint8_t head[13] = {0}, *at = rows, *end = out;
    uLongf len = sizeof stream;
    for (uint32_t y = 0; y < mask->height; y++) {
        *at++ = 0; /* no filter */
        for (uint32_t x = 0; x < mask->width; x++) {
            uint32_t value = x * 257 + y * 1031 + x * y * 3 + mask->i * 77;
            if (mask->n_bits == 16)
                *at++ = (uint8_t)(value >> 8);
            *at++ = (uint8_t)value;
        }
    }
    assert_int_equal(compress(stream, &len, rows, (uLong)(at - rows)), Z_OK);
    put_u32(put_u32(head, mask->width), mask->height);
    head[8] = (uint8_t)mask->n_bits;
    memcpy(end, "\x89PNG\r\n\x1a\n", 8);
    end = put_chunk(end + 8, "IHDR", head, sizeof head);
    end = put_chunk(end, "IDAT", stream, (uint32_t)len);
    return (size_t)(put_chunk(end, "IEND", NULL, 0) - out);
}

static mr_status compile(const char *text, struct mr_plan *plan, mr_error *error)
{
    const struct mr_sample_kind with_mask = {
        .encoded = 1, .picture = 1, .label_dtype = MR_I64, .label_bytes = 8, .n_extra = 1};
    mr_transform *transform;
    mr_status status = mr_transform_parse(text, &transform, error);
    if (status == MR_OK)
        status = mr_plan_compile(transform, &with_mask, MR_U8, MR_NHWC, plan, error);
    mr_transform_destroy(transform);
    return status;
}

/* Move the mask with torch's draws; the sum goes on from crc. */
static uint32_t digest_mask(const struct mr_plan *plan, const struct mask *mask,
                            struct mr_mask_run *run, uint32_t crc)
{
    static struct mr_geometry geometry;
    static struct mr_geometry_steps steps;
    static uint8_t png[MOST_BYTES];
    static int64_t out[MOST_BYTES];
    const struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    const struct mr_mask_job job = {.rule = &plan->mask,
                                    .limits = &limits,
                                    .kernels = mr_kernels_best(),
                                    .steps = &steps,
                                    .geometry = &geometry,
                                    .width = mask->width,
                                    .height = mask->height};
    struct mr_mt19937 mt;
    struct mr_rng rng;
    mr_error error = {0};
    mr_mt19937_init(&mt, mask->i);
    mr_rng_init_torch(&rng, &mt);
    assert_ok(
        mr_geometry_record(plan, mask->width, mask->height, &rng, &geometry, &steps, NULL, &error),
        &error);
    mr_mask_run_set(run, png, write_png(mask, png));
    assert_ok(mr_mask_run(run, &job, out, &error), &error);
    const struct mr_box *made = &geometry.stages[geometry.n_stages - 1].window;
    return (uint32_t)crc32(crc, (const Bytef *)out,
                           (uInt)((size_t)(made->width * made->height) * sizeof *out));
}

static void warped_masks_have_the_indices_of_torchvision(void **state)
{
    (void)state;
    static struct mr_plan plan;
    static struct mr_mask_run run;
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/masks.json", 0, &why), *goldens;
    const char *text;
    assert_non_null(root);
    json_object_foreach(root, text, goldens)
    {
        mr_error error = {0};
        uint32_t n_bits = (uint32_t)json_integer_value(json_array_get(goldens, 0));
        assert_ok(compile(text, &plan, &error), &error);
        assert_int_equal(json_array_size(goldens), 1 + N_IMAGES / GROUP);
        for (uint32_t i = 0, crc = 0; i < N_IMAGES; i++) {
            struct mask mask = make_mask(i, n_bits);
            crc = digest_mask(&plan, &mask, &run, i % GROUP ? crc : 0);
            if (i % GROUP == GROUP - 1 &&
                crc != json_integer_value(json_array_get(goldens, 1 + i / GROUP)))
                fail_msg("%s: masks %u to %u differ", text, i - GROUP + 1, i);
        }
    }
    assert_int_equal(json_object_size(root), 24);
    json_decref(root);
    mr_mask_run_fini(&run);
}

static void a_mixture_of_images_is_refused(void **state)
{
    (void)state;
    static struct mr_plan plan;
    mr_error error = {0};
    assert_error(compile("random_apply(augmix)+mask()", &plan, &error), MR_ERR_INVALID, &error,
                 "augmix is not applied to masks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warped_masks_have_the_indices_of_torchvision),
        cmocka_unit_test(a_mixture_of_images_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
