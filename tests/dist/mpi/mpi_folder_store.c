/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a folder. Each key is a file. It is written under another name and renamed, so a
 * reader never finds half a file.
 */
#include "tests/dist/mpi/mpi_folder_store.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

static void make_path(const struct folder_store *store, const char *key, char *path_out,
                      size_t size)
{
    int at = snprintf(path_out, size, "%s/%s", store->path, store->prefix);
    snprintf(path_out + at, size - (size_t)at, "_%s", key);
    for (char *c = path_out + at; *c; c++)
        if (*c == '/')
            *c = '_';
}

static int32_t set(void *user, const char *key, const void *value, uint32_t len, mr_error *error)
{
    char path[400];
    char aside[420];
    make_path(user, key, path, sizeof path);
    snprintf(aside, sizeof aside, "%s.new", path);
    FILE *file = fopen(aside, "wb");
    bool is_written = file && fwrite(value, 1, len, file) == len;
    if (file)
        is_written &= fclose(file) == 0;
    if (!is_written || rename(aside, path) != 0)
        return mr_error_set(error, MR_ERR_IO, "cannot write %s", path);
    return MR_OK;
}

static int32_t get(void *user, const char *key, void *value_out, uint32_t size, uint32_t *len_out,
                   uint64_t deadline_ns, mr_error *error)
{
    char path[400];
    make_path(user, key, path, sizeof path);
    for (;;) {
        FILE *file = fopen(path, "rb");
        if (file) {
            *len_out = (uint32_t)fread(value_out, 1, size, file);
            fclose(file);
            return MR_OK;
        }
        if (mr_clock_now_ns() >= deadline_ns)
            return mr_error_set(error, MR_ERR_TIMEOUT, "%s is not set", key);
        mr_clock_sleep_ms(1);
    }
}

struct mr_engine_store folder_store_of(struct folder_store *store)
{
    return (struct mr_engine_store){.user = store, .set = set, .get = get};
}

bool folder_store_meet(const char *path, const char *name, uint32_t rank, uint32_t n)
{
    struct folder_store store;
    uint64_t deadline_ns = mr_clock_now_ns() + 20000000000u;
    snprintf(store.path, sizeof store.path, "%s", path);
    snprintf(store.prefix, sizeof store.prefix, "meet-%s", name);
    for (uint32_t i = 0; i <= n; i++) {
        char key[16];
        char byte = 1;
        uint32_t len = 0;
        snprintf(key, sizeof key, "%u", i == 0 ? rank : i - 1);
        if (i == 0 ? set(&store, key, &byte, 1, NULL)
                   : get(&store, key, &byte, 1, &len, deadline_ns, NULL))
            return false;
    }
    return true;
}
