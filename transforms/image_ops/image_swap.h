/* SPDX-License-Identifier: Apache-2.0 */
/* Flips, and channels in another order: bytes that only move. */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_SWAP_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_SWAP_H

#include "transforms/image_ops/image_call_kind.h"

void mr_image_swap_columns(const struct mr_image_call *call, struct mr_image *image,
                           const struct mr_kernel_ops *kernels);
void mr_image_swap_rows(const struct mr_image_call *call, struct mr_image *image,
                        const struct mr_kernel_ops *kernels);
/* args: for each channel, the channel that it is taken from. One channel stays as it is. */
void mr_image_swap_channels(const struct mr_image_call *call, struct mr_image *image,
                            const struct mr_kernel_ops *kernels);

#endif
