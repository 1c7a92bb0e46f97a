/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the options' device names, and stores copies so that the options can be read back. */
#include "loader/device_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Store a copy of a resolved name. */
static mr_status copy_name(struct mr_host *host, uint32_t i, const char *name,
                           const char **text_out, mr_error *error)
{
    host->names[i] = strdup(name);
    *text_out = host->names[i];
    return host->names[i] ? MR_OK : mr_error_memory(error, strlen(name) + 1);
}

void mr_device_choice_name(const struct mr_device_name *device,
                           char name_out[MR_DEVICE_CHOICE_NAME])
{
    if (device->id == MR_DEVICE_LOCAL)
        snprintf(name_out, MR_DEVICE_CHOICE_NAME, "%s:local", device->ops->name);
    else
        snprintf(name_out, MR_DEVICE_CHOICE_NAME, "%s:%d", device->ops->name, device->id);
}

static bool is_auto(const char *name)
{
    return name && strcmp(name, "auto") == 0;
}

mr_status mr_device_choice_confirm(struct mr_host *host, mr_error *error)
{
    mr_loader_options *o = &host->options;
    char name[MR_DEVICE_CHOICE_NAME];
    if (host->placement.lends_slots || !o->device)
        return MR_OK;
    /* the copying thread uses the rest of the host now */
    mr_device at = mr_copier_image_device(host->copier);
    const struct mr_device_name device = {.ops = mr_device_find(at.kind), .id = at.id};
    mr_device_choice_name(&device, name);
    free(host->names[0]);
    return copy_name(host, 0, name, &o->device, error);
}

mr_status mr_device_choice_resolve(struct mr_host *host, mr_error *error)
{
    mr_loader_options *o = &host->options;
    struct mr_placement_names names = {.device = o->device,
                                       .devices = o->devices,
                                       .n_devices = o->n_devices,
                                       .label_device = o->label_device};
    mr_status status = mr_placement_resolve(&names, &host->placement, error);
    if (status == MR_OK && host->placement.lends_slots && o->pad_channels != 0 &&
        is_auto(names.device)) {
        /* slots cannot be padded; a program that runs with a GPU must run without one too */
        names.device = "host:0";
        status = mr_placement_resolve(&names, &host->placement, error);
    }
    o->device = NULL;
    o->devices = NULL;
    o->label_device = NULL;
    if (status == MR_OK && names.n_devices > 1)
        o->devices = (const char *const *)host->names;
    for (uint32_t i = 0; status == MR_OK && i < o->n_devices; i++) {
        const char *unused;
        status = copy_name(host, i, names.devices[i], &unused, error);
    }
    if (status == MR_OK && names.n_devices == 0) {
        char name[MR_DEVICE_CHOICE_NAME] = "host";
        if (!host->placement.lends_slots)
            mr_device_choice_name(&host->placement.devices[host->placement.image[0]], name);
        status = copy_name(host, 0, name, &o->device, error);
    }
    if (status == MR_OK && names.label_device)
        status = copy_name(host, MR_MAX_DEVICES + 1, names.label_device, &o->label_device, error);
    return status;
}
