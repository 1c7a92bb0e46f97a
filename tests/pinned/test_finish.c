/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing against the slow oracle of finish_bench.h: every value of every dtype, holes, and rows
 * beyond 4 GiB.
 */
#include "pinned/finish_pixel.h"
#include "tests/pinned/finish_bench.h"

#include <string.h>
#include <sys/mman.h>

/* Row 4 is a hole. */
static void check_all_values(uint32_t channels, uint32_t out_channels, uint32_t layout,
                             uint32_t dtype, uint32_t exact)
{
    struct finish_bench b;
    finish_bench_open(&b, channels, out_channels, layout, dtype, exact);
    assert_int_equal(mr_finish_out_bytes(&b.finish), b.out_bytes);
    b.mask[4] = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        finish_bench_sample(&b, i == 4 ? NULL : b.staging + i * b.in_bytes,
                            b.expected + i * b.out_bytes);
    finish_bench_expect(&b);
    finish_bench_close(&b);
}

static void all_values_are_those_of_the_oracle(void **state)
{
    (void)state;
    static const uint32_t channels[] = {1, 3, 4}, pads[] = {0, 4, 8};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned pad = 0; pad < 3; pad++)
            for (uint32_t dtype = MR_U8; dtype <= MR_BF16; dtype++)
                for (unsigned layout = 0; layout < 2; layout++)
                    for (uint32_t exact = 0; exact < 2; exact++)
                        check_all_values(channels[i], pads[pad] ? pads[pad] : channels[i],
                                         layout ? MR_NHWC : MR_NCHW, dtype, exact);
}

/*
 * If the oracle's sums were rounded twice, or the code did not use a fused operation, some value
 * would show it.
 */
static void fused_and_separate_floats_are_told_apart(void **state)
{
    (void)state;
    uint32_t n_different = 0;
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++) {
            volatile float product = (float)x * finish_bench_scales[c];
            volatile float sum = product + finish_bench_biases[c];
            n_different += finish_bench_f32(sum) !=
                           finish_bench_f32(finish_bench_fused(x, finish_bench_scales[c],
                                                               finish_bench_biases[c]));
        }
    assert_true(n_different > 20);
}

static void only_the_rows_of_the_job_are_written(void **state)
{
    (void)state;
    struct finish_bench b;
    finish_bench_open(&b, 3, 4, MR_NCHW, MR_F16, 0);
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    for (uint32_t i = 0; i < 2; i++)
        finish_bench_sample(&b, b.staging + i * b.in_bytes, b.expected + i * b.out_bytes);
    b.job.n = 2;
    finish_bench_expect(&b);
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    b.job.n = 0;
    finish_bench_expect(&b);
    finish_bench_close(&b);
}

static void sizes_have_64_bits(void **state)
{
    (void)state;
    struct mr_finish finish = {
        .height = 13376, .width = 13378, .channels = 3, .out_channels = 8, .dtype = MR_F32};
    assert_true(mr_finish_out_bytes(&finish) == 5726212096u);
}

static uint8_t *reserve(size_t len)
{
    void *memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        print_message("no %zu bytes of address space\n", len);
        skip();
    }
    return memory;
}

/* Both sides are mostly unbacked memory: only their last row is used, as a kernel would. */
static void a_row_beyond_4_gib_is_found(void **state)
{
    (void)state;
    enum { SIDE = 320, N = 65535 };
    size_t row_bytes = (size_t)SIDE * SIDE, len = row_bytes * N;
    uint8_t *out = reserve(len), *staging = reserve(len), *mask = reserve(N);
    memset(staging + len - row_bytes, 77, row_bytes);
    mask[N - 1] = 1;
    struct mr_finish finish = {
        .height = SIDE, .width = SIDE, .channels = 1, .out_channels = 1, .dtype = MR_U8};
    struct mr_finish_job job = {
        .finish = &finish, .mask = mask, .n = N, .staging = staging, .out = out};
    struct mr_finish_view view;
    struct mr_finish_sample sample;
    mr_finish_view_init(&view, &job);
    mr_finish_sample_init(&sample, &view, N - 1);
    for (uint64_t pixel = 0; pixel < view.n_pixels; pixel++)
        mr_finish_pixel(&view, &sample, pixel);
    assert_memory_equal(out + len - row_bytes, staging + len - row_bytes, row_bytes);
    munmap(mask, N);
    munmap(staging, len);
    munmap(out, len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_values_are_those_of_the_oracle),
        cmocka_unit_test(fused_and_separate_floats_are_told_apart),
        cmocka_unit_test(only_the_rows_of_the_job_are_written),
        cmocka_unit_test(sizes_have_64_bits),
        cmocka_unit_test(a_row_beyond_4_gib_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
