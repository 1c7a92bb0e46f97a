/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one process shares a step's work between devices (--mode):
 *
 *   ddp      one device and the whole network; the ranks share the step
 *   dp       several devices with the same weights: the loader scatters the images; scores are
 *            gathered on the first device, which gets the labels from the host and computes the
 * loss; gradients are added up there and weights copied back dp-loss  the same, but labels are
 * scattered too, and each device computes its part's loss mp       the first half of the layers on
 * one device, the second half and the labels on another
 */
#ifndef EXAMPLES_TRAIN_MODES_H
#define EXAMPLES_TRAIN_MODES_H

#include <millrace/millrace.h>

#include "convnet.h"

enum train_mode { TRAIN_DDP, TRAIN_DP, TRAIN_DP_LOSS, TRAIN_MP };

struct train_model {
    enum train_mode mode;
    mr_dtype dtype;
    size_t n_params; /* of the whole network */
    uint32_t n_devices, n_parts;
    char names[MR_MAX_DEVICES][24]; /* "host", "host:1", "cuda:0": names for the loader */
    struct convnet *nets[MR_MAX_DEVICES];
    void *gathered;  /* dp: on the first device, what was copied from another one */
    int64_t *labels; /* dp on GPUs: a part's labels and mask, copied from the host */
};

/* devices: names with commas, as in --devices. Returns NULL, or a message. */
const char *train_modes_devices(struct train_model *model, enum train_mode mode,
                                const char *devices);
/* Create the networks on those devices. False: failed, and the reason is on stderr. */
bool train_modes_open(struct train_model *model, mr_dtype dtype, uint32_t n_classes,
                      uint32_t batch_size, uint64_t seed);
void train_modes_close(struct train_model *model);
bool train_modes_on_gpu(const struct train_model *model);

/*
 * Set the devices that a loader copies to. list: room for MR_MAX_DEVICES names; it must outlive
 * options.
 */
void train_modes_loader(const struct train_model *model, mr_loader_options *options,
                        const char **list);
/* As mr_loader_next(); the networks' streams wait for the batch. */
mr_status train_modes_next(struct train_model *model, mr_loader *loader, mr_batch **batch_out);
/* Returns NULL, or a message about the batch. */
const char *train_modes_forward(struct train_model *model, mr_batch *batch);
const char *train_modes_score(struct train_model *model, mr_batch *batch);
/* The last batch's sums over all devices; waits for them. */
struct convnet_sums train_modes_sums(const struct train_model *model);
void train_modes_backward(struct train_model *model, int layer);
void train_modes_update(struct train_model *model, double lr, double momentum, double decay);

/*
 * Copy all weights, then all velocities, between the devices and numbers[2 * n_params] on the host.
 */
void train_modes_save(const struct train_model *model, void *numbers);
void train_modes_load(struct train_model *model, const void *numbers);

/*
 * Print one line for each device: the memory that network and loader use there. batch: a full batch
 * of this loader.
 */
void train_modes_print_memory(const struct train_model *model, mr_loader *loader, mr_batch *batch);

#endif
