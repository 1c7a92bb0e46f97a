/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of a device engine. Ranks are threads of one process, device memory is the process's
 * memory, and a collective is done when its last rank has issued it. A test controls it by
 * device_engine_double.h.
 *
 * Invariant: the buffers of a rank that has aborted or left may be gone, so once a rank has
 * disconnected from a board, no more collectives are done there.
 */
#include "tests/dist/group/device_engine_double.h"

#include "dist/group/engine_table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_NUMBERS = 64 }; /* collectives under way at most */
enum { N_KEPT = 1024 };  /* allocations at a time */

struct ticket {
    struct mr_collective collective;
    struct engine *engine;
    bool has_happened;
    unsigned char *staged; /* a copy of host memory: the input, then the result */
    size_t len;
};

struct board {
    pthread_mutex_t lock;
    uint32_t n_ranks;
    uint32_t n_engines;
    bool is_broken;
    struct ticket *tickets[N_NUMBERS][DEVICE_DOUBLE_RANKS]; /* by number */
    /* by number, from, to, which end */
    struct ticket *mails[N_NUMBERS][DEVICE_DOUBLE_RANKS][DEVICE_DOUBLE_RANKS][2];
};

struct engine {
    struct board *board;
    uint32_t rank;
    uint32_t n_ranks;
    int32_t ordinal;
    struct device_double_rank *orders;
    atomic_uint n_inside; /* calls of the caller's thread in progress */
    atomic_bool is_aborted;
    int32_t (*fail)(mr_error *error, int32_t status, const char *format, ...);
};

static struct device_double control;

MR_API struct device_double *device_double_get(void);

struct device_double *device_double_get(void)
{
    return &control;
}

/*
 * An engine that was given up is never destroyed, nor are its tickets dropped. That is not a leak,
 * so they stay reachable for a leak checker.
 */
static void *_Atomic kept[N_KEPT];

static void *keep(size_t n, size_t size)
{
    void *memory = calloc(n, size ? size : 1);
    for (size_t i = 0; memory && i < N_KEPT; i++) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&kept[i], &none, memory))
            return memory;
    }
    abort(); /* no memory, or too many */
}

static void let_go(void *memory)
{
    for (size_t i = 0; memory && i < N_KEPT; i++) {
        void *expected = memory;
        atomic_compare_exchange_strong(&kept[i], &expected, NULL);
    }
    free(memory);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(uint32_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&left, NULL);
}

static void misuse(const struct engine *engine, const char *what)
{
    atomic_fetch_add(&control.n_misuses, 1);
    fprintf(stderr, "rank %u: %s\n", engine->rank, what);
}

static void enter(struct engine *engine, const char *what, bool after_abort)
{
    if (atomic_fetch_add(&engine->n_inside, 1) > 0)
        misuse(engine, "two threads are in the engine at once");
    if (!after_abort && atomic_load(&engine->is_aborted))
        misuse(engine, what);
}

static void leave(struct engine *engine)
{
    atomic_fetch_sub(&engine->n_inside, 1);
}

static size_t size_of(uint32_t dtype)
{
    return dtype == MR_F64 || dtype == MR_I64 ? 8 : 4; /* the double has no 16-bit types */
}

static double get(const unsigned char *p, uint32_t dtype, size_t i)
{
    switch (dtype) {
    case MR_F64: return ((const double *)(const void *)p)[i];
    case MR_F32: return (double)((const float *)(const void *)p)[i];
    case MR_I64: return (double)((const int64_t *)(const void *)p)[i];
    default: return ((const int32_t *)(const void *)p)[i];
    }
}

static void put(unsigned char *p, uint32_t dtype, size_t i, double value)
{
    switch (dtype) {
    case MR_F64: ((double *)(void *)p)[i] = value; break;
    case MR_F32: ((float *)(void *)p)[i] = (float)value; break;
    case MR_I64: ((int64_t *)(void *)p)[i] = (int64_t)value; break;
    default: ((int32_t *)(void *)p)[i] = (int32_t)value; break;
    }
}

static const unsigned char *input_of(const struct ticket *ticket)
{
    return ticket->staged ? ticket->staged : ticket->collective.in;
}

static unsigned char *output_of(const struct ticket *ticket)
{
    return ticket->staged ? ticket->staged : ticket->collective.out;
}

static double combine(const struct board *board, struct ticket *const *tickets, size_t i)
{
    const struct mr_collective *c = &tickets[0]->collective;
    double value = get(input_of(tickets[0]), c->dtype, i);
    for (uint32_t r = 1; r < board->n_ranks; r++) {
        double x = get(input_of(tickets[r]), c->dtype, i);
        bool takes = (c->op == MR_MIN && x < value) || (c->op == MR_MAX && x > value);
        value = takes ? x : c->op == MR_SUM || c->op == MR_MEAN ? value + x : value;
    }
    return c->op == MR_MEAN ? value / board->n_ranks : value;
}

/* All elements of all ranks are read before one is written. */
static void reduce(const struct board *board, struct ticket *const *tickets)
{
    const struct mr_collective *c = &tickets[0]->collective;
    bool scatters = c->kind == MR_COLLECTIVE_REDUCE_SCATTER;
    size_t n = c->count * (scatters ? board->n_ranks : 1);
    double *values = calloc(n, sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = combine(board, tickets, i);
    for (uint32_t r = 0; r < board->n_ranks; r++)
        for (size_t i = 0; i < c->count; i++)
            if (c->kind != MR_COLLECTIVE_REDUCE || r == c->root)
                put(output_of(tickets[r]), c->dtype, i, values[scatters ? r * c->count + i : i]);
    free(values);
}

/* All inputs are read before an output is written, because they may be inside it. */
static void gather(const struct board *board, struct ticket *const *tickets)
{
    size_t len = tickets[0]->collective.count * size_of(tickets[0]->collective.dtype);
    unsigned char *all = calloc(board->n_ranks, len);
    for (uint32_t r = 0; r < board->n_ranks; r++)
        memcpy(all + r * len, input_of(tickets[r]), len);
    for (uint32_t r = 0; r < board->n_ranks; r++)
        memcpy(output_of(tickets[r]), all, board->n_ranks * len);
    free(all);
}

static void happen(const struct board *board, struct ticket *const *tickets)
{
    const struct mr_collective *c = &tickets[0]->collective;
    size_t len = c->count * size_of(c->dtype);
    switch (c->kind) {
    case MR_COLLECTIVE_BARRIER: break;
    case MR_COLLECTIVE_ALL_GATHER: gather(board, tickets); break;
    case MR_COLLECTIVE_BROADCAST:
        for (uint32_t r = 0; r < board->n_ranks; r++)
            memmove(output_of(tickets[r]), input_of(tickets[c->root]), len);
        break;
    default: reduce(board, tickets);
    }
}

/* With the board's lock. */
static void arrive_pair(struct board *board, struct ticket *ticket)
{
    const struct mr_collective *c = &ticket->collective;
    bool sends = c->kind == MR_COLLECTIVE_SEND;
    uint32_t own = ticket->engine->rank;
    struct ticket **ends =
        board->mails[c->number % N_NUMBERS][sends ? own : c->root][sends ? c->root : own];
    ends[sends] = ticket;
    if (!ends[0] || !ends[1])
        return;
    memcpy(output_of(ends[0]), input_of(ends[1]), c->count * size_of(c->dtype));
    ends[0]->has_happened = ends[1]->has_happened = true;
    ends[0] = ends[1] = NULL;
}

/* With the board's lock. */
static void arrive(struct board *board, struct ticket *ticket)
{
    struct ticket **tickets = board->tickets[ticket->collective.number % N_NUMBERS];
    uint32_t n = 0;
    tickets[ticket->engine->rank] = ticket;
    for (uint32_t r = 0; r < board->n_ranks; r++)
        n += tickets[r] != NULL;
    if (n < board->n_ranks)
        return;
    happen(board, tickets);
    for (uint32_t r = 0; r < board->n_ranks; r++) {
        tickets[r]->has_happened = true;
        tickets[r] = NULL;
    }
}

/* For host memory: allocates input and result, and takes the device's sums. */
static void stage(struct engine *engine, struct ticket *ticket)
{
    const struct mr_collective *c = &ticket->collective;
    size_t len = c->count * size_of(c->dtype);
    ticket->len = c->kind == MR_COLLECTIVE_ALL_GATHER ? len * engine->n_ranks : len;
    ticket->staged = keep(1, ticket->len);
    memcpy(ticket->staged, c->in, len);
    for (uint64_t i = 0; c->sums && i < c->count; i++) {
        ((double *)(void *)ticket->staged)[i] += ((double *)c->sums)[i];
        ((double *)c->sums)[i] = 0;
    }
    atomic_fetch_add(&engine->orders->n_on_host, 1);
}

/* Acts as an engine that is still connecting. */
static int32_t connect(const struct engine *engine, uint64_t deadline_ns,
                       const volatile uint32_t *stop, mr_error *error)
{
    const struct device_double_rank *orders = engine->orders;
    while (atomic_load(&orders->is_connecting)) {
        bool looks = !atomic_load(&orders->ignores_stop);
        if (looks && __atomic_load_n(stop, __ATOMIC_ACQUIRE))
            return engine->fail(error, MR_ERR_CANCELED, "the double was stopped");
        if (looks && now_ns() > deadline_ns)
            return engine->fail(error, MR_ERR_TIMEOUT, "the double's time is over");
        if (atomic_load(&engine->is_aborted))
            return engine->fail(error, MR_ERR_PEER, "the double was aborted");
        sleep_ms(1);
    }
    return MR_OK;
}

static int32_t obey(struct engine *engine, const struct mr_collective *c, uint64_t deadline_ns,
                    const volatile uint32_t *stop, mr_error *error)
{
    int32_t status = connect(engine, deadline_ns, stop, error);
    if (status || atomic_load(&engine->orders->fails_at) != c->number)
        return status;
    status = atomic_exchange(&engine->orders->issue_status, 0);
    return status ? engine->fail(error, status, "the double was told to fail") : MR_OK;
}

static int32_t issue(void *user, const struct mr_collective *c, uint64_t deadline_ns,
                     const volatile uint32_t *stop, void **ticket_out, mr_error *error)
{
    struct engine *engine = user;
    *ticket_out = NULL;
    enter(engine, "issue after abort", false);
    int32_t status = obey(engine, c, deadline_ns, stop, error);
    struct ticket *ticket = status ? NULL : keep(1, sizeof *ticket);
    if (ticket) {
        ticket->collective = *c;
        ticket->engine = engine;
        if (c->on_host)
            stage(engine, ticket);
        atomic_fetch_add(&engine->orders->n_issues, 1);
        atomic_fetch_add(&engine->orders->n_tickets, 1);
        pthread_mutex_lock(&engine->board->lock);
        if (engine->board->is_broken)
            ;
        else if (c->kind == MR_COLLECTIVE_SEND || c->kind == MR_COLLECTIVE_RECV)
            arrive_pair(engine->board, ticket);
        else
            arrive(engine->board, ticket);
        pthread_mutex_unlock(&engine->board->lock);
        *ticket_out = ticket;
    }
    leave(engine);
    return status;
}

static bool is_held(const struct device_double_rank *orders, uint64_t number)
{
    return atomic_load(&orders->is_held) && number > atomic_load(&orders->held_above);
}

static int32_t test(void *user, void *arg, mr_error *error)
{
    struct engine *engine = user;
    struct ticket *ticket = arg;
    const struct mr_collective *c = &ticket->collective;
    if (atomic_load(&engine->is_aborted))
        misuse(engine, "test after abort");
    if (atomic_load(&engine->orders->breaks_at) == c->number &&
        atomic_load(&engine->orders->test_status))
        return engine->fail(error, atomic_load(&engine->orders->test_status),
                            "the double's ticket was told to fail");
    pthread_mutex_lock(&engine->board->lock);
    bool has_ended = ticket->has_happened && !is_held(engine->orders, c->number);
    if (has_ended && ticket->staged && c->out)
        memcpy(c->out, ticket->staged, ticket->len);
    bool is_lost = engine->board->is_broken && atomic_load(&control.is_strict);
    pthread_mutex_unlock(&engine->board->lock);
    if (!has_ended && is_lost)
        return engine->fail(error, MR_ERR_PEER, "another rank of the double disconnected");
    return has_ended ? MR_OK : MR_PENDING;
}

static int32_t wait(void *user, void *ticket, void *stream, mr_error *error)
{
    struct engine *engine = user;
    (void)ticket;
    (void)error;
    enter(engine, "wait after abort", false);
    atomic_fetch_add(&engine->orders->n_waits, 1);
    atomic_store(&engine->orders->stream, stream);
    leave(engine);
    return MR_OK;
}

static void forget(struct board *board, const struct ticket *ticket)
{
    struct ticket **all = &board->tickets[0][0];
    struct ticket **mails = &board->mails[0][0][0][0];
    for (size_t i = 0; i < sizeof board->tickets / sizeof *all; i++)
        all[i] = all[i] == ticket ? NULL : all[i];
    for (size_t i = 0; i < sizeof board->mails / sizeof *mails; i++)
        mails[i] = mails[i] == ticket ? NULL : mails[i];
}

static void drop(void *user, void *arg)
{
    struct engine *engine = user;
    struct ticket *ticket = arg;
    enter(engine, "drop", true);
    pthread_mutex_lock(&engine->board->lock);
    if (ticket->staged && !ticket->has_happened && !atomic_load(&engine->is_aborted))
        misuse(engine, "a ticket of the host's memory is dropped while it is under way");
    forget(engine->board, ticket);
    engine->board->is_broken |= !ticket->has_happened;
    pthread_mutex_unlock(&engine->board->lock);
    atomic_fetch_sub(&engine->orders->n_tickets, 1);
    let_go(ticket->staged);
    let_go(ticket);
    leave(engine);
}

static int32_t health(void *user, mr_error *error)
{
    struct engine *engine = user;
    int32_t status = atomic_load(&engine->orders->health_status);
    if (atomic_load(&engine->is_aborted))
        misuse(engine, "health after abort");
    return status ? engine->fail(error, status, "the double is not well") : MR_OK;
}

static void break_off(struct board *board)
{
    pthread_mutex_lock(&board->lock);
    board->is_broken = true;
    pthread_mutex_unlock(&board->lock);
}

static void abort_all(void *user)
{
    struct engine *engine = user;
    break_off(engine->board);
    if (atomic_exchange(&engine->is_aborted, true))
        misuse(engine, "a second abort");
    sleep_ms(atomic_load(&engine->orders->abort_ms));
    atomic_fetch_add(&engine->orders->n_aborts, 1);
}

static int32_t sums_create(void *user, uint32_t n, void **sums_out, mr_error *error)
{
    struct engine *engine = user;
    enter(engine, "sums_create after abort", false);
    *sums_out = keep(n, sizeof(double));
    atomic_fetch_add(&engine->orders->n_sums, 1);
    leave(engine);
    (void)error;
    return MR_OK;
}

static int32_t sums_add(void *user, void *sums, uint32_t at, const void *value, uint32_t dtype,
                        double count, void *stream, mr_error *error)
{
    struct engine *engine = user;
    (void)error;
    enter(engine, "sums_add after abort", false);
    atomic_store(&engine->orders->stream, stream);
    ((double *)sums)[at] += get(value, dtype, 0);
    ((double *)sums)[at + 1] += count;
    leave(engine);
    return MR_OK;
}

static void sums_destroy(void *user, void *sums)
{
    struct engine *engine = user;
    enter(engine, "sums_destroy", true);
    atomic_fetch_sub(&engine->orders->n_sums, 1);
    let_go(sums);
    leave(engine);
}

static struct board *make_board(uint32_t n_ranks)
{
    struct board *board = keep(1, sizeof *board);
    pthread_mutex_init(&board->lock, NULL);
    board->n_ranks = n_ranks;
    board->n_engines = n_ranks;
    return board;
}

static void leave_board(struct board *board)
{
    pthread_mutex_lock(&board->lock);
    bool is_last = --board->n_engines == 0;
    pthread_mutex_unlock(&board->lock);
    if (is_last || atomic_load(&control.is_apart))
        let_go(board);
}

/* Rank 0 makes the board. Its address is valid in the whole process. */
static int32_t find_board(struct engine *engine, const struct mr_engine_setup *setup,
                          mr_error *error)
{
    char text[32] = "";
    uint32_t len = 0;
    if (setup->rank == 0 || atomic_load(&control.is_apart))
        engine->board = make_board(setup->world_size);
    int n = snprintf(text, sizeof text, "%p", (void *)engine->board);
    if (setup->rank == 0)
        return setup->store.set(setup->store.user, "board", text, (uint32_t)n, error);
    int32_t status = setup->store.get(setup->store.user, "board", text, sizeof text - 1, &len,
                                      setup->deadline_ns, error);
    void *board = NULL;
    if (!status && !engine->board && sscanf(text, "%p", &board) == 1)
        engine->board = board;
    return status;
}

static int32_t create(const struct mr_engine_setup *setup, void **engine_out, mr_error *error)
{
    int32_t ordinal = 0;
    if (!setup->device && !setup->adopt)
        return setup->fail(error, MR_ERR_INVALID, "the double wants a device");
    if (setup->device && sscanf(setup->device, "cuda:%d", &ordinal) != 1)
        ordinal = atomic_load(&control.shows_one) ? 0 : (int32_t)setup->local_rank;
    struct engine *engine = keep(1, sizeof *engine);
    engine->ordinal = ordinal;
    engine->rank = setup->rank;
    engine->n_ranks = setup->world_size;
    engine->fail = setup->fail;
    engine->orders = &control.ranks[setup->rank];
    int32_t status = find_board(engine, setup, error);
    if (status)
        let_go(engine);
    else
        *engine_out = engine;
    return status;
}

static void destroy(void *user, bool healthy)
{
    struct engine *engine = user;
    if (!healthy)
        break_off(engine->board);
    atomic_fetch_add(healthy ? &engine->orders->n_healthy_ends : &engine->orders->n_other_ends, 1);
    leave_board(engine->board);
    let_go(engine);
}

static int32_t ordinal(const void *user)
{
    const struct engine *engine = user;
    return engine->ordinal;
}

static const struct mr_engine_device device = {
    .issue = issue,
    .test = test,
    .wait = wait,
    .drop = drop,
    .health = health,
    .abort = abort_all,
    .sums_create = sums_create,
    .sums_add = sums_add,
    .sums_destroy = sums_destroy,
    .ordinal = ordinal,
};

MR_API extern const struct mr_engine_table mr_engine_table;

const struct mr_engine_table mr_engine_table = {
    .abi = MR_ENGINE_ABI,
    .name = "nccl",
    .version = "double",
    .on_device = true,
    .create = create,
    .destroy = destroy,
    .device = &device,
};
