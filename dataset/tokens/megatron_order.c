/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both shuffles are NumPy's RandomState.shuffle: Fisher-Yates from the end, with numbers drawn by
 * masked rejection. The swaps are at random places of tables that are larger than any cache, so
 * numbers are drawn a few swaps ahead and their places are fetched meanwhile.
 */
#include "dataset/tokens/megatron_order.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mt19937.h"

enum { AHEAD = 64 };

static uint32_t mask_above(uint32_t value)
{
    for (uint32_t shift = 1; shift < 32; shift *= 2)
        value |= value >> shift;
    return value;
}

/* From 0 to limit, as numpy's random_interval. */
static uint32_t draw(struct mr_mt19937 *mt, uint32_t limit)
{
    uint32_t mask = mask_above(limit), value;
    do
        value = mr_mt19937_u32(mt) & mask;
    while (value > limit);
    return value;
}

static void shuffle_u32(struct mr_mt19937 *mt, uint32_t *values, uint64_t n)
{
    uint32_t drawn[AHEAD];
    for (uint64_t left = n; left > 1;) {
        uint32_t n_drawn = left - 1 < AHEAD ? (uint32_t)(left - 1) : AHEAD;
        for (uint32_t k = 0; k < n_drawn; k++) {
            drawn[k] = draw(mt, (uint32_t)(left - 1 - k));
            __builtin_prefetch(&values[drawn[k]], 1);
        }
        for (uint32_t k = 0; k < n_drawn; k++, left--) {
            uint32_t value = values[left - 1];
            values[left - 1] = values[drawn[k]];
            values[drawn[k]] = value;
        }
    }
}

mr_status mr_megatron_split(const char *text, uint32_t part, uint64_t n, uint64_t *begin_out,
                            uint64_t *end_out, mr_error *error)
{
    enum { N_PARTS = 3 };
    static const char *const names[N_PARTS] = {"train", "valid", "test"};
    double weights[N_PARTS] = {0}, sum = 0, begin = 0;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return mr_error_memory(error, 0);
    const char *at = text;
    bool good = true;
    for (uint32_t i = 0; good && i < N_PARTS && *at; i++) {
        char *end = (char *)at;
        if (strspn(at, "0123456789.") > 0)
            weights[i] = strtod_l(at, &end, c_locale);
        good = end > at && (*end == ',' || *end == '\0');
        at = *end == ',' ? end + 1 : end;
    }
    freelocale(c_locale);
    for (uint32_t i = 0; i < N_PARTS; i++)
        sum += weights[i];
    if (!good || *at || !isfinite(sum) || sum == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "split '%s' is not up to 3 weights such as 969,30,1", text);
    for (uint32_t i = 0; i < part; i++)
        begin += weights[i] / sum;
    /* rint() rounds halves to even, as Python's round() */
    *begin_out = (uint64_t)rint(begin * (double)n);
    *end_out = (uint64_t)rint((begin + weights[part] / sum) * (double)n);
    if (weights[part] == 0 || *end_out <= *begin_out)
        return mr_error_set(error, MR_ERR_INVALID,
                            "split '%s' of %" PRIu64 " documents leaves none for %s", text, n,
                            names[part]);
    if (*end_out > n)
        *end_out = n;
    return MR_OK;
}

/* What follows from the numbers of tokens. */
struct extent {
    uint64_t n_epochs;
    uint64_t n_tokens; /* of all epochs */
    uint64_t n_rows;
    bool last_apart;   /* the last epoch is shuffled for itself */
    uint64_t n_before; /* rows before it */
};

static mr_status measure(const struct mr_megatron_index *index,
                         const struct mr_megatron_order *order, struct extent *e, mr_error *error)
{
    const uint64_t n_documents = order->end - order->begin, extra = order->extra_token;
    uint64_t per_epoch = 0;
    for (uint64_t i = order->begin; i < order->end; i++)
        per_epoch += mr_megatron_length(index, i);
    if (order->n_wanted > UINT32_MAX || per_epoch == 0 || per_epoch > INT64_MAX / 4)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%" PRIu64 " tokens cannot give %" PRIu64 " rows", per_epoch,
                            order->n_wanted);
    uint64_t needed = order->n_wanted ? order->n_wanted * order->window + extra : 0;
    e->n_epochs = needed > per_epoch ? (needed + per_epoch - 1) / per_epoch : 1;
    if (e->n_epochs > UINT32_MAX / n_documents)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%" PRIu64 " rows need %" PRIu64 " epochs of %" PRIu64
                            " documents; 2^32 documents are the limit",
                            order->n_wanted, e->n_epochs, n_documents);
    e->n_tokens = e->n_epochs * per_epoch;
    uint64_t joined = e->n_tokens - extra;
    e->n_rows = joined / order->window;
    if (order->keeps_partial) /* Megatron's arithmetic has 32 bits, and so has ours */
        e->n_rows = (uint64_t)ceilf((float)joined / (float)order->window);
    if (e->n_rows == 0 || e->n_rows >= UINT32_MAX)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%" PRIu64 " documents with %" PRIu64 " tokens give %" PRIu64 " rows",
                            n_documents, per_epoch, e->n_rows);
    if (e->n_epochs == 1)
        return MR_OK;
    e->n_before = (e->n_tokens - per_epoch - extra) / order->window;
    uint64_t n_last = order->n_wanted - e->n_before, n_epoch = (per_epoch - extra) / order->window;
    e->last_apart = n_last < (uint64_t)(0.80 * (double)n_epoch);
    return MR_OK;
}

static void shuffle_documents(const struct mr_megatron_order *order, const struct extent *e,
                              struct mr_mt19937 *mt, uint32_t *documents)
{
    const uint64_t n = order->end - order->begin;
    for (uint64_t k = 0, at = 0; k < e->n_epochs; k++)
        for (uint64_t i = order->begin; i < order->end; i++)
            documents[at++] = (uint32_t)i;
    uint64_t n_first = (e->n_epochs - e->last_apart) * n;
    shuffle_u32(mt, documents, n_first);
    if (e->last_apart)
        shuffle_u32(mt, documents + n_first, n);
}

static void shuffle_rows(const struct extent *e, struct mr_mt19937 *mt, uint32_t *rows)
{
    uint64_t n_first = e->last_apart ? e->n_before : e->n_rows;
    for (uint64_t i = 0; i < e->n_rows; i++)
        rows[i] = (uint32_t)i;
    shuffle_u32(mt, rows, n_first);
    if (n_first < e->n_rows)
        shuffle_u32(mt, rows + n_first, e->n_rows - n_first);
}

/* Store the places of every MR_TOKEN_STEP-th row. Those after the last token begin with it. */
static void place_rows(const struct mr_megatron_index *index, const struct mr_megatron_order *order,
                       const struct extent *e, const uint32_t *documents, uint64_t n_documents,
                       struct mr_token_place *places)
{
    const uint64_t step = order->window * MR_TOKEN_STEP, last = e->n_tokens - order->extra_token;
    const uint64_t n_places = (e->n_rows - 1) / MR_TOKEN_STEP + 1;
    uint64_t begin = 0, k = 0; /* of the document */
    for (uint64_t i = 0; k < n_places && i < n_documents; i++) {
        if (i + AHEAD < n_documents)
            __builtin_prefetch(index->map + MR_MEGATRON_HEADER +
                               documents[i + AHEAD] * UINT64_C(4));
        uint64_t end = begin + mr_megatron_length(index, documents[i]);
        bool is_last = i + 1 == n_documents;
        for (; k < n_places; k++) {
            uint64_t at = k * step < last ? k * step : last;
            if (at >= end && !is_last)
                break;
            places[k] = (struct mr_token_place){i, at - begin};
        }
        begin = end;
    }
}

mr_status mr_megatron_order_build(const struct mr_megatron_index *index,
                                  const struct mr_megatron_order *order, struct mr_bytes *documents,
                                  struct mr_bytes *shuffle, struct mr_bytes *places,
                                  uint64_t *n_rows_out, mr_error *error)
{
    struct extent e = {0};
    struct mr_mt19937 mt;
    mr_status status = measure(index, order, &e, error);
    if (status != MR_OK)
        return status;
    const uint64_t n_documents = e.n_epochs * (order->end - order->begin);
    const uint64_t n_places = (e.n_rows - 1) / MR_TOKEN_STEP + 1;
    status = mr_bytes_reserve(documents, n_documents * sizeof(uint32_t), error);
    if (status == MR_OK)
        status = mr_bytes_reserve(shuffle, e.n_rows * sizeof(uint32_t), error);
    if (status == MR_OK)
        status = mr_bytes_reserve(places, n_places * sizeof(struct mr_token_place), error);
    if (status != MR_OK)
        return status;
    documents->len = n_documents * sizeof(uint32_t);
    shuffle->len = e.n_rows * sizeof(uint32_t);
    places->len = n_places * sizeof(struct mr_token_place);
    uint32_t *joined = (uint32_t *)(void *)documents->data;
    mr_mt19937_init(&mt, order->seed);
    shuffle_documents(order, &e, &mt, joined);
    place_rows(index, order, &e, joined, n_documents,
               (struct mr_token_place *)(void *)places->data);
    shuffle_rows(&e, &mt, (uint32_t *)(void *)shuffle->data);
    *n_rows_out = e.n_rows;
    return MR_OK;
}
