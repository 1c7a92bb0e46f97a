/* SPDX-License-Identifier: Apache-2.0 */
/* The devices named by the options. */
#ifndef LOADER_DEVICE_CHOICE_H
#define LOADER_DEVICE_CHOICE_H

#include "loader/host.h"

#define MR_DEVICE_CHOICE_NAME 32

/* "cuda:0" */
void mr_device_choice_name(const struct mr_device_name *device,
                           char name_out[MR_DEVICE_CHOICE_NAME]);

/*
 * Set host->placement from the names in host->options, and replace those names by copies that the
 * host owns.
 */
mr_status mr_device_choice_resolve(struct mr_host *host, mr_error *error);

/* Once the devices are open: replace "cuda:local" by the device's number. */
mr_status mr_device_choice_confirm(struct mr_host *host, mr_error *error);

#endif
