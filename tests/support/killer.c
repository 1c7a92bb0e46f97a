/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/killer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/die.h"
#include "tests/support/processes.h"

struct mr_test_killer {
    mr_loader *loader;
    int signal_number;
    pthread_t thread;
    _Atomic bool stop;
    _Atomic uint32_t n_kills;
};

static uint64_t n_batches(mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    return stats.n_batches;
}

static void *kill_workers(void *arg)
{
    struct mr_test_killer *k = arg;
    while (!k->stop) {
        int64_t pids[8];
        uint32_t n = mr_loader_worker_pids(k->loader, pids, 8);
        uint64_t before = n_batches(k->loader);
        if (n > 0 && kill((pid_t)pids[k->n_kills % (n < 8 ? n : 8)], k->signal_number) == 0)
            k->n_kills++;
        mr_test_sleep_ms(30);
        for (int i = 0; i < 30 && !k->stop && n_batches(k->loader) == before; i++)
            mr_test_sleep_ms(10);
    }
    return NULL;
}

struct mr_test_killer *mr_test_killer_start(mr_loader *loader, int signal_number)
{
    struct mr_test_killer *killer = calloc(1, sizeof *killer);
    if (!killer)
        mr_test_die("no memory");
    killer->loader = loader;
    killer->signal_number = signal_number;
    if (pthread_create(&killer->thread, NULL, kill_workers, killer) != 0)
        mr_test_die("no thread");
    return killer;
}

uint32_t mr_test_killer_n_kills(const struct mr_test_killer *killer)
{
    return killer->n_kills;
}

void mr_test_killer_stop(struct mr_test_killer *killer)
{
    killer->stop = true;
    pthread_join(killer->thread, NULL);
    free(killer);
}
