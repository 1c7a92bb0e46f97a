/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns names of devices into places of images and labels.
 *
 * Invariant: plain "host" is not "host:0". Alone it lends the slots, without a copy. It becomes the
 * memory of host:0 only if something else is on another device.
 */
#include "pinned/placement.h"

#include "base/log.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 4095 };

/* A parsed name. */
struct found {
    struct mr_device_name name;
    bool is_host_memory;
};

static mr_status refuse_name(const char *name, mr_error *error)
{
    return mr_error_set(
        error, MR_ERR_INVALID,
        "device '%s' is none of host, host:N, cuda, cuda:N, cuda:local and auto (N is at most %d)",
        name, (int)MAX_ID);
}

/* Read an id: decimal digits only, at most MAX_ID; no sign, no space, no leading zero. */
static bool read_id(const char *digits, int32_t *id_out)
{
    int32_t id = 0;
    const char *at = digits;
    for (; *at >= '0' && *at <= '9' && id <= MAX_ID; at++)
        id = id * 10 + (*at - '0');
    *id_out = id;
    return at != digits && !*at && id <= MAX_ID && (digits[0] != '0' || at == digits + 1);
}

/* Without a GPU, auto is the host. This is logged once per process, not for every loader. */
static mr_status find_auto(struct found *found_out)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    mr_error why = {0};
    uint32_t n = mr_device_count(MR_DEVICE_CUDA, &why);
    if (n > 0) {
        int32_t id = n == 1 || getenv("LOCAL_RANK") ? MR_DEVICE_LOCAL : 0;
        *found_out = (struct found){.name = {mr_device_find(MR_DEVICE_CUDA), id}};
        return MR_OK;
    }
    if (!atomic_flag_test_and_set(&said))
        mr_log_line(MR_LOG_INFO, "device 'auto' is the host: %s", why.text);
    *found_out = (struct found){.name = {&mr_device_host, 0}, .is_host_memory = true};
    return MR_OK;
}

/* Read what follows "host" or "cuda": nothing, or a colon and an id. */
static bool read_rest(const char *rest, bool may_be_local, int32_t *id_out)
{
    *id_out = 0;
    if (!*rest)
        return true;
    if (*rest != ':')
        return false;
    if (may_be_local && strcmp(rest + 1, "local") == 0) {
        *id_out = MR_DEVICE_LOCAL;
        return true;
    }
    return read_id(rest + 1, id_out);
}

static mr_status find_device(const char *name, struct found *found_out, mr_error *error)
{
    if (strcmp(name, "auto") == 0)
        return find_auto(found_out);
    if (strcmp(name, "cpu") == 0) /* torch's word */
        name = "host";
    mr_device_kind kind = strncmp(name, "cuda", 4) == 0 ? MR_DEVICE_CUDA : MR_DEVICE_HOST;
    int32_t id;
    if ((kind == MR_DEVICE_HOST && strncmp(name, "host", 4) != 0) ||
        !read_rest(name + 4, kind == MR_DEVICE_CUDA, &id))
        return refuse_name(name, error);
    const struct mr_device_ops *ops = mr_device_find(kind);
    if (!ops)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "device '%s': this build has no CUDA", name);
    *found_out =
        (struct found){.name = {ops, id}, .is_host_memory = kind == MR_DEVICE_HOST && !name[4]};
    return MR_OK;
}

/* The device's index; adds the device if it is new. */
static uint32_t add_device(struct mr_placement *placement, struct mr_device_name name)
{
    for (uint32_t i = 0; i < placement->n_devices; i++)
        if (placement->devices[i].ops == name.ops && placement->devices[i].id == name.id)
            return i;
    assert(placement->n_devices < MR_PLACEMENT_DEVICES);
    placement->devices[placement->n_devices] = name;
    return placement->n_devices++;
}

/* One part: images on device, labels on label_device if given, else on device. */
static mr_status place_whole(const struct mr_placement_names *names, struct mr_placement *placement,
                             mr_error *error)
{
    struct found image, label;
    mr_status status = find_device(names->device ? names->device : "host", &image, error);
    if (status != MR_OK)
        return status;
    label = image;
    if (names->label_device)
        status = find_device(names->label_device, &label, error);
    if (status != MR_OK)
        return status;
    placement->n_parts = 1;
    placement->lends_slots = image.is_host_memory && label.is_host_memory;
    if (!placement->lends_slots) {
        placement->image[0] = add_device(placement, image.name);
        placement->label[0] = add_device(placement, label.name);
    }
    return MR_OK;
}

static mr_status check_devices(const struct mr_placement_names *names, mr_error *error)
{
    if (names->device)
        return mr_error_set(error, MR_ERR_INVALID, "both device '%s' and %u devices are given",
                            names->device, (unsigned)names->n_devices);
    if (!names->devices)
        return mr_error_set(error, MR_ERR_INVALID, "n_devices is %u and devices is NULL",
                            (unsigned)names->n_devices);
    if (names->n_devices < 2 || names->n_devices > MR_MAX_DEVICES)
        return mr_error_set(error, MR_ERR_INVALID, "n_devices %u is not between 2 and %d%s",
                            (unsigned)names->n_devices, MR_MAX_DEVICES,
                            names->n_devices == 1 ? "; device names a single one" : "");
    if (names->label_device && strcmp(names->label_device, "host") != 0)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "label_device '%s': the labels of several devices are with their images or on host",
            names->label_device);
    return MR_OK;
}

/* Several devices are distinguished before they are opened, so each name must have a number. */
static mr_status find_numbered(const char *const *devices, uint32_t i, struct found *found_out,
                               mr_error *error)
{
    const char *name = devices[i];
    if (!name)
        return mr_error_set(error, MR_ERR_INVALID, "devices[%u] is NULL", (unsigned)i);
    if (strcmp(name, "auto") == 0 || strcmp(name, "cuda:local") == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "devices[%u] is '%s', which has no device number", (unsigned)i, name);
    return find_device(name, found_out, error);
}

static mr_status add_part(const struct mr_placement_names *names, uint32_t i,
                          struct mr_placement *placement, mr_error *error)
{
    struct found found;
    mr_status status = find_numbered(names->devices, i, &found, error);
    if (status != MR_OK)
        return status;
    if (i > 0 && found.name.ops != placement->devices[0].ops)
        return mr_error_set(error, MR_ERR_INVALID, "devices '%s' and '%s' are of different kinds",
                            names->devices[0], names->devices[i]);
    placement->image[i] = placement->label[i] = add_device(placement, found.name);
    if (placement->image[i] != i)
        return mr_error_set(error, MR_ERR_INVALID, "devices[%u] '%s' is the same as devices[%u]",
                            (unsigned)i, names->devices[i], (unsigned)placement->image[i]);
    return MR_OK;
}

/* One part per device. */
static mr_status place_parts(const struct mr_placement_names *names, struct mr_placement *placement,
                             mr_error *error)
{
    mr_status status = check_devices(names, error);
    placement->n_parts = names->n_devices;
    for (uint32_t i = 0; i < names->n_devices && status == MR_OK; i++)
        status = add_part(names, i, placement, error);
    if (status != MR_OK || !names->label_device)
        return status;
    uint32_t label = add_device(placement, (struct mr_device_name){&mr_device_host, 0});
    for (uint32_t i = 0; i < names->n_devices; i++)
        placement->label[i] = label;
    return MR_OK;
}

mr_status mr_placement_resolve(const struct mr_placement_names *names,
                               struct mr_placement *placement_out, mr_error *error)
{
    struct mr_placement placement = {0};
    mr_status status;
    if (names->n_devices > 0)
        status = place_parts(names, &placement, error);
    else if (names->devices)
        status = mr_error_set(error, MR_ERR_INVALID, "devices is set and n_devices is 0");
    else
        status = place_whole(names, &placement, error);
    if (status == MR_OK)
        *placement_out = placement;
    return status;
}

uint32_t mr_placement_split(uint32_t n_rows, uint32_t n_parts, uint32_t i, uint32_t *first_out,
                            uint32_t *n_out)
{
    assert(n_parts > 0);
    uint32_t chunk = n_rows / n_parts + (n_rows % n_parts != 0);
    uint32_t n_chunks = chunk ? n_rows / chunk + (n_rows % chunk != 0) : 1;
    bool is_there = i < n_chunks;
    *first_out = is_there ? i * chunk : n_rows;
    uint32_t left = n_rows - *first_out;
    *n_out = left < chunk ? left : chunk;
    return n_chunks;
}

bool mr_placement_has_kind(const struct mr_placement *placement, mr_device_kind kind)
{
    for (uint32_t d = 0; !placement->lends_slots && d < placement->n_devices; d++)
        if (placement->devices[d].ops->kind == kind)
            return true;
    return false;
}
