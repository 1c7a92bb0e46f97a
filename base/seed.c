/* SPDX-License-Identifier: Apache-2.0 */
/* Derives a seed for each purpose and rank from the seed of a run. */
#include "base/digest.h"

#include <string.h>

#include <millrace/status.h>

uint64_t mr_seed_derive(uint64_t seed, const char *purpose, uint64_t tag)
{
    struct mr_digest digest;
    mr_digest_init(&digest, seed);
    if (purpose)
        mr_digest_add(&digest, purpose, strlen(purpose));
    return mr_digest_end(&digest, tag);
}

uint64_t mr_seed(uint64_t seed, const char *purpose)
{
    return mr_seed_derive(seed, purpose, 0);
}
