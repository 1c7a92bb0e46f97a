/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_nccl [--device cuda:0] [--only WORD] [--brief]: groups over NCCL on real devices: one rank,
 * and two if there are two GPUs. The module must be in MR_MODULE_PATH or beside this program.
 *
 * Invariant: ranks are forked, so this process must not start CUDA, not even to count the GPUs.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/dist/group/contract_collectives.h"
#include "tests/dist/group/contract_oracle.h"

#include <millrace/dist.h>

enum {
    N_INTS = 1 << 18,
    N_CYCLES = 10,
    N_TIMES = 200,
    TIMEOUT_MS = 20000,
    SHORT_MS = 1000,
    GIVE_UP_MS = 3000,
    LONG_GATE_MS = 8000
};
#define PATTERN UINT32_C(0x01010101)

struct rank {
    struct gpu_setup *setup;
    struct gpu_report *report;
    struct gpu_cuda cuda;
    uint32_t number; /* on this machine */
    uint32_t n_ranks;
    mr_group *group;
};

struct job {
    struct gpu_setup *setup;
    uint32_t n_ranks;
    uint32_t timeout_ms;
    bool same_device; /* all ranks on the first one, and no group */
    void (*run)(struct rank *rank);
};

static mr_status join_group(const struct rank *rank, uint32_t timeout_ms, mr_group **group_out,
                            mr_error *error)
{
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    options.backend = "nccl";
    options.device = rank->setup->device;
    options.timeout_ms = timeout_ms;
    return mr_group_create(&options, group_out, error);
}

static void expect_ok(struct rank *rank, mr_status status, const char *what)
{
    if (status != MR_OK)
        gpu_report_die(rank->report, "rank %u: %s: %s", rank->number, what,
                       rank->group ? mr_group_error(rank->group)->text : mr_status_name(status));
}

/* Runs in a separate process. */
static int be_rank(void *arg, uint32_t number)
{
    const struct job *job = arg;
    struct gpu_setup setup = *job->setup;
    struct rank rank = {
        .setup = &setup, .report = &setup.report, .number = number, .n_ranks = job->n_ranks};
    mr_error error;
    setup.report.clean_up = NULL; /* the parent cleans up */
    setup.report.failed = false;
    setup.report.n_notes = 0;
    char *own =
        job->n_ranks > 1 && !job->same_device ? gpu_setup_device_name(job->setup, number) : NULL;
    if (own)
        setup.device = own;
    rank.cuda = gpu_cuda_open(&setup);
    if (!job->same_device && join_group(&rank, job->timeout_ms, &rank.group, &error) != MR_OK)
        gpu_report_die(rank.report, "rank %u: %s", number, error.text);
    job->run(&rank);
    mr_group_destroy(rank.group);
    gpu_cuda_close(&rank.cuda);
    free(own);
    fflush(stdout);
    return setup.report.failed ? 1 : 0;
}

static void run_job(struct gpu_setup *setup, const char *name, const struct job *given)
{
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    struct job job = *given;
    mr_error error;
    job.setup = setup;
    job.timeout_ms = job.timeout_ms > 0 ? job.timeout_ms : TIMEOUT_MS;
    options.no_prefix = true;
    options.nproc = job.n_ranks;
    if (!gpu_report_begin(&setup->report, name))
        return;
    fflush(stdout);
    mr_status status = mr_launch_spawn(&options, be_rank, &job, &result, &error);
    if (gpu_report_expect(&setup->report, status == MR_OK, "mr_launch_spawn: %s", error.text))
        gpu_report_expect(&setup->report, result.exit_status == 0, "rank %d ended with %d",
                          result.rank, result.exit_status);
    gpu_report_end(&setup->report);
}

/* ---- the contract ---- */

static void *take_memory(void *user, size_t n_bytes)
{
    return gpu_cuda_alloc(user, n_bytes);
}

static void give_back(void *user, void *memory)
{
    gpu_cuda_ok(user, cudaFree(memory), "cudaFree");
}

static void copy_to_device(void *user, void *memory, const void *host, size_t n_bytes)
{
    gpu_cuda_ok(user, cudaMemcpy(memory, host, n_bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

static void copy_to_host(void *user, void *host, const void *memory, size_t n_bytes)
{
    gpu_cuda_ok(user, cudaMemcpy(host, memory, n_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

static void meet_contract(struct rank *rank)
{
    struct contract_memory memory = {&rank->cuda, take_memory, give_back, copy_to_device,
                                     copy_to_host};
    char words[CONTRACT_WORDS] = "";
    uint32_t n_wrong = contract_group_run(rank->group, &memory, words);
    gpu_report_expect(rank->report, n_wrong == 0, "rank %u: %u wrong; %s", rank->number, n_wrong,
                      words);
}

/* ---- order ---- */

/*
 * A gate holds the first stream back: the collective waits for it, and the second stream waits for
 * the collective.
 */
static void stand_between_streams(struct rank *rank)
{
    struct gpu_cuda *cuda = &rank->cuda;
    size_t len = N_INTS * sizeof(uint32_t);
    cudaStream_t before = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    cudaStream_t after = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    uint32_t *buffer = gpu_cuda_alloc(cuda, len);
    void *pinned = NULL;
    mr_group_work *work;
    gpu_cuda_ok(cuda, cudaHostAlloc(&pinned, len, cudaHostAllocDefault), "cudaHostAlloc");
    gpu_cuda_ok(cuda, cudaMemset(buffer, 0, len), "cudaMemset");
    expect_ok(rank, mr_group_all_reduce(rank->group, buffer, N_INTS, MR_I32, MR_SUM),
              "a first all_reduce");
    gpu_cuda_close_gate(cuda, before);
    gpu_cuda_ok(cuda, cudaMemsetAsync(buffer, 1, len, before), "cudaMemsetAsync");
    expect_ok(rank,
              mr_group_all_reduce_async(rank->group, buffer, N_INTS, MR_I32, MR_SUM, before, &work),
              "all_reduce");
    gpu_report_expect(rank->report, mr_group_work_test(work) == MR_PENDING,
                      "all_reduce did not wait for its stream");
    expect_ok(rank, mr_group_work_wait(work, after), "mr_group_work_wait");
    gpu_cuda_ok(cuda, cudaMemcpyAsync(pinned, buffer, len, cudaMemcpyDeviceToHost, after),
                "cudaMemcpyAsync");
    gpu_report_expect(rank->report, cudaStreamQuery(after) == cudaErrorNotReady,
                      "the reader did not wait");
    gpu_report_expect(rank->report, gpu_cuda_open_gate(cuda), "the host waited for the device");
    gpu_cuda_sync(cuda, after);
    for (uint32_t i = 0; i < N_INTS; i += N_INTS - 1)
        gpu_report_expect(rank->report, ((uint32_t *)pinned)[i] == rank->n_ranks * PATTERN,
                          "number %u is %x", i, ((uint32_t *)pinned)[i]);
    expect_ok(rank, mr_group_work_sync(work, MR_FOREVER), "mr_group_work_sync");
    mr_group_work_destroy(work);
    gpu_cuda_stream_end(cuda, before);
    gpu_cuda_stream_end(cuda, after);
    gpu_cuda_ok(cuda, cudaFreeHost(pinned), "cudaFreeHost");
    give_back(cuda, buffer);
}

static void refuse_capture(struct rank *rank)
{
    struct gpu_cuda *cuda = &rank->cuda;
    cudaStream_t stream = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    cudaGraph_t graph = NULL;
    void *buffer = gpu_cuda_alloc(cuda, 64);
    mr_group_work *work = NULL;
    gpu_cuda_ok(cuda, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
                "cudaStreamBeginCapture");
    mr_status status =
        mr_group_all_reduce_async(rank->group, buffer, 16, MR_I32, MR_SUM, stream, &work);
    gpu_report_expect(rank->report, status == MR_ERR_STATE, "all_reduce in a capture: %s",
                      mr_status_name(status));
    expect_ok(rank, mr_group_same(rank->group, 7, "a number"), "mr_group_same beside a capture");
    gpu_cuda_ok(cuda, cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    gpu_cuda_ok(cuda, cudaGraphDestroy(graph), "cudaGraphDestroy");
    gpu_cuda_stream_end(cuda, stream);
    give_back(cuda, buffer);
}

/* ---- metrics ---- */

static void sum_metrics(struct rank *rank)
{
    static const mr_dtype dtypes[] = {MR_F16, MR_BF16, MR_F32, MR_F64, MR_I32, MR_I64};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    struct gpu_cuda *cuda = &rank->cuda;
    cudaStream_t streams[] = {NULL, gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING)};
    uint64_t *values = gpu_cuda_alloc(cuda, sizeof dtypes / sizeof *dtypes * sizeof *values);
    uint64_t host[sizeof dtypes / sizeof *dtypes] = {0};
    mr_metrics *metrics = NULL;
    mr_error error;
    for (uint32_t i = 0; i < 6; i++)
        contract_oracle_write(dtypes[i], &host[i], 0, 3 + i);
    copy_to_device(cuda, values, host, sizeof host);
    if (mr_metrics_create(rank->group, &metrics, &error) != MR_OK)
        gpu_report_die(rank->report, "mr_metrics_create: %s", error.text);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 12; i++)
            if (mr_metrics_add_device(metrics, names[i % 6], &values[i % 6], dtypes[i % 6], 2,
                                      streams[i / 6]) != MR_OK)
                gpu_report_die(rank->report, "mr_metrics_add_device: %s",
                               mr_metrics_error(metrics)->text);
        if (mr_metrics_reduce(metrics) != MR_OK)
            gpu_report_die(rank->report, "mr_metrics_reduce: %s", mr_metrics_error(metrics)->text);
        for (uint32_t i = 0; i < 6; i++) {
            double sum = mr_metrics_sum(metrics, names[i]);
            double count = mr_metrics_count(metrics, names[i]);
            gpu_report_expect(rank->report,
                              sum == rank->n_ranks * 2.0 * (3 + i) && count == rank->n_ranks * 4.0,
                              "round %u, %s: %g of %g", round, names[i], sum, count);
        }
    }
    mr_metrics_destroy(metrics);
    gpu_cuda_stream_end(cuda, streams[1]);
    give_back(cuda, values);
}

/* ---- start and end ---- */

static void begin_and_end(struct rank *rank)
{
    int32_t *number = gpu_cuda_alloc(&rank->cuda, sizeof *number);
    int32_t one = 1;
    int32_t sum = 0;
    for (uint32_t i = 0; i < N_CYCLES; i++) {
        mr_group *part = NULL;
        expect_ok(rank, mr_group_split(rank->group, 0, rank->number, &part), "mr_group_split");
        copy_to_device(&rank->cuda, number, &one, sizeof one);
        mr_status status = mr_group_all_reduce(part, number, 1, MR_I32, MR_SUM);
        copy_to_host(&rank->cuda, &sum, number, sizeof sum);
        gpu_report_expect(rank->report, status == MR_OK && (uint32_t)sum == rank->n_ranks,
                          "cycle %u: %s, %d", i, mr_status_name(status), (int)sum);
        mr_group_destroy(part);
    }
    give_back(&rank->cuda, number);
}

/*
 * The gate stays closed for longer than the group waits. ncclCommAbort() may wait for the device.
 * The group gives it GIVE_UP_MS, defined in dist/group/device_work.c, and then reports the timeout
 * without it.
 */
static void run_out_of_time(struct rank *rank)
{
    struct gpu_cuda *cuda = &rank->cuda;
    cudaStream_t stream = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    uint32_t *buffer = gpu_cuda_alloc(cuda, N_INTS * sizeof *buffer);
    mr_group_work *work;
    expect_ok(rank, mr_group_all_reduce(rank->group, buffer, N_INTS, MR_I32, MR_SUM),
              "a first all_reduce");
    cuda->gate_limit_ns = INT64_C(1000000) * LONG_GATE_MS;
    gpu_cuda_close_gate(cuda, stream);
    expect_ok(rank,
              mr_group_all_reduce_async(rank->group, buffer, N_INTS, MR_I32, MR_SUM, stream, &work),
              "all_reduce");
    int64_t begin_ns = gpu_report_now_ns();
    mr_status status = mr_group_work_sync(work, MR_FOREVER);
    double took_ms = (double)(gpu_report_now_ns() - begin_ns) / 1e6;
    gpu_report_expect(
        rank->report, status == MR_ERR_TIMEOUT && took_ms < SHORT_MS + GIVE_UP_MS + 1000,
        "%s after %.0f ms: %s", mr_status_name(status), took_ms, mr_group_error(rank->group)->text);
    gpu_report_figure("nccl: a timeout of 1000 ms is reported after, ms", &took_ms, 1, false, 0);
    gpu_report_expect(rank->report, gpu_cuda_open_gate(cuda), "the gate's limit came first");
    mr_group_work_destroy(work);
    gpu_cuda_sync(cuda, stream);
    gpu_cuda_stream_end(cuda, stream);
    give_back(cuda, buffer);
}

static void be_refused(struct rank *rank)
{
    mr_group *group = NULL;
    mr_error error = {0};
    mr_status status = join_group(rank, TIMEOUT_MS, &group, &error);
    gpu_report_expect(rank->report,
                      status == MR_ERR_INVALID && strstr(error.text, "ranks 0 and 1 are both on"),
                      "rank %u: %s: %s", rank->number, mr_status_name(status), error.text);
    mr_group_destroy(group);
}

/*
 * Rank 1 exits without a message and with status 0, so that rank 0 itself must notice, not the
 * launcher.
 */
static void lose_a_rank(struct rank *rank)
{
    uint32_t *buffer = gpu_cuda_alloc(&rank->cuda, N_INTS * sizeof *buffer);
    int64_t begin_ns = gpu_report_now_ns();
    mr_status status = mr_group_all_reduce(rank->group, buffer, N_INTS, MR_I32, MR_SUM);
    if (rank->number == 1) {
        expect_ok(rank, status, "a first all_reduce");
        _exit(0);
    }
    if (status == MR_OK) /* else rank 1 has left before this rank's device was done */
        status = mr_group_all_reduce(rank->group, buffer, N_INTS, MR_I32, MR_SUM);
    double took_ms = (double)(gpu_report_now_ns() - begin_ns) / 1e6;
    const char *words = mr_group_error(rank->group)->text;
    gpu_report_expect(rank->report,
                      status == MR_ERR_PEER && strstr(words, "rank 1") && took_ms < TIMEOUT_MS,
                      "%s after %.0f ms: %s", mr_status_name(status), took_ms, words);
    mr_group_destroy(rank->group);
    rank->group = NULL;
    give_back(&rank->cuda, buffer);
}

/* ---- figures ---- */

static void measure_calls(struct rank *rank, const char *size, uint64_t n)
{
    double issue_us[N_TIMES];
    double whole_us[N_TIMES];
    float *buffer = gpu_cuda_alloc(&rank->cuda, n * sizeof *buffer);
    mr_group_work *work;
    gpu_cuda_ok(&rank->cuda, cudaMemset(buffer, 0, n * sizeof *buffer), "cudaMemset");
    for (uint32_t i = 0; i < N_TIMES; i++) {
        int64_t begin_ns = gpu_report_now_ns();
        expect_ok(rank,
                  mr_group_all_reduce_async(rank->group, buffer, n, MR_F32, MR_SUM, NULL, &work),
                  "all_reduce");
        issue_us[i] = (double)(gpu_report_now_ns() - begin_ns) / 1e3;
        expect_ok(rank, mr_group_work_sync(work, MR_FOREVER), "mr_group_work_sync");
        whole_us[i] = (double)(gpu_report_now_ns() - begin_ns) / 1e3;
        mr_group_work_destroy(work);
    }
    give_back(&rank->cuda, buffer);
    if (rank->number != 0)
        return;
    char *issue =
        gpu_setup_text("nccl, %u ranks: all_reduce of %s is issued, us", rank->n_ranks, size);
    char *whole = gpu_setup_text("nccl, %u ranks: all_reduce of %s, us", rank->n_ranks, size);
    gpu_report_figure(issue, issue_us, N_TIMES, false, 0);
    gpu_report_figure(whole, whole_us, N_TIMES, false, 0);
    free(issue);
    free(whole);
}

static void measure_all(struct rank *rank)
{
    measure_calls(rank, "2 f32", 2);
    measure_calls(rank, "1 MiB", 1 << 18);
    if (!rank->setup->brief)
        measure_calls(rank, "64 MiB", 1 << 24);
}

/* ---- all ---- */

int gpu_nccl_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        struct job job;
    } cases[] = {
        {"one rank: all collectives, types and operations", {.n_ranks = 1, .run = meet_contract}},
        {"one rank: a collective orders two streams", {.n_ranks = 1, .run = stand_between_streams}},
        {"one rank: a captured stream is refused", {.n_ranks = 1, .run = refuse_capture}},
        {"one rank: metrics of values on the device", {.n_ranks = 1, .run = sum_metrics}},
        {"one rank: groups begin and end", {.n_ranks = 1, .run = begin_and_end}},
        {"one rank: a collective that does not end is ended by its timeout",
         {.n_ranks = 1, .run = run_out_of_time, .timeout_ms = SHORT_MS}},
        {"one rank: figures", {.n_ranks = 1, .run = measure_all}},
        {"two ranks on one GPU are refused in words",
         {.n_ranks = 2, .run = be_refused, .same_device = true}},
        {"two ranks: all collectives, types and operations", {.n_ranks = 2, .run = meet_contract}},
        {"two ranks: a collective orders two streams",
         {.n_ranks = 2, .run = stand_between_streams}},
        {"two ranks: metrics of values on the device", {.n_ranks = 2, .run = sum_metrics}},
        {"two ranks: groups begin and end", {.n_ranks = 2, .run = begin_and_end}},
        {"two ranks: a lost rank is named", {.n_ranks = 2, .run = lose_a_rank}},
        {"two ranks: figures", {.n_ranks = 2, .run = measure_all}},
    };
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    uint32_t n = mr_device_count(MR_DEVICE_CUDA, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].job.n_ranks <= n || cases[i].job.same_device) {
            run_job(&setup, cases[i].name, &cases[i].job);
        } else if (gpu_report_begin(&setup.report, cases[i].name)) {
            gpu_report_skip(&setup.report, "%u GPUs are there", n);
            gpu_report_end(&setup.report);
        }
    }
    return gpu_setup_end(&setup);
}
