/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot: the memory of one batch, and the book about it. Both are in the slab; they hold offsets,
 * never pointers.
 *
 * The host writes the book's fields while the slot is FREE and then publishes them through the
 * words (release). A worker reads a word first (acquire), then the fields, and swaps that same word
 * before it acts on them: if the slot was published again in between, the swap fails. So the fields
 * are atomics with relaxed order: reading an old value is harmless, a torn value would not be.
 */
#ifndef PINNED_SLOT_H
#define PINNED_SLOT_H

#include "base/erasing.h"
#include "base/error.h"
#include "base/mix.h"
#include "pinned/column.h"
#include "pinned/place.h"

/*
 * Legal moves, all made by the host's process:
 *
 *   FREE -> FILLING -> FILLED -> LENT -> FREE   a batch's life
 *   FILLED -> COPYING -> FREE                   a device has the batch: free when the copy ends
 *   LENT -> COPYING -> FREE                     page-locked, released on streams: free when they
 *                                               end
 *   COPYING -> FILLED                           the copy has ended; records not reported yet
 *   FILLED -> FREE                              an error took the batch's place, or those records
 *                                               were reported
 *   FILLING | FILLED -> CANCELED -> FREE        dropped; free when none of its words is BUSY
 */
enum mr_slot_state {
    MR_SLOT_FREE,
    MR_SLOT_FILLING,
    MR_SLOT_FILLED,
    MR_SLOT_LENT,
    MR_SLOT_COPYING,
    MR_SLOT_CANCELED,
    MR_SLOT_N_STATES
};

/*
 * The text of an error. A batch has fewer records than places. An error takes its own record if a
 * dead worker left that incomplete, else a free one, else that of the least important error. Other
 * errors are more important than damage, and an error of a lower place is more important than one
 * of a higher place. So what a batch reports does not depend on which other samples fail, or in
 * which order.
 */
struct mr_record {
    /*
     * A more important error has a higher weight; 0: the record is free. The lowest bit is set last
     * (release) and says that the text is complete.
     */
    _Atomic uint32_t weight;
    mr_error error;
};
#define MR_SLOT_RECORDS 64 /* plus one for each worker, which may be writing one now */

/*
 * A sample's outcome, one byte per place, written by its holder before DONE. With
 * MR_OUTCOME_DAMAGED or higher there is neither a sample nor a hole, so an error is reported in
 * place of the batch: damage, or for MR_OUTCOME_FAILED another error.
 */
enum mr_outcome {
    MR_OUTCOME_NONE,
    MR_OUTCOME_GOOD,
    MR_OUTCOME_HOLE,
    MR_OUTCOME_DAMAGED,
    MR_OUTCOME_FAILED
};

struct mr_slot {
    /* Number of this batch since the loader began. A ticket is sequence x batch_size + place. */
    _Atomic uint64_t sequence;
    _Atomic uint64_t epoch;
    _Atomic uint64_t batch;      /* number of the batch in its epoch */
    _Atomic uint64_t generation; /* of all words of this slot; host only */
    _Atomic uint32_t n_places;   /* samples of this batch; an epoch's last one may have fewer */
    /* enum mr_slot_state; written by the host's process, read by workers */
    _Atomic uint32_t state;
    /*
     * Hint for the wake-up only. Set to 0 after a death, so that every finisher checks the words.
     */
    _Atomic int32_t missing;
    _Atomic uint32_t n_errors;   /* errors, recorded or without a free record */
    _Atomic uint32_t n_warnings; /* decoder warnings for its samples */
    uint32_t padded[2]; /* of a filled slot: height and width of its rows, if they are padded; host
                           only */
    uint32_t spare[3];
};
static_assert(sizeof(struct mr_slot) == 72,
              "the book's head is shared between builds of one version");

/* A mr_token_piece of a packed row; atomic for the same reason as the book's fields. */
struct mr_slot_piece {
    _Atomic uint64_t document;
    _Atomic uint64_t range; /* `from` in the upper half, `len` in the lower; 0: the row has ended */
};

/*
 * The offsets of a slot's parts; relative to a slot they are the same for all slots of a slab.
 * Constant after creation.
 */
struct mr_slot_layout {
    uint32_t n_slots;
    uint32_t batch_size;
    uint32_t n_workers;
    uint32_t n_erases;   /* of a row: its pictures that are erased later */
    uint32_t mixes;      /* views whose rows are mixed; 0: the parts for mixing do not exist */
    uint32_t mix_rule;   /* enum mr_mix_rule */
    uint64_t n_pieces;   /* of a row of packed documents, at most; 0: rows have none */
    uint64_t book_off;   /* slot 0's book, from the start of the slab; 64-aligned */
    uint64_t book_bytes; /* from one slot's book to the next */
    uint64_t places_off; /* within a book: mr_place[batch_size] */
    uint64_t mixes_off;  /* mr_place[batch_size]: who mixes a row */
    uint64_t mix_off;    /* mr_mix[mixes]: what was drawn for the batch */
    uint64_t want_off;   /* _Atomic int64_t[batch_size]: dataset indices, in the sampler's order */
    /* _Atomic uint32_t[batch_size]: how often the epoch has had each index before (base/rng.h) */
    uint64_t occurrence_off;
    uint64_t pieces_off;   /* mr_slot_piece[batch_size][n_pieces] */
    uint64_t skipped_off;  /* _Atomic uint32_t[batch_size]: candidates found damaged so far */
    uint64_t outcome_off;  /* uint8_t[batch_size] */
    uint64_t records_off;  /* mr_record[MR_SLOT_RECORDS + n_workers] */
    uint64_t data_off;     /* slot 0's data, from the start of the slab; page-aligned */
    uint64_t data_bytes;   /* from one slot's data to the next; whole pages */
    uint64_t sample_bytes; /* from row to row of the samples; they begin at 0 within the data */
    /*
     * Within the data: the small block, which begins here. It has all columns but the samples,
     * then the boxes, then the columns whose rows differ in length.
     */
    uint64_t small_off;
    uint64_t erase_off;   /* mr_erase[batch_size][n_erases] */
    uint64_t small_bytes; /* length of the small block */
    /* pixels[batch_size] before mixing; 0 if the samples themselves are these pixels */
    uint64_t source_off;
    uint64_t source_bytes; /* from row to row of source */
    uint64_t used_bytes;   /* of a slot's data, with all these parts */
    uint64_t slab_bytes;   /* length of the whole slab */
    struct mr_columns columns;
};

/* What decides a layout. */
struct mr_slot_shape {
    uint64_t head_bytes; /* in the slab before the slots */
    uint32_t n_slots;
    uint32_t n_workers;
    uint32_t batch_size;
    uint32_t erases;   /* pictures of a sample that have boxes which are erased later */
    uint32_t mixes;    /* views whose rows are mixed */
    uint32_t mix_rule; /* enum mr_mix_rule, of all of them */
    uint32_t n_pieces; /* of a row of packed documents, at most */
    /* Of a row's pixels before mixing; 0: only labels are mixed. */
    uint64_t source_bytes;
    /* Size of a page of memory, a power of two; 0: the system's. */
    uint64_t page_bytes;
    struct mr_columns columns; /* the fixed ones first; without offsets */
};

/* MR_ERR_NO_MEMORY names sizes that overflow. */
mr_status mr_slot_layout_init(struct mr_slot_layout *layout, const struct mr_slot_shape *shape,
                              mr_error *error);

/* The parts of slot i in a slab that is mapped at base. */
struct mr_slot_view {
    const struct mr_slot_layout *layout;
    struct mr_slot *slot;
    struct mr_place *places;
    /* NULL: rows are not mixed, and the other parts for mixing do not exist. */
    struct mr_place *mixes;
    /*
     * One for each view that is mixed. Written by the host while the slot is free; read by the
     * worker that holds a word of mixes.
     */
    struct mr_mix *mix;
    uint32_t mix_rule;
    _Atomic int64_t *want;
    _Atomic uint32_t *occurrence;
    struct mr_slot_piece *pieces; /* layout->n_pieces of each row */
    _Atomic uint32_t *skipped;
    _Atomic uint8_t *outcome;
    struct mr_record *records;
    uint32_t n_records;
    uint8_t *data;
    uint8_t *source;         /* where workers write samples: data, or the pixels before mixing */
    uint64_t source_bytes;   /* from row to row of source */
    struct mr_erase *erases; /* NULL if erasing is not deferred */
};
/* The layout must outlive the view. */
struct mr_slot_view mr_slot_at(const struct mr_slot_layout *layout, void *base, uint32_t i);

/* A row of a column whose rows are equal. */
static inline void *mr_slot_row(const struct mr_slot_view *view, uint32_t column, uint32_t row)
{
    const struct mr_column *c = &view->layout->columns.column[column];
    return view->data + c->off + row * c->row_bytes;
}

/* The dataset index of a row. */
static inline int64_t *mr_slot_index(const struct mr_slot_view *view, uint32_t row)
{
    return (int64_t *)mr_slot_row(view, MR_COLUMN_INDEX, row);
}

/* 1: the row has a sample. */
static inline uint8_t *mr_slot_mask(const struct mr_slot_view *view, uint32_t row)
{
    return (uint8_t *)mr_slot_row(view, MR_COLUMN_MASK, row);
}

/* The first of a row's layout->n_erases; only if there are any. */
static inline struct mr_erase *mr_slot_erases(const struct mr_slot_view *view, uint32_t row)
{
    return view->erases + (size_t)row * view->layout->n_erases;
}

/* Where the worker that makes the sample of a row writes it. */
static inline uint8_t *mr_slot_source(const struct mr_slot_view *view, uint32_t row)
{
    return view->source + row * view->source_bytes;
}

/* Host, while the slot is FREE: the pieces of a row. */
void mr_slot_put_pieces(const struct mr_slot_view *view, uint32_t row,
                        const struct mr_token_piece *pieces, uint32_t n);
/* Returns the number of pieces of a row, at most layout->n_pieces. */
uint32_t mr_slot_get_pieces(const struct mr_slot_view *view, uint32_t row,
                            struct mr_token_piece *pieces_out);

/* Move a slot; asserts that the move is legal. */
void mr_slot_move(struct mr_slot *slot, enum mr_slot_state from, enum mr_slot_state to);
enum mr_slot_state mr_slot_state(const struct mr_slot *slot);

/*
 * Host: offer a batch to the workers, FREE -> FILLING. The caller has set want, occurrence and
 * pieces of [0, n_places), and *mix.
 */
void mr_slot_publish(const struct mr_slot_view *view, uint32_t batch_size, uint64_t sequence,
                     uint64_t epoch, uint64_t batch, uint32_t n_places);
/* Host: drop the batch. FILLING | FILLED -> CANCELED. */
void mr_slot_cancel(const struct mr_slot_view *view);

/* Both read the words only. Filled: all places are DONE, and mixed if rows are mixed. */
bool mr_slot_is_filled(const struct mr_slot_view *view);
bool mr_slot_is_busy(const struct mr_slot_view *view);

/*
 * Called by a worker that has moved a place to DONE (with mixing: the place's second word). True if
 * the host must be woken, because the slot may be filled or is canceled.
 */
bool mr_slot_count_down(const struct mr_slot_view *view);
/*
 * Called by a worker that has moved a place's first word to DONE when the row must still be mixed.
 * True if the slot is canceled.
 */
bool mr_slot_is_canceled(const struct mr_slot_view *view);

/*
 * True if row i can be mixed now: its second word is OPEN, and the row and its partner are DONE
 * with the same generation. *seen_out is that second word, for mr_place_take(). Only the word's
 * holder reads what the row is mixed from.
 */
bool mr_slot_can_mix(const struct mr_slot_view *view, uint32_t i, uint64_t *seen_out);

/*
 * Record the error of a candidate. The caller is the worker that holds the place, or the supervisor
 * if the holder is dead. Damage of a substitute is dropped, and so is an error for which there is
 * no record.
 */
void mr_slot_record(const struct mr_slot_view *view, uint32_t place, const mr_error *error);

/*
 * The damage of the place's wanted sample, or another error of the place; NULL if there is none or
 * its text is lost. Called by the host, for a filled slot.
 */
const mr_error *mr_slot_recorded(const struct mr_slot_view *view, uint32_t place, bool is_damage);

/* The death of a worker, for mr_slot_recover(). */
struct mr_death {
    uint32_t worker;
    /* MR_BLAME_CRASH or MR_BLAME_KILL */
    uint32_t blame;
    /* samples of the dataset: candidates wrap around */
    int64_t n_samples;
    /* writes the error of a candidate that is given up */
    void (*describe)(void *user, int64_t index, mr_error *error_out);
    void *user;
};

/*
 * Supervisor: recover from the death of a worker that is certainly dead. Its BUSY words become OPEN
 * (in a canceled slot CLOSED) with more blame; at MR_BLAME_LIMIT the candidate counts as damaged.
 * Rows that it was mixing become OPEN without blame: no sample is at fault. Returns the number of
 * samples that the worker held.
 *
 * Threads: the caller's lock excludes mr_slot_cancel() and mr_slot_publish().
 */
uint32_t mr_slot_recover(const struct mr_slot_view *view, uint32_t batch_size,
                         const struct mr_death *death);

#endif
