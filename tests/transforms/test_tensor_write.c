/* SPDX-License-Identifier: Apache-2.0 */
/* Rows become tensors by fma(x, scale, bias), rounded once, in both layouts. */
#include "tests/transforms/reference.h"
#include "base/half.h"
#include "transforms/tensor_write.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double mean[3] = {0.485, 0.456, 0.406};
static const double deviation[3] = {0.229, 0.224, 0.225};

static uint32_t get_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double half_value(uint32_t half)
{
    double sign = half & 0x8000 ? -1.0 : 1.0;
    int exponent = (int)(half >> 10 & 31);
    double mantissa = half & 1023;
    return sign * (exponent ? ldexp(1024.0 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

/* The nearest of all finite halves by search, ties to the even one. */
static uint16_t nearest_half(float value)
{
    double magnitude = fabs((double)value);
    uint32_t lo = 0, hi = 0x7bff;
    while (lo < hi) {
        uint32_t middle = (lo + hi + 1) / 2;
        if (half_value(middle) <= magnitude)
            lo = middle;
        else
            hi = middle - 1;
    }
    double below = magnitude - half_value(lo);
    double above = (lo == 0x7bff ? 65536.0 : half_value(lo + 1)) - magnitude;
    uint32_t best = above < below || (above == below && lo % 2) ? lo + 1 : lo;
    return (uint16_t)(best | (signbit(value) ? 0x8000 : 0));
}

static void f16_is_the_nearest_half(void **state)
{
    (void)state;
    uint64_t random = reference_seed();
    for (int i = 0; i < 300000; i++) {
        float value = ldexpf((float)(int32_t)reference_random(&random),
                             (int)reference_below(&random, 52) - 60);
        if (i < 0x7c00)
            value = (float)((half_value((uint32_t)i) + half_value((uint32_t)i + 1)) / 2); /* ties */
        if (fabsf(value) < 131000.0f && mr_tensor_write_f16(value) != nearest_half(value))
            fail_msg("%a: %04x instead of %04x", (double)value, mr_tensor_write_f16(value),
                     nearest_half(value));
    }
    assert_int_equal(mr_tensor_write_f16(65519.0f), 0x7bff);
    assert_int_equal(mr_tensor_write_f16(65520.0f), 0x7c00);
    assert_int_equal(mr_tensor_write_f16(-INFINITY), 0xfc00);
    assert_int_equal(mr_tensor_write_f16(NAN) & 0x7e00, 0x7e00);
}

static void bf16_is_the_nearest_one(void **state)
{
    (void)state;
    uint64_t random = reference_seed();
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)reference_random(&random);
        if (i % 2)
            bits = (bits & 0xffff0000u) | 0x8000u; /* ties */
        if ((bits & 0x7f800000u) == 0x7f800000u || (bits & 0x7fffffffu) > 0x7f7f0000u)
            continue;
        float value;
        memcpy(&value, &bits, sizeof value);
        uint32_t low = bits & 0xffff0000u, high = low + 0x10000u;
        float below, above;
        memcpy(&below, &low, sizeof below);
        memcpy(&above, &high, sizeof above);
        double to_below = fabs((double)value - (double)below),
               to_above = fabs((double)above - (double)value);
        uint32_t best =
            to_above < to_below || (to_above == to_below && (low >> 16) % 2) ? high : low;
        if (mr_tensor_write_bf16(value) != best >> 16)
            fail_msg("%a: %04x instead of %04x", (double)value, mr_tensor_write_bf16(value),
                     best >> 16);
    }
    assert_int_equal(mr_tensor_write_bf16(INFINITY), 0x7f80);
    assert_int_equal(mr_tensor_write_bf16(NAN) & 0x7fc0, 0x7fc0);
}

static void tables_are_fma_for_all_values(void **state)
{
    (void)state;
    struct mr_plan plan = {.channels = 3, .dtype = MR_F32};
    mr_tensor_write_tables(&plan, mean, deviation, 3, MR_EXACT_NONE);
    for (int c = 0; c < 3; c++) {
        float scale = (float)(1.0 / (255.0 * deviation[c])),
              bias = (float)(-mean[c] / deviation[c]);
        assert_int_equal(get_bits(plan.scale[c]), get_bits(scale));
        assert_int_equal(get_bits(plan.bias[c]), get_bits(bias));
        for (int x = 0; x < 256; x++) {
            assert_int_equal(get_bits(plan.table[c][x]), get_bits(fmaf((float)x, scale, bias)));
            double ideal = ((double)x / 255.0 - mean[c]) / deviation[c];
            assert_true(fabs((double)plan.table[c][x] - ideal) < 5e-7);
        }
    }
}

static float round_to(mr_dtype dtype, float value)
{
    return dtype == MR_F16    ? mr_half_from_f16(mr_half_f16(value))
           : dtype == MR_BF16 ? mr_half_from_bf16(mr_half_bf16(value))
                              : value;
}

static void exact_tables_are_in_torchs_order(void **state)
{
    (void)state;
    struct mr_plan plan = {.channels = 3, .dtype = MR_F32};
    mr_tensor_write_tables(&plan, mean, deviation, 3, MR_EXACT_V1);
    assert_true(plan.exact);
    for (int c = 0; c < 3; c++)
        for (int x = 0; x < 256; x++) {
            volatile float share = (float)x / 255.0f;
            volatile float centred = share - (float)mean[c];
            volatile float scaled = centred / (float)deviation[c];
            assert_int_equal(get_bits(plan.table[c][x]), get_bits(scaled));
        }
    /* torch: (torch.tensor(1, dtype=uint8).div(255) - 0.485) / 0.229 */
    assert_true(fabsf(plan.table[0][1] - -2.1007793f) < 1e-6f);
}

static void exact_tables_of_v2_multiply_by_the_reciprocal(void **state)
{
    (void)state;
    struct mr_plan plan = {.channels = 3, .dtype = MR_F32};
    unsigned n_differ = 0;
    mr_tensor_write_tables(&plan, mean, deviation, 3, MR_EXACT_V2);
    assert_true(plan.exact);
    for (int c = 0; c < 3; c++)
        for (int x = 0; x < 256; x++) {
            volatile float share = (float)x * (float)(1.0 / 255.0);
            volatile float centred = share - (float)mean[c];
            volatile float scaled = centred / (float)deviation[c];
            assert_int_equal(get_bits(plan.table[c][x]), get_bits(scaled));
            n_differ += share != (float)x / 255.0f;
        }
    assert_true(n_differ > 100); /* from v1's */
}

/* torch's f16: (torch.tensor(x).half() * (1 / 255) - mean.half()) / std.half(). */
static void each_step_may_be_rounded_to_the_dtype(void **state)
{
    (void)state;
    static const mr_dtype dtypes[] = {MR_F16, MR_BF16, MR_F32};
    for (int i = 0; i < 3; i++) {
        struct mr_plan plan = {.channels = 3, .dtype = dtypes[i]}, once = plan;
        unsigned n_differ = 0;
        mr_tensor_write_tables(&plan, mean, deviation, 3, MR_EXACT_V2_HALF);
        mr_tensor_write_tables(&once, mean, deviation, 3, MR_EXACT_V2);
        for (int c = 0; c < 3; c++)
            for (int x = 0; x < 256; x++) {
                float share = round_to(dtypes[i], (float)x * (float)(1.0 / 255.0));
                float centred = round_to(dtypes[i], share - round_to(dtypes[i], (float)mean[c]));
                float scaled =
                    round_to(dtypes[i], centred / round_to(dtypes[i], (float)deviation[c]));
                assert_int_equal(get_bits(plan.table[c][x]), get_bits(scaled));
                n_differ += scaled != round_to(dtypes[i], once.table[c][x]);
            }
        if (dtypes[i] == MR_F32)
            assert_int_equal(n_differ, 0);
        else
            assert_true(n_differ > 100);
    }
}

/* Plans with these means must not pay for a table. */
static void quotients_of_common_means_need_no_table(void **state)
{
    (void)state;
    const double means[][3] = {
        {0.485, 0.456, 0.406}, {0.4914, 0.4822, 0.4465}, {0.5, 0.5, 0.5}, {0, 0, 0}};
    const double deviations[][3] = {
        {0.229, 0.224, 0.225}, {0.2470, 0.2435, 0.2616}, {0.5, 0.5, 0.5}, {1, 1, 1}};
    for (int i = 0; i < 8; i++) {
        struct mr_plan plan = {.channels = 3, .dtype = MR_F32};
        mr_tensor_write_tables(&plan, means[i / 2], deviations[i / 2], 3,
                               i % 2 ? MR_EXACT_V1 : MR_EXACT_V2);
        assert_true(plan.quotients.usable);
    }
    struct mr_plan plan = {.channels = 1, .dtype = MR_F32};
    const double zero = 0, tiny = 1e-42;
    mr_tensor_write_tables(&plan, &zero, &tiny, 1, MR_EXACT_V1);
    assert_false(plan.quotients.usable);
}

static void without_normalise_values_are_shares_of_255(void **state)
{
    (void)state;
    struct mr_plan plan = {.channels = 1, .dtype = MR_F32};
    mr_tensor_write_tables(&plan, NULL, NULL, 0, MR_EXACT_NONE);
    assert_int_equal(get_bits(plan.table[0][0]), 0);
    assert_int_equal(get_bits(plan.table[0][255]), get_bits(1.0f));
    for (int x = 0; x < 256; x++)
        assert_int_equal(get_bits(plan.table[0][x]), get_bits((float)x * (float)(1.0 / 255.0)));
}

static void one_mean_serves_three_channels(void **state)
{
    (void)state;
    struct mr_plan plan = {.channels = 3, .dtype = MR_F32};
    const double half = 0.5;
    mr_tensor_write_tables(&plan, &half, &half, 1, MR_EXACT_NONE);
    assert_memory_equal(plan.table[0], plan.table[2], sizeof plan.table[0]);
    assert_true(fabsf(plan.table[1][255] - 1.0f) < 1e-6f);
}

/* The bits that element (y, x, c) must have. */
static uint32_t expected_value(const struct mr_plan *plan, uint8_t value, uint32_t c)
{
    switch (plan->dtype) {
    case MR_F32: return get_bits(fmaf((float)value, plan->scale[c], plan->bias[c]));
    case MR_F16: return nearest_half(fmaf((float)value, plan->scale[c], plan->bias[c]));
    case MR_BF16: return mr_tensor_write_bf16(fmaf((float)value, plan->scale[c], plan->bias[c]));
    default: return value;
    }
}

static void check_tensor(const struct mr_plan *plan, const struct image *image, const uint8_t *out)
{
    size_t size = mr_dtype_size(plan->dtype), n = plan->channels;
    for (int64_t y = 0; y < image->height; y++)
        for (int64_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < n; c++) {
                size_t at = plan->layout == MR_NHWC
                                ? ((size_t)(y * image->width + x)) * n + c
                                : (size_t)((c * image->height + y) * image->width + x);
                uint32_t bits = 0;
                memcpy(&bits, out + at * size, size);
                uint32_t want =
                    expected_value(plan, image->pixels[(size_t)(y * image->width + x) * n + c], c);
                if (bits != want)
                    fail_msg("%s, layout %d, pixel %d,%d,%u: %x instead of %x",
                             mr_dtype_name(plan->dtype), plan->layout, (int)x, (int)y, c, bits,
                             want);
            }
}

static void check_write(const struct mr_kernel_ops *kernels, struct mr_plan *plan,
                        const struct mr_tensor_write_half *half, const struct image *image,
                        bool by_table)
{
    uint32_t width = (uint32_t)image->width, height = (uint32_t)image->height, n = plan->channels;
    size_t len = (size_t)width * height * n * mr_dtype_size(plan->dtype);
    uint8_t *out = malloc(len + 1), *row = malloc((size_t)n * width);
    out[len] = 0xa5;
    struct mr_tensor_writer writer = {.kernels = kernels,
                                      .out = out,
                                      .width = width,
                                      .height = height,
                                      .channels = n,
                                      .dtype = plan->dtype,
                                      .layout = plan->layout,
                                      .table = plan->table,
                                      .half = half->table,
                                      .scale = by_table ? NULL : plan->scale,
                                      .bias = plan->bias,
                                      .row = row};
    for (uint32_t y = 0; y < height; y++) {
        memcpy(mr_tensor_write_target(&writer, y), image->pixels + (size_t)y * width * n,
               (size_t)width * n);
        mr_tensor_write_commit(&writer, y);
    }
    assert_int_equal(out[len], 0xa5);
    check_tensor(plan, image, out);
    free(row);
    free(out);
}

static void every_dtype_and_layout_gets_every_value(void **state)
{
    (void)state;
    const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    for (int i = 0; i < 16; i++) {
        struct mr_plan plan = {
            .channels = i & 1 ? 3 : 1, .dtype = dtypes[i / 4], .layout = i & 2 ? MR_NCHW : MR_NHWC};
        struct mr_tensor_write_half half;
        mr_tensor_write_tables(&plan, mean, deviation, plan.channels, MR_EXACT_NONE);
        mr_tensor_write_half_init(&half, &plan);
        struct image image = image_make(67, 13, (int)plan.channels);
        for (size_t k = 0; k < 67 * 13 * plan.channels; k++)
            image.pixels[k] = (uint8_t)(k / plan.channels + 85 * (k % plan.channels));
        for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++)
            for (int by_table = 0; by_table < 2; by_table++)
                if (mr_kernels_find(cpu))
                    check_write(mr_kernels_find(cpu), &plan, &half, &image, by_table);
        image_free(&image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_is_the_nearest_half),
        cmocka_unit_test(bf16_is_the_nearest_one),
        cmocka_unit_test(tables_are_fma_for_all_values),
        cmocka_unit_test(exact_tables_are_in_torchs_order),
        cmocka_unit_test(exact_tables_of_v2_multiply_by_the_reciprocal),
        cmocka_unit_test(each_step_may_be_rounded_to_the_dtype),
        cmocka_unit_test(quotients_of_common_means_need_no_table),
        cmocka_unit_test(without_normalise_values_are_shares_of_255),
        cmocka_unit_test(one_mean_serves_three_channels),
        cmocka_unit_test(every_dtype_and_layout_gets_every_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
