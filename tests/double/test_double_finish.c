/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU version of the finishing kernel: its bits, when it reads its inputs, and that its
 * accesses are judged.
 */
#include "pinned/finish.h"
#include "pinned/finish_cuda.h"
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 3, H = 4, W = 5, C = 3, IN = H * W * C, OUT_MOST = H * W * 4 * 4 };

struct rig {
    struct mr_finish finish;
    uint8_t *mask; /* page-locked, like the next two */
    struct mr_erase *erases;
    uint8_t *pixels;
    uint8_t *mask_there, *pixels_there, *out_there, *tables_there, *erases_there, *normals_there;
    cudaStream_t stream;
    struct mr_finish_job job;
};

static void make_rig(struct rig *rig, enum mr_dtype dtype, bool exact)
{
    rig->finish = (struct mr_finish){.needed = 1,
                                     .height = H,
                                     .width = W,
                                     .channels = C,
                                     .out_channels = 4,
                                     .layout = exact ? MR_NCHW : MR_NHWC,
                                     .dtype = dtype,
                                     .exact = exact,
                                     .erases = dtype != MR_U8,
                                     .scale = {0.5F, 0.25F, 3},
                                     .bias = {1, -1, 0.125F}};
    for (int c = 0; c < MR_FINISH_CHANNELS; c++)
        for (int x = 0; x < 256; x++)
            rig->finish.table[c][x] = (float)(x * (c + 1)) / 3;
    rig->mask = fixture_pinned(N);
    memset(rig->mask, 1, N);
    rig->pixels = fixture_pinned((size_t)N * IN);
    for (int i = 0; i < N * IN; i++)
        rig->pixels[i] = (uint8_t)(i * 7);
    rig->erases = (void *)fixture_pinned(N * sizeof *rig->erases);
    for (uint32_t i = 0; i < N; i++)
        rig->erases[i] =
            (struct mr_erase){.key = {1, 2},
                              .index = i,
                              .is_random = i % 2,
                              .n = i,
                              .boxes = {{0, 1, 2, 3, {9, 8, 7}}, {1, 0, 2, 2, {6, 5, 4}}}};
    rig->erases_there = fixture_device(N * sizeof *rig->erases);
    rig->normals_there = fixture_device(sizeof mr_normal_nodes);
    rig->mask_there = fixture_device(N);
    rig->pixels_there = fixture_device((size_t)N * IN);
    rig->out_there = fixture_device((size_t)N * OUT_MOST);
    rig->tables_there = fixture_device(sizeof rig->finish.table);
    rig->stream = fixture_stream();
    rig->job = (struct mr_finish_job){.finish = &rig->finish,
                                      .tables = (void *)rig->tables_there,
                                      .normals = (void *)rig->normals_there,
                                      .mask = rig->mask_there,
                                      .erases = (void *)rig->erases_there,
                                      .n = N,
                                      .staging = rig->pixels_there,
                                      .out = rig->out_there};
    OK(cudaMemcpyAsync(rig->tables_there, rig->finish.table, sizeof rig->finish.table,
                       cudaMemcpyHostToDevice, rig->stream));
    OK(cudaMemcpyAsync(rig->normals_there, mr_normal_nodes, sizeof mr_normal_nodes,
                       cudaMemcpyHostToDevice, rig->stream));
}

static void copy_in(const struct rig *rig)
{
    OK(cudaMemcpyAsync(rig->mask_there, rig->mask, N, cudaMemcpyHostToDevice, rig->stream));
    OK(cudaMemcpyAsync(rig->erases_there, rig->erases, N * sizeof *rig->erases,
                       cudaMemcpyHostToDevice, rig->stream));
    OK(cudaMemcpyAsync(rig->pixels_there, rig->pixels, (size_t)N * IN, cudaMemcpyHostToDevice,
                       rig->stream));
}

/* Compare with the host's function. */
static void expect_the_hosts(const struct rig *rig, const struct mr_finish *finish)
{
    uint8_t out[N * OUT_MOST];
    struct mr_finish_job job = rig->job;
    memset(out, 0xdb, sizeof out);
    job.finish = finish;
    job.tables = &finish->table[0][0];
    job.normals = mr_normal_nodes;
    job.mask = rig->mask;
    job.erases = rig->erases;
    job.staging = rig->pixels;
    job.out = out;
    mr_finish_run(&job);
    assert_memory_equal(double_host_view(rig->out_there), out, N * mr_finish_out_bytes(finish));
}

static void it_gives_the_hosts_bits(void **state)
{
    (void)state;
    static const enum mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    for (int i = 0; i < 24; i++) {
        struct rig rig;
        fixture_open((enum double_policy)(i % 3));
        make_rig(&rig, dtypes[i / 3 % 4], i / 12);
        copy_in(&rig);
        OK(mr_finish_cuda_launch(&rig.job, rig.stream));
        OK(cudaStreamSynchronize(rig.stream));
        expect_the_hosts(&rig, &rig.finish);
        fixture_close();
    }
}

static void holes_are_zeros(void **state)
{
    (void)state;
    struct rig rig;
    fixture_open(DOUBLE_LATE);
    make_rig(&rig, MR_F32, false);
    rig.mask[1] = 0;
    copy_in(&rig);
    OK(mr_finish_cuda_launch(&rig.job, rig.stream));
    OK(cudaStreamSynchronize(rig.stream));
    expect_the_hosts(&rig, &rig.finish);
    fixture_close();
}

static void settings_are_read_at_the_launch_and_pixels_when_it_runs(void **state)
{
    (void)state;
    struct rig rig;
    fixture_open(DOUBLE_LATE);
    make_rig(&rig, MR_F32, false);
    struct mr_finish before = rig.finish;
    copy_in(&rig);
    OK(mr_finish_cuda_launch(&rig.job, rig.stream));
    memset(&rig.finish, 0, sizeof rig.finish);
    rig.pixels[0] ^= 255;
    OK(cudaStreamSynchronize(rig.stream));
    expect_the_hosts(&rig, &before);
    fixture_close();
}

/* An access of another stream to the kernel's memory at the same time. */
static void its_accesses_are_judged(void **state)
{
    (void)state;
    enum { N_MEMORIES = 6 };
    for (int i = 0; i < N_MEMORIES + 2; i++) {
        struct rig rig;
        fixture_open(DOUBLE_RANDOM);
        make_rig(&rig, MR_F32, true);
        copy_in(&rig);
        cudaStream_t other = fixture_stream();
        cudaEvent_t copied = fixture_event();
        OK(cudaEventRecord(copied, rig.stream));
        OK(cudaStreamWaitEvent(other, copied, 0));
        OK(mr_finish_cuda_launch(&rig.job, rig.stream));
        uint8_t *memory[N_MEMORIES] = {rig.mask_there,   rig.pixels_there, rig.out_there,
                                       rig.tables_there, rig.erases_there, rig.normals_there};
        if (i < N_MEMORIES)
            OK(double_launch_fill(other, memory[i] + 2, 1, 0));
        else /* memory that the kernel only reads may be read at the same time */
            OK(double_launch_read(other, memory[i == N_MEMORIES ? 2 : 1] + 2, 1, NULL, NULL));
        fixture_close_with(DOUBLE_UNORDERED, i <= N_MEMORIES);
    }
}

static void a_job_without_samples_only_loads(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    struct mr_finish none = {0};
    struct mr_finish_job job = {.finish = &none};
    OK(mr_finish_cuda_launch(&job, fixture_stream()));
    assert_int_equal(double_count(0).kernels, 0);
    double_fail_at("cudaLaunchKernel", 1, cudaErrorNoKernelImageForDevice);
    assert_int_equal(mr_finish_cuda_launch(&job, NULL), cudaErrorNoKernelImageForDevice);
    fixture_close();
}

static void memory_that_is_too_short_is_reported(void **state)
{
    (void)state;
    struct rig rig;
    fixture_open(DOUBLE_EARLY);
    make_rig(&rig, MR_F32, false);
    rig.job.n++;
    assert_int_equal(mr_finish_cuda_launch(&rig.job, rig.stream), cudaErrorInvalidValue);
    fixture_close_with(DOUBLE_MISUSE, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_the_hosts_bits),
        cmocka_unit_test(holes_are_zeros),
        cmocka_unit_test(settings_are_read_at_the_launch_and_pixels_when_it_runs),
        cmocka_unit_test(its_accesses_are_judged),
        cmocka_unit_test(a_job_without_samples_only_loads),
        cmocka_unit_test(memory_that_is_too_short_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
