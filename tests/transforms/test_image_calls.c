/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on images in memory have Pillow's bytes, and folded tables give the same as one call after
 * the other.
 */
#include "tests/support/assert_words.h"
#include "tests/transforms/kind_image.h"
#include "tests/transforms/reference.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/image_ops/image_mix.h"
#include "transforms/image_ops/image_warp.h"
#include "transforms/interpolation.h"
#include "transforms/simd/kernels.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { MOST = 320 * 320 * 3 };

static size_t count_bytes(const struct mr_image *image)
{
    return (size_t)image->width * image->height * image->n_channels;
}

/*
 * Run calls on the image. Its pixels and the spare images of exactly the result's size are freed,
 * so a sanitizer sees each wrong access.
 */
static void run_calls(const struct mr_image_call *calls, uint32_t n, struct mr_image *image,
                      const struct mr_kernel_ops *kernels, uint8_t *bytes_out)
{
    mr_error error;
    struct mr_image made = *image;
    for (uint32_t i = 0; i < n; i++)
        mr_image_warp_size(&calls[i], &made.width, &made.height);
    uint32_t n_spares = mr_image_call_count_spares(calls, n);
    uint8_t *first = image->pixels, *spare = malloc(count_bytes(&made) * n_spares + !n_spares);
    assert_ok(mr_image_call_run(calls, n, image, spare, kernels, &error), &error);
    assert_int_equal(image->stride, (size_t)image->width * image->n_channels);
    memcpy(bytes_out, image->pixels, count_bytes(image));
    free(first);
    free(spare);
}

static uint32_t find_kind(const char *name)
{
    uint32_t kind = 0;
    if (strcmp(name, "rotate expand") == 0)
        return MR_CALL_ROTATE_EXPAND;
    while (kind < MR_N_CALL_KINDS && strcmp(mr_image_call_ops[kind].name, name) != 0)
        kind++;
    if (kind == MR_N_CALL_KINDS)
        fail_msg("no call has the name %s", name);
    return kind;
}

/* The images that a checksum covers: each size in three channels and in one. */
struct album {
    struct mr_image images[2 * KIND_IMAGE_SIZES];
};

static struct album make_album(const char *kind)
{
    struct album album;
    for (size_t i = 0; i < 2 * KIND_IMAGE_SIZES; i++)
        album.images[i] = kind_image_make(kind, kind_image_sizes[i / 2], i % 2 ? 1 : 3);
    return album;
}

static void free_album(struct album *album)
{
    for (size_t i = 0; i < 2 * KIND_IMAGE_SIZES; i++)
        free(album->images[i].pixels);
}

static struct mr_image copy_image(const struct mr_image *image)
{
    struct mr_image copy = *image;
    copy.pixels = malloc(count_bytes(image));
    memcpy(copy.pixels, image->pixels, count_bytes(image));
    return copy;
}

static uint32_t compute_checksum(const struct mr_image_call *call, const struct album *album,
                                 const struct mr_kernel_ops *kernels, uint8_t *bytes)
{
    uLong crc = 0;
    for (size_t i = 0; i < 2 * KIND_IMAGE_SIZES; i++) {
        struct mr_image image = copy_image(&album->images[i]);
        run_calls(call, 1, &image, kernels, bytes);
        crc = crc32(crc, bytes, (uInt)count_bytes(&image));
    }
    return (uint32_t)crc;
}

/* Check all rows of a file of tests/data; null among the arguments is a NaN. */
static void check_file(const char *path, const struct mr_kernel_ops *kernels,
                       bool covered[MR_N_CALL_KINDS])
{
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why), *row, *value, *kind;
    assert_non_null(root);
    uint8_t *bytes = malloc(MOST);
    size_t i, k, n;
    json_array_foreach(json_object_get(root, "kinds"), k, kind)
    {
        struct album album = make_album(json_string_value(kind));
        json_array_foreach(json_object_get(root, "calls"), i, row)
        {
            const char *name = json_string_value(json_object_get(row, "name"));
            struct mr_image_call call = {.kind = find_kind(name)};
            covered[call.kind] = true;
            json_array_foreach(json_object_get(row, "args"), n, value) call.args[n] =
                json_is_null(value) ? NAN : json_number_value(value);
            json_t *crc = json_array_get(json_object_get(row, "crc32"), k);
            if (compute_checksum(&call, &album, kernels, bytes) !=
                (uint32_t)json_integer_value(crc))
                fail_msg("%s, row %zu of the images \"%s\" differs", name, i,
                         json_string_value(kind));
        }
        free_album(&album);
    }
    free(bytes);
    json_decref(root);
}

static void calls_give_the_bytes_of_pillow_and_torch(void **state)
{
    /* A convolution has no exact bytes; test_timm.c has timm's calls. Mixtures are below. */
    bool covered[MR_N_CALL_KINDS] = {
        [MR_CALL_GAUSSIAN_BLUR] = true, [MR_CALL_SOLARIZE_ADD] = true, [MR_CALL_PIL_AFFINE] = true,
        [MR_CALL_MIX_START] = true,     [MR_CALL_MIX_CHAIN] = true,    [MR_CALL_MIX_END] = true};
    check_file(MR_TEST_DATA "/image_calls.json", *state, covered);
    check_file(MR_TEST_DATA "/image_warps.json", *state, covered);
    check_file(MR_TEST_DATA "/image_tensors.json", *state, covered);
    for (size_t k = 0; k < MR_N_CALL_KINDS; k++)
        assert_true(covered[k]);
}

/* torchvision's convolution of one value, in doubles. */
static double convolve(const struct mr_image *image, int64_t x, int64_t y, uint32_t c,
                       int64_t reach, const double *weights)
{
    double sum = 0.0;
    for (int64_t j = -reach; j <= reach; j++) {
        int64_t row = y + j < 0                ? -(y + j)
                      : y + j >= image->height ? 2 * ((int64_t)image->height - 1) - y - j
                                               : y + j;
        for (int64_t i = -reach; i <= reach; i++) {
            int64_t at = x + i < 0               ? -(x + i)
                         : x + i >= image->width ? 2 * ((int64_t)image->width - 1) - x - i
                                                 : x + i;
            uint8_t byte =
                image->pixels[(size_t)row * image->stride + (size_t)at * image->n_channels + c];
            sum += weights[reach + i] * weights[reach + j] * byte;
        }
    }
    return sum;
}

static void check_gaussian_blur(const struct mr_image *image, int64_t size, double sigma,
                                const struct mr_kernel_ops *kernels, uint8_t *bytes)
{
    double weights[63], sum = 0.0;
    for (int64_t i = 0; i < size; i++)
        sum += weights[i] = exp(-0.5 * pow((double)(i - size / 2) / sigma, 2.0));
    for (int64_t i = 0; i < size; i++)
        weights[i] /= sum;
    struct mr_image blurred = copy_image(image);
    const struct mr_image_call call = {.kind = MR_CALL_GAUSSIAN_BLUR,
                                       .args = {(double)size, sigma}};
    run_calls(&call, 1, &blurred, kernels, bytes);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < image->n_channels; c++) {
                double want = rint(convolve(image, x, y, c, size / 2, weights));
                int got = bytes[y * image->stride + x * image->n_channels + c];
                if (fabs(want - got) > 1.0)
                    fail_msg("kernel %d, sigma %g, %u x %u: %d instead of %g at %u,%u", (int)size,
                             sigma, image->width, image->height, got, want, x, y);
            }
}

static void gaussian_blur_is_within_1_of_a_convolution(void **state)
{
    static const char *const kinds[] = {"noise", "saturated", "photograph"};
    static const double sigmas[] = {0.001, 0.1, 0.3, 0.7, 1.0, 2.0, 5.0, 1000.0};
    uint8_t *bytes = malloc(MOST);
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 2; i < 2 * (KIND_IMAGE_SIZES - 1); i++) {
            struct mr_image image =
                kind_image_make(kinds[k], kind_image_sizes[i / 2], i % 2 ? 1 : 3);
            uint32_t side = image.width < image.height ? image.width : image.height;
            for (uint32_t size = 1; size <= 63 && size / 2 < side; size += size < 5 ? 2 : 18)
                check_gaussian_blur(&image, size, sigmas[(i + k + size) % 8], *state, bytes);
            free(image.pixels);
        }
    free(bytes);
}

static void gaussian_blur_refuses_what_cannot_be_reflected(void **state)
{
    uint8_t pixels[2 * 4 * 3] = {0}, spare[sizeof pixels];
    struct mr_image image = {
        .pixels = pixels, .width = 4, .height = 2, .n_channels = 3, .stride = 12};
    const struct mr_image_call calls[] = {{.kind = MR_CALL_GAUSSIAN_BLUR, .args = {3, 1.0}},
                                          {.kind = MR_CALL_GAUSSIAN_BLUR, .args = {5, 1.0}}};
    mr_error error;
    assert_int_equal(mr_image_call_run(calls, 2, &image, spare, *state, &error), MR_ERR_DAMAGED);
    assert_string_equal(error.text, "gaussian_blur: an image of 4 x 2 is too small for kernel 5");
}

/* All 16,777,216 colours. Each value of red is tried with one shift. */
static void hues_of_all_colours_are_those_of_plain_c(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint8_t *pixels = malloc(2 * 3 * 65536), *plain = pixels + 3 * 65536;
    for (uint32_t red = 0; red < 256; red++) {
        const struct mr_image_call call = {.kind = MR_CALL_HUE, .args = {((int)red - 128) / 255.0}};
        for (uint32_t i = 0; i < 65536; i++) {
            pixels[3 * i] = (uint8_t)red;
            pixels[3 * i + 1] = (uint8_t)(i >> 8);
            pixels[3 * i + 2] = (uint8_t)i;
        }
        memcpy(plain, pixels, 3 * 65536);
        struct mr_image image = {
            .pixels = pixels, .width = 256, .height = 256, .n_channels = 3, .stride = 768};
        struct mr_image same = image;
        same.pixels = plain;
        assert_int_equal(mr_image_call_run(&call, 1, &image, NULL, kernels, NULL), MR_OK);
        assert_int_equal(mr_image_call_run(&call, 1, &same, NULL, &mr_kernels_c, NULL), MR_OK);
        if (memcmp(pixels, plain, 3 * 65536) != 0)
            fail_msg("hues of red %u differ", red);
    }
    free(pixels);
}

/*
 * Run two chains on the image, and compare with sums of what single calls make of it. The images'
 * sizes are odd, so the sums are not aligned.
 */
static void check_mixture(struct mr_image image, const struct mr_kernel_ops *kernels)
{
    const struct mr_image_call calls[] = {
        {.kind = MR_CALL_MIX_START, .args = {(double)0.3f}},
        {.kind = MR_CALL_MIX_CHAIN, .args = {(double)0.45f}},
        {.kind = MR_CALL_INVERT},
        {.kind = MR_CALL_TENSOR_ROTATE, .args = {20, MR_BILINEAR, NAN, NAN, NAN, 1}},
        {.kind = MR_CALL_MIX_CHAIN, .args = {(double)0.25f}},
        {.kind = MR_CALL_TENSOR_SHARPNESS, .args = {1.9, 0}},
        {.kind = MR_CALL_TENSOR_SATURATION, .args = {0.1, 1}},
        {.kind = MR_CALL_MIX_END}};
    size_t n = count_bytes(&image);
    uint8_t *chains = malloc(2 * n), *mixed = malloc(n);
    struct mr_image copies[3] = {copy_image(&image), copy_image(&image), copy_image(&image)};
    run_calls(calls + 2, 2, &copies[0], kernels, chains);
    run_calls(calls + 5, 2, &copies[1], kernels, chains + n);
    run_calls(calls, 8, &copies[2], kernels, mixed);
    for (size_t i = 0; i < n; i++) {
        float sum = 0.3f * (float)image.pixels[i], first = 0.45f * (float)chains[i],
              second = 0.25f * (float)chains[n + i];
        sum += first;
        sum += second;
        assert_int_equal(mixed[i], (uint8_t)sum);
    }
    free(image.pixels);
    free(chains);
    free(mixed);
}

static void mixtures_are_sums_of_chains(void **state)
{
    static const uint32_t sizes[][2] = {{1, 1}, {7, 3}, {31, 17}};
    for (size_t i = 0; i < 6; i++)
        check_mixture(kind_image_make("photograph", sizes[i / 2], i % 2 ? 1 : 3), *state);
    const struct mr_image_call invert = {.kind = MR_CALL_INVERT}, jpeg = {.kind = MR_CALL_JPEG},
                               start = {.kind = MR_CALL_MIX_START};
    assert_int_equal(mr_image_call_count_spares(&invert, 1), 0);
    assert_int_equal(mr_image_call_count_spares(&jpeg, 1), 1);
    assert_int_equal(mr_image_call_count_spares(&start, 1), MR_IMAGE_MIX_SPARES);
}

static void draw_warp(uint64_t *random, struct mr_image_call *call)
{
    static const double filters[3] = {MR_BILINEAR, MR_NEAREST, MR_BICUBIC};
    double *args = call->args, filter = filters[reference_below(random, 3)];
    if (call->kind == MR_CALL_PERSPECTIVE) {
        args[0] = args[4] = 1;
        args[6] = (double)reference_below(random, 100) / 10000;
        args[8] = filter;
        return;
    }
    if (call->kind == MR_CALL_JPEG) {
        args[0] = (double)(1 + reference_below(random, 100));
        return;
    }
    if (call->kind == MR_CALL_PERMUTE_CHANNELS) {
        uint32_t first = (uint32_t)reference_below(random, 3);
        for (uint32_t c = 0; c < 3; c++)
            args[c] = (first + 2 * c) % 3;
        return;
    }
    if (call->kind == MR_CALL_PIL_AFFINE) {
        args[0] = args[4] = 1;
        args[reference_below(random, 6)] += (double)reference_below(random, 100) / 50 - 1;
        args[6] = filter;
        return;
    }
    bool rotates = call->kind == MR_CALL_ROTATE || call->kind == MR_CALL_TENSOR_ROTATE;
    args[0] = (double)reference_below(random, 360);
    args[rotates ? 1 : 6] = filter;
    if (!rotates)
        args[3] = 1.5;
}

static struct mr_image_call random_call(uint64_t *random)
{
    struct mr_image_call call = {.kind = (uint32_t)reference_below(random, MR_CALL_MIX_START)};
    if (call.kind >= MR_CALL_TENSOR_BRIGHTNESS && call.kind <= MR_CALL_TENSOR_AUTOCONTRAST)
        call.args[0] = (double)reference_below(random, 3000) / 1000;
    else if (call.kind >= MR_CALL_ROTATE)
        draw_warp(random, &call);
    else if (call.kind == MR_CALL_POSTERIZE)
        call.args[0] = (double)(1 + reference_below(random, 8));
    else if (call.kind == MR_CALL_SOLARIZE)
        call.args[0] = (double)reference_below(random, 257);
    else if (call.kind == MR_CALL_SOLARIZE_ADD)
        call.args[0] = (double)reference_below(random, 129);
    else if (call.kind == MR_CALL_GRAYSCALE)
        call.args[0] = reference_below(random, 8) ? 3 : 1;
    else if (call.kind == MR_CALL_HUE)
        call.args[0] = (double)reference_below(random, 1001) / 1000 - 0.5;
    else if (call.kind == MR_CALL_GAUSSIAN_BLUR)
        call.args[0] = call.args[1] = 1; /* which every size allows */
    else if (call.kind == MR_CALL_PIL_GAUSSIAN_BLUR)
        call.args[0] = (double)reference_below(random, 50) / 10;
    else
        call.args[0] = (double)reference_below(random, 3000) / 1000;
    return call;
}

static void folded_calls_give_what_single_ones_give(void **state)
{
    static const char *const kinds[] = {"gradient", "noise", "narrow", "photograph", "nearly_flat"};
    uint8_t *folded = malloc(MOST), *single = malloc(MOST);
    uint64_t random = 1;
    for (int i = 0; i < 400; i++) {
        struct mr_image_call calls[8];
        uint32_t n = (uint32_t)reference_below(&random, 9),
                 n_channels = reference_below(&random, 4) ? 3 : 1;
        const uint32_t *size = kind_image_sizes[reference_below(&random, KIND_IMAGE_SIZES - 1)];
        const char *kind = kinds[reference_below(&random, 5)];
        for (uint32_t k = 0; k < n; k++)
            calls[k] = random_call(&random);
        struct mr_image image = kind_image_make(kind, size, n_channels),
                        step = kind_image_make(kind, size, n_channels);
        memcpy(single, step.pixels, count_bytes(&step));
        for (uint32_t k = 0; k < n; k++) {
            run_calls(&calls[k], 1, &step, *state, single);
            step.pixels = malloc(count_bytes(&step));
            memcpy(step.pixels, single, count_bytes(&step));
        }
        free(step.pixels);
        run_calls(calls, n, &image, *state, folded);
        assert_int_equal(image.n_channels, step.n_channels);
        assert_memory_equal(folded, single, count_bytes(&image));
    }
    free(folded);
    free(single);
}

static int test_set(enum mr_cpu cpu)
{
    const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
    void *state = (void *)(uintptr_t)kernels;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(calls_give_the_bytes_of_pillow_and_torch, state),
        cmocka_unit_test_prestate(folded_calls_give_what_single_ones_give, state),
        cmocka_unit_test_prestate(mixtures_are_sums_of_chains, state),
        cmocka_unit_test_prestate(gaussian_blur_is_within_1_of_a_convolution, state),
        cmocka_unit_test_prestate(gaussian_blur_refuses_what_cannot_be_reflected, state),
        cmocka_unit_test_prestate(hues_of_all_colours_are_those_of_plain_c, state),
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
