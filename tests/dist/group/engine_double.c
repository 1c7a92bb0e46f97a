/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of an engine: ranks are threads or processes of one machine, and exchange data by a
 * board in shared memory. It does what a real engine does, slowly and simply, and follows the
 * orders in MR_ENGINE_DOUBLE:
 *
 *   MR_ENGINE_DOUBLE=rank=1,at=3,do=error,ms=200     rank 1's third call
 *
 * do: error (fails), stall (waits for its deadline or stop), hang (ignores both, for ms), vanish
 * (the process kills itself), delay (waits for ms first; at=0: before every call), linger (has its
 * result only after ms, and none if a rank is destroyed unhealthy meanwhile). create=error makes
 * the rank's creation fail. of=2: only in groups of two ranks.
 *
 * Invariant: every wait here checks stop and the deadline, because ranks of the board may be gone.
 */
#include "dist/group/engine_table.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/half.h"

#define MAX_RANKS 8
#define CHUNK 16384 /* bytes per rank and step */
#define MAIL 4096   /* bytes of a message per step */
#define FIRST_BAD_ADDRESS 4096

struct place {
    _Atomic uint64_t arrived; /* steps that this rank has completed */
    uint64_t number;
    uint32_t kind;
    unsigned char data[CHUNK];
};

struct mail {
    _Atomic uint64_t n_written;
    _Atomic uint64_t n_read;
    unsigned char data[MAIL];
};

struct board {
    _Atomic uint32_t n_joined;
    _Atomic uint32_t n_broken; /* engines that were destroyed unhealthy */
    struct place places[MAX_RANKS];
    struct mail mails[MAX_RANKS][MAX_RANKS]; /* from, to */
};

struct order {
    int rank;
    uint64_t at;
    uint32_t of;
    uint32_t ms;
    char what[16];
    char create[16];
};

struct engine {
    struct board *board;
    uint32_t rank;
    uint32_t n_ranks;
    uint64_t step;
    uint64_t n_runs;
    struct order order;
    int32_t (*fail)(mr_error *error, int32_t status, const char *format, ...);
};

/* The limits of a wait. */
struct limit {
    uint64_t deadline_ns;
    const volatile uint32_t *stop; /* NULL: it cannot be stopped */
    mr_error *error;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_us(uint32_t us)
{
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&left, NULL);
}

static void read_order(uint32_t n_ranks, struct order *order)
{
    const char *text = getenv("MR_ENGINE_DOUBLE");
    *order = (struct order){.rank = -1};
    for (const char *at = text ? text : ""; *at; at += *at == ',') {
        unsigned long long n;
        char word[16];
        if (sscanf(at, "rank=%llu", &n) == 1)
            order->rank = (int)n;
        else if (sscanf(at, "at=%llu", &n) == 1)
            order->at = n;
        else if (sscanf(at, "of=%llu", &n) == 1)
            order->of = (uint32_t)n;
        else if (sscanf(at, "ms=%llu", &n) == 1)
            order->ms = (uint32_t)n;
        else if (sscanf(at, "do=%15[a-z]", word) == 1)
            memcpy(order->what, word, sizeof word);
        else if (sscanf(at, "create=%15[a-z]", word) == 1)
            memcpy(order->create, word, sizeof word);
        at += strcspn(at, ",");
    }
    if (order->of && order->of != n_ranks)
        *order = (struct order){.rank = (int)n_ranks};
}

/* One check during a wait; MR_OK: wait on. */
static int32_t check_wait(const struct engine *engine, const struct limit *limit)
{
    if (limit->stop && __atomic_load_n(limit->stop, __ATOMIC_ACQUIRE))
        return engine->fail(limit->error, MR_ERR_CANCELED, "the double was stopped");
    if (now_ns() >= limit->deadline_ns)
        return engine->fail(limit->error, MR_ERR_TIMEOUT, "the double's time is over");
    sleep_us(20);
    return MR_OK;
}

static int32_t wait_for(const struct engine *engine, _Atomic uint64_t *word, uint64_t value,
                        const struct limit *limit)
{
    int32_t status = MR_OK;
    for (uint32_t spin = 0; !status && atomic_load_explicit(word, memory_order_acquire) < value;
         spin++)
        if (spin > 50)
            status = check_wait(engine, limit);
    return status;
}

/* Waits until all ranks have completed this step. */
static int32_t meet(struct engine *engine, const struct limit *limit)
{
    int32_t status = MR_OK;
    engine->step++;
    atomic_store_explicit(&engine->board->places[engine->rank].arrived, engine->step,
                          memory_order_release);
    for (uint32_t r = 0; r < engine->n_ranks && !status; r++)
        status = wait_for(engine, &engine->board->places[r].arrived, engine->step, limit);
    return status;
}

static double from_half(uint16_t half, uint32_t dtype)
{
    if (dtype == MR_BF16) {
        uint32_t bits = (uint32_t)half << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    int exponent = half >> 10 & 31;
    double mantissa = half & 1023;
    double value = exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
    return half & 0x8000 ? -value : value;
}

static double load(const unsigned char *p, uint32_t dtype)
{
    uint16_t half;
    float f32;
    double f64;
    if (dtype == MR_F64)
        return memcpy(&f64, p, sizeof f64), f64;
    if (dtype == MR_F32)
        return memcpy(&f32, p, sizeof f32), (double)f32;
    return memcpy(&half, p, sizeof half), from_half(half, dtype);
}

static void store(unsigned char *p, uint32_t dtype, double value)
{
    float f32 = (float)value;
    uint16_t half = dtype == MR_BF16 ? mr_half_bf16(f32) : mr_half_f16(f32);
    if (dtype == MR_F64)
        memcpy(p, &value, sizeof value);
    else if (dtype == MR_F32)
        memcpy(p, &f32, sizeof f32);
    else
        memcpy(p, &half, sizeof half);
}

static int64_t load_integer(const unsigned char *p, uint32_t dtype)
{
    int32_t i32;
    int64_t i64;
    if (dtype == MR_I32)
        return memcpy(&i32, p, sizeof i32), i32;
    return memcpy(&i64, p, sizeof i64), i64;
}

static void store_integer(unsigned char *p, uint32_t dtype, int64_t value)
{
    int32_t i32 = (int32_t)value;
    if (dtype == MR_I32)
        memcpy(p, &i32, sizeof i32);
    else
        memcpy(p, &value, sizeof value);
}

static size_t size_of(uint32_t dtype)
{
    return dtype == MR_F64 || dtype == MR_I64 ? 8 : dtype == MR_F32 || dtype == MR_I32 ? 4 : 2;
}

/* Combines one element of all ranks, in their order. */
static void combine(const struct engine *engine, const struct mr_collective *c, size_t at,
                    unsigned char *out)
{
    bool is_integer = c->dtype == MR_I32 || c->dtype == MR_I64;
    double value = 0;
    int64_t integer = 0;
    for (uint32_t r = 0; r < engine->n_ranks; r++) {
        const unsigned char *p = engine->board->places[r].data + at;
        if (is_integer) {
            int64_t i = load_integer(p, c->dtype);
            bool takes =
                r == 0 || (c->op == MR_MIN && i < integer) || (c->op == MR_MAX && i > integer);
            integer = takes             ? i
                      : c->op == MR_SUM ? (int64_t)((uint64_t)integer + (uint64_t)i)
                                        : integer;
        } else {
            double x = load(p, c->dtype);
            bool takes = r == 0 || (c->op == MR_MIN && x < value) || (c->op == MR_MAX && x > value);
            value = takes ? x : c->op == MR_SUM || c->op == MR_MEAN ? value + x : value;
        }
    }
    if (is_integer)
        store_integer(out, c->dtype, integer);
    else
        store(out, c->dtype, c->op == MR_MEAN ? value / engine->n_ranks : value);
}

/*
 * Takes a chunk that all ranks have put on the board: len bytes, `at` bytes from the buffer's
 * beginning.
 */
static void take_chunk(const struct engine *engine, const struct mr_collective *c, uint64_t at,
                       uint64_t len)
{
    uint64_t own = c->count * size_of(c->dtype);
    unsigned char *out = c->out;
    switch (c->kind) {
    case MR_COLLECTIVE_BROADCAST:
        memcpy(out + at, engine->board->places[c->root].data, len);
        return;
    case MR_COLLECTIVE_ALL_GATHER:
        for (uint32_t r = 0; r < engine->n_ranks; r++)
            memcpy(out + r * own + at, engine->board->places[r].data, len);
        return;
    case MR_COLLECTIVE_REDUCE:
        if (c->root != engine->rank)
            return;
    }
    bool scatters = c->kind == MR_COLLECTIVE_REDUCE_SCATTER;
    uint64_t first = scatters ? engine->rank * own : 0;
    for (uint64_t i = 0; i < len; i += size_of(c->dtype))
        if (at + i >= first && (!scatters || at + i < first + own))
            combine(engine, c, i, out + (at + i - first));
}

static int32_t check_place(const struct engine *engine, const struct mr_collective *c, uint32_t r,
                           mr_error *error)
{
    const struct place *place = &engine->board->places[r];
    if (place->number == c->number && place->kind == c->kind)
        return MR_OK;
    return engine->fail(
        error, MR_ERR_PEER, "rank %u is at collective %llu of kind %u, this one at %llu of kind %u",
        r, (unsigned long long)place->number, place->kind, (unsigned long long)c->number, c->kind);
}

static int32_t run_together(struct engine *engine, const struct mr_collective *c,
                            const struct limit *limit)
{
    struct place *own = &engine->board->places[engine->rank];
    uint64_t total = c->count * size_of(c->dtype) *
                     (c->kind == MR_COLLECTIVE_REDUCE_SCATTER ? engine->n_ranks : 1);
    uint64_t at = 0;
    int32_t status = MR_OK;
    do {
        uint64_t len = total - at < CHUNK ? total - at : CHUNK;
        own->number = c->number;
        own->kind = c->kind;
        if (len > 0 && (c->kind != MR_COLLECTIVE_BROADCAST || c->root == engine->rank))
            memcpy(own->data, (const unsigned char *)c->in + at, len);
        status = meet(engine, limit);
        for (uint32_t r = 0; r < engine->n_ranks && !status; r++)
            status = check_place(engine, c, r, limit->error);
        if (!status && len > 0)
            take_chunk(engine, c, at, len);
        if (!status)
            status = meet(engine, limit);
        at += len;
    } while (at < total && !status);
    return status;
}

static int32_t run_pair(struct engine *engine, const struct mr_collective *c,
                        const struct limit *limit)
{
    bool sends = c->kind == MR_COLLECTIVE_SEND;
    struct mail *mail =
        &engine->board->mails[sends ? engine->rank : c->root][sends ? c->root : engine->rank];
    uint64_t total = c->count * size_of(c->dtype);
    int32_t status = MR_OK;
    for (uint64_t at = 0; at < total && !status; at += MAIL) {
        uint64_t len = total - at < MAIL ? total - at : MAIL;
        uint64_t n =
            atomic_load(sends ? &mail->n_written : &mail->n_read); /* this side's counter */
        status =
            wait_for(engine, sends ? &mail->n_read : &mail->n_written, sends ? n : n + 1, limit);
        if (status)
            break;
        if (sends)
            memcpy(mail->data, (const unsigned char *)c->in + at, len);
        else
            memcpy((unsigned char *)c->out + at, mail->data, len);
        atomic_store_explicit(sends ? &mail->n_written : &mail->n_read, n + 1,
                              memory_order_release);
    }
    return status;
}

/* Does the order apply to this call? */
static bool has_order(const struct engine *engine)
{
    const struct order *order = &engine->order;
    return (order->rank < 0 || (uint32_t)order->rank == engine->rank) &&
           (!order->at || order->at == engine->n_runs);
}

/* Does what the order says for this call; MR_OK: continue with the collective. */
static int32_t obey(struct engine *engine, const struct limit *limit)
{
    const struct order *order = &engine->order;
    int32_t status = MR_OK;
    engine->n_runs++;
    if (!has_order(engine))
        return MR_OK;
    if (strcmp(order->what, "delay") == 0 || strcmp(order->what, "hang") == 0)
        for (uint64_t until = now_ns() + order->ms * UINT64_C(1000000); now_ns() < until;)
            sleep_us(1000);
    if (strcmp(order->what, "vanish") == 0)
        raise(SIGKILL);
    if (strcmp(order->what, "error") == 0)
        return engine->fail(limit->error, MR_ERR_IO, "the double was told to fail");
    while (strcmp(order->what, "stall") == 0 && !status)
        status = check_wait(engine, limit);
    return status;
}

static int32_t linger(const struct engine *engine, mr_error *error)
{
    if (!has_order(engine) || strcmp(engine->order.what, "linger") != 0)
        return MR_OK;
    for (uint64_t until = now_ns() + engine->order.ms * UINT64_C(1000000); now_ns() < until;)
        sleep_us(1000);
    if (atomic_load(&engine->board->n_broken) == 0)
        return MR_OK;
    return engine->fail(error, MR_ERR_PEER, "another rank of the double disconnected");
}

static int32_t run(void *user, const struct mr_collective *c, uint64_t deadline_ns,
                   const volatile uint32_t *stop, mr_error *error)
{
    struct engine *engine = user;
    struct limit limit = {.deadline_ns = deadline_ns, .stop = stop, .error = error};
    int32_t status = obey(engine, &limit);
    if (status)
        return status;
    if (c->kind == MR_COLLECTIVE_SEND || c->kind == MR_COLLECTIVE_RECV)
        return run_pair(engine, c, &limit);
    status = run_together(engine, c, &limit);
    return status ? status : linger(engine, error);
}

static int32_t map(struct engine *engine, int fd, mr_error *error)
{
    void *board = mmap(NULL, sizeof *engine->board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        return engine->fail(error, MR_ERR_IO, "the double cannot map its board");
    engine->board = board;
    return MR_OK;
}

/* Rank 0 makes the board; the other ranks open it by its descriptor in rank 0's process. */
static int32_t find_board(struct engine *engine, const struct mr_engine_setup *setup, int *fd_out,
                          mr_error *error)
{
    char path[64] = "";
    uint32_t len = 0;
    if (setup->rank == 0) {
        *fd_out = memfd_create("engine_double", MFD_CLOEXEC);
        if (*fd_out < 0 || ftruncate(*fd_out, sizeof *engine->board) != 0)
            return setup->fail(error, MR_ERR_IO, "the double cannot make its board");
        int n = snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), *fd_out);
        return setup->store.set(setup->store.user, "board", path, (uint32_t)n, error);
    }
    int32_t status = setup->store.get(setup->store.user, "board", path, sizeof path - 1, &len,
                                      setup->deadline_ns, error);
    if (status)
        return status;
    *fd_out = open(path, O_RDWR | O_CLOEXEC);
    return *fd_out >= 0
               ? MR_OK
               : setup->fail(error, MR_ERR_IO, "the double cannot open its board %s", path);
}

static int32_t join(struct engine *engine, uint64_t deadline_ns, mr_error *error)
{
    struct limit limit = {.deadline_ns = deadline_ns, .error = error};
    int32_t status = MR_OK;
    atomic_fetch_add(&engine->board->n_joined, 1);
    while (atomic_load(&engine->board->n_joined) < engine->n_ranks && !status)
        status = check_wait(engine, &limit);
    return status;
}

static void destroy(void *user, bool healthy)
{
    struct engine *engine = user;
    if (engine->board && !healthy)
        atomic_fetch_add(&engine->board->n_broken, 1);
    if (engine->board)
        munmap(engine->board, sizeof *engine->board);
    free(engine);
}

static int32_t create(const struct mr_engine_setup *setup, void **engine_out, mr_error *error)
{
    int fd = -1;
    if (setup->abi != MR_ENGINE_ABI || setup->world_size > MAX_RANKS)
        return setup->fail(error, MR_ERR_UNSUPPORTED, "the double has %d ranks at most", MAX_RANKS);
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return setup->fail(error, MR_ERR_NO_MEMORY, "no memory for the double");
    engine->rank = setup->rank;
    engine->n_ranks = setup->world_size;
    engine->fail = setup->fail;
    read_order(setup->world_size, &engine->order);
    int32_t status = MR_OK;
    if (strcmp(engine->order.create, "error") == 0 && engine->order.rank == (int)setup->rank)
        status = setup->fail(error, MR_ERR_IO, "the double was told not to begin");
    if (!status)
        status = find_board(engine, setup, &fd, error);
    if (!status)
        status = map(engine, fd, error);
    if (!status)
        status = join(engine, setup->deadline_ns, error);
    if (fd >= 0)
        close(fd);
    if (status)
        destroy(engine, false);
    else
        *engine_out = engine;
    return status;
}

/* The first page represents device memory. */
static int32_t check(void *user, const void *buffer, mr_error *error)
{
    const struct engine *engine = user;
    if ((uintptr_t)buffer >= FIRST_BAD_ADDRESS)
        return MR_OK;
    return engine->fail(error, MR_ERR_INVALID,
                        "%p is memory of a device, and the double works on the host's", buffer);
}

MR_API extern const struct mr_engine_table mr_engine_table;

const struct mr_engine_table mr_engine_table = {
    .abi = MR_ENGINE_ABI,
    .name = "double",
    .version = "1",
    .create = create,
    .destroy = destroy,
    .run = run,
    .check = check,
};
