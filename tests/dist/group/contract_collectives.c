/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite of all collectives.
 *
 * Invariant: every rank makes the same calls whatever it finds; otherwise one wrong result becomes
 * a hanging test. So a wrong result is counted, its text is kept, and the suite continues. Only a
 * failed call ends it.
 */
#include "tests/dist/group/contract_collectives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dist/group/contract_oracle.h"

#define GUARD 64 /* bytes after every buffer, which must not change */
#define GUARD_BYTE 0x5a

static const mr_dtype dtypes[] = {MR_F16, MR_BF16, MR_F32, MR_F64, MR_I32, MR_I64};
static const uint64_t counts[] = {0, 1, 7, 1000, 100003};
static const mr_reduction ops[] = {MR_SUM, MR_MEAN, MR_MIN, MR_MAX};
static const char *const op_names[] = {"sum", "mean", "min", "max"};

struct suite {
    const struct contract_subject *subject;
    char *words;
    uint32_t n_wrong;
    bool ended; /* a call failed: the ranks may no longer make the same calls */
};

/* A buffer in the backend's memory, and a copy of it on the host. */
struct area {
    const struct contract_memory *memory;
    uint8_t *host;
    void *own;
    size_t n_bytes; /* not counting the guard */
};

static void *host_take(void *user, size_t n_bytes)
{
    (void)user;
    return malloc(n_bytes);
}

static void host_give_back(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void host_copy(void *user, void *to, const void *from, size_t n_bytes)
{
    (void)user;
    memcpy(to, from, n_bytes);
}

static const struct contract_memory host_memory = {NULL, host_take, host_give_back, host_copy,
                                                   host_copy};

static void area_init(struct area *area, const struct suite *s, size_t n_bytes)
{
    area->memory = s->subject->memory ? s->subject->memory : &host_memory;
    area->n_bytes = n_bytes;
    area->host = malloc(n_bytes + GUARD);
    area->own = area->memory->take(area->memory->user, n_bytes + GUARD);
    if (!area->host || !area->own) {
        fprintf(stderr, "no memory for %zu bytes\n", n_bytes + GUARD);
        abort();
    }
    memset(area->host, GUARD_BYTE, n_bytes + GUARD);
}

static void area_fini(struct area *area)
{
    area->memory->give_back(area->memory->user, area->own);
    free(area->host);
}

static void area_fill(struct area *area)
{
    area->memory->fill(area->memory->user, area->own, area->host, area->n_bytes + GUARD);
}

static void area_read(struct area *area)
{
    area->memory->read(area->memory->user, area->host, area->own, area->n_bytes + GUARD);
}

static void write_values(struct area *area, mr_dtype dtype, uint64_t at, uint64_t n, uint32_t rank,
                         uint64_t from)
{
    for (uint64_t i = 0; i < n; i++)
        contract_oracle_write(dtype, area->host, at + i,
                              contract_oracle_value(dtype, rank, from + i));
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"barrier",    "all_reduce",     "reduce", "broadcast",
                                        "all_gather", "reduce_scatter", "send",   "recv"};
    return names[kind];
}

static void wrong(struct suite *s, const struct mr_collective *c, const char *what, uint64_t i,
                  double got, double want)
{
    if (s->n_wrong++ == 0)
        snprintf(s->words, CONTRACT_WORDS,
                 "rank %u of %u: %s of %llu %s, %s, root %u: %s at %llu: %.17g, not %.17g",
                 s->subject->rank, s->subject->world_size, kind_name(c->kind),
                 (unsigned long long)c->count, mr_dtype_name((mr_dtype)c->dtype), op_names[c->op],
                 c->root, what, (unsigned long long)i, got, want);
}

static void check_guard(struct suite *s, const struct mr_collective *c, const struct area *area)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (area->host[area->n_bytes + i] != GUARD_BYTE) {
            wrong(s, c, "byte after the buffer", i, area->host[area->n_bytes + i], GUARD_BYTE);
            return;
        }
    }
}

/* Checks n elements at `at` against the elements of the reduction that begin at from. */
static void check_reduced(struct suite *s, const struct mr_collective *c, const struct area *area,
                          uint64_t n, uint64_t from)
{
    struct contract_expected expected;
    contract_oracle_reduce((mr_dtype)c->dtype, (mr_reduction)c->op, s->subject->world_size,
                           &expected);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = (from + i) % CONTRACT_PERIOD;
        double got = contract_oracle_read((mr_dtype)c->dtype, area->host, i);
        if (!(fabs(got - expected.value[at]) <= expected.tolerance[at])) {
            wrong(s, c, "element", i, got, expected.value[at]);
            return;
        }
    }
}

static void check_same(struct suite *s, const struct mr_collective *c, const struct area *area,
                       uint64_t at, uint64_t n, uint32_t rank)
{
    for (uint64_t i = 0; i < n; i++) {
        double got = contract_oracle_read((mr_dtype)c->dtype, area->host, at + i);
        double want = contract_oracle_value((mr_dtype)c->dtype, rank, i);
        if (got != want) {
            wrong(s, c, "element", at + i, got, want);
            return;
        }
    }
}

/* False: the suite ends. */
static bool call(struct suite *s, const struct mr_collective *c)
{
    mr_status status = s->subject->call(s->subject->user, c);
    if (status == MR_OK)
        return true;
    wrong(s, c, "status", 0, status, MR_OK);
    s->ended = true;
    return false;
}

/* barrier, all_reduce, reduce, broadcast: in place. */
static void try_in_place(struct suite *s, struct mr_collective c)
{
    struct area area;
    mr_dtype dtype = (mr_dtype)c.dtype;
    area_init(&area, s, c.count * mr_dtype_size(dtype));
    write_values(&area, dtype, 0, c.count, s->subject->rank, 0);
    area_fill(&area);
    c.in = area.own;
    c.out = area.own;
    if (call(s, &c)) {
        area_read(&area);
        check_guard(s, &c, &area);
        if (c.kind == MR_COLLECTIVE_BROADCAST)
            check_same(s, &c, &area, 0, c.count, c.root);
        else if (c.kind == MR_COLLECTIVE_ALL_REDUCE || c.root == s->subject->rank)
            check_reduced(s, &c, &area, c.count, 0);
    }
    area_fini(&area);
}

static void try_all_gather(struct suite *s, struct mr_collective c)
{
    struct area in, out;
    size_t n_bytes = c.count * mr_dtype_size((mr_dtype)c.dtype);
    area_init(&in, s, n_bytes);
    area_init(&out, s, n_bytes * s->subject->world_size);
    write_values(&in, (mr_dtype)c.dtype, 0, c.count, s->subject->rank, 0);
    area_fill(&in);
    area_fill(&out);
    c.in = in.own;
    c.out = out.own;
    if (call(s, &c)) {
        area_read(&out);
        check_guard(s, &c, &out);
        for (uint32_t rank = 0; rank < s->subject->world_size; rank++)
            check_same(s, &c, &out, rank * c.count, c.count, rank);
    }
    area_fini(&in);
    area_fini(&out);
}

static void try_reduce_scatter(struct suite *s, struct mr_collective c)
{
    struct area in, out;
    mr_dtype dtype = (mr_dtype)c.dtype;
    uint64_t n_in = c.count * s->subject->world_size;
    area_init(&in, s, n_in * mr_dtype_size(dtype));
    area_init(&out, s, c.count * mr_dtype_size(dtype));
    write_values(&in, dtype, 0, n_in, s->subject->rank, 0);
    area_fill(&in);
    area_fill(&out);
    c.in = in.own;
    c.out = out.own;
    if (call(s, &c)) {
        area_read(&out);
        check_guard(s, &c, &out);
        check_reduced(s, &c, &out, c.count, s->subject->rank * c.count);
    }
    area_fini(&in);
    area_fini(&out);
}

/* One message from one rank to another; the other ranks do nothing. */
static void try_pair(struct suite *s, struct mr_collective c, uint32_t from, uint32_t to)
{
    if (s->subject->rank != from && s->subject->rank != to)
        return;
    struct area area;
    area_init(&area, s, c.count * mr_dtype_size((mr_dtype)c.dtype));
    bool sends = s->subject->rank == from;
    c.kind = sends ? MR_COLLECTIVE_SEND : MR_COLLECTIVE_RECV;
    c.root = sends ? to : from;
    if (sends)
        write_values(&area, (mr_dtype)c.dtype, 0, c.count, from, 0);
    area_fill(&area);
    c.in = sends ? area.own : NULL;
    c.out = sends ? NULL : area.own;
    if (call(s, &c) && !sends) {
        area_read(&area);
        check_guard(s, &c, &area);
        check_same(s, &c, &area, 0, c.count, from);
    }
    area_fini(&area);
}

static bool skips(const struct suite *s, mr_dtype dtype, mr_reduction op)
{
    return s->ended || (op == MR_MEAN && (dtype == MR_I32 || dtype == MR_I64));
}

static void try_reductions(struct suite *s, struct mr_collective c, uint32_t first_root)
{
    for (size_t o = 0; o < sizeof ops / sizeof *ops && !skips(s, (mr_dtype)c.dtype, ops[o]); o++) {
        c.op = ops[o];
        c.kind = MR_COLLECTIVE_ALL_REDUCE;
        try_in_place(s, c);
        for (uint32_t root = first_root; root < s->subject->world_size && !s->ended; root++) {
            c.kind = MR_COLLECTIVE_REDUCE;
            c.root = root;
            try_in_place(s, c);
        }
        c.root = 0;
        c.kind = MR_COLLECTIVE_REDUCE_SCATTER;
        if (!s->ended)
            try_reduce_scatter(s, c);
    }
}

static void try_copies(struct suite *s, struct mr_collective c, uint32_t first_root)
{
    uint32_t n = s->subject->world_size;
    for (uint32_t root = first_root; root < n && !s->ended; root++) {
        c.kind = MR_COLLECTIVE_BROADCAST;
        c.root = root;
        try_in_place(s, c);
    }
    c.kind = MR_COLLECTIVE_ALL_GATHER;
    c.root = 0;
    if (!s->ended)
        try_all_gather(s, c);
    for (uint32_t pair = 0; pair < n * n && !s->ended; pair++) {
        if (pair / n != pair % n && pair % n >= first_root)
            try_pair(s, c, pair / n, pair % n);
    }
}

uint32_t contract_collectives_run(const struct contract_subject *subject,
                                  char words_out[CONTRACT_WORDS])
{
    struct suite s = {.subject = subject, .words = words_out};
    words_out[0] = '\0';
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (size_t n = 0; n < sizeof counts / sizeof *counts && !s.ended; n++) {
            struct mr_collective c = {.dtype = dtypes[d], .count = counts[n]};
            /* Long ones use one root only: they test the division into pieces. */
            uint32_t first_root = counts[n] > 1000 ? subject->world_size - 1 : 0;
            try_reductions(&s, c, first_root);
            try_copies(&s, c, first_root);
            c = (struct mr_collective){.kind = MR_COLLECTIVE_BARRIER, .dtype = MR_F32};
            if (!s.ended)
                call(&s, &c);
        }
    }
    return s.n_wrong;
}
