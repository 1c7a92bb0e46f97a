/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts a batch has and on which devices they are, from the names in the options, before any
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
    bool lends_slots; /* the default, "host": no copies; of the fields below only n_parts is
                         used, and is 1 */
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
 * "auto" asks mr_device_count() and, where there is none, takes the host and logs why, once per
 * process. MR_ERR_INVALID for an unknown name, a device named twice, labels of several parts on one
 * GPU, both device and devices; MR_ERR_UNSUPPORTED when this build has no such kind.
 */
mr_status mr_placement_resolve(const struct mr_placement_names *names,
                               struct mr_placement *placement_out, mr_error *error);

/*
 * Rows of part i of a batch of n rows in n_parts, as torch.chunk splits: ceil(n / n_parts) each,
 * the last part fewer, parts that would be empty left out (but for part 0). Returns how many parts
 * there are.
 */
uint32_t mr_placement_split(uint32_t n_rows, uint32_t n_parts, uint32_t i, uint32_t *first_out,
                            uint32_t *n_out);

/* Is one of the devices of this kind? */
bool mr_placement_has_kind(const struct mr_placement *placement, mr_device_kind kind);

#endif
