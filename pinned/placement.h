/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a batch and the devices that they are on, from the names in the options, before any
 * device is opened.
 */
#ifndef PINNED_PLACEMENT_H
#define PINNED_PLACEMENT_H

#include "pinned/device.h"

#include <millrace/loader.h>

/* Devices of images, and one of labels. */
#define MR_PLACEMENT_DEVICES (MR_MAX_DEVICES + 1)

struct mr_device_name {
    const struct mr_device_ops *ops;
    int32_t id; /* or MR_DEVICE_LOCAL */
};

struct mr_placement {
    /* The default, "host": no copies. Of the fields below only n_parts is used, and it is 1. */
    bool lends_slots;
    uint32_t n_parts;
    uint32_t n_devices;
    struct mr_device_name devices[MR_PLACEMENT_DEVICES]; /* distinct; each is opened once */
    uint32_t image[MR_MAX_DEVICES];                      /* of part i: index into devices */
    uint32_t label[MR_MAX_DEVICES];
};

/* The names as the caller gave them. */
struct mr_placement_names {
    const char *device;
    const char *const *devices;
    uint32_t n_devices;
    const char *label_device;
};

/*
 * "auto" calls mr_device_count(). If there is no device it takes the host and logs why, once per
 * process. MR_ERR_INVALID for an unknown name, a device named twice, labels of several parts on one
 * GPU, or both device and devices; MR_ERR_UNSUPPORTED if this build has no such kind.
 */
mr_status mr_placement_resolve(const struct mr_placement_names *names,
                               struct mr_placement *placement_out, mr_error *error);

/*
 * Rows of part i of a batch of n_rows rows in n_parts, split as torch.chunk does: ceil(n_rows /
 * n_parts) each, fewer in the last part. Parts that would be empty are left out, except part 0.
 * Returns the number of parts.
 */
uint32_t mr_placement_split(uint32_t n_rows, uint32_t n_parts, uint32_t i, uint32_t *first_out,
                            uint32_t *n_out);

/* True if one of the devices is of this kind. */
bool mr_placement_has_kind(const struct mr_placement *placement, mr_device_kind kind);

#endif
