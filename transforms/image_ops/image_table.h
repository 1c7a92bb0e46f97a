/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that map a byte to a byte by channel, as Pillow does. The functions fill a table (struct
 * mr_image_call_ops).
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_TABLE_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_TABLE_H

#include "transforms/image_ops/image_call_kind.h"

void mr_image_table_invert(const struct mr_image_call *call, const struct mr_image *image,
                           const struct mr_kernel_ops *kernels, struct mr_image_table *table_out);
/* args: bits to keep */
void mr_image_table_posterize(const struct mr_image_call *call, const struct mr_image *image,
                              const struct mr_kernel_ops *kernels,
                              struct mr_image_table *table_out);
/* args: threshold; values from there on are inverted */
void mr_image_table_solarize(const struct mr_image_call *call, const struct mr_image *image,
                             const struct mr_kernel_ops *kernels, struct mr_image_table *table_out);
/* args: what is added to values below 128 */
void mr_image_table_solarize_add(const struct mr_image_call *call, const struct mr_image *image,
                                 const struct mr_kernel_ops *kernels,
                                 struct mr_image_table *table_out);
void mr_image_table_autocontrast(const struct mr_image_call *call, const struct mr_image *image,
                                 const struct mr_kernel_ops *kernels,
                                 struct mr_image_table *table_out);
void mr_image_table_equalize(const struct mr_image_call *call, const struct mr_image *image,
                             const struct mr_kernel_ops *kernels, struct mr_image_table *table_out);

/* first becomes the table of both: first, then second. */
void mr_image_table_fold(struct mr_image_table *first, const struct mr_image_table *second,
                         uint32_t n_channels);
/* Map every pixel of the image through its channel's table. */
void mr_image_table_apply(const struct mr_image_table *table, struct mr_image *image,
                          const struct mr_kernel_ops *kernels);

#endif
