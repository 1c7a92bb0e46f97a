/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of an epoch of packed documents. The documents of all ranks, in the order of the epoch,
 * are cut into windows, and each window is packed for itself (packing_plan.h). Rows have global
 * numbers, by window.
 *
 * Invariant: rows depend on the lengths, the options, the seed and the epoch alone. Of an epoch
 * only the documents' order and the number of rows up to each window are kept; the plan of a window
 * is made again when a row of it is asked for.
 */
#ifndef SAMPLER_PACKING_H
#define SAMPLER_PACKING_H

#include <millrace/sampler.h>

#include "base/sample_kind.h"

struct mr_packing_options {
    /* The tokens of a document, at most INT32_MAX. It must not change. */
    uint32_t (*length)(const void *user, uint64_t document);
    /* An error: lengths must not be asked for any more. NULL: they always may. */
    mr_status (*check)(const void *user, mr_error *error);
    const void *user;
    uint64_t n_documents;
    uint32_t pack;   /* an mr_pack, not none */
    uint32_t row;    /* tokens of a row */
    uint32_t window; /* documents that are packed together, up to MR_PACK_MAX_WINDOW; 0: all of
                        them, wrapped only */
};

/* The same for all epochs; shared by the samplers of a loader's two epochs. */
struct mr_packing;

/* Counts the tokens of all documents. MR_ERR_INVALID: there is none; the error of `check`. */
mr_status mr_packing_create(const struct mr_packing_options *options,
                            struct mr_packing **packing_out, mr_error *error);
struct mr_packing *mr_packing_ref(struct mr_packing *packing);
void mr_packing_unref(struct mr_packing *packing); /* NULL does nothing */
/* End the counting of rows, now and later. Threads: any. NULL does nothing. */
void mr_packing_stop(struct mr_packing *packing);

/* No epoch has more rows, and no row more pieces. */
uint64_t mr_packing_most_rows(const struct mr_packing *packing);
uint32_t mr_packing_most_pieces(uint32_t row, uint32_t window);
/* Of the options and the number of tokens. */
uint64_t mr_packing_digest(const struct mr_packing *packing);

struct mr_packed_epoch;

/* sampler: its seed, order and no_shuffle count. The epoch must be set before rows are read. */
mr_status mr_packed_epoch_create(struct mr_packing *packing, const mr_sampler_options *sampler,
                                 struct mr_packed_epoch **packed_out, mr_error *error);
void mr_packed_epoch_destroy(struct mr_packed_epoch *packed); /* NULL does nothing */
/*
 * Order the documents, and count the rows; if begins is set and there are many, only the first
 * ones, and the others do not exist yet. The error of `check`, MR_ERR_NO_MEMORY: nothing changes.
 * MR_ERR_CANCELED: after mr_packing_stop().
 */
mr_status mr_packed_epoch_set(struct mr_packed_epoch *packed, uint64_t epoch, bool begins,
                              mr_error *error);
/* Are rows left that were not counted? */
bool mr_packed_epoch_is_begun(const struct mr_packed_epoch *packed);
uint64_t mr_packed_epoch_n_rows(const struct mr_packed_epoch *packed);
/*
 * The pieces of a row, mr_packing_most_pieces() at most. It is fast if rows ascend. Returns how
 * many; 0: there is no such row, or `check` has failed.
 */
uint32_t mr_packed_epoch_row(struct mr_packed_epoch *packed, uint64_t number,
                             struct mr_token_piece *pieces_out);

#endif
