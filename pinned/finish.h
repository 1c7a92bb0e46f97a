/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing turns copied samples into lent ones: u8 pixels to u8, f32, f16 or bf16, normalised,
 * NHWC or NCHW, channels padded with zeros. The host finishes one sample after the other, a GPU all
 * at once. Both give the same bits, because both run finish_pixel.h.
 */
#ifndef PINNED_FINISH_H
#define PINNED_FINISH_H

#include "pinned/finish_job.h"

/* Bytes of one finished sample. */
uint64_t mr_finish_out_bytes(const struct mr_finish *finish);

/* The host's version of the GPU's kernel. */
void mr_finish_run(const struct mr_finish_job *job);

#endif
