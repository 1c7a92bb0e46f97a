/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of collectives over the gloo module, with random sizes, types, roots and
 * addresses, among ranks that are late at random. Each result is compared with one that a rank
 * computes alone. In some sequences a rank stays away from the last step, and the others free their
 * buffers at once.
 *
 * Invariant: draws that all ranks must agree on come from the seed, a rank's other draws from
 * another generator. Otherwise the sequences drift apart.
 *
 * Run by hand: test_gloo_stress SEED SEQUENCES STEPS MAX_LOG2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "base/rng.h"
#include "tests/dist/gloo/gloo_rig.h"

#define PERIOD 251u /* element i has the value of element i modulo this prime */
#define RUN_MS 60000
#define ABSENT_MS 150 /* deadline of a collective that a rank stays away from */

/* One sequence; the same for all its ranks. */
struct sequence {
    uint64_t seed;
    uint32_t n_steps;
    uint32_t max_log2;     /* log2 of the most elements of a rank */
    bool is_left;          /* one rank stays away from the last step */
    uint32_t n_pauses_max; /* how many of 1000 steps a rank is late for */
};

/* One step: a call of all ranks, or of two ranks if it is a message. */
struct step {
    struct mr_collective c; /* without buffers */
    uint32_t from, to;      /* of a message */
    uint32_t in_elements;   /* for each element of count */
    uint32_t out_elements;
    bool is_in_place;
};

/* A rank in its sequence. */
struct runner {
    const struct rig_rank *rank;
    const struct sequence *sequence;
    void *engine;
    struct mr_rng own;
    uint32_t at; /* step */
};

static const uint32_t dtypes[] = {MR_F16, MR_BF16, MR_F32, MR_F64, MR_I32, MR_I64};

static size_t size_of(uint32_t dtype)
{
    return dtype == MR_F16 || dtype == MR_BF16 ? 2 : dtype == MR_F64 || dtype == MR_I64 ? 8 : 4;
}

static void write_value(uint32_t dtype, uint8_t *at, double value)
{
    uint16_t half = dtype == MR_F16 ? mr_half_f16((float)value) : mr_half_bf16((float)value);
    float single = (float)value;
    int32_t i32 = (int32_t)value;
    int64_t i64 = (int64_t)value;
    switch (dtype) {
    case MR_F16:
    case MR_BF16: memcpy(at, &half, sizeof half); break;
    case MR_F32: memcpy(at, &single, sizeof single); break;
    case MR_F64: memcpy(at, &value, sizeof value); break;
    case MR_I32: memcpy(at, &i32, sizeof i32); break;
    default: memcpy(at, &i64, sizeof i64); break;
    }
}

/* Whole numbers, small enough that sums over all ranks are exact in every type. */
static double make_value(const struct runner *r, uint32_t rank, uint64_t i)
{
    uint64_t mixed =
        (r->sequence->seed + r->at * 977u + rank * 40503u + i % PERIOD) * 0x9e3779b97f4a7c15u;
    return (double)(mixed >> 60) - 7;
}

static double combine_values(const struct runner *r, uint32_t op, uint64_t i)
{
    const uint32_t n = r->rank->setup.world_size;
    double result = make_value(r, 0, i);
    for (uint32_t rank = 1; rank < n; rank++) {
        double value = make_value(r, rank, i);
        if (op == MR_MIN)
            result = value < result ? value : result;
        else if (op == MR_MAX)
            result = value > result ? value : result;
        else
            result += value;
    }
    return result;
}

/* Element i of one rank, or with rank -1 of the result, as it is stored. */
static void write_element(const struct runner *r, const struct step *step, int rank, uint64_t i,
                          uint8_t *at)
{
    const uint32_t n = r->rank->setup.world_size;
    double value = rank >= 0 ? make_value(r, (uint32_t)rank, i) : combine_values(r, step->c.op, i);
    if (rank < 0 && step->c.op == MR_MEAN) /* rounded as a division in this type */
        value = step->c.dtype == MR_F64 ? value / n : (double)((float)value / (float)n);
    write_value(step->c.dtype, at, value);
}

/*
 * Write elements first to first + count of a rank, or with rank -1 of the result, into a table that
 * repeats.
 */
static void write_table(const struct runner *r, const struct step *step, int rank, uint64_t first,
                        uint8_t *table)
{
    for (uint64_t i = 0; i < PERIOD; i++)
        write_element(r, step, rank, first + i, table + i * size_of(step->c.dtype));
}

static void fill(const struct runner *r, const struct step *step, int rank, uint8_t *at,
                 uint64_t count)
{
    uint8_t table[PERIOD * 8];
    size_t size = size_of(step->c.dtype);
    write_table(r, step, rank, 0, table);
    for (uint64_t i = 0; i < count; i += PERIOD)
        memcpy(at + i * size, table, (size_t)(count - i < PERIOD ? count - i : PERIOD) * size);
}

static uint32_t compare_elements(const struct runner *r, const struct step *step, int rank,
                                 uint64_t first, const uint8_t *at, uint64_t count)
{
    uint8_t table[PERIOD * 8];
    size_t size = size_of(step->c.dtype);
    write_table(r, step, rank, first, table);
    for (uint64_t i = 0; i < count; i += PERIOD)
        if (memcmp(at + i * size, table,
                   (size_t)(count - i < PERIOD ? count - i : PERIOD) * size) != 0)
            return 1;
    return 0;
}

/* Make all draws of a step, on every rank, even if the rank does not need them. */
static struct step draw(const struct sequence *sequence, uint32_t at, uint32_t n)
{
    struct mr_rng rng;
    struct step step = {.in_elements = 1, .out_elements = 1};
    mr_rng_init(&rng, sequence->seed, 1, at);
    step.c.kind = mr_rng_below(&rng, MR_COLLECTIVE_RECV + 1);
    step.c.dtype = dtypes[mr_rng_below(&rng, 6)];
    step.c.op = mr_rng_below(&rng, 4);
    step.c.root = mr_rng_below(&rng, n);
    step.c.number = at;
    step.from = step.c.root;
    step.to = (step.from + 1 + mr_rng_below(&rng, n - 1)) % n;
    step.is_in_place = mr_rng_below(&rng, 2);
    uint32_t log2 = mr_rng_below(&rng, sequence->max_log2 + 1);
    step.c.count = mr_rng_below(&rng, (1u << log2) + 1);
    bool gathers =
        step.c.kind == MR_COLLECTIVE_ALL_GATHER || step.c.kind == MR_COLLECTIVE_REDUCE_SCATTER;
    if (gathers && step.c.count > (1u << sequence->max_log2) / n)
        step.c.count /= n;
    if (step.c.kind == MR_COLLECTIVE_ALL_GATHER)
        step.out_elements = n;
    if (step.c.kind == MR_COLLECTIVE_REDUCE_SCATTER)
        step.in_elements = n;
    if (step.c.op == MR_MEAN && (step.c.dtype == MR_I32 || step.c.dtype == MR_I64))
        step.c.op = MR_SUM;
    return step;
}

/* Compare the result of a step that succeeded. in: this rank's input. */
static uint32_t check(const struct runner *r, const struct step *step, const uint8_t *in,
                      const uint8_t *out)
{
    const uint32_t me = r->rank->setup.rank;
    const uint32_t n = r->rank->setup.world_size;
    const uint64_t count = step->c.count;
    const size_t len = count * size_of(step->c.dtype);
    uint32_t n_wrong = 0;
    switch (step->c.kind) {
    case MR_COLLECTIVE_ALL_REDUCE: n_wrong = compare_elements(r, step, -1, 0, out, count); break;
    case MR_COLLECTIVE_REDUCE:
        n_wrong = me == step->c.root && compare_elements(r, step, -1, 0, out, count);
        break;
    case MR_COLLECTIVE_BROADCAST:
        n_wrong = compare_elements(r, step, (int)step->c.root, 0, out, count);
        break;
    case MR_COLLECTIVE_RECV:
        n_wrong = compare_elements(r, step, (int)step->from, 0, out, count);
        break;
    case MR_COLLECTIVE_REDUCE_SCATTER:
        n_wrong = compare_elements(r, step, -1, me * count, out, count);
        break;
    case MR_COLLECTIVE_ALL_GATHER:
        for (uint32_t rank = 0; rank < n; rank++)
            n_wrong += compare_elements(r, step, (int)rank, 0, out + rank * len, count);
        break;
    default: break;
    }
    if (in != NULL) /* a separate buffer: it must be unchanged */
        n_wrong += compare_elements(r, step, (int)me, 0, in, count * step->in_elements);
    return n_wrong;
}

/*
 * A block that ends where its allocation ends, so that a sanitizer sees an overrun, and begins at
 * any address.
 */
static uint8_t *allocate(struct runner *r, size_t len, uint8_t **block_out)
{
    size_t shift = mr_rng_below(&r->own, 9);
    *block_out = malloc(shift + len + (len == 0));
    if (*block_out == NULL)
        abort();
    memset(*block_out, 0x5a, shift + len);
    return *block_out + shift;
}

/* in and out of a step, and the blocks that hold them. */
struct buffers {
    uint8_t *in, *out;
    uint8_t *blocks[2];
    bool is_apart;
};

static struct buffers prepare(struct runner *r, const struct step *step)
{
    const uint32_t me = r->rank->setup.rank;
    const size_t len = (size_t)step->c.count * size_of(step->c.dtype);
    struct buffers b = {0};
    bool may_be_apart = step->c.kind == MR_COLLECTIVE_ALL_REDUCE ||
                        step->c.kind == MR_COLLECTIVE_ALL_GATHER ||
                        step->c.kind == MR_COLLECTIVE_REDUCE_SCATTER;
    b.is_apart = may_be_apart && !step->is_in_place;
    if (b.is_apart || step->in_elements >= step->out_elements)
        b.in = allocate(r, len * step->in_elements, &b.blocks[0]);
    if (b.is_apart || b.in == NULL)
        b.out = allocate(r, len * step->out_elements, &b.blocks[1]);
    if (b.out == NULL)
        b.out = b.in + (step->in_elements > 1 ? me * len : 0);
    if (b.in == NULL)
        b.in = b.out + me * len;
    fill(r, step, (int)me, b.in, step->c.count * step->in_elements);
    return b;
}

static void release(struct buffers *b)
{
    free(b->blocks[0]);
    free(b->blocks[1]);
}

static void pause_at_times(struct runner *r)
{
    if (mr_rng_below(&r->own, 1000) < r->sequence->n_pauses_max)
        nanosleep(&(struct timespec){.tv_nsec = mr_rng_below(&r->own, 3000000)}, NULL);
}

/* Returns 0, or 1 if the result is wrong. *status_out is the call's status. */
static uint32_t do_step(struct runner *r, struct step step, uint32_t timeout_ms,
                        int32_t *status_out)
{
    const uint32_t me = r->rank->setup.rank;
    volatile uint32_t stop = 0;
    mr_error error = {0};
    *status_out = MR_OK;
    if (step.c.kind == MR_COLLECTIVE_SEND || step.c.kind == MR_COLLECTIVE_RECV) {
        if (me != step.from && me != step.to)
            return 0;
        step.c.kind = me == step.from ? MR_COLLECTIVE_SEND : MR_COLLECTIVE_RECV;
        step.c.root = me == step.from ? step.to : step.from;
    }
    struct buffers b = prepare(r, &step);
    step.c.in = b.in;
    step.c.out = b.out;
    pause_at_times(r);
    *status_out = rig_run(r->rank->table, r->engine, &step.c, timeout_ms, &stop, &error);
    uint32_t wrong = *status_out == MR_OK && check(r, &step, b.is_apart ? b.in : NULL, b.out) > 0;
    release(&b);
    if (wrong > 0 || (*status_out != MR_OK && timeout_ms == RUN_MS))
        printf("seed %llu, rank %u of %u, step %u: kind %u, %llu of dtype %u, op %u, root %u: "
               "status %d, %s\n",
               (unsigned long long)r->sequence->seed, me, r->rank->setup.world_size, r->at,
               step.c.kind, (unsigned long long)step.c.count, step.c.dtype, step.c.op, step.c.root,
               *status_out, error.text);
    return wrong;
}

/*
 * The last step. One rank stays away until the others have given up. No rank may hang or get a
 * wrong result.
 */
static uint32_t do_last_step(struct runner *r)
{
    const uint32_t n = r->rank->setup.world_size;
    struct step step = draw(r->sequence, r->at, n);
    int32_t status;
    uint64_t start_ns = rig_now_ns();
    if (step.c.kind >= MR_COLLECTIVE_SEND)
        step.c.kind = MR_COLLECTIVE_ALL_REDUCE;
    step.c.count += step.c.kind != MR_COLLECTIVE_BARRIER;
    if (r->rank->setup.rank == r->sequence->seed % n)
        nanosleep(&(struct timespec){.tv_nsec = 2 * ABSENT_MS * 1000000}, NULL);
    uint32_t n_wrong = do_step(r, step, ABSENT_MS, &status);
    if (status != MR_ERR_TIMEOUT && status != MR_ERR_PEER)
        printf("rank %u of %u: status %d of a collective without a rank\n", r->rank->setup.rank, n,
               status);
    return n_wrong + (status != MR_ERR_TIMEOUT && status != MR_ERR_PEER) +
           (rig_now_ns() - start_ns > 10000 * RIG_MS);
}

static int run_sequence(struct rig_rank *rank)
{
    struct runner r = {.rank = rank, .sequence = rank->user};
    mr_error error = {0};
    int32_t status = MR_OK;
    uint32_t n_wrong = 0;
    mr_rng_init(&r.own, r.sequence->seed, 2, rank->setup.rank);
    if (rank->table->create(&rank->setup, &r.engine, &error) != MR_OK) {
        printf("rank %u: %s\n", rank->setup.rank, error.text);
        return 1;
    }
    for (; r.at < r.sequence->n_steps && n_wrong == 0 && status == MR_OK; r.at++)
        n_wrong += do_step(&r, draw(r.sequence, r.at, rank->setup.world_size), RUN_MS, &status);
    bool is_well = n_wrong == 0 && status == MR_OK;
    if (is_well && r.sequence->is_left)
        n_wrong += do_last_step(&r);
    rank->table->destroy(r.engine, is_well && !r.sequence->is_left);
    return n_wrong > 0 || status != MR_OK;
}

static uint32_t run_as_processes(uint32_t n, struct sequence *sequence)
{
    struct rig_store *store = rig_store_create();
    pid_t children[RIG_RANKS];
    uint32_t n_wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct rig_rank rank = rig_rank_of(store, i, n, 20000);
        rank.user = sequence;
        children[i] = rig_child(&rank, run_sequence);
    }
    for (uint32_t i = 0; i < n; i++)
        n_wrong += rig_wait(children[i]) != 0;
    rig_store_destroy(store);
    return n_wrong;
}

/* Run seeds from first on, each with another number of ranks. */
static uint32_t run_sequences(uint64_t first, uint32_t n_sequences, struct sequence like,
                              bool forks)
{
    uint32_t n_wrong = 0;
    for (uint32_t i = 0; i < n_sequences && n_wrong == 0; i++) {
        struct sequence sequence = like;
        uint32_t n = 2 + i % 7;
        sequence.seed = first + i;
        n_wrong += forks ? run_as_processes(n, &sequence) : rig_threads(n, run_sequence, &sequence);
    }
    return n_wrong;
}

static uint64_t choose_seed(void)
{
    uint64_t seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    return seed;
}

static void random_sequences_agree_with_the_oracle(void **state)
{
    (void)state;
    struct sequence like = {.n_steps = 40, .max_log2 = 15, .n_pauses_max = 50};
    assert_int_equal(run_sequences(choose_seed(), 7, like, false), 0);
    like.max_log2 = 9; /* around the longest short collective */
    like.n_steps = 100;
    assert_int_equal(run_sequences(choose_seed(), 7, like, false), 0);
}

static void random_sequences_agree_between_processes(void **state)
{
    (void)state;
    struct sequence like = {.n_steps = 40, .max_log2 = 17, .n_pauses_max = 50};
    assert_int_equal(run_sequences(choose_seed(), 3, like, true), 0);
}

/* With more than 16 ranks all collectives are gloo's own. */
static void many_ranks_agree_with_the_oracle(void **state)
{
    (void)state;
    struct sequence sequence = {
        .seed = choose_seed(), .n_steps = 40, .max_log2 = 12, .n_pauses_max = 10};
    static const uint32_t worlds[] = {15, 16, 17, 20};
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        assert_int_equal(rig_threads(worlds[i], run_sequence, &sequence), 0);
}

static void a_rank_that_stays_away_leaves_no_wrong_result_and_no_rank_waiting(void **state)
{
    (void)state;
    struct sequence like = {.n_steps = 3, .max_log2 = 18, .is_left = true};
    assert_int_equal(run_sequences(choose_seed(), 9, like, false), 0);
}

static int run_by_hand(char **argv)
{
    struct sequence like = {.n_steps = (uint32_t)atoi(argv[3]),
                            .max_log2 = (uint32_t)atoi(argv[4]),
                            .n_pauses_max = 20};
    uint64_t seed = strtoull(argv[1], NULL, 10);
    uint32_t n_sequences = (uint32_t)atoi(argv[2]);
    uint32_t n_wrong = run_sequences(seed, n_sequences, like, false);
    printf("threads: %u wrong\n", n_wrong);
    n_wrong += run_sequences(seed, n_sequences, like, true);
    like.is_left = true;
    like.n_steps = 3;
    n_wrong += run_sequences(seed, n_sequences, like, false);
    printf("%u sequences from seed %llu, thrice: %u wrong\n", n_sequences, (unsigned long long)seed,
           n_wrong);
    return n_wrong > 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sequences_agree_with_the_oracle),
        cmocka_unit_test(random_sequences_agree_between_processes),
        cmocka_unit_test(many_ranks_agree_with_the_oracle),
        cmocka_unit_test(a_rank_that_stays_away_leaves_no_wrong_result_and_no_rank_waiting),
    };
    if (argc == 5)
        return run_by_hand(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
