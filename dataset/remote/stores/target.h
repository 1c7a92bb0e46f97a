/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file is after its server's redirects: a URL that is signed and works for about an hour.
 * It is kept, so a file is resolved once and not for each range.
 */
#ifndef DATASET_REMOTE_STORES_TARGET_H
#define DATASET_REMOTE_STORES_TARGET_H

#include <stdbool.h>

#include "dataset/extent.h"

enum { MR_TARGET_CHAINS = 256 };

struct mr_target {
    struct mr_target *next;
    uint64_t number; /* from 1, each used once */
    char *url;       /* as the SPEC names the file */
    char *location;
    char etag[MR_ETAG]; /* of the file, as the first server states it; "": not stated */
};

/* Zeroed: there are none. */
struct mr_targets {
    struct mr_target *chains[MR_TARGET_CHAINS];
    uint32_t n;
    uint64_t n_made;
};

/* NULL: none is kept. It is valid until the next call for these targets. */
const struct mr_target *mr_target_find(const struct mr_targets *targets, const char *url);

/*
 * Keep a target, in place of that which this URL has. etag "": that of the present one stays.
 * Without memory nothing is kept, and false is returned.
 */
bool mr_target_keep(struct mr_targets *targets, const char *url, const char *location,
                    const char *etag);

/* Forget the target of a URL if it still has this number. */
void mr_target_drop(struct mr_targets *targets, const char *url, uint64_t number);

void mr_target_clear(struct mr_targets *targets);

#endif
