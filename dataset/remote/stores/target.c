/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps targets in a hash table. When there are many, all are forgotten. */
#include "dataset/remote/stores/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh3.h"

enum { MAX_TARGETS = 4096 };

static struct mr_target **find_place(const struct mr_targets *targets, const char *url)
{
    uint64_t chain = mr_xxh3(url, strlen(url)) % MR_TARGET_CHAINS;
    struct mr_target **at = (struct mr_target **)&targets->chains[chain];
    while (*at && strcmp((*at)->url, url) != 0)
        at = &(*at)->next;
    return at;
}

static void free_target(struct mr_target *target)
{
    if (target) {
        free(target->url);
        free(target->location);
    }
    free(target);
}

static void drop(struct mr_targets *targets, struct mr_target **at)
{
    struct mr_target *target = *at;
    *at = target->next;
    targets->n--;
    free_target(target);
}

const struct mr_target *mr_target_find(const struct mr_targets *targets, const char *url)
{
    return *find_place(targets, url);
}

bool mr_target_keep(struct mr_targets *targets, const char *url, const char *location,
                    const char *etag)
{
    struct mr_target *target = calloc(1, sizeof *target);
    if (target) {
        target->url = strdup(url);
        target->location = strdup(location);
    }
    if (!target || !target->url || !target->location) {
        free_target(target);
        return false;
    }
    struct mr_target **at = find_place(targets, url);
    snprintf(target->etag, sizeof target->etag, "%s", !*etag && *at ? (*at)->etag : etag);
    target->number = ++targets->n_made;
    if (*at)
        drop(targets, at);
    else if (targets->n >= MAX_TARGETS)
        mr_target_clear(targets);
    at = find_place(targets, url);
    target->next = *at;
    *at = target;
    targets->n++;
    return true;
}

void mr_target_drop(struct mr_targets *targets, const char *url, uint64_t number)
{
    struct mr_target **at = find_place(targets, url);
    if (*at && (*at)->number == number)
        drop(targets, at);
}

void mr_target_clear(struct mr_targets *targets)
{
    for (size_t i = 0; i < MR_TARGET_CHAINS; i++)
        while (targets->chains[i])
            drop(targets, &targets->chains[i]);
}
