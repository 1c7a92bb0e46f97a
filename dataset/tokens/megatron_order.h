/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of Megatron-Core's GPTDataset (Megatron-LM, commit d98e8a64,
 * megatron/core/datasets/gpt_dataset.py and helpers.cpp): documents are shuffled and joined, the
 * joined tokens are cut into rows, and the rows are shuffled.
 *
 * Row r begins at token r * window of the joined documents, so the place of a row follows from that
 * of an earlier one: only every MR_TOKEN_STEP-th is stored.
 */
#ifndef DATASET_TOKENS_MEGATRON_ORDER_H
#define DATASET_TOKENS_MEGATRON_ORDER_H

#include "base/bytes.h"
#include "dataset/tokens/document_rows.h"
#include "dataset/tokens/megatron_index.h"

/* GPTDatasetConfig, as far as it decides about indices. */
struct mr_megatron_order {
    uint64_t window;      /* sequence_length */
    uint64_t extra_token; /* add_extra_token_to_sequence: 0 or 1 */
    uint64_t n_wanted;    /* num_samples; 0: None, one epoch */
    uint32_t seed;
    bool keeps_partial;  /* not drop_last_partial_validation_sequence, of a validation split */
    uint64_t begin, end; /* the sequences of the split */
};

/*
 * The sequences of a part (0 train, 1 valid, 2 test) of a split such as "969,30,1" of n.
 * MR_ERR_INVALID: the text is no split; the part is empty.
 */
mr_status mr_megatron_split(const char *text, uint32_t part, uint64_t n, uint64_t *begin_out,
                            uint64_t *end_out, mr_error *error);

/*
 * documents receives the joined documents (u32: numbers of sequences), shuffle the rows in their
 * order (u32), places the begin of every MR_TOKEN_STEP-th row. MR_ERR_INVALID: there is no row, or
 * there are 2^32 of them or of the joined documents; MR_ERR_NO_MEMORY.
 */
mr_status mr_megatron_order_build(const struct mr_megatron_index *index,
                                  const struct mr_megatron_order *order, struct mr_bytes *documents,
                                  struct mr_bytes *shuffle, struct mr_bytes *places,
                                  uint64_t *n_rows_out, mr_error *error);

#endif
