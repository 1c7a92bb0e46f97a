/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of one window. A tree of maxima finds both fits: over rows, the first with room enough;
 * over amounts of room, the least sufficient one.
 *
 * Whole fragments of bfd_split fill a row each. They are counted and not stored, and so are the
 * rows of wrapped, so a plan takes memory for each document and not for each row.
 */
#include "sampler/packing_plan.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct mr_packing_plan {
    enum mr_pack pack;
    uint32_t row; /* tokens */
    uint32_t n;   /* documents of the window */
    uint32_t *lengths;
    uint64_t *ends;   /* n + 1: tokens before each document, or its whole fragments and those before
                         it */
    uint64_t n_whole; /* rows with one whole fragment; they come first */
    uint32_t n_rows;  /* rows that are stored */
    uint32_t n_rests; /* documents or last fragments in them */
    uint64_t *rests;  /* in the order in which they are placed: the missing length to a row in the
                         upper half, the document in the lower one */
    uint32_t *row_of; /* by rest */
    uint32_t *begins; /* n_rows + 1: the first of its members */
    uint32_t *members; /* rests by row */
    uint32_t *room;    /* by row */
    uint32_t n_leaves; /* a power of two */
    uint32_t *tree;    /* 1 is the root; the leaves have room or 0 */
    /* bfd: rows by room, as queues */
    uint32_t *heads, *tails, *next;
};

static bool is_best_fit(const struct mr_packing_plan *plan)
{
    return plan->pack == MR_PACK_BFD || plan->pack == MR_PACK_BFD_SPLIT;
}

static void *allocate(uint64_t n, size_t size, bool *ok)
{
    void *array = *ok ? calloc(n, size) : NULL;
    *ok = array != NULL;
    return array;
}

mr_status mr_packing_plan_create(enum mr_pack pack, uint32_t row, uint32_t n_most,
                                 struct mr_packing_plan **plan_out, mr_error *error)
{
    bool ok = true;
    const uint64_t n = (uint64_t)n_most + 1;
    struct mr_packing_plan *plan = *plan_out = allocate(1, sizeof *plan, &ok);
    if (!ok)
        return mr_error_memory(error, sizeof *plan);
    *plan = (struct mr_packing_plan){.pack = pack, .row = row, .n_leaves = 1};
    plan->lengths = allocate(n, sizeof *plan->lengths, &ok);
    plan->ends = allocate(n, sizeof *plan->ends, &ok);
    if (pack != MR_PACK_WRAPPED) {
        while (plan->n_leaves < (is_best_fit(plan) ? row : n_most))
            plan->n_leaves *= 2;
        plan->rests = allocate(n, sizeof *plan->rests, &ok);
        plan->row_of = allocate(n, sizeof *plan->row_of, &ok);
        plan->begins = allocate(n + 1, sizeof *plan->begins, &ok);
        plan->members = allocate(n, sizeof *plan->members, &ok);
        plan->room = allocate(n, sizeof *plan->room, &ok);
        plan->tree = allocate(2 * (uint64_t)plan->n_leaves, sizeof *plan->tree, &ok);
    }
    if (is_best_fit(plan)) {
        plan->heads = allocate(row, sizeof *plan->heads, &ok);
        plan->tails = allocate(row, sizeof *plan->tails, &ok);
        plan->next = allocate(n, sizeof *plan->next, &ok);
        if (ok)
            memset(plan->heads, 0xff, row * sizeof *plan->heads);
    }
    if (ok)
        return MR_OK;
    mr_packing_plan_destroy(plan);
    *plan_out = NULL;
    return mr_error_set(error, MR_ERR_NO_MEMORY,
                        "no memory to pack windows of %u documents into rows of %u tokens", n_most,
                        row);
}

void mr_packing_plan_destroy(struct mr_packing_plan *plan)
{
    if (!plan)
        return;
    free(plan->lengths);
    free(plan->ends);
    free(plan->rests);
    free(plan->row_of);
    free(plan->begins);
    free(plan->members);
    free(plan->room);
    free(plan->tree);
    free(plan->heads);
    free(plan->tails);
    free(plan->next);
    free(plan);
}

uint32_t *mr_packing_plan_lengths(struct mr_packing_plan *plan)
{
    return plan->lengths;
}

static void set_leaf(struct mr_packing_plan *plan, uint32_t leaf, uint32_t value)
{
    uint32_t *tree = plan->tree, i = plan->n_leaves + leaf;
    tree[i] = value;
    for (i /= 2; i > 0; i /= 2)
        tree[i] = tree[2 * i] > tree[2 * i + 1] ? tree[2 * i] : tree[2 * i + 1];
}

/* The first leaf with at least this value; NONE. */
static uint32_t find_leaf(const struct mr_packing_plan *plan, uint32_t value)
{
    const uint32_t *tree = plan->tree;
    uint32_t i = 1;
    if (tree[1] < value)
        return NONE;
    while (i < plan->n_leaves)
        i = tree[2 * i] >= value ? 2 * i : 2 * i + 1;
    return i - plan->n_leaves;
}

/* The end of the queue of rows with this much room. */
static void push_row(struct mr_packing_plan *plan, uint32_t row, uint32_t room)
{
    plan->next[row] = NONE;
    if (plan->heads[room] == NONE) {
        plan->heads[room] = row;
        set_leaf(plan, room, room);
    } else {
        plan->next[plan->tails[room]] = row;
    }
    plan->tails[room] = row;
}

static uint32_t pop_row(struct mr_packing_plan *plan, uint32_t room)
{
    uint32_t row = plan->heads[room];
    plan->heads[room] = plan->next[row];
    if (plan->heads[room] == NONE)
        set_leaf(plan, room, 0);
    return row;
}

/* The row for len more tokens, after which it has less room. */
static uint32_t place_rest(struct mr_packing_plan *plan, uint32_t len)
{
    const bool by_room = is_best_fit(plan);
    uint32_t row = find_leaf(plan, len);
    if (row != NONE && by_room)
        row = pop_row(plan, row);
    if (row == NONE) {
        row = plan->n_rows++;
        plan->room[row] = plan->row;
    }
    plan->room[row] -= len;
    if (!by_room)
        set_leaf(plan, row, plan->room[row]);
    else if (plan->room[row] > 0)
        push_row(plan, row, plan->room[row]);
    return row;
}

/* Leave the tree and the queues as they were before the window. */
static void clear_rows(struct mr_packing_plan *plan)
{
    for (uint32_t row = 0; row < plan->n_rows; row++) {
        uint32_t leaf = is_best_fit(plan) ? plan->room[row] : row;
        set_leaf(plan, leaf, 0);
        if (is_best_fit(plan))
            plan->heads[leaf] = NONE;
    }
}

static void collect_members(struct mr_packing_plan *plan)
{
    uint32_t *begins = plan->begins;
    memset(begins, 0, ((size_t)plan->n_rows + 2) * sizeof *begins);
    for (uint32_t k = 0; k < plan->n_rests; k++)
        begins[plan->row_of[k] + 2]++;
    for (uint32_t row = 0; row < plan->n_rows; row++)
        begins[row + 2] += begins[row + 1];
    for (uint32_t k = 0; k < plan->n_rests;
         k++) /* begins[row + 1] runs from its begin to its end */
        plan->members[begins[plan->row_of[k] + 1]++] = k;
}

static int compare_rests(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static uint32_t rest_document(const struct mr_packing_plan *plan, uint32_t k)
{
    return (uint32_t)plan->rests[k];
}

static uint32_t rest_len(const struct mr_packing_plan *plan, uint32_t k)
{
    return plan->row - (uint32_t)(plan->rests[k] >> 32);
}

/* Whole fragments of a document. */
static uint32_t count_whole(const struct mr_packing_plan *plan, uint32_t length)
{
    return plan->pack == MR_PACK_BFD_SPLIT ? length / plan->row : 0;
}

uint64_t mr_packing_plan_make(struct mr_packing_plan *plan, uint32_t n)
{
    const bool is_wrapped = plan->pack == MR_PACK_WRAPPED;
    plan->n = n;
    plan->n_rows = plan->n_rests = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = plan->lengths[i], n_whole = count_whole(plan, length);
        uint32_t rest = length - n_whole * plan->row;
        rest = rest < plan->row ? rest : plan->row;
        plan->ends[i + 1] = plan->ends[i] + (is_wrapped ? length : n_whole);
        if (!is_wrapped && rest > 0)
            plan->rests[plan->n_rests++] = (uint64_t)(plan->row - rest) << 32 | i;
    }
    if (is_wrapped)
        return (plan->ends[n] + plan->row - 1) / plan->row;
    plan->n_whole = plan->ends[n];
    if (is_best_fit(plan))
        qsort(plan->rests, plan->n_rests, sizeof *plan->rests, compare_rests);
    for (uint32_t k = 0; k < plan->n_rests; k++)
        plan->row_of[k] = place_rest(plan, rest_len(plan, k));
    clear_rows(plan);
    collect_members(plan);
    return plan->n_whole + plan->n_rows;
}

uint64_t mr_packing_plan_find(const uint64_t *starts, uint64_t n, uint64_t at)
{
    uint64_t low = 0, high = n; /* starts[low] <= at < starts[high] */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(starts[middle] <= at ? &low : &high) = middle;
    }
    return low;
}

/* The document that has number `at` of what ends[] counts. */
static uint32_t find_document(const struct mr_packing_plan *plan, uint64_t at)
{
    return (uint32_t)mr_packing_plan_find(plan->ends, plan->n, at);
}

static uint32_t cut_row(const struct mr_packing_plan *plan, uint64_t begin,
                        struct mr_token_piece *pieces_out)
{
    uint32_t n_pieces = 0, left = plan->row;
    for (uint32_t i = find_document(plan, begin); i < plan->n && left > 0; i++) {
        uint64_t from = begin > plan->ends[i] ? begin - plan->ends[i] : 0;
        uint64_t len = plan->lengths[i] - from;
        len = len < left ? len : left;
        if (len > 0)
            pieces_out[n_pieces++] = (struct mr_token_piece){i, (uint32_t)from, (uint32_t)len};
        left -= (uint32_t)len;
    }
    return n_pieces;
}

uint32_t mr_packing_plan_row(const struct mr_packing_plan *plan, uint64_t number,
                             struct mr_token_piece *pieces_out)
{
    uint32_t n_pieces = 0;
    if (plan->pack == MR_PACK_WRAPPED)
        return number * plan->row < plan->ends[plan->n]
                   ? cut_row(plan, number * plan->row, pieces_out)
                   : 0;
    if (number < plan->n_whole) {
        uint32_t i = find_document(plan, number);
        pieces_out[0] =
            (struct mr_token_piece){i, (uint32_t)(number - plan->ends[i]) * plan->row, plan->row};
        return 1;
    }
    if (number - plan->n_whole >= plan->n_rows)
        return 0;
    const uint32_t *begins = &plan->begins[number - plan->n_whole];
    for (uint32_t m = begins[0]; m < begins[1]; m++) {
        uint32_t k = plan->members[m], i = rest_document(plan, k);
        pieces_out[n_pieces++] = (struct mr_token_piece){
            i, count_whole(plan, plan->lengths[i]) * plan->row, rest_len(plan, k)};
    }
    return n_pieces;
}
