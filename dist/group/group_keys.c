/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setup of an engine: its rank, and the store with keys that no other group uses. Keys are
 * remembered, and removed once all ranks have read them, so that a program that splits groups
 * repeatedly does not fill the store.
 */
#include "dist/group/group_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "dist/group/module.h"

/* A key that this rank has set for an engine. */
struct mr_group_key {
    struct mr_group_key *next;
    uint32_t len; /* of value */
    char name[MR_STORE_KEY + 1];
    unsigned char value[]; /* stored only in a world of one, where get reads it */
};

/* Puts the group's prefix before an engine's key. */
static int32_t format_key(const struct mr_group *group, const char *key,
                          char key_out[MR_STORE_KEY + 1], mr_error *error)
{
    int n = snprintf(key_out, MR_STORE_KEY + 1, "%se/%s", group->prefix, key);
    if (n < 0 || n > MR_STORE_KEY)
        return mr_error_set(error, MR_ERR_INVALID, "the key '%s' is too long", key);
    return MR_OK;
}

static int32_t remember_key(struct mr_group *group, const char *key, const void *value,
                            uint32_t len, mr_error *error)
{
    struct mr_group_key *entry = calloc(1, sizeof *entry + len);
    if (!entry)
        return mr_error_memory(error, sizeof *entry + len);
    snprintf(entry->name, sizeof entry->name, "%s", key);
    entry->len = len;
    if (len > 0)
        memcpy(entry->value, value, len);
    pthread_mutex_lock(&group->lock);
    entry->next = group->keys;
    group->keys = entry;
    pthread_mutex_unlock(&group->lock);
    return MR_OK;
}

static int32_t store_set(void *user, const char *key, const void *value, uint32_t len,
                         mr_error *error)
{
    struct mr_group *group = user;
    char whole[MR_STORE_KEY + 1];
    int32_t status = format_key(group, key, whole, error);
    if (!status && len > MR_STORE_VALUE)
        status = mr_error_set(error, MR_ERR_INVALID, "the value of '%s' is too long: %u bytes", key,
                              len);
    if (!status)
        status = remember_key(group, whole, value, mr_group_client(group) ? 0 : len, error);
    if (!status && mr_group_client(group))
        status = mr_store_set(mr_group_client(group), whole, value, len, error);
    return status;
}

/*
 * A world of one reads its own keys. A missing key is an error at once, because no other rank will
 * set it.
 */
static int32_t get_local(struct mr_group *group, const char *key, void *value_out, uint32_t size,
                         uint32_t *len_out, mr_error *error)
{
    const struct mr_group_key *entry = group->keys;
    while (entry && strcmp(entry->name, key) != 0)
        entry = entry->next;
    if (!entry)
        return mr_error_set(error, MR_ERR_TIMEOUT, "key '%s' is not set", key);
    if (entry->len > size)
        return mr_error_set(error, MR_ERR_INVALID, "the value of '%s' has %u bytes, the buffer %u",
                            key, entry->len, size);
    memcpy(value_out, entry->value, entry->len);
    *len_out = entry->len;
    return MR_OK;
}

static int32_t store_get(void *user, const char *key, void *value_out, uint32_t size,
                         uint32_t *len_out, uint64_t deadline_ns, mr_error *error)
{
    struct mr_group *group = user;
    char whole[MR_STORE_KEY + 1];
    int32_t status = format_key(group, key, whole, error);
    if (status)
        return status;
    if (!mr_group_client(group))
        return get_local(group, whole, value_out, size, len_out, error);
    int32_t got =
        mr_store_get(mr_group_client(group), whole, value_out, size, len_out, deadline_ns, error);
    mr_error broken;
    /* also if the get did not wait */
    if (got == MR_ERR_TIMEOUT && mr_group_broken(group, &broken))
        return mr_error_set(error, MR_ERR_PEER, "%s", broken.text);
    return got;
}

void mr_group_keys_forget(struct mr_group *group, bool removes)
{
    while (group->keys) {
        struct mr_group_key *entry = group->keys;
        group->keys = entry->next;
        if (removes && mr_group_client(group))
            /* a failure only leaves memory in the store */
            (void)mr_store_remove(mr_group_client(group), entry->name, NULL);
        free(entry);
    }
}

void mr_group_keys_setup(struct mr_group *group, uint64_t deadline_ns,
                         struct mr_engine_setup *setup_out)
{
    struct mr_store_client *client = mr_group_client(group);
    *setup_out = (struct mr_engine_setup){
        .abi = MR_ENGINE_ABI,
        .rank = group->rank,
        .world_size = group->world_size,
        .local_rank = group->device_rank,
        .deadline_ns = deadline_ns,
        .timeout_ms = group->timeout_ms,
        .store = {.user = group, .set = store_set, .get = store_get},
        .local_address = client ? mr_store_local_address(client) : "127.0.0.1",
        .device = group->device[0] ? group->device : NULL,
        .adopt = group->adopt,
        .fail = mr_module_fail,
    };
}
