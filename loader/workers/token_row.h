/* SPDX-License-Identifier: Apache-2.0 */
/* One row of token ids: from the bytes of a file to the columns of a batch. */
#ifndef LOADER_WORKERS_TOKEN_ROW_H
#define LOADER_WORKERS_TOKEN_ROW_H

#include "loader/workers/sample_fetch.h"

/*
 * fetched: the ids of a row and perhaps one more, of the kind's dtype, not aligned. There may be
 * fewer: what is missing is kind.pad, and its loss_mask 0. MR_ERR_DAMAGED, with the name of the
 * sample: an id is not below kind.vocab, negative, or too large for the dtype; or the length is
 * wrong.
 */
mr_status mr_token_row_store(const struct mr_sample_source *source, const struct mr_plan *plan,
                             const struct mr_sample_job *job, const struct mr_fetched *fetched,
                             mr_error *error);

/* A packed row without a sample, of zeros: one segment of padding, and no labels. */
void mr_token_row_leave(const struct mr_plan *plan, const struct mr_sample_job *job);

#endif
