/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs the documents of one window into rows of tokens: which pieces of documents share a row. It
 * sees lengths alone. Empty documents are in no row.
 *
 * wrapped     the documents are joined and cut after every `row` tokens
 * first_fit   each document, in order, is placed in the first row that has room for it
 * bfd         best fit decreasing: the longest document first (of equal ones the first), each in a
 *             row with the least sufficient room (of equal rows the one that got it first)
 * bfd_split   the same for the fragments of documents that are cut after every `row` tokens
 *
 * A document longer than a row is cut to it by first_fit and bfd. wrapped, bfd and bfd_split are
 * those of TRL 1.16 (trl/data_utils.py, pack_dataset()), first_fit is that of Axolotl (commit
 * 067b021, utils/samplers/multipack.py, pack_group()) without a limit on the documents of a row.
 */
#ifndef SAMPLER_PACKING_PLAN_H
#define SAMPLER_PACKING_PLAN_H

#include <millrace/status.h>

#include "base/sample_kind.h"

struct mr_packing_plan;

/* For windows of at most n_most documents, up to 2^24, and rows of `row` tokens, up to 2^24. */
mr_status mr_packing_plan_create(enum mr_pack pack, uint32_t row, uint32_t n_most,
                                 struct mr_packing_plan **plan_out, mr_error *error);
void mr_packing_plan_destroy(struct mr_packing_plan *plan); /* NULL does nothing */

/* The lengths of the next window's documents, to be set before it is made. */
uint32_t *mr_packing_plan_lengths(struct mr_packing_plan *plan);
/* Plan a window of n documents. Returns the number of its rows. */
uint64_t mr_packing_plan_make(struct mr_packing_plan *plan, uint32_t n);
/*
 * The pieces of a row of the window, at most n_most and `row`; their documents are numbers in the
 * window. Returns how many; 0: there is no such row.
 */
uint32_t mr_packing_plan_row(const struct mr_packing_plan *plan, uint64_t number,
                             struct mr_token_piece *pieces_out);

/* The last of n ascending starts that is at most `at`; the first one is. */
uint64_t mr_packing_plan_find(const uint64_t *starts, uint64_t n, uint64_t at);

#endif
