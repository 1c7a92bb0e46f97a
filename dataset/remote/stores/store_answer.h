/* SPDX-License-Identifier: Apache-2.0 */
/* What stores mean by answers that are not good. */
#ifndef DATASET_REMOTE_STORES_STORE_ANSWER_H
#define DATASET_REMOTE_STORES_STORE_ANSWER_H

#include "dataset/remote/answer.h"
#include "dataset/remote/request_headers.h"
#include "dataset/remote/stores/target.h"

/*
 * Learn from an answer that is not good, and judge it again: MR_VERDICT_MOVED if a request that is
 * made anew will be right. location: of a redirect; NULL: none. n_moves: how often this was the
 * verdict for this get. Adds to words why the store refused.
 */
enum mr_verdict mr_store_answer_judge(struct mr_targets *targets, const char *url,
                                      const struct mr_request_origin *origin,
                                      const struct mr_answer *answer, const char *location,
                                      uint32_t n_moves, enum mr_verdict verdict,
                                      char words[MR_ANSWER_WORDS]);

#endif
