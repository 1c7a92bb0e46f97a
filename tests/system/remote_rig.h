/* SPDX-License-Identifier: Apache-2.0 */
/* Images and shards at a server of the test, and loaders of them with a cache. */
#ifndef TESTS_SYSTEM_REMOTE_RIG_H
#define TESTS_SYSTEM_REMOTE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <millrace/cache.h>

#include "tests/support/epochs.h"
#include "tests/support/http_server.h"
#include "tests/support/processes.h"

/* Of each six images, one is a PNG and one a progressive JPEG. */
enum {
    REMOTE_SHARDS = 3,
    REMOTE_EACH = 18,
    REMOTE_N = REMOTE_SHARDS * REMOTE_EACH,
    REMOTE_EPOCHS = 3,
    REMOTE_MAX_SEEN = 1 << 14
};

#define REMOTE_TAR "tar:%s/t-{00..02}.tar?image=jpg,png&keep=txt:100"

extern struct remote_rig {
    char *folder;
    char cache[4200];
    struct mr_test_http *server;
    _Atomic(enum mr_test_fault) fault;
    _Atomic uint32_t pause_ms;                         /* before each answer */
    struct mr_test_http_request seen[REMOTE_MAX_SEEN]; /* n_seen of them, since it was set to 0 */
    char paths[REMOTE_MAX_SEEN][64];
    _Atomic uint32_t n_seen;
    bool verifies, stock; /* options of the loaders */
} remote_rig;

/* Shard s of REMOTE_TAR. Each sample has a further member; every fifth lacks it. */
void remote_rig_write_shard(int s, uint32_t seed);
/* The file "i-NNN". */
void remote_rig_write_image(int i, uint32_t seed);
/* Write all shards and images, and start the server. */
int remote_rig_set_up(void **state);
int remote_rig_tear_down(void **state);
/* Another cache, which is empty. */
void remote_rig_empty_cache(void);
/* kind: format with the place of the root, which is a folder or a URL. */
mr_dataset *remote_rig_open(const char *kind, const char *root);
/* A loader of all epochs with the cache. */
mr_loader_options remote_rig_options(uint32_t n_workers, mr_cache_form form);
/* The digests of epochs of the local files. */
void remote_rig_oracle(mr_dataset *local, uint64_t digests[REMOTE_EPOCHS]);
/* The loader delivers an epoch without a failure. */
void remote_rig_expect_epoch(mr_loader *loader, uint64_t number,
                             const uint64_t digests[REMOTE_EPOCHS]);
/* Run epochs in a new loader. Returns the number of samples from the cache. */
uint64_t remote_rig_expect_epochs(mr_dataset *remote, const mr_loader_options *o, uint64_t first,
                                  uint64_t n, const uint64_t digests[REMOTE_EPOCHS]);
/* most_torn: segments whose writer may have been killed while it wrote. */
mr_cache_report remote_rig_count_torn(mr_dataset *dataset, uint64_t most_torn);
/* The same of a cache in which nothing is torn. */
mr_cache_report remote_rig_count(mr_dataset *dataset);

#endif
