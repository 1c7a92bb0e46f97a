/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on images in memory: Pillow's bytes, and folded tables give what one call after the other gives. */
#include "tests/transforms/reference.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/simd/kernels.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

/* As in tests/data/make_image_calls.py. */
static const uint32_t sizes[][2] = {{1, 1}, {1, 7}, {7, 1}, {2, 2}, {3, 3}, {31, 17}, {64, 48}, {224, 224}};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_KINDS = 7, MOST = 224 * 224 * 3 };

static uint32_t mix_bits(uint32_t x)
{
    x = (x ^ 61) ^ (x >> 16);
    x *= 9;
    x ^= x >> 4;
    x *= 0x27d4eb2du;
    return x ^ (x >> 15);
}

/* 0 to 255 and back. */
static uint32_t make_wave(uint32_t x, uint32_t period)
{
    x %= 2 * period;
    return (x < period ? x : 2 * period - x) * 255 / period;
}

static int clip_byte(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static uint8_t value_at(const char *kind, uint32_t x, uint32_t y, uint32_t c, uint32_t width)
{
    uint32_t noise = mix_bits((y * width + x) * 3 + c);
    if (strcmp(kind, "flat") == 0)
        return (uint8_t)(40 + 90 * c);
    if (strcmp(kind, "gradient") == 0)
        return (uint8_t)(x * (c + 1) + y * (3 - c));
    if (strcmp(kind, "noise") == 0)
        return (uint8_t)noise;
    if (strcmp(kind, "narrow") == 0)
        return (uint8_t)(60 + 50 * c + noise % (10 + 30 * c));
    if (strcmp(kind, "saturated") == 0)
        return (uint8_t)(255 * (noise & 1));
    if (strcmp(kind, "photograph") == 0) {
        uint32_t smooth =
            (make_wave(x + 2 * y, 90) * (3 - c) + make_wave(x + 31 * c, 37) + make_wave(y + 11 * c, 53) * (c + 1)) / 5;
        return (uint8_t)clip_byte((int)(smooth + noise % 17) - 8);
    }
    assert_string_equal(kind, "nearly_flat");
    return (uint8_t)(noise % 97 == 0 ? noise >> 8 : 70 + 60 * c);
}

/* n_channels 1: the red one. */
static struct mr_image make_image(const char *kind, const uint32_t size[2], uint32_t n_channels)
{
    struct mr_image image = {.pixels = malloc((size_t)size[0] * size[1] * n_channels),
                             .width = size[0],
                             .height = size[1],
                             .n_channels = n_channels,
                             .stride = (size_t)size[0] * n_channels};
    for (uint32_t y = 0; y < size[1]; y++)
        for (uint32_t x = 0; x < size[0]; x++)
            for (uint32_t c = 0; c < n_channels; c++)
                image.pixels[y * image.stride + x * n_channels + c] = value_at(kind, x, y, c, size[0]);
    return image;
}

static size_t count_bytes(const struct mr_image *image)
{
    return (size_t)image->width * image->height * image->n_channels;
}

/* Run on the image; its pixels and a second image of exactly its size are given back to the allocator. */
static void run_calls(const struct mr_image_call *calls, uint32_t n, struct mr_image *image, uint8_t *bytes_out)
{
    mr_error error;
    uint8_t *first = image->pixels, *spare = malloc(count_bytes(image));
    if (mr_image_call_run(calls, n, image, spare, mr_kernels_best(), &error) != MR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(image->stride, (size_t)image->width * image->n_channels);
    memcpy(bytes_out, image->pixels, count_bytes(image));
    free(first);
    free(spare);
}

static uint32_t find_kind(const char *name)
{
    uint32_t kind = 0;
    while (kind < MR_N_CALL_KINDS && strcmp(mr_image_call_ops[kind].name, name) != 0)
        kind++;
    if (kind == MR_N_CALL_KINDS)
        fail_msg("no call has the name %s", name);
    return kind;
}

/* Of all images of a kind. */
static uint32_t checksum_of(const struct mr_image_call *call, const struct mr_image images[2 * N_SIZES], uint8_t *bytes)
{
    uLong crc = 0;
    for (size_t i = 0; i < 2 * N_SIZES; i++) {
        struct mr_image image = images[i];
        image.pixels = malloc(count_bytes(&image));
        memcpy(image.pixels, images[i].pixels, count_bytes(&image));
        run_calls(call, 1, &image, bytes);
        crc = crc32(crc, bytes, (uInt)count_bytes(&image));
    }
    return (uint32_t)crc;
}

static void calls_give_the_bytes_of_pillow(void **state)
{
    (void)state;
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/image_calls.json", 0, &why), *row, *value;
    assert_non_null(root);
    json_t *kinds = json_object_get(root, "kinds");
    struct mr_image images[N_KINDS][2 * N_SIZES];
    uint8_t *bytes = malloc(MOST);
    bool covered[MR_N_CALL_KINDS] = {false};
    size_t i, k;
    assert_int_equal(json_array_size(kinds), N_KINDS);
    json_array_foreach(kinds, k, value) for (i = 0; i < 2 * N_SIZES; i++) images[k][i] =
        make_image(json_string_value(value), sizes[i / 2], i % 2 ? 1 : 3);
    json_array_foreach(json_object_get(root, "calls"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        struct mr_image_call call = {.kind = find_kind(name)};
        covered[call.kind] = true;
        json_array_foreach(json_object_get(row, "args"), k, value) call.args[k] = json_number_value(value);
        json_array_foreach(json_object_get(row, "crc32"), k, value)
        {
            if (checksum_of(&call, images[k], bytes) != (uint32_t)json_integer_value(value))
                fail_msg("%s(%g) of the images \"%s\" differs", name, call.args[0],
                         json_string_value(json_array_get(kinds, k)));
        }
    }
    for (k = 0; k < MR_N_CALL_KINDS; k++)
        assert_true(covered[k]);
    for (k = 0; k < N_KINDS; k++)
        for (i = 0; i < 2 * N_SIZES; i++)
            free(images[k][i].pixels);
    free(bytes);
    json_decref(root);
}

static struct mr_image_call random_call(uint64_t *random)
{
    struct mr_image_call call = {.kind = (uint32_t)reference_below(random, MR_N_CALL_KINDS)};
    if (call.kind == MR_CALL_POSTERIZE)
        call.args[0] = (double)(1 + reference_below(random, 8));
    else if (call.kind == MR_CALL_SOLARIZE)
        call.args[0] = (double)reference_below(random, 257);
    else if (call.kind == MR_CALL_GRAYSCALE)
        call.args[0] = reference_below(random, 8) ? 3 : 1;
    else if (call.kind == MR_CALL_HUE)
        call.args[0] = (double)reference_below(random, 1001) / 1000.0 - 0.5;
    else
        call.args[0] = (double)reference_below(random, 2001) / 1000.0;
    return call;
}

static void folded_calls_give_what_single_ones_give(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gradient", "noise", "narrow", "photograph", "nearly_flat"};
    uint8_t *folded = malloc(MOST), *single = malloc(MOST);
    uint64_t random = 1;
    for (int i = 0; i < 400; i++) {
        struct mr_image_call calls[8];
        uint32_t n = (uint32_t)reference_below(&random, 9), n_channels = reference_below(&random, 4) ? 3 : 1;
        const uint32_t *size = sizes[reference_below(&random, N_SIZES - 1)];
        const char *kind = kinds[reference_below(&random, 5)];
        for (uint32_t k = 0; k < n; k++)
            calls[k] = random_call(&random);
        struct mr_image image = make_image(kind, size, n_channels), step = make_image(kind, size, n_channels);
        memcpy(single, step.pixels, count_bytes(&step));
        for (uint32_t k = 0; k < n; k++) {
            run_calls(&calls[k], 1, &step, single);
            step.pixels = malloc(count_bytes(&step));
            memcpy(step.pixels, single, count_bytes(&step));
        }
        free(step.pixels);
        run_calls(calls, n, &image, folded);
        assert_int_equal(image.n_channels, step.n_channels);
        assert_memory_equal(folded, single, count_bytes(&image));
    }
    free(folded);
    free(single);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_give_the_bytes_of_pillow),
        cmocka_unit_test(folded_calls_give_what_single_ones_give),
    };
    return cmocka_run_group_tests_name("image_calls", tests, NULL, NULL);
}
