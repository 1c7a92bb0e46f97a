/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of packed documents. A single window of all documents is only wrapped: its rows are found
 * by the tokens before every BLOCK-th document.
 */
#include "sampler/packing.h"

#include "base/error.h"
#include "base/xxh3.h"
#include "sampler/packing_plan.h"
#include "sampler/weights.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { BLOCK = 64, FIRST_DOCUMENTS = 1 << 16 };

struct mr_packing {
    _Atomic uint32_t n_refs;
    _Atomic bool stopped;
    struct mr_packing_options options;
    uint64_t n_tokens;
    uint64_t most_rows;
    uint64_t step;    /* documents from one entry of starts to the next */
    uint64_t n_steps; /* windows, or blocks */
};

struct mr_packed_epoch {
    struct mr_packing *packing;
    mr_sampler *documents; /* their order, of all ranks */
    uint64_t *starts;      /* rows before each window, or tokens before each block; then all */
    uint64_t n_counted;    /* windows or blocks with their starts */
    uint64_t planned;      /* the window of the plan */
    struct mr_packing_plan *plan; /* NULL: all documents are one window */
};

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

static mr_status check_lengths(const struct mr_packing_options *options, mr_error *error)
{
    return options->check ? options->check(options->user, error) : MR_OK;
}

mr_status mr_packing_create(const struct mr_packing_options *options,
                            struct mr_packing **packing_out, mr_error *error)
{
    *packing_out = NULL;
    mr_status status = check_lengths(options, error);
    if (status != MR_OK)
        return status;
    struct mr_packing *packing = *packing_out = calloc(1, sizeof *packing);
    if (!packing)
        return mr_error_memory(error, sizeof *packing);
    const uint64_t n = options->n_documents;
    packing->n_refs = 1;
    packing->options = *options;
    packing->step = options->window ? options->window : BLOCK;
    packing->n_steps = divide_up(n, packing->step);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = options->length(options->user, i);
        packing->n_tokens += length;
        packing->most_rows += divide_up(length, options->row);
    }
    if (packing->n_tokens > 0)
        return MR_OK;
    mr_packing_unref(packing);
    *packing_out = NULL;
    return mr_error_set(error, MR_ERR_INVALID, "%llu documents without a token cannot be packed",
                        (unsigned long long)n);
}

struct mr_packing *mr_packing_ref(struct mr_packing *packing)
{
    atomic_fetch_add_explicit(&packing->n_refs, 1, memory_order_relaxed);
    return packing;
}

void mr_packing_unref(struct mr_packing *packing)
{
    if (packing && atomic_fetch_sub_explicit(&packing->n_refs, 1, memory_order_acq_rel) == 1)
        free(packing);
}

void mr_packing_stop(struct mr_packing *packing)
{
    if (packing)
        atomic_store_explicit(&packing->stopped, true, memory_order_relaxed);
}

uint64_t mr_packing_most_rows(const struct mr_packing *packing)
{
    return packing->most_rows;
}

uint32_t mr_packing_most_pieces(uint32_t row, uint32_t window)
{
    return window && window < row ? window : row;
}

uint64_t mr_packing_digest(const struct mr_packing *packing)
{
    const struct mr_packing_options *o = &packing->options;
    const uint64_t words[] = {o->pack, o->row, o->window, o->n_documents, packing->n_tokens};
    uint64_t digest = mr_xxh3(words, sizeof words);
    return digest != 0 ? digest : 1;
}

mr_status mr_packed_epoch_create(struct mr_packing *packing, const mr_sampler_options *sampler,
                                 struct mr_packed_epoch **packed_out, mr_error *error)
{
    const struct mr_packing_options *o = &packing->options;
    const mr_sampler_options options = {.struct_size = sizeof options,
                                        .n_samples = (int64_t)o->n_documents,
                                        .seed = sampler->seed,
                                        .epoch = sampler->epoch,
                                        .no_shuffle = sampler->no_shuffle,
                                        .order = sampler->order};
    struct mr_packed_epoch *packed = *packed_out = calloc(1, sizeof *packed);
    if (!packed)
        return mr_error_memory(error, sizeof *packed);
    packed->packing = mr_packing_ref(packing);
    packed->starts = mr_weights_allocate(packing->n_steps + 1, sizeof *packed->starts, error);
    mr_status status = packed->starts ? MR_OK : MR_ERR_NO_MEMORY;
    if (status == MR_OK && o->window)
        status = mr_packing_plan_create(
            o->pack, o->row, o->window < o->n_documents ? o->window : (uint32_t)o->n_documents,
            &packed->plan, error);
    if (status == MR_OK)
        status = mr_sampler_create(&options, &packed->documents, error);
    if (status == MR_OK)
        return MR_OK;
    mr_packed_epoch_destroy(packed);
    *packed_out = NULL;
    return status;
}

void mr_packed_epoch_destroy(struct mr_packed_epoch *packed)
{
    if (!packed)
        return;
    mr_sampler_destroy(packed->documents);
    mr_packing_plan_destroy(packed->plan);
    free(packed->starts);
    mr_packing_unref(packed->packing);
    free(packed);
}

static uint64_t document_at(const struct mr_packed_epoch *packed, uint64_t position)
{
    return (uint64_t)mr_sampler_at(packed->documents, (int64_t)position);
}

static uint32_t length_at(const struct mr_packed_epoch *packed, uint64_t position)
{
    const struct mr_packing_options *o = &packed->packing->options;
    return o->length(o->user, document_at(packed, position));
}

/* Where a window or block ends among all documents. */
static uint64_t end_of(const struct mr_packing *packing, uint64_t step)
{
    uint64_t end = (step + 1) * packing->step;
    return end < packing->options.n_documents ? end : packing->options.n_documents;
}

/* Returns the number of rows of the window. */
static uint64_t plan_window(struct mr_packed_epoch *packed, uint64_t window)
{
    const uint64_t begin = window * packed->packing->step, end = end_of(packed->packing, window);
    uint32_t *lengths = mr_packing_plan_lengths(packed->plan);
    for (uint64_t p = begin; p < end; p++)
        lengths[p - begin] = length_at(packed, p);
    packed->planned = window;
    return mr_packing_plan_make(packed->plan, (uint32_t)(end - begin));
}

static uint64_t count_tokens(const struct mr_packed_epoch *packed, uint64_t block)
{
    uint64_t n = 0;
    for (uint64_t p = block * BLOCK; p < end_of(packed->packing, block); p++)
        n += length_at(packed, p);
    return n;
}

mr_status mr_packed_epoch_set(struct mr_packed_epoch *packed, uint64_t epoch, bool begins,
                              mr_error *error)
{
    const struct mr_packing *packing = packed->packing;
    const uint64_t n_first = divide_up(FIRST_DOCUMENTS, packing->step);
    mr_status status = check_lengths(&packing->options, error);
    if (status == MR_OK)
        status = mr_sampler_set_epoch(packed->documents, epoch, error);
    if (status != MR_OK)
        return status;
    packed->n_counted = begins && n_first < packing->n_steps ? n_first : packing->n_steps;
    packed->starts[0] = 0;
    for (uint64_t i = 0; i < packed->n_counted; i++) {
        if (atomic_load_explicit(&packing->stopped, memory_order_relaxed))
            return mr_error_set(error, MR_ERR_CANCELED, "the rows are no longer counted");
        packed->starts[i + 1] =
            packed->starts[i] + (packed->plan ? plan_window(packed, i) : count_tokens(packed, i));
    }
    return MR_OK;
}

bool mr_packed_epoch_is_begun(const struct mr_packed_epoch *packed)
{
    return packed->n_counted < packed->packing->n_steps;
}

uint64_t mr_packed_epoch_n_rows(const struct mr_packed_epoch *packed)
{
    const uint64_t all = packed->starts[packed->n_counted], row = packed->packing->options.row;
    if (packed->plan)
        return all;
    return mr_packed_epoch_is_begun(packed) ? all / row : divide_up(all, row);
}

/* The window or block of this row or token. */
static uint64_t find_step(const struct mr_packed_epoch *packed, uint64_t at)
{
    return mr_packing_plan_find(packed->starts, packed->n_counted, at);
}

/* A row of all documents, wrapped. */
static uint32_t cut_stream(const struct mr_packed_epoch *packed, uint64_t number,
                           struct mr_token_piece *pieces_out)
{
    const struct mr_packing_options *o = &packed->packing->options;
    uint64_t block = find_step(packed, number * o->row), left = o->row;
    uint64_t skip = number * o->row - packed->starts[block];
    uint32_t n_pieces = 0;
    for (uint64_t p = block * BLOCK; p < o->n_documents && left > 0; p++) {
        uint64_t document = document_at(packed, p), length = o->length(o->user, document);
        uint64_t from = skip < length ? skip : length, len = length - from;
        len = len < left ? len : left;
        if (len > 0)
            pieces_out[n_pieces++] =
                (struct mr_token_piece){document, (uint32_t)from, (uint32_t)len};
        skip -= from;
        left -= len;
    }
    return n_pieces;
}

uint32_t mr_packed_epoch_row(struct mr_packed_epoch *packed, uint64_t number,
                             struct mr_token_piece *pieces_out)
{
    if (number >= mr_packed_epoch_n_rows(packed) ||
        check_lengths(&packed->packing->options, NULL) != MR_OK)
        return 0;
    if (!packed->plan)
        return cut_stream(packed, number, pieces_out);
    const uint64_t window = find_step(packed, number);
    if (window != packed->planned)
        plan_window(packed, window);
    uint32_t n = mr_packing_plan_row(packed->plan, number - packed->starts[window], pieces_out);
    for (uint32_t i = 0; i < n; i++)
        pieces_out[i].document =
            document_at(packed, window * packed->packing->step + pieces_out[i].document);
    return n;
}
