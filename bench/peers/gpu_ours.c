/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace's row of bench/peers/gpu. Workers decode u8 batches, which are finished to normalised
 * bf16 on the GPU. The loop that takes them does nothing else, or puts a step of known length on
 * its stream. Its marks are those of ours.c. The step is one spinning thread, like
 * torch.cuda._sleep(), so that every row has the same rest of the GPU. The host runs ahead of the
 * stream, so the measured time ends with the stream.
 *
 * --device host:0 runs without a GPU: the step is a sleep, and batches are f32, which the host can
 * make.
 */
#include "bench/peers/moments.h"
#include "tests/gpu/gpu_kernels.h"

#include <millrace/millrace.h>

#include <argp.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_STEPS = 100000, WARM_UP = 8 };

struct gpu_peer {
    const char *data;
    const char *device;
    bool on_gpu;
    uint32_t n_workers;
    uint32_t batch_size;
    uint32_t step_ms;
    double seconds;
    mr_dataset *dataset;
    mr_loader *loader;
    uint64_t epoch;
    cudaStream_t stream;
    cudaEvent_t *events; /* begin and end of each step */
    double *gaps;
    size_t n_steps;
    double slept; /* seconds of steps, without a GPU */
    char words[1024];
};

static bool is_fine(struct gpu_peer *peer, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return true;
    snprintf(peer->words, sizeof peer->words, "%s: %s", what, cudaGetErrorString(error));
    return false;
}

/* Keeps a copy of the error message, because destroying the loader frees it. */
static bool is_ok(struct gpu_peer *peer, mr_status status)
{
    if (status != MR_OK && peer->loader)
        snprintf(peer->words, sizeof peer->words, "%s", mr_loader_error(peer->loader)->text);
    return status == MR_OK;
}

static bool create_loader(struct gpu_peer *peer)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_error error = {0};
    options.batch_size = peer->batch_size;
    options.num_workers = peer->n_workers;
    options.drop_last = true;
    options.device = peer->device;
    options.dtype = peer->on_gpu ? MR_BF16 : MR_F32;
    mr_status status = mr_dataset_open(peer->data, NULL, &peer->dataset, &error);
    if (status == MR_OK)
        status = mr_loader_create(peer->dataset, NULL, &options, &peer->loader, &error);
    if (status != MR_OK)
        snprintf(peer->words, sizeof peer->words, "%s", error.text);
    if (status != MR_OK || !peer->on_gpu)
        return status == MR_OK;
    return is_fine(peer, cudaSetDevice((int)strtol(peer->device + strlen("cuda:"), NULL, 10)),
                   "cudaSetDevice") &&
           is_fine(peer, cudaStreamCreateWithFlags(&peer->stream, cudaStreamNonBlocking),
                   "cudaStreamCreate");
}

static bool next_batch(struct gpu_peer *peer, mr_batch **batch_out)
{
    mr_status status = mr_loader_next_on(peer->loader, MR_FOREVER, peer->stream, batch_out);
    if (status == MR_END) {
        status = mr_loader_set_epoch(peer->loader, ++peer->epoch);
        if (status == MR_OK)
            status = mr_loader_next_on(peer->loader, MR_FOREVER, peer->stream, batch_out);
    }
    return is_ok(peer, status);
}

static bool step_on_gpu(struct gpu_peer *peer, cudaEvent_t *events)
{
    return is_fine(peer, cudaEventCreate(&events[0]), "cudaEventCreate") &&
           is_fine(peer, cudaEventCreate(&events[1]), "cudaEventCreate") &&
           is_fine(peer, cudaEventRecord(events[0], peer->stream), "cudaEventRecord") &&
           is_fine(
               peer,
               (cudaError_t)gpu_kernel_spin(peer->step_ms * INT64_C(1000000), 1, 1, peer->stream),
               "spin") &&
           is_fine(peer, cudaEventRecord(events[1], peer->stream), "cudaEventRecord");
}

static bool take_step(struct gpu_peer *peer, bool counted)
{
    if (peer->step_ms == 0)
        return true;
    if (peer->on_gpu)
        return counted
                   ? step_on_gpu(peer, &peer->events[2 * peer->n_steps])
                   : is_fine(peer, (cudaError_t)gpu_kernel_spin(1000, 1, 1, peer->stream), "spin");
    const struct timespec pause = {.tv_sec = peer->step_ms / 1000,
                                   .tv_nsec = peer->step_ms % 1000 * 1000000L};
    double begin = mr_moments_now();
    nanosleep(&pause, NULL);
    peer->slept += counted ? mr_moments_now() - begin : 0;
    return true;
}

static bool take_one(struct gpu_peer *peer, bool counted)
{
    mr_batch *batch;
    return next_batch(peer, &batch) && take_step(peer, counted) &&
           is_ok(peer, mr_batch_release_on(batch, peer->stream));
}

static bool synchronise_stream(struct gpu_peer *peer)
{
    return !peer->on_gpu || is_fine(peer, cudaStreamSynchronize(peer->stream), "the stream");
}

static bool warm_up(struct gpu_peer *peer)
{
    for (uint32_t i = 0; i < WARM_UP; i++) {
        if (!take_one(peer, false) ||
            (i == 0 && (!synchronise_stream(peer) || !mr_moments_say("first"))))
            return false;
    }
    return synchronise_stream(peer);
}

static bool measure_steps(struct gpu_peer *peer, double *seconds_out)
{
    if (!mr_moments_say("begin"))
        return false;
    double begin = mr_moments_now(), last = begin;
    while (last < begin + peer->seconds && peer->n_steps < MAX_STEPS) {
        if (!take_one(peer, true))
            return false;
        double now = mr_moments_now();
        peer->gaps[peer->n_steps++] = now - last;
        last = now;
    }
    if (!synchronise_stream(peer))
        return false;
    *seconds_out = mr_moments_now() - begin;
    return true;
}

/*
 * The share of the time, from the first step's begin to the last one's end, in which a step ran; -1
 * without steps.
 */
static bool read_busy(struct gpu_peer *peer, double seconds, double *busy_out)
{
    float ms, sum = 0;
    *busy_out = peer->step_ms ? peer->slept / seconds : -1;
    if (!peer->on_gpu || peer->step_ms == 0)
        return true;
    for (size_t i = 0; i < peer->n_steps; i++) {
        if (!is_fine(peer, cudaEventElapsedTime(&ms, peer->events[2 * i], peer->events[2 * i + 1]),
                     "elapsed"))
            return false;
        sum += ms;
    }
    if (!is_fine(peer,
                 cudaEventElapsedTime(&ms, peer->events[0], peer->events[2 * peer->n_steps - 1]),
                 "elapsed"))
        return false;
    *busy_out = (double)(sum / ms);
    return true;
}

static bool run_until_called(struct gpu_peer *peer)
{
    if (!mr_moments_say("end"))
        return false;
    while (!mr_moments_is_called())
        if (!take_one(peer, false))
            return false;
    return synchronise_stream(peer);
}

static bool run_peer(struct gpu_peer *peer)
{
    double seconds = 0, busy = -1;
    peer->gaps = malloc(MAX_STEPS * sizeof *peer->gaps);
    peer->events = calloc(2 * MAX_STEPS, sizeof *peer->events);
    if (!peer->gaps || !peer->events || !create_loader(peer) || !warm_up(peer) ||
        !measure_steps(peer, &seconds) || !read_busy(peer, seconds, &busy) ||
        !run_until_called(peer))
        return false;
    printf("{\"mark\": \"done\", \"seconds\": %.6f, \"images\": %zu, \"failed\": 0, \"busy\": "
           "%.4f, \"versions\": "
           "{\"millrace\": \"%s\"}, ",
           seconds, peer->n_steps * peer->batch_size, busy, mr_version());
    mr_moments_print_gaps(peer->gaps, peer->n_steps);
    printf("}\n");
    return fflush(stdout) == 0;
}

static uint32_t read_number(struct argp_state *state, const char *text, uint32_t least,
                            uint32_t most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || value < least || value > most)
        argp_error(state, "%s is not a number from %u to %u", text, least, most);
    return (uint32_t)value;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct gpu_peer *peer = state->input;
    switch (key) {
    case 'd': peer->data = text; break;
    case 'g':
        peer->device = text;
        peer->on_gpu = strncmp(text, "cuda:", 5) == 0;
        break;
    case 'w': peer->n_workers = read_number(state, text, 1, MR_MAX_WORKERS); break;
    case 'b': peer->batch_size = read_number(state, text, 1, 65535); break;
    case 't': peer->step_ms = read_number(state, text, 0, 10000); break;
    case 's': peer->seconds = read_number(state, text, 1, 3600); break;
    case ARGP_KEY_END:
        if (!peer->data)
            argp_error(state, "--data is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"data", 'd', "SPEC", 0, "dataset", 0},
        {"device", 'g', "DEVICE", 0, "cuda:N (cuda:0), or host:0", 0},
        {"workers", 'w', "N", 0, "worker processes (4)", 0},
        {"batch", 'b', "N", 0, "batch size (256)", 0},
        {"step", 't', "MS", 0, "length of a step; 0: none", 0},
        {"seconds", 's', "S", 0, "measured time (6)", 0},
        {0},
    };
    const struct argp argp = {
        .options = options, .parser = parse_option, .doc = "millrace on a GPU beside its peers."};
    struct gpu_peer peer = {
        .device = "cuda:0", .on_gpu = true, .n_workers = 4, .batch_size = 256, .seconds = 6};
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, &peer) != 0)
        return 2;
    bool fine = run_peer(&peer);
    if (!fine)
        fprintf(stderr, "%s\n", peer.words[0] ? peer.words : "no memory, or the runner has ended");
    mr_loader_destroy(peer.loader);
    mr_dataset_destroy(peer.dataset);
    free(peer.events);
    free(peer.gaps);
    return !fine;
}
