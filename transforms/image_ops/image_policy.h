/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draws of torchvision's policies: rand_augment, trivial_augment_wide, auto_augment,
 * augmix of v1 (autoaugment.py), and with _v2 those of v2 (_auto_augment.py) for PIL images. They
 * differ in the draws of signs and in the magnitudes of solarize; augmix's calls are those on
 * tensors, in which v1 and v2 round differently.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_POLICY_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_POLICY_H

#include "transforms/image_ops/image_calls.h"

enum {
    MR_IMAGE_POLICY_BINS = 10, /* of auto_augment's and augmix's magnitudes */
    MR_IMAGE_POLICY_MAX_CHAINS = 63
};

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

/*
 * Arguments: severity, mixture_width, chain_depth, alpha, all_ops, interp, fill. The weights have
 * torchvision's distribution; the other draws are in its order.
 */
void mr_image_policy_draw_augmix(struct mr_image_params_source *draw);
void mr_image_policy_draw_augmix_v2(struct mr_image_params_source *draw);
uint32_t mr_image_policy_count_augmix(const double *args);
/* True, with the reason, if the interpolation is not one that tensors have. */
bool mr_image_policy_refuse_augmix(const double *args, char why_out[MR_IMAGE_OP_WHY]);

#endif
