/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the arrays of a row from its ids. */
#include "loader/workers/token_row.h"

#include <inttypes.h>

#include "dataset/tokens/token_ids.h"
#include "pinned/slot_extra.h"

/* Where the row is written: n elements of the plan's dtype. NULL: no such column. */
struct row {
    size_t n; /* kind.tokens, or the number of ids if rows differ in length */
    void *tokens;
    void *labels; /* the ids after those of tokens */
    float *loss_mask;
    void *positions;
};

static int64_t id_at(const struct mr_plan *plan, const void *ids, size_t i)
{
    return plan->dtype == MR_I64 ? ((const int64_t *)ids)[i] : ((const int32_t *)ids)[i];
}

static void set_id(const struct mr_plan *plan, void *ids, size_t i, int64_t id)
{
    if (plan->dtype == MR_I64)
        ((int64_t *)ids)[i] = id;
    else
        ((int32_t *)ids)[i] = (int32_t)id;
}

/* Convert ids, and fill the rest of the row of n_row. */
static bool fill(const struct mr_plan *plan, const uint8_t *bytes, size_t n, uint64_t limit,
                 int64_t padding, void *out, size_t n_row)
{
    n = n < n_row ? n : n_row;
    for (size_t i = n; i < n_row; i++)
        set_id(plan, out, i, padding);
    return mr_token_ids_converter(plan->kind.dtype, plan->dtype)(bytes, n, out) < limit;
}

/* n_labels: the row has so many labels, some of which may be ignored; padding follows. */
static void mask_losses(const struct mr_plan *plan, size_t n_labels, const struct row *row)
{
    const bool masks_eod = plan->kind.token_columns & MR_TOKENS_EOD_MASKED;
    for (size_t i = 0; i < row->n; i++) {
        bool is_eod = masks_eod && id_at(plan, row->tokens, i) == plan->kind.eod;
        bool is_label = i < n_labels && id_at(plan, row->labels, i) != MR_LABEL_IGNORED;
        row->loss_mask[i] = is_label && !is_eod ? 1.0f : 0.0f;
    }
}

/* As Megatron-Core's _get_ltor_masks_and_position_ids() with reset_position_ids. */
static void count_positions(const struct mr_plan *plan, size_t n_ids, const struct row *row)
{
    int64_t position = 0;
    for (size_t i = 0; i < row->n; i++) {
        set_id(plan, row->positions, i, position);
        position = i < n_ids && id_at(plan, row->tokens, i) == plan->kind.eod ? 0 : position + 1;
    }
}

static void *find_row(const struct mr_slot_view *view, const char *name, uint32_t place)
{
    uint32_t column = mr_columns_find(&view->layout->columns, name);
    return column == MR_NO_COLUMN ? NULL : mr_slot_row(view, column, place);
}

/* A row of a column whose rows differ in length, of n elements. */
static void *take_ragged(const struct mr_slot_view *view, const char *name, uint32_t place,
                         uint32_t n)
{
    uint32_t column = mr_columns_find(&view->layout->columns, name);
    mr_slot_extra_lengths(view, column)[place] =
        n * (uint32_t)mr_column_unit_bytes(&view->layout->columns.column[column]);
    return mr_slot_row(view, column, place);
}

static uint64_t count_ids(const struct mr_token_piece *pieces, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += pieces[i].len;
    return sum;
}

static void restart_positions(const struct mr_plan *plan, const struct row *row, uint32_t begin,
                              uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        set_id(plan, row->positions, i, i - begin);
}

/*
 * The segments of a packed row: its pieces of documents, and one of padding, so that kernels which
 * take cu_seqlens compute all of the row.
 */
static void store_segments(const struct mr_plan *plan, const struct mr_slot_view *view,
                           uint32_t place, const struct mr_token_piece *pieces, uint32_t n,
                           const struct row *row)
{
    const bool is_same = plan->kind.token_columns & MR_TOKENS_SAME_LABELS,
               masks_first = plan->kind.token_columns & MR_TOKENS_FIRST_MASKED;
    uint32_t at = 0, longest = 0;
    const uint32_t n_pad = plan->kind.tokens - (uint32_t)count_ids(pieces, n),
                   n_segments = n + (n_pad > 0);
    int64_t *documents = take_ragged(view, "document", place, n);
    int32_t *ends = take_ragged(view, "cu_seqlens", place, n_segments + 1);
    for (uint32_t i = 0; i < n_segments; i++) {
        const uint32_t len = i < n ? pieces[i].len : n_pad;
        if (i < n)
            documents[i] = (int64_t)pieces[i].document;
        if (i < n && masks_first && (is_same || at > 0))
            set_id(plan, row->labels, is_same ? at : at - 1, MR_LABEL_IGNORED);
        restart_positions(plan, row, at, at + len);
        ends[i] = (int32_t)at;
        at += len;
        longest = len > longest ? len : longest;
    }
    ends[n_segments] = (int32_t)at;
    *(int32_t *)find_row(view, "max_seqlen", place) = (int32_t)longest;
}

static mr_status store(const struct mr_sample_source *source, const struct mr_plan *plan,
                       const struct mr_sample_job *job, const struct mr_fetched *fetched,
                       mr_error *error)
{
    const struct mr_slot_view *view = &job->view;
    const struct mr_sample_kind *kind = &plan->kind;
    const uint32_t place = job->place;
    const uint8_t *bytes = fetched->bytes;
    const size_t size = mr_dtype_size(kind->dtype), n = fetched->len / size;
    const bool has_length = kind->token_columns & MR_TOKENS_LENGTH,
               is_same = kind->token_columns & MR_TOKENS_SAME_LABELS;
    const struct mr_token_piece *pieces =
        source->rows ? mr_packed_rows_at(source->rows, job->tag) : NULL;
    const uint32_t n_pieces = pieces ? source->rows->n[job->tag] : 0;
    const struct row row = {.n = has_length && n < kind->tokens ? n : kind->tokens,
                            .tokens = mr_slot_row(view, MR_COLUMN_IMAGE, place),
                            .labels = mr_slot_row(view, MR_COLUMN_LABEL, place),
                            .loss_mask = find_row(view, "loss_mask", place),
                            .positions = find_row(view, "position_ids", place)};
    const size_t n_labels = is_same || n == 0 ? n : n - 1;
    if (fetched->len > kind->data_bytes || fetched->len % size != 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "row has %zu bytes instead of %" PRIu64,
                            fetched->len, kind->data_bytes);
    if (pieces && (n == 0 || n != count_ids(pieces, n_pieces)))
        return mr_error_set(error, MR_ERR_DAMAGED, "row has %zu tokens instead of %" PRIu64, n,
                            count_ids(pieces, n_pieces));
    const uint64_t limit = mr_token_ids_limit(kind, plan->dtype);
    if (has_length)
        *(int32_t *)mr_slot_row(view, MR_COLUMN_SIZE, place) = (int32_t)row.n;
    if (!fill(plan, bytes, n, limit, kind->pad, row.tokens, row.n) ||
        !fill(plan, bytes + (n - n_labels) * size, n_labels, limit,
              has_length || pieces ? MR_LABEL_IGNORED : 0, row.labels, row.n))
        return mr_token_ids_check(kind, plan->dtype, bytes, n, error);
    if (pieces)
        store_segments(plan, view, place, pieces, n_pieces, &row);
    if (row.loss_mask)
        mask_losses(plan, n_labels, &row);
    if (row.positions && !pieces)
        count_positions(plan, n, &row);
    return MR_OK;
}

mr_status mr_token_row_store(const struct mr_sample_source *source, const struct mr_plan *plan,
                             const struct mr_sample_job *job, const struct mr_fetched *fetched,
                             mr_error *error)
{
    mr_status status = store(source, plan, job, fetched, error);
    if (status != MR_OK)
        mr_sample_fetch_name(source->catalog, job->index, error);
    return status;
}

void mr_token_row_leave(const struct mr_plan *plan, const struct mr_sample_job *job)
{
    int32_t *ends = take_ragged(&job->view, "cu_seqlens", job->place, 2);
    ends[0] = 0;
    ends[1] = (int32_t)plan->kind.tokens;
    *(int32_t *)find_row(&job->view, "max_seqlen", job->place) = ends[1];
    for (uint32_t i = 0; i < plan->kind.tokens; i++)
        set_id(plan, mr_slot_row(&job->view, MR_COLUMN_LABEL, job->place), i, MR_LABEL_IGNORED);
}
