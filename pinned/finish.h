/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing: what was copied becomes what is lent. u8 pixels to u8, f32, f16 or bf16, normalised, NHWC or NCHW,
 * channels padded with zeros; one sample after the other on the host, all at once on a GPU, and the same bits from
 * both, because both run finish_pixel.h.
 */
#ifndef PINNED_FINISH_H
#define PINNED_FINISH_H

#include "pinned/finish_job.h"

/* Bytes of one sample in the slot, and of one finished sample. */
uint64_t mr_finish_in_bytes(const struct mr_finish *finish);
uint64_t mr_finish_out_bytes(const struct mr_finish *finish);

/* The host's twin of the GPU's kernel. */
void mr_finish_run(const struct mr_finish_job *job);

#endif
