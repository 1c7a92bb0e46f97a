/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that chooses between kinds of devices. */
#include "pinned/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct mr_device_table *const tables[] = {&mr_device_host};

static bool parse_id(const char *text, int32_t *id_out)
{
    if (*text == '\0') {
        *id_out = 0;
        return true;
    }
    char *end;
    errno = 0;
    long id = strtol(text + 1, &end, 10);
    if (*text != ':' || text[1] < '0' || text[1] > '9' || *end != '\0' || errno != 0 || id < 0 || id > 4095)
        return false;
    *id_out = (int32_t)id;
    return true;
}

mr_status mr_device_find(const char *name, const struct mr_device_table **table_out, mr_device *device_out,
                         mr_error *error)
{
    const char *wanted = name ? name : "host";
    size_t len = strcspn(wanted, ":");
    int32_t id;
    if (!parse_id(wanted + len, &id))
        return mr_error_set(error, MR_ERR_INVALID, "device '%s' is not of the form host or host:0", wanted);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const struct mr_device_table *table = tables[i];
        if (strlen(table->name) != len || memcmp(table->name, wanted, len) != 0)
            continue;
        if ((uint32_t)id >= table->count())
            return mr_error_set(error, MR_ERR_NO_DEVICE, "device '%s' does not exist; there are %u", wanted,
                                table->count());
        *table_out = table;
        *device_out = (mr_device){.kind = table->kind, .id = id};
        return MR_OK;
    }
    if (len == 4 && memcmp(wanted, "cuda", len) == 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "device '%s': this build has no CUDA", wanted);
    return mr_error_set(error, MR_ERR_INVALID, "device '%s' is not of the form host or host:0", wanted);
}
