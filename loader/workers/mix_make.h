/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixes one row of a batch, from finished samples: its tensor, its partner's label, lambda, and its
 * soft label.
 */
#ifndef LOADER_WORKERS_MIX_MAKE_H
#define LOADER_WORKERS_MIX_MAKE_H

#include "loader/workers/worker_setup.h"

struct mr_mix_maker;

/* *maker_out is NULL if rows are not mixed. */
mr_status mr_mix_make_create(const struct mr_worker_job *job, struct mr_mix_maker **maker_out,
                             mr_error *error);
void mr_mix_make_destroy(struct mr_mix_maker *maker);

/*
 * Mix row i, whose second word the caller holds. A row without a sample, without a partner, or
 * whose partner has no sample, is not mixed: it gets lambda 1 and its own label.
 */
void mr_mix_make_row(const struct mr_mix_maker *maker, const struct mr_slot_view *view, uint32_t i);

#endif
