/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the same torch stream, operations make the same bytes of the same images as torchvision and
 * Pillow.
 */
#include "tests/support/assert_words.h"
#include "tests/transforms/kind_image.h"
#include "transforms/geometry.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/plan_compile.h"
#include "transforms/simd/kernels.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

/* As in tests/data/make_policies.py, which uses them in turn. */
static const char *const kinds[] = {"flat",      "gradient",   "noise",      "narrow",
                                    "saturated", "photograph", "nearly_flat"};
enum { N_KINDS = sizeof kinds / sizeof *kinds, MOST = 224 * 224 * 3 };

struct album {
    struct mr_image images[N_KINDS][KIND_IMAGE_SIZES][2]; /* [1]: one channel */
};

static void make_album(struct album *album)
{
    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (size_t size = 0; size < KIND_IMAGE_SIZES; size++)
            for (size_t gray = 0; gray < 2; gray++)
                album->images[kind][size][gray] =
                    kind_image_make(kinds[kind], kind_image_sizes[size], gray ? 1 : 3);
}

static void free_album(struct album *album)
{
    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (size_t size = 0; size < KIND_IMAGE_SIZES; size++)
            for (size_t gray = 0; gray < 2; gray++)
                free(album->images[kind][size][gray].pixels);
}

static void compile_text(const char *text, struct mr_plan *plan_out)
{
    static const struct mr_sample_kind files = {.encoded = 1, .picture = 1};
    mr_transform *transform;
    mr_error error;
    if (mr_transform_parse(text, &transform, &error) != MR_OK ||
        mr_plan_compile(transform, &files, MR_U8, MR_NCHW, plan_out, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_transform_destroy(transform);
}

/* Memory for one image at a time. */
struct work {
    struct mr_geometry geometry;
    uint8_t pixels[2][MOST];
};

/* Continue the checksum with the image after the calls of that seed. */
static uint32_t add_image(uint32_t crc, const struct mr_plan *plan, uint32_t seed,
                          const struct mr_image *from, const struct mr_kernel_ops *kernels,
                          struct work *work)
{
    struct mr_mt19937 mt;
    struct mr_rng rng;
    mr_error error;
    struct mr_image image = *from;
    size_t len = image.stride * image.height;
    mr_mt19937_init(&mt, seed);
    mr_rng_init_torch(&rng, &mt);
    assert_int_equal(mr_geometry_make(plan, image.width, image.height, &rng, &work->geometry, NULL),
                     MR_OK);
    const struct mr_image_calls *calls = &work->geometry.calls;
    image.pixels = work->pixels[0];
    memcpy(image.pixels, from->pixels, len);
    assert_ok(mr_image_call_run(calls->calls, calls->n, &image, work->pixels[1], kernels, &error),
              &error);
    return (uint32_t)crc32(crc, image.pixels, (uInt)len);
}

static void operations_give_the_bytes_of_torchvision(void **state)
{
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/image_policies.json", 0, &why), *one;
    struct album *album = malloc(sizeof *album);
    struct work *work = malloc(sizeof *work);
    size_t i;
    assert_true(root && album && work);
    make_album(album);
    json_array_foreach(json_object_get(root, "cases"), i, one)
    {
        const char *text = json_string_value(json_object_get(one, "text"));
        uint32_t n_seeds = (uint32_t)json_integer_value(json_object_get(one, "seeds")), crc = 0;
        struct mr_plan plan = {0};
        compile_text(text, &plan);
        for (uint32_t seed = 0; seed < n_seeds; seed++)
            crc = add_image(crc, &plan, seed,
                            &album->images[seed % N_KINDS][seed % KIND_IMAGE_SIZES][seed % 5 == 4],
                            *state, work);
        if (crc != (uint32_t)json_integer_value(json_object_get(one, "crc32")))
            fail_msg("%s: other bytes than torchvision's", text);
    }
    assert_true(i > 80);
    free_album(album);
    free(album);
    free(work);
    json_decref(root);
}

static int test_set(enum mr_cpu cpu)
{
    const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(operations_give_the_bytes_of_torchvision,
                                  (void *)(uintptr_t)kernels),
    };
    if (!kernels) {
        print_message("skipped: this machine has no %s\n", mr_cpu_name(cpu));
        return 0;
    }
    return cmocka_run_group_tests_name(mr_cpu_name(cpu), tests, NULL, NULL);
}

int main(void)
{
    int n_failed = 0;
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++)
        n_failed += test_set(cpu);
    return n_failed;
}
