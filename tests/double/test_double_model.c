/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs against a slow model without clocks: a graph of steps, in which every step has
 * the set of all steps before it. The double must report something at exactly the step at which the
 * model first sees two unordered accesses, and until then every kernel must read what the model
 * expects. Prints the seed that fails; test_double_model SEED runs it alone.
 */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_PROGRAMS = 2000,
    N_STEPS = 100,
    MOST = 500,    /* steps of the model */
    N_STREAMS = 6, /* 0 and 1: the default streams; 2 and 3 block; of device i % 2 */
    N_EVENTS = 6,
    N_HOSTS = 2,
    N_PLACES = 3, /* pieces of memory per device, and as many of the host's */
    LEN = 16
};

struct step {
    bool before[MOST]; /* steps that come before this one, including itself */
    int place;         /* the place that it touches, -1: none */
    bool writes;
};

struct model {
    struct step steps[MOST];
    int n;
    int stream_last[N_STREAMS]; /* -1: nothing yet */
    int host_last[N_HOSTS];
    int event_step[N_EVENTS];
    uint8_t value[3 * N_PLACES];
    bool unordered;
};

struct program {
    uint64_t random;
    struct model model;
    cudaStream_t streams[N_STREAMS];
    cudaEvent_t events[N_EVENTS];
    uint8_t *places[3 * N_PLACES]; /* device 0's, device 1's, the host's */
    uint64_t sums[N_STEPS];
    uint64_t expected[N_STEPS];
    int n_sums;
    int host;
};

static uint64_t draw(struct program *program, uint64_t below)
{
    program->random =
        program->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (program->random >> 33) % below;
}

/* ---- the model ---- */

static int add_step(struct model *model, int place, bool writes)
{
    struct step *step = &model->steps[model->n];
    assert_true(model->n < MOST);
    memset(step, 0, sizeof *step);
    step->before[model->n] = true;
    step->place = place;
    step->writes = writes;
    return model->n++;
}

static void add_before(struct model *model, int step, int earlier)
{
    for (int i = 0; earlier >= 0 && i < MOST; i++)
        model->steps[step].before[i] =
            model->steps[step].before[i] || model->steps[earlier].before[i];
}

static bool has_order(const struct model *model, int step)
{
    for (int i = 0; i < step; i++) {
        const struct step *earlier = &model->steps[i];
        bool conflict = earlier->place >= 0 && earlier->place == model->steps[step].place &&
                        (earlier->writes || model->steps[step].writes);
        if (conflict && !model->steps[step].before[i])
            return false;
    }
    return true;
}

static bool is_blocking(int stream)
{
    return stream == 2 || stream == 3;
}

static int add_stream_step(struct program *program, int stream, int waits_for, int place,
                           bool writes)
{
    struct model *model = &program->model;
    int step = add_step(model, place, writes);
    add_before(model, step, model->host_last[program->host]);
    add_before(model, step, model->stream_last[stream]);
    add_before(model, step, waits_for);
    if (is_blocking(stream))
        add_before(model, step, model->stream_last[stream % 2]);
    if (stream < 2)
        add_before(model, step, model->stream_last[stream + 2]);
    return step;
}

/* Leaves out most accesses that would be unordered, so that programs become long. */
static bool is_left_out(struct program *program, int stream, int place, bool writes)
{
    int step = add_stream_step(program, stream, -1, place, writes);
    bool ordered = has_order(&program->model, step);
    program->model.n--;
    return !ordered && draw(program, 20) > 0;
}

static int stream_step(struct program *program, int stream, int waits_for, int place, bool writes)
{
    struct model *model = &program->model;
    int step = add_stream_step(program, stream, waits_for, place, writes);
    model->stream_last[stream] = step;
    model->unordered = model->unordered || !has_order(model, step);
    return step;
}

static void host_step(struct program *program, int waits_for, int place, bool writes)
{
    struct model *model = &program->model;
    int step = add_step(model, place, writes);
    add_before(model, step, model->host_last[program->host]);
    add_before(model, step, waits_for);
    model->host_last[program->host] = step;
    model->unordered = model->unordered || !has_order(model, step);
}

/* ---- the same on the double ---- */

static void touch(struct program *program, int stream)
{
    int place = (int)(stream % 2 * N_PLACES + (int)draw(program, N_PLACES));
    uint8_t value = (uint8_t)draw(program, 256), bytes[LEN];
    bool writes = draw(program, 2);
    if (is_left_out(program, stream, place, writes))
        return;
    stream_step(program, stream, -1, place, writes);
    if (writes) {
        OK(double_launch_fill(program->streams[stream], program->places[place], LEN, value));
        program->model.value[place] = value;
        return;
    }
    memset(bytes, program->model.value[place], LEN);
    program->expected[program->n_sums] = double_sum(bytes, LEN);
    OK(double_launch_sum(program->streams[stream], program->places[place], LEN,
                         &program->sums[program->n_sums++]));
}

/* A copy touches two places, which are two steps of the model with one order. */
static void copy(struct program *program, int stream)
{
    int there = (int)(stream % 2 * N_PLACES + (int)draw(program, N_PLACES));
    int here = (int)(2 * N_PLACES + (int)draw(program, N_PLACES));
    bool in = draw(program, 2);
    int to = in ? there : here, from = in ? here : there;
    if (is_left_out(program, stream, to, true) || is_left_out(program, stream, from, false))
        return;
    stream_step(program, stream, -1, to, true);
    stream_step(program, stream, -1, from, false);
    OK(cudaMemcpyAsync(program->places[to], program->places[from], LEN, cudaMemcpyDefault,
                       program->streams[stream]));
    program->model.value[to] = program->model.value[from];
}

static void record(struct program *program, int stream)
{
    int event = (int)(draw(program, N_EVENTS / 2) * 2 + (uint64_t)(stream % 2));
    OK(cudaEventRecord(program->events[event], program->streams[stream]));
    program->model.event_step[event] = stream_step(program, stream, -1, -1, false);
}

static void wait_for_event(struct program *program, int stream)
{
    int event = (int)draw(program, N_EVENTS);
    OK(cudaStreamWaitEvent(program->streams[stream], program->events[event], 0));
    if (program->model.event_step[event] >= 0)
        stream_step(program, stream, program->model.event_step[event], -1, false);
}

static void ask_event(struct program *program)
{
    int event = (int)draw(program, N_EVENTS);
    bool waits = draw(program, 2);
    cudaError_t error = waits ? cudaEventSynchronize(program->events[event])
                              : cudaEventQuery(program->events[event]);
    if (waits || program->model.event_step[event] < 0)
        OK(error);
    if (error == cudaSuccess)
        host_step(program, program->model.event_step[event], -1, false);
}

static void wait_for_stream(struct program *program, int stream)
{
    OK(cudaStreamSynchronize(program->streams[stream]));
    host_step(program, program->model.stream_last[stream], -1, false);
    if (stream < 2)
        host_step(program, program->model.stream_last[stream + 2], -1, false);
}

static void wait_for_device(struct program *program, int device)
{
    OK(cudaDeviceSynchronize());
    for (int stream = device; stream < N_STREAMS; stream += 2)
        host_step(program, program->model.stream_last[stream], -1, false);
}

static void touch_on_host(struct program *program)
{
    int place = (int)(2 * N_PLACES + (int)draw(program, N_PLACES));
    bool writes = draw(program, 2);
    int step = add_step(&program->model, place, writes);
    add_before(&program->model, step, program->model.host_last[program->host]);
    bool ordered = has_order(&program->model, step);
    program->model.n--;
    if (!ordered && draw(program, 20) > 0)
        return;
    host_step(program, -1, place, writes);
    if (!writes)
        assert_true(double_host_read(program->places[place], LEN));
    else
        assert_true(double_host_write(program->places[place], LEN));
    if (program->model.unordered)
        return;
    if (!writes) {
        assert_int_equal(program->places[place][0], program->model.value[place]);
        return;
    }
    uint8_t value = (uint8_t)draw(program, 256);
    memset(program->places[place], value, LEN);
    program->model.value[place] = value;
}

static void hand_over(struct program *program)
{
    int to = 1 - program->host;
    double_handoff((uint32_t)program->host, (uint32_t)to);
    int given = program->model.host_last[program->host];
    host_step(program, -1, -1, false);
    program->host = to;
    host_step(program, given, -1, false);
}

/* Calls depend on the current device if they name a default stream or launch a kernel. */
static void one_step(struct program *program)
{
    int stream = (int)draw(program, N_STREAMS);
    double_as_thread((uint32_t)program->host);
    OK(cudaSetDevice(stream % 2));
    switch (draw(program, 16)) {
    case 0:
    case 1:
    case 2: touch(program, stream); break;
    case 3:
    case 4: copy(program, stream); break;
    case 5:
    case 6:
    case 7: record(program, stream); break;
    case 8:
    case 9:
    case 10: wait_for_event(program, stream); break;
    case 11: ask_event(program); break;
    case 12: wait_for_stream(program, stream); break;
    case 13: wait_for_device(program, stream % 2); break;
    case 14: touch_on_host(program); break;
    default:
        if (draw(program, 2))
            /* another thread continues, unordered with this one */
            program->host = 1 - program->host;
        else
            hand_over(program);
    }
}

/* ---- running ---- */

static void set_up(struct program *program, uint64_t seed)
{
    memset(program, 0, sizeof *program);
    program->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 77;
    (void)draw(program, 2);
    fixture_open((enum double_policy)draw(program, 3));
    struct model *model = &program->model;
    for (int i = 0; i < N_STREAMS; i++) {
        model->stream_last[i] = -1;
        OK(cudaSetDevice(i % 2));
        if (i >= 2)
            program->streams[i] = is_blocking(i) ? fixture_blocking_stream() : fixture_stream();
    }
    for (int i = 0; i < N_EVENTS; i++) {
        model->event_step[i] = -1;
        OK(cudaSetDevice(i % 2));
        program->events[i] = fixture_event();
    }
    for (int i = 0; i < 3 * N_PLACES; i++) {
        OK(cudaSetDevice(i / N_PLACES % 2));
        program->places[i] = i < 2 * N_PLACES ? fixture_device(LEN) : fixture_pinned(LEN);
        model->value[i] = i < 2 * N_PLACES ? 0xdb : 0;
        if (i >= 2 * N_PLACES)
            memset(program->places[i], 0, LEN);
    }
    model->host_last[0] = model->host_last[1] = -1;
}

static void end(struct program *program)
{
    double_as_thread(0);
    double_handoff(1, 0);
    bool unordered = program->model.unordered;
    double_run_all();
    for (int i = 0; !unordered && i < program->n_sums; i++)
        assert_int_equal(program->sums[i], program->expected[i]);
    double_forget();
    fixture_close();
}

/* Returns the number of steps before the first unordered one. */
static int run_program(uint64_t seed)
{
    static struct program program;
    set_up(&program, seed);
    int i = 0;
    for (; i < N_STEPS && !program.model.unordered; i++) {
        one_step(&program);
        bool found = double_found(DOUBLE_UNORDERED) > 0;
        if (found != program.model.unordered || double_found(DOUBLE_MISUSE) > 0)
            fail_msg("seed %llu, step %d: the double %s, the model %s\n%s",
                     (unsigned long long)seed, i, found ? "reports" : "is content",
                     program.model.unordered ? "does not agree" : "is", double_report());
    }
    end(&program);
    return i;
}

static uint64_t only_seed;

static void the_double_finds_what_the_model_finds(void **state)
{
    (void)state;
    int n_whole = 0, n_steps = 0;
    if (only_seed > 0) {
        (void)run_program(only_seed);
        return;
    }
    for (uint64_t seed = 1; seed <= N_PROGRAMS; seed++) {
        int n = run_program(seed);
        n_whole += n == N_STEPS;
        n_steps += n;
    }
    print_message("%d programs, %d steps, %d of them without a finding to their end\n", N_PROGRAMS,
                  n_steps, n_whole);
    assert_true(n_whole > N_PROGRAMS / 10 && n_whole < N_PROGRAMS);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        only_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_double_finds_what_the_model_finds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
