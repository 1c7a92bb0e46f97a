/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rank has a thread that takes its collectives in the order of the calls. The last rank to
 * join a collective does it for all, under the lock. Works are in a ring per rank, so nothing is
 * allocated.
 */
#include "tests/dist/group/group_double.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "dist/group/collectives.h"
#include "dist/group/device_sums.h"
#include "dist/group/work.h"

#include <millrace/metrics.h>

enum { MAX_WORKS = 8 };

enum kind { KIND_BARRIER, KIND_ALL_REDUCE, KIND_ALL_GATHER };

struct call {
    enum kind kind;
    const void *in;
    void *out;
    uint64_t count;
    mr_dtype dtype;
    mr_reduction op;
};

struct double_work {
    struct double_rank *rank;
    struct call call;
    bool is_used;
    bool has_ended;
    mr_status status;
};

struct world;

struct device_sums {
    double values[2 * MR_MAX_METRICS];
};

struct double_rank {
    struct world *world;
    uint32_t rank;
    struct double_work works[MAX_WORKS];
    uint64_t n_called; /* the work of call i is at i % MAX_WORKS */
    uint64_t n_done;
    bool is_held;
    bool is_closing;
    int n_sums;
    struct device_sums sums;
    mr_error error;
    struct group_double_log log;
    pthread_t runner;
    pthread_t user;
};

/* One lock and one condition for everything: clarity before speed. */
struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct group_double_run *run;
    struct double_rank ranks[GROUP_DOUBLE_RANKS];
    struct call calls[GROUP_DOUBLE_RANKS];
    uint32_t n_arrived;
    uint64_t n_collectives;
    mr_status outcome; /* of the last collective */
    void (*f)(mr_group *group, void *arg);
    void *arg;
};

/* The library never reads a group here, so its handle may be any pointer. */
static struct double_rank *get_rank(const mr_group *group)
{
    return (struct double_rank *)(uintptr_t)group;
}

static struct double_work *get_work(mr_group_work *work)
{
    return (struct double_work *)(void *)work;
}

static void reduce_f64(double *a, double b, mr_reduction op)
{
    if (op == MR_SUM)
        *a += b;
    else if (op == MR_MIN ? b < *a : b > *a)
        *a = b;
}

static void reduce_i64(int64_t *a, int64_t b, mr_reduction op)
{
    if (op == MR_SUM)
        *a += b;
    else if (op == MR_MIN ? b < *a : b > *a)
        *a = b;
}

/* Reduces into rank 0's buffer, in the order of ranks, and copies it to all. */
static void all_reduce(struct world *world)
{
    const struct call *first = &world->calls[0];
    for (uint32_t r = 1; r < world->run->n_ranks; r++) {
        const void *in = world->calls[r].out;
        for (uint64_t i = 0; i < first->count; i++) {
            if (first->dtype == MR_F64) {
                reduce_f64((double *)first->out + i, ((const double *)in)[i], first->op);
            } else if (first->dtype == MR_I64) {
                reduce_i64((int64_t *)first->out + i, ((const int64_t *)in)[i], first->op);
            } else {
                int64_t wide = ((int32_t *)first->out)[i];
                reduce_i64(&wide, ((const int32_t *)in)[i], first->op);
                ((int32_t *)first->out)[i] = (int32_t)wide;
            }
        }
    }
    for (uint32_t r = 1; r < world->run->n_ranks; r++)
        memcpy(world->calls[r].out, first->out, first->count * mr_dtype_size(first->dtype));
}

static void all_gather(struct world *world)
{
    size_t len = world->calls[0].count * mr_dtype_size(world->calls[0].dtype);
    for (uint32_t to = 0; to < world->run->n_ranks; to++)
        for (uint32_t from = 0; from < world->run->n_ranks; from++)
            memcpy((char *)world->calls[to].out + from * len, world->calls[from].in, len);
}

static bool are_alike(const struct world *world)
{
    const struct call *first = &world->calls[0];
    for (uint32_t r = 1; r < world->run->n_ranks; r++) {
        const struct call *call = &world->calls[r];
        if (call->kind != first->kind || call->count != first->count ||
            call->dtype != first->dtype || call->op != first->op)
            return false;
    }
    return true;
}

static mr_status do_collective(struct world *world)
{
    world->n_collectives++;
    if (world->run->fails_at == world->n_collectives)
        return MR_ERR_PEER;
    if (!are_alike(world)) {
        world->run->differs_by_op = true;
        return MR_ERR_PEER;
    }
    if (world->calls[0].kind == KIND_ALL_REDUCE)
        all_reduce(world);
    else if (world->calls[0].kind == KIND_ALL_GATHER)
        all_gather(world);
    return MR_OK;
}

/* With the lock held. Returns when all ranks have joined. */
static mr_status arrive(struct double_rank *rank, const struct call *call)
{
    struct world *world = rank->world;
    world->calls[rank->rank] = *call;
    if (++world->n_arrived == world->run->n_ranks) {
        world->n_arrived = 0;
        world->outcome = do_collective(world);
        pthread_cond_broadcast(&world->changed);
        return world->outcome;
    }
    for (uint64_t before = world->n_collectives; before == world->n_collectives;)
        pthread_cond_wait(&world->changed, &world->lock);
    return world->outcome; /* the next collective cannot end without this rank */
}

static void *run_collectives(void *arg)
{
    struct double_rank *rank = arg;
    struct world *world = rank->world;
    pthread_mutex_lock(&world->lock);
    for (;;) {
        while ((rank->n_done == rank->n_called && !rank->is_closing) || rank->is_held)
            pthread_cond_wait(&world->changed, &world->lock);
        if (rank->n_done == rank->n_called)
            break;
        struct double_work *work = &rank->works[rank->n_done % MAX_WORKS];
        work->status = arrive(rank, &work->call);
        work->has_ended = true;
        rank->n_done++;
        pthread_cond_broadcast(&world->changed);
    }
    pthread_mutex_unlock(&world->lock);
    return NULL;
}

static void note(struct double_rank *rank, const struct call *call)
{
    struct group_double_log *log = &rank->log;
    log->n_barriers += call->kind == KIND_BARRIER;
    log->n_all_reduces += call->kind == KIND_ALL_REDUCE;
    log->n_others += call->kind != KIND_BARRIER && call->kind != KIND_ALL_REDUCE;
    if (call->kind == KIND_ALL_REDUCE) {
        log->count = call->count;
        log->dtype = call->dtype;
        log->op = call->op;
    }
}

static mr_status begin(mr_group *group, const struct call *call, mr_group_work **work_out)
{
    struct double_rank *rank = get_rank(group);
    pthread_mutex_lock(&rank->world->lock);
    struct double_work *work = &rank->works[rank->n_called % MAX_WORKS];
    if (work->is_used)
        abort(); /* a missing mr_group_work_destroy() */
    *work = (struct double_work){.rank = rank, .call = *call, .is_used = true};
    rank->n_called++;
    note(rank, call);
    pthread_cond_broadcast(&rank->world->changed);
    pthread_mutex_unlock(&rank->world->lock);
    *work_out = (mr_group_work *)(void *)work;
    return MR_OK;
}

static mr_status call_and_wait(mr_group *group, const struct call *call)
{
    mr_group_work *work;
    mr_status status = begin(group, call, &work);
    if (status == MR_OK) {
        status = mr_group_work_sync(work, UINT32_MAX);
        mr_group_work_destroy(work);
    }
    return status;
}

mr_status mr_group_barrier(mr_group *group)
{
    return call_and_wait(group, &(struct call){.kind = KIND_BARRIER});
}

mr_status mr_group_all_reduce(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                              mr_reduction op)
{
    return call_and_wait(group, &(struct call){KIND_ALL_REDUCE, buffer, buffer, count, dtype, op});
}

mr_status mr_group_all_reduce_async(mr_group *group, void *buffer, uint64_t count, mr_dtype dtype,
                                    mr_reduction op, void *stream, mr_group_work **work_out)
{
    (void)stream;
    return begin(group, &(struct call){KIND_ALL_REDUCE, buffer, buffer, count, dtype, op},
                 work_out);
}

mr_status mr_group_all_gather(mr_group *group, const void *in, void *out, uint64_t count,
                              mr_dtype dtype)
{
    return call_and_wait(
        group, &(struct call){
                   .kind = KIND_ALL_GATHER, .in = in, .out = out, .count = count, .dtype = dtype});
}

mr_status mr_collectives_all_reduce(struct mr_group *group, void *buffer, uint64_t count,
                                    mr_dtype dtype, mr_reduction op)
{
    return mr_group_all_reduce(group, buffer, count, dtype, op);
}

/* As in an engine, the device's sums are added to the host's before the ranks meet. */
mr_status mr_collectives_all_reduce_async(struct mr_group *group, void *buffer, uint64_t count,
                                          mr_dtype dtype, mr_reduction op, void *sums,
                                          mr_group_work **work_out)
{
    struct device_sums *of = sums;
    for (uint64_t i = 0; of && i < count; i++) {
        ((double *)buffer)[i] += of->values[i];
        of->values[i] = 0;
    }
    return mr_group_all_reduce_async(group, buffer, count, dtype, op, NULL, work_out);
}

mr_status mr_collectives_all_gather(struct mr_group *group, const void *in, void *out,
                                    uint64_t count, mr_dtype dtype)
{
    return mr_group_all_gather(group, in, out, count, dtype);
}

bool mr_group_on_device(const mr_group *group)
{
    return group && get_rank(group)->world->run->has_device;
}

mr_status mr_device_sums_create(struct mr_group *group, uint32_t n, void **sums_out)
{
    (void)n;
    get_rank(group)->n_sums++;
    memset(&get_rank(group)->sums, 0, sizeof get_rank(group)->sums);
    *sums_out = &get_rank(group)->sums;
    return MR_OK;
}

mr_status mr_device_sums_add(struct mr_group *group, void *sums, uint32_t at, const void *value,
                             mr_dtype dtype, double count, void *stream)
{
    struct device_sums *of = sums;
    (void)stream;
    if (dtype != MR_F32)
        return mr_error_set(&get_rank(group)->error, MR_ERR_DEVICE, "the double adds f32 alone");
    of->values[at] += (double)*(const float *)value;
    of->values[at + 1] += count;
    return MR_OK;
}

void mr_device_sums_destroy(struct mr_group *group, void *sums)
{
    (void)sums;
    get_rank(group)->n_sums--;
}

const char *mr_group_backend(const mr_group *group)
{
    return mr_group_on_device(group) ? "nccl" : group ? "gloo" : "none";
}

mr_status mr_group_work_sync(mr_group_work *handle, uint32_t timeout_ms)
{
    struct double_work *work = get_work(handle);
    struct double_rank *rank = work->rank;
    (void)timeout_ms;
    pthread_mutex_lock(&rank->world->lock);
    while (!work->has_ended)
        pthread_cond_wait(&rank->world->changed, &rank->world->lock);
    if (work->status != MR_OK)
        mr_error_set(&rank->error, work->status, "rank 1 disconnected, says the double");
    pthread_mutex_unlock(&rank->world->lock);
    return work->status;
}

void mr_group_work_destroy(mr_group_work *handle)
{
    if (!handle)
        return;
    mr_group_work_sync(handle, UINT32_MAX);
    struct double_work *work = get_work(handle);
    pthread_mutex_lock(&work->rank->world->lock);
    work->is_used = false;
    pthread_mutex_unlock(&work->rank->world->lock);
}

uint32_t mr_group_rank(const mr_group *group)
{
    return group ? get_rank(group)->rank : 0;
}

uint32_t mr_group_world_size(const mr_group *group)
{
    return group ? get_rank(group)->world->run->n_ranks : 1;
}

static uint32_t ranks_per_node(const mr_group *group)
{
    const struct group_double_run *run = get_rank(group)->world->run;
    return run->n_ranks / (run->n_nodes ? run->n_nodes : 1);
}

uint32_t mr_group_local_rank(const mr_group *group)
{
    return group ? get_rank(group)->rank % ranks_per_node(group) : 0;
}

const mr_error *mr_group_error(const mr_group *group)
{
    return &get_rank(group)->error;
}

mr_status mr_work_end_group(mr_group *group, const mr_error *error)
{
    mr_error_copy(&get_rank(group)->error, error);
    return (mr_status)error->status;
}

mr_status mr_work_fail_group(mr_group *group, const mr_error *error)
{
    return mr_work_end_group(group, error);
}

void group_double_hold(mr_group *group, bool held)
{
    struct double_rank *rank = get_rank(group);
    pthread_mutex_lock(&rank->world->lock);
    rank->is_held = held;
    pthread_cond_broadcast(&rank->world->changed);
    pthread_mutex_unlock(&rank->world->lock);
}

struct group_double_log group_double_log_of(mr_group *group)
{
    return get_rank(group)->log;
}

void group_double_check(mr_group *group, bool holds, const char *file, int line, const char *text)
{
    struct double_rank *rank = get_rank(group);
    if (holds)
        return;
    pthread_mutex_lock(&rank->world->lock);
    fprintf(stderr, "%s:%d: rank %u: %s does not hold\n", file, line, rank->rank, text);
    rank->world->run->n_failures++;
    pthread_mutex_unlock(&rank->world->lock);
}

static void *run_user(void *arg)
{
    struct double_rank *rank = arg;
    rank->world->f((mr_group *)(void *)rank, rank->world->arg);
    return NULL;
}

static void start(pthread_t *thread, void *(*main)(void *), void *arg)
{
    if (pthread_create(thread, NULL, main, arg) != 0)
        abort();
}

void group_double_run(struct group_double_run *run, void (*f)(mr_group *group, void *arg),
                      void *arg)
{
    static struct world world;
    memset(&world, 0, sizeof world);
    pthread_mutex_init(&world.lock, NULL);
    pthread_cond_init(&world.changed, NULL);
    world.run = run;
    world.f = f;
    world.arg = arg;
    for (uint32_t r = 0; r < run->n_ranks; r++) {
        world.ranks[r].world = &world;
        world.ranks[r].rank = r;
        start(&world.ranks[r].runner, run_collectives, &world.ranks[r]);
    }
    for (uint32_t r = 0; r < run->n_ranks; r++)
        start(&world.ranks[r].user, run_user, &world.ranks[r]);
    for (uint32_t r = 0; r < run->n_ranks; r++)
        pthread_join(world.ranks[r].user, NULL);
    pthread_mutex_lock(&world.lock);
    for (uint32_t r = 0; r < run->n_ranks; r++)
        world.ranks[r].is_closing = true;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
    for (uint32_t r = 0; r < run->n_ranks; r++)
        pthread_join(world.ranks[r].runner, NULL);
    for (uint32_t r = 0; r < run->n_ranks; r++)
        run->n_failures += world.ranks[r].n_sums != 0;
    for (uint32_t r = 0; r < run->n_ranks; r++)
        for (int i = 0; i < MAX_WORKS; i++)
            run->n_failures += world.ranks[r].works[i].is_used;
    run->log = world.ranks[0].log;
    pthread_cond_destroy(&world.changed);
    pthread_mutex_destroy(&world.lock);
}

void group_double_run_well(uint32_t n_ranks, void (*f)(mr_group *group, void *arg), void *arg)
{
    struct group_double_run run = {.n_ranks = n_ranks};
    group_double_run(&run, f, arg);
    assert_int_equal(run.n_failures, 0);
    assert_false(run.differs_by_op);
}
