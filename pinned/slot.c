/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: layout, legal moves, publishing, and recovery after a death.
 *
 * Invariant: the hint `missing` may be lower than the truth, but must not stay higher: then no
 * worker would wake the host. See mr_slot_recover().
 */
#include "pinned/slot.h"

#include <assert.h>
#include <unistd.h>

#include "base/checked.h"

enum { BOOK_ALIGN = 64, COLUMN_ALIGN = 64 };

/* Append count x bytes at *end, aligned; false on overflow. */
static bool append_part(uint64_t *end, uint64_t count, uint64_t bytes, uint64_t align,
                        uint64_t *off_out)
{
    uint64_t start;
    uint64_t size;
    if (!mr_checked_add_u64(*end, align - 1, &start) || !mr_checked_mul_u64(count, bytes, &size))
        return false;
    *off_out = start & ~(align - 1);
    return mr_checked_add_u64(*off_out, size, end) && *end < UINT64_C(1) << 62;
}

static bool lay_out_book(struct mr_slot_layout *l)
{
    uint64_t end = sizeof(struct mr_slot);
    return append_part(&end, l->batch_size, sizeof(struct mr_place), BOOK_ALIGN, &l->places_off) &&
           append_part(&end, l->mixes ? l->batch_size : 0, sizeof(struct mr_place), 8,
                       &l->mixes_off) &&
           append_part(&end, l->mixes, sizeof(struct mr_mix), 8, &l->mix_off) &&
           append_part(&end, l->batch_size, sizeof(int64_t), 8, &l->want_off) &&
           append_part(&end, l->batch_size, sizeof(uint32_t), 8, &l->occurrence_off) &&
           append_part(&end, l->batch_size * l->n_pieces, sizeof(struct mr_slot_piece), 8,
                       &l->pieces_off) &&
           append_part(&end, l->batch_size, sizeof(uint32_t), 8, &l->skipped_off) &&
           append_part(&end, l->batch_size, sizeof(uint8_t), 8, &l->outcome_off) &&
           append_part(&end, MR_SLOT_RECORDS + (uint64_t)l->n_workers, sizeof(struct mr_record), 8,
                       &l->records_off) &&
           append_part(&end, 0, 0, BOOK_ALIGN, &l->book_bytes);
}

/* All rows of one column; if they differ in length, their offsets first. */
static bool lay_out_column(struct mr_slot_layout *l, struct mr_column *column, uint64_t *end)
{
    bool is_ragged = mr_column_is_ragged(column);
    return (!is_ragged || append_part(end, (uint64_t)l->batch_size + 1, sizeof(int64_t),
                                      COLUMN_ALIGN, &column->offsets_off)) &&
           append_part(end, l->batch_size, column->row_bytes, COLUMN_ALIGN, &column->off);
}

/* The columns of the small block whose rows are equal, or those whose rows differ in length. */
static bool lay_out_columns(struct mr_slot_layout *l, bool is_ragged, uint64_t *end)
{
    bool ok = true;
    for (uint32_t i = MR_COLUMN_IMAGE + 1; ok && i < l->columns.n; i++)
        if (mr_column_is_ragged(&l->columns.column[i]) == is_ragged)
            ok = lay_out_column(l, &l->columns.column[i], end);
    return ok;
}

/* Only the host reads the lengths, so they are not copied with the small block. */
static bool lay_out_lengths(struct mr_slot_layout *l, uint64_t *end)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < l->columns.n; i++)
        if (mr_column_is_ragged(&l->columns.column[i]) || l->columns.column[i].has_gaps)
            ok = append_part(end, l->batch_size, sizeof(uint32_t), COLUMN_ALIGN,
                             &l->columns.column[i].lengths_off);
    return ok;
}

/* Slots are page-locked, possibly in separate pieces, so no two slots share a page. */
static bool lay_out_data(struct mr_slot_layout *l, uint64_t page)
{
    uint64_t end = 0;
    bool ok = lay_out_column(l, &l->columns.column[MR_COLUMN_IMAGE], &end) &&
              append_part(&end, 0, 0, COLUMN_ALIGN, &l->small_off) &&
              lay_out_columns(l, false, &end) &&
              append_part(&end, (uint64_t)l->batch_size * l->n_erases, sizeof(struct mr_erase),
                          COLUMN_ALIGN, &l->erase_off) &&
              lay_out_columns(l, true, &end);
    l->small_bytes = end - l->small_off;
    ok = ok && lay_out_lengths(l, &end);
    if (l->source_bytes > 0)
        ok = ok && append_part(&end, l->batch_size, l->source_bytes, COLUMN_ALIGN, &l->source_off);
    l->used_bytes = end;
    return ok && append_part(&end, 0, 0, page, &l->data_bytes);
}

mr_status mr_slot_layout_init(struct mr_slot_layout *layout, const struct mr_slot_shape *shape,
                              mr_error *error)
{
    assert(shape->columns.n >= MR_COLUMNS_FIXED && shape->columns.n <= MR_COLUMNS_MAX);
    *layout =
        (struct mr_slot_layout){.n_slots = shape->n_slots,
                                .batch_size = shape->batch_size,
                                .n_workers = shape->n_workers,
                                .n_erases = shape->erases,
                                .sample_bytes = shape->columns.column[MR_COLUMN_IMAGE].row_bytes,
                                .mixes = shape->mixes,
                                .mix_rule = shape->mix_rule,
                                .n_pieces = shape->n_pieces,
                                .source_bytes = shape->source_bytes,
                                .columns = shape->columns};
    uint64_t page = shape->page_bytes ? shape->page_bytes : (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t end = shape->head_bytes;
    if (!lay_out_book(layout) || !lay_out_data(layout, page) ||
        !append_part(&end, shape->n_slots, layout->book_bytes, page, &layout->book_off) ||
        !append_part(&end, shape->n_slots, layout->data_bytes, page, &layout->data_off))
        return mr_error_set(error, MR_ERR_NO_MEMORY,
                            "%u slots of %u samples of %llu bytes are more than 2^62 bytes",
                            shape->n_slots, shape->batch_size,
                            (unsigned long long)layout->sample_bytes);
    layout->slab_bytes = end;
    return MR_OK;
}

struct mr_slot_view mr_slot_at(const struct mr_slot_layout *layout, void *base, uint32_t i)
{
    uint8_t *book = (uint8_t *)base + layout->book_off + i * layout->book_bytes;
    uint8_t *data = (uint8_t *)base + layout->data_off + i * layout->data_bytes;
    bool mixes = layout->mixes, has_source = layout->source_bytes > 0;
    return (struct mr_slot_view){
        .layout = layout,
        .slot = (void *)book,
        .places = (void *)(book + layout->places_off),
        .mixes = mixes ? (void *)(book + layout->mixes_off) : NULL,
        .mix = mixes ? (void *)(book + layout->mix_off) : NULL,
        .mix_rule = layout->mix_rule,
        .want = (void *)(book + layout->want_off),
        .occurrence = (void *)(book + layout->occurrence_off),
        .pieces = (void *)(book + layout->pieces_off),
        .skipped = (void *)(book + layout->skipped_off),
        .outcome = (void *)(book + layout->outcome_off),
        .records = (void *)(book + layout->records_off),
        .n_records = MR_SLOT_RECORDS + layout->n_workers,
        .data = data,
        .source = data + layout->source_off,
        .source_bytes = has_source ? layout->source_bytes : layout->sample_bytes,
        .erases = layout->n_erases ? (void *)(data + layout->erase_off) : NULL,
    };
}

void mr_slot_put_pieces(const struct mr_slot_view *view, uint32_t row,
                        const struct mr_token_piece *pieces, uint32_t n)
{
    struct mr_slot_piece *out = view->pieces + row * view->layout->n_pieces;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t range = (uint64_t)pieces[i].from << 32 | pieces[i].len;
        atomic_store_explicit(&out[i].document, pieces[i].document, memory_order_relaxed);
        atomic_store_explicit(&out[i].range, range, memory_order_relaxed);
    }
    if (n < view->layout->n_pieces)
        atomic_store_explicit(&out[n].range, 0, memory_order_relaxed);
}

uint32_t mr_slot_get_pieces(const struct mr_slot_view *view, uint32_t row,
                            struct mr_token_piece *pieces_out)
{
    struct mr_slot_piece *in = view->pieces + row * view->layout->n_pieces;
    uint32_t n = 0;
    for (; n < view->layout->n_pieces; n++) {
        uint64_t range = atomic_load_explicit(&in[n].range, memory_order_relaxed);
        if (range == 0)
            break;
        pieces_out[n] =
            (struct mr_token_piece){atomic_load_explicit(&in[n].document, memory_order_relaxed),
                                    (uint32_t)(range >> 32), (uint32_t)range};
    }
    return n;
}

static const bool legal[MR_SLOT_N_STATES][MR_SLOT_N_STATES] = {
    [MR_SLOT_FREE] = {[MR_SLOT_FILLING] = true},
    [MR_SLOT_FILLING] = {[MR_SLOT_FILLED] = true, [MR_SLOT_CANCELED] = true},
    [MR_SLOT_FILLED] = {[MR_SLOT_LENT] = true,
                        [MR_SLOT_COPYING] = true,
                        [MR_SLOT_FREE] = true,
                        [MR_SLOT_CANCELED] = true},
    [MR_SLOT_LENT] = {[MR_SLOT_FREE] = true, [MR_SLOT_COPYING] = true},
    [MR_SLOT_COPYING] = {[MR_SLOT_FREE] = true, [MR_SLOT_FILLED] = true},
    [MR_SLOT_CANCELED] = {[MR_SLOT_FREE] = true},
};

enum mr_slot_state mr_slot_state(const struct mr_slot *slot)
{
    return (enum mr_slot_state)atomic_load_explicit(&slot->state, memory_order_acquire);
}

void mr_slot_move(struct mr_slot *slot, enum mr_slot_state from, enum mr_slot_state to)
{
    assert(legal[from][to]);
    uint32_t expected = from;
    /* seq_cst: see place.c */
    bool moved = atomic_compare_exchange_strong(&slot->state, &expected, to);
    assert(moved);
    (void)moved;
}

static void clear_records(const struct mr_slot_view *view)
{
    if (atomic_load_explicit(&view->slot->n_errors, memory_order_relaxed) == 0)
        return;
    for (uint32_t i = 0; i < view->n_records; i++)
        atomic_store_explicit(&view->records[i].weight, 0, memory_order_relaxed);
    atomic_store_explicit(&view->slot->n_errors, 0, memory_order_relaxed);
}

static void open_words(struct mr_place *words, uint32_t n, uint32_t batch_size, uint64_t generation)
{
    for (uint32_t i = 0; i < n; i++)
        mr_place_open(&words[i], generation);
    for (uint32_t i = n; i < batch_size; i++)
        mr_place_shut(&words[i], generation);
}

void mr_slot_publish(const struct mr_slot_view *view, uint32_t batch_size, uint64_t sequence,
                     uint64_t epoch, uint64_t batch, uint32_t n_places)
{
    struct mr_slot *slot = view->slot;
    uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&slot->generation, generation, memory_order_relaxed);
    atomic_store_explicit(&slot->sequence, sequence, memory_order_relaxed);
    atomic_store_explicit(&slot->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&slot->batch, batch, memory_order_relaxed);
    atomic_store_explicit(&slot->n_places, n_places, memory_order_relaxed);
    atomic_store_explicit(&slot->missing, (int32_t)n_places, memory_order_relaxed);
    atomic_store_explicit(&slot->n_warnings, 0, memory_order_relaxed);
    clear_records(view);
    for (uint32_t i = 0; i < n_places; i++) {
        atomic_store_explicit(&view->skipped[i], 0, memory_order_relaxed);
        atomic_store_explicit(&view->outcome[i], MR_OUTCOME_NONE, memory_order_relaxed);
    }
    mr_slot_move(slot, MR_SLOT_FREE, MR_SLOT_FILLING);
    if (view->mixes) /* mixes first: a worker that finishes a place reads them */
        open_words(view->mixes, n_places, batch_size, generation);
    open_words(view->places, n_places, batch_size, generation);
}

void mr_slot_cancel(const struct mr_slot_view *view)
{
    mr_slot_move(view->slot, mr_slot_state(view->slot), MR_SLOT_CANCELED);
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        mr_place_cancel(&view->places[i]);
        if (view->mixes)
            mr_place_cancel(&view->mixes[i]);
    }
}

bool mr_slot_is_filled(const struct mr_slot_view *view)
{
    const struct mr_place *words = view->mixes ? view->mixes : view->places;
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++)
        if (mr_place_state(mr_place_load(&words[i])) != MR_PLACE_DONE)
            return false;
    return true;
}

/* seq_cst: see place.c */
static bool is_word_busy(const struct mr_place *word)
{
    return mr_place_state(atomic_load(&word->word)) == MR_PLACE_BUSY;
}

bool mr_slot_is_busy(const struct mr_slot_view *view)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++)
        if (is_word_busy(&view->places[i]) || (view->mixes && is_word_busy(&view->mixes[i])))
            return true;
    return false;
}

bool mr_slot_is_canceled(const struct mr_slot_view *view)
{
    return atomic_load(&view->slot->state) == MR_SLOT_CANCELED; /* seq_cst: see place.c */
}

bool mr_slot_count_down(const struct mr_slot_view *view)
{
    int32_t before = atomic_fetch_sub_explicit(&view->slot->missing, 1, memory_order_acq_rel);
    return (before <= 1 && mr_slot_is_filled(view)) || mr_slot_is_canceled(view);
}

/*
 * seq_cst: when two workers finish a row and its partner at the same time, at least one must see
 * both as DONE.
 */
static bool is_made(const struct mr_place *place, uint64_t generation)
{
    uint64_t word = atomic_load(&place->word);
    return mr_place_state(word) == MR_PLACE_DONE && mr_place_generation(word) == generation;
}

bool mr_slot_can_mix(const struct mr_slot_view *view, uint32_t i, uint64_t *seen_out)
{
    /*
     * The word is read before the number of places, so that the number is not older than the word.
     */
    uint64_t seen = mr_place_load(&view->mixes[i]);
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    if (mr_place_state(seen) != MR_PLACE_OPEN || i >= n)
        return false;
    *seen_out = seen;
    uint64_t generation = mr_place_generation(seen);
    return is_made(&view->places[i], generation) &&
           is_made(&view->places[mr_mix_partner(view->mix_rule, i, n)], generation);
}

enum { COMPLETE = 1 };

static uint32_t weigh(uint32_t place, bool is_damage)
{
    return ((is_damage ? 0 : 1u << 16) | (UINT16_MAX - place)) << 1;
}

/*
 * Take the record for this error and give it its weight; NULL if all others weigh more. A record
 * that a dead worker left incomplete is reused only by the next holder of the same place, as it is.
 */
static struct mr_record *take_record(const struct mr_slot_view *view, uint32_t weight)
{
    struct mr_record *taken;
    uint32_t seen;
    do {
        taken = NULL;
        seen = weight;
        for (uint32_t i = 0; i < view->n_records; i++) {
            uint32_t other = atomic_load_explicit(&view->records[i].weight, memory_order_relaxed);
            bool is_own = (other | COMPLETE) == (weight | COMPLETE);
            bool is_lighter = other < seen && (other == 0 || other & COMPLETE);
            if (is_own || is_lighter) {
                taken = &view->records[i];
                seen = other;
            }
            if (is_own)
                break;
        }
    } while (taken && !atomic_compare_exchange_strong(&taken->weight, &seen, weight));
    return taken;
}

void mr_slot_record(const struct mr_slot_view *view, uint32_t place, const mr_error *error)
{
    bool is_damage = error->status == MR_ERR_DAMAGED;
    if (is_damage && atomic_load_explicit(&view->skipped[place], memory_order_relaxed) > 0)
        return; /* a substitute */
    uint32_t weight = weigh(place, is_damage);
    atomic_fetch_add_explicit(&view->slot->n_errors, 1, memory_order_relaxed);
    struct mr_record *record = take_record(view, weight);
    if (!record)
        return;
    record->error = *error;
    atomic_store_explicit(&record->weight, weight | COMPLETE, memory_order_release);
}

const mr_error *mr_slot_recorded(const struct mr_slot_view *view, uint32_t place, bool is_damage)
{
    uint32_t weight = weigh(place, is_damage) | COMPLETE;
    for (uint32_t i = 0; i < view->n_records; i++)
        if (atomic_load_explicit(&view->records[i].weight, memory_order_acquire) == weight)
            return &view->records[i].error;
    return NULL;
}

static void give_up_candidate(const struct mr_slot_view *view, uint32_t i,
                              const struct mr_death *death)
{
    int64_t want = atomic_load_explicit(&view->want[i], memory_order_relaxed);
    uint32_t skipped = atomic_load_explicit(&view->skipped[i], memory_order_relaxed);
    mr_error words;
    death->describe(death->user, (want + skipped) % death->n_samples, &words);
    mr_slot_record(view, i, &words);
    atomic_store_explicit(&view->skipped[i], skipped + 1, memory_order_relaxed);
}

static void recover_place(const struct mr_slot_view *view, uint32_t i, uint64_t held,
                          const struct mr_death *death)
{
    if (mr_slot_state(view->slot) == MR_SLOT_CANCELED) {
        mr_place_abandon(&view->places[i], held);
        return;
    }
    uint32_t sum = mr_place_blame(held) + death->blame;
    if (sum >= MR_BLAME_LIMIT) {
        give_up_candidate(view, i, death);
        sum = 0;
    }
    mr_place_reopen(&view->places[i], held, sum);
}

/* The row's sources have not changed, so it is mixed again from the start. */
static void recover_mix(const struct mr_slot_view *view, uint32_t i, uint32_t worker)
{
    uint64_t word = mr_place_load(&view->mixes[i]);
    if (mr_place_state(word) != MR_PLACE_BUSY || mr_place_worker(word) != worker)
        return;
    if (mr_slot_state(view->slot) == MR_SLOT_CANCELED)
        mr_place_abandon(&view->mixes[i], word);
    else
        mr_place_reopen(&view->mixes[i], word, 0);
}

uint32_t mr_slot_recover(const struct mr_slot_view *view, uint32_t batch_size,
                         const struct mr_death *death)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < batch_size; i++) {
        uint64_t word = mr_place_load(&view->places[i]);
        if (mr_place_state(word) == MR_PLACE_BUSY && mr_place_worker(word) == death->worker) {
            recover_place(view, i, word, death);
            n++;
        }
        if (view->mixes)
            recover_mix(view, i, death->worker);
    }
    /*
     * The dead worker may have finished a place without counting it down, so `missing` might stay
     * too high for ever. At 0, every worker that finishes a place checks the words itself. This is
     * an exchange rather than a store, so that a later finisher still sees the DONE of workers that
     * counted down before it.
     */
    atomic_exchange_explicit(&view->slot->missing, 0, memory_order_acq_rel);
    return n;
}
