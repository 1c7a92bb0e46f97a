/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draws of torchvision's policies: rand_augment, trivial_augment_wide, auto_augment of v1
 * (autoaugment.py), and with _v2 those of v2 (_auto_augment.py) for PIL images. They differ in the
 * draws of signs and in the magnitudes of solarize.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_POLICY_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_POLICY_H

#include "transforms/image_ops/image_calls.h"

/* The names of auto_augment's policies, up to NULL. */
extern const char *const mr_image_policy_names[];

/*
 * Arguments: num_ops, magnitude, num_magnitude_bins, interp, fill. At most one call for each of
 * num_ops.
 */
void mr_image_policy_draw_rand(struct mr_image_params_source *draw);
void mr_image_policy_draw_rand_v2(struct mr_image_params_source *draw);
/* True, with the reason, if rand_augment's arguments do not go together. */
bool mr_image_policy_refuse_rand(const double *args, char why_out[MR_IMAGE_OP_WHY]);

/* Arguments: num_magnitude_bins, interp, fill. At most one call. */
void mr_image_policy_draw_wide(struct mr_image_params_source *draw);
void mr_image_policy_draw_wide_v2(struct mr_image_params_source *draw);

/* Arguments: policy, interp, fill. At most two calls. */
void mr_image_policy_draw_auto(struct mr_image_params_source *draw);
void mr_image_policy_draw_auto_v2(struct mr_image_params_source *draw);

#endif
