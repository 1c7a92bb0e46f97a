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
#include "pinned/descriptor.h"
#include "pinned/place.h"

/*
 * Legal moves, all made by the host's process:
 *   FREE -> FILLING -> FILLED -> LENT -> FREE      a batch's life
 *   FILLED -> COPYING -> FREE                      the same where a device has the batch: free when
 * the copy has ended LENT -> COPYING -> FREE                        page-locked and released on a
 * stream: free when that has ended COPYING -> FILLED                              its copy has
 * ended, but its records were not reported yet FILLED -> FREE                                 its
 * place was taken by an error; or those records were reported FILLING | FILLED -> CANCELED -> FREE
 * dropped; free when none of its words is BUSY
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
 * The words of an error. A batch has fewer records than places: an error takes a free one, its own
 * that a death has left half written, or that of the least important error. What is not damage is
 * more important than damage, and a lower place than a higher one, so what a batch reports is kept
 * whatever else fails, and in whichever order.
 */
struct mr_record {
    _Atomic uint32_t weight; /* more important errors weigh more, 0: free; its lowest bit, which
                                says that the words are complete, is set last (release) */
    mr_error error;
};
#define MR_SLOT_RECORDS 64 /* and one for each worker, which may be writing at the moment */

/*
 * A sample's outcome, one byte per place, written by its holder before DONE. From
 * MR_OUTCOME_DAMAGED on there is neither a sample nor a hole, so that an error takes the batch's
 * place: damage, or with MR_OUTCOME_FAILED another one.
 */
enum mr_outcome {
    MR_OUTCOME_NONE,
    MR_OUTCOME_GOOD,
    MR_OUTCOME_HOLE,
    MR_OUTCOME_DAMAGED,
    MR_OUTCOME_FAILED
};

struct mr_slot {
    _Atomic uint64_t sequence; /* number of this batch since the loader began; tickets are sequence
                                  x batch_size + place */
    _Atomic uint64_t epoch;
    _Atomic uint64_t batch;      /* number in the epoch */
    _Atomic uint64_t generation; /* host only; of all words of this slot */
    _Atomic uint32_t n_places;   /* samples of this batch; the last one of an epoch may have
                                    fewer */
    _Atomic uint32_t state;      /* enum mr_slot_state; written by the host's process, read by
                                    workers */
    _Atomic int32_t missing;     /* hint for the wake-up only; set to 0 after a death, so that
                                    every finisher looks */
    _Atomic uint32_t n_errors;   /* that were recorded, or found no record */
    _Atomic uint32_t n_warnings; /* decoder warnings of its samples */
    uint32_t spare[5];
};
static_assert(sizeof(struct mr_slot) == 72,
              "the book's head is shared between builds of one version");

/*
 * A byte array of a batch, beside image and label: rows of any length up to a maximum. slot_extra.h
 * says how they lie. /
 */
struct mr_slot_extra {
    uint64_t max_bytes;
    uint64_t offsets_off; /* int64_t[batch_size + 1]: where rows begin in values */
    uint64_t values_off;  /* uint8_t[batch_size][max_bytes] */
    uint64_t lengths_off; /* uint32_t[batch_size]: what the workers have written; not in the
                             small block */
};
#define MR_SLOT_MAX_EXTRA 3

/*
 * Where a slot's parts lie: the same for all slots of a slab, but for the base. Constant after
 * creation.
 */
struct mr_slot_layout {
    uint32_t n_slots;
    uint32_t batch_size;
    uint32_t n_workers;
    uint32_t n_extra;
    uint32_t n_erases;       /* batch_size where boxes are deferred; else 0 */
    uint32_t mixes;          /* 1: rows are mixed; the parts of mixing are there */
    uint32_t mix_rule;       /* enum mr_mix_rule */
    uint32_t n_classes;      /* of soft labels; 0: none */
    uint64_t book_off;       /* of slot 0 from the start of the slab; 64-aligned */
    uint64_t book_bytes;     /* from slot to slot */
    uint64_t places_off;     /* within a book: mr_place[batch_size] */
    uint64_t mixes_off;      /* mr_place[batch_size]: who mixes a row */
    uint64_t mix_off;        /* mr_mix: what was drawn for the batch */
    uint64_t want_off;       /* _Atomic int64_t[batch_size]: dataset indices in the sampler's
                                order */
    uint64_t occurrence_off; /* _Atomic uint32_t[batch_size]: of each index in the epoch
                                (base/rng.h) */
    uint64_t skipped_off;    /* _Atomic uint32_t[batch_size]: candidates found damaged so far */
    uint64_t outcome_off;    /* uint8_t[batch_size] */
    uint64_t records_off;    /* mr_record[MR_SLOT_RECORDS + n_workers] */
    uint64_t data_off;       /* of slot 0 from the start of the slab; page-aligned */
    uint64_t data_bytes;     /* from slot to slot; whole pages */
    uint64_t sample_bytes;   /* from row to row of the samples, which begin at 0 within the data */
    uint64_t label_off;      /* within the data: the small block begins here */
    uint64_t label_bytes;    /* of one label */
    uint64_t index_off;      /* int64_t[batch_size] */
    uint64_t mask_off;       /* uint8_t[batch_size] */
    uint64_t geometry_off;   /* int32_t[batch_size][8] */
    uint64_t mix_label_off;  /* int64_t[batch_size]: the partner's label */
    uint64_t mix_lambda_off; /* float[batch_size] */
    uint64_t soft_label_off; /* float[batch_size][n_classes] */
    uint64_t descriptor_off; /* mr_descriptor[batch_size] */
    uint64_t erase_off;      /* mr_erase[n_erases]; the small block ends behind them, and values
                                of extra members */
    uint64_t small_bytes;    /* of the small block, from label_off on */
    uint64_t status_off;     /* uint32_t[batch_size]: enum mr_finished, comes back from the
                                device */
    uint64_t source_off;     /* pixels[batch_size] before mixing; 0 where they are the samples
                                themselves */
    uint64_t source_bytes;   /* from row to row of them */
    uint64_t used_bytes;     /* of the data, with all of this */
    uint64_t slab_bytes;     /* the whole */
    struct mr_slot_extra extra[MR_SLOT_MAX_EXTRA];
};

/* What decides a layout. */
struct mr_slot_shape {
    uint64_t head_bytes; /* of other things before the slots */
    uint32_t n_slots;
    uint32_t n_workers;
    uint32_t batch_size;
    bool erases; /* samples have boxes that are applied later */
    uint64_t sample_bytes;
    uint64_t label_bytes;
    uint32_t n_extra;                        /* byte arrays, */
    uint64_t extra_bytes[MR_SLOT_MAX_EXTRA]; /* whose rows have at most so many bytes */
    bool mixes;                              /* rows are mixed: */
    uint32_t mix_rule;                       /* enum mr_mix_rule */
    uint32_t n_classes;                      /* of soft labels; 0: none */
    uint64_t source_bytes;                   /* of a row's pixels, from which the host mixes; 0:
                                                it mixes labels only */
    uint64_t page_bytes;                     /* of a page of memory, a power of two; 0: the
                                                system's */
};

/* MR_ERR_NO_MEMORY names sizes that overflow. */
mr_status mr_slot_layout_init(struct mr_slot_layout *layout, const struct mr_slot_shape *shape,
                              mr_error *error);

/* The parts of slot i in a slab that is mapped at base. */
struct mr_slot_view {
    struct mr_slot *slot;
    struct mr_place *places;
    struct mr_place *mixes; /* NULL: rows are not mixed, and neither are the other parts of
                               mixing there */
    struct mr_mix *mix;     /* written by the host while the slot is free; read by whoever holds
                               a word of mixes */
    uint32_t mix_rule;
    _Atomic int64_t *want;
    _Atomic uint32_t *occurrence;
    _Atomic uint32_t *skipped;
    _Atomic uint8_t *outcome;
    struct mr_record *records;
    uint32_t n_records; /* of them */
    uint8_t *data;
    uint8_t *source;       /* where workers write samples: data, or the pixels before mixing */
    uint64_t source_bytes; /* from row to row of them */
    uint8_t *label;
    int64_t *index;
    uint8_t *mask;
    int32_t *geometry;
    int64_t *mix_label;
    float *mix_lambda;
    float *soft_label;
    struct mr_descriptor *descriptors;
    struct mr_erase *erases; /* NULL where no boxes are deferred */
    uint32_t *status;
};
struct mr_slot_view mr_slot_at(const struct mr_slot_layout *layout, void *base, uint32_t i);

/* Move a slot; asserts that the move is legal. */
void mr_slot_move(struct mr_slot *slot, enum mr_slot_state from, enum mr_slot_state to);
enum mr_slot_state mr_slot_state(const struct mr_slot *slot);

/*
 * Host: offer a batch to the workers. want and occurrence of [0, n_places) must be set, and *mix.
 * FREE -> FILLING.
 */
void mr_slot_publish(const struct mr_slot_view *view, uint32_t batch_size, uint64_t sequence,
                     uint64_t epoch, uint64_t batch, uint32_t n_places);
/* Host: drop it. FILLING | FILLED -> CANCELED. */
void mr_slot_cancel(const struct mr_slot_view *view);

/* Are all places DONE, and mixed where rows are mixed? Is any BUSY? By the words. */
bool mr_slot_is_filled(const struct mr_slot_view *view);
bool mr_slot_is_busy(const struct mr_slot_view *view);

/*
 * A worker has moved a place to DONE, or with mixing its second word: true when the host should be
 * woken, because the slot may be filled or is canceled.
 */
bool mr_slot_count_down(const struct mr_slot_view *view);
/*
 * The first word of a place is DONE, and the row is yet to be mixed: true when the slot is
 * canceled.
 */
bool mr_slot_is_canceled(const struct mr_slot_view *view);

/*
 * Can row i be mixed now? Its second word is OPEN, and of the same generation the row itself and
 * its partner are DONE. *seen_out: that word, to be taken by mr_place_take(). What a row is mixed
 * from is read by its holder only.
 */
bool mr_slot_can_mix(const struct mr_slot_view *view, uint32_t i, uint64_t *seen_out);

/*
 * Record the error of a candidate, for the worker that holds the place, or held it until its death.
 * Damage of a substitute is dropped, and so is what the records have no room for.
 */
void mr_slot_record(const struct mr_slot_view *view, uint32_t place, const mr_error *error);

/*
 * The damage of the place's wanted sample, or another error of the place; NULL if there is none, or
 * its words are lost. For the host, in a filled slot.
 */
const mr_error *mr_slot_recorded(const struct mr_slot_view *view, uint32_t place, bool is_damage);

/* The death of a worker, as recovery needs to know it. */
struct mr_death {
    uint32_t worker;
    /* MR_BLAME_CRASH or MR_BLAME_KILL */
    uint32_t blame;
    /* of the dataset: candidates wrap around */
    int64_t n_samples;
    /* the words for a candidate that is given up */
    void (*describe)(void *user, int64_t index, mr_error *error_out);
    void *user;
};

/*
 * Supervisor: the worker is certainly dead. Turns its BUSY words into OPEN (or CLOSED in a canceled
 * slot) with more blame; at MR_BLAME_LIMIT the candidate counts as damaged. Rows that it was mixing
 * are OPEN again, without blame: no sample is at fault. Returns the number of samples that were the
 * worker's.
 * Threads: excluded by the caller's lock from mr_slot_cancel() and mr_slot_publish().
 */
uint32_t mr_slot_recover(const struct mr_slot_view *view, uint32_t batch_size,
                         const struct mr_death *death);

#endif
