/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl engine when NCCL calls behave in allowed but rare ways. This program defines some of the
 * calls itself, and these are found before the double's. They must be visible; otherwise the module
 * finds the double's.
 */
#include "tests/dist/nccl/nccl_rig.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int version;      /* 0: the double's version */
static atomic_bool is_blocking; /* all_reduce does not return before the abort */
static atomic_uint n_blocked;
static atomic_uint n_aborted;

typedef ncclResult_t all_reduce_call(const void *in, void *out, size_t count, ncclDataType_t type,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
typedef ncclResult_t version_call(int *version);
typedef ncclResult_t abort_call(ncclComm_t comm);

#define VISIBLE __attribute__((visibility("default")))

static void *find(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol)
        fail_msg("%s", dlerror());
    return symbol;
}

VISIBLE ncclResult_t ncclGetVersion(int *version_out)
{
    version_call *call;
    *(void **)&call = find("ncclGetVersion");
    ncclResult_t result = call(version_out);
    if (atomic_load(&version) != 0)
        *version_out = atomic_load(&version);
    return result;
}

/*
 * Like a kernel launch that waits for room in the device's queue, which is full of work that waits
 * for a lost rank.
 */
VISIBLE ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    all_reduce_call *call;
    *(void **)&call = find("ncclAllReduce");
    if (!atomic_load(&is_blocking))
        return call(in, out, count, type, op, comm, stream);
    atomic_fetch_add(&n_blocked, 1);
    for (uint32_t i = 0; i < 8000 && atomic_load(&n_aborted) == 0; i++)
        mr_clock_sleep_ms(1);
    mr_clock_sleep_ms(20); /* the abort has ended before this returns */
    return ncclSuccess;
}

VISIBLE ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    abort_call *call;
    *(void **)&call = find("ncclCommAbort");
    ncclResult_t result = call(comm);
    atomic_fetch_add(&n_aborted, 1);
    return result;
}

static void find_old_nccl(struct rig_rank *rank)
{
    atomic_store(&version, 2708);
    RIG_CHECK(rank, rig_create(rank) == MR_ERR_UNSUPPORTED && !rank->engine);
    RIG_CHECK(rank,
              strstr(rank->error.text, "libnccl.so.2 is NCCL 2.7.8, 2.18 or later is needed"));
    atomic_store(&version, 21703);
    RIG_CHECK(rank,
              rig_create(rank) == MR_ERR_UNSUPPORTED && strstr(rank->error.text, "NCCL 2.17.3"));
    atomic_store(&version, 21800);
    RIG_CHECK(rank, rig_create(rank) == MR_OK);
    rig_destroy(rank, true);
    atomic_store(&version, 0);
}

static void an_older_library_than_the_headers_is_refused(void **state)
{
    (void)state;
    rig_open(1, DOUBLE_EARLY);
    rig_threads(1, find_old_nccl, NULL);
    rig_close();
}

static struct mr_engine_store below;
static pthread_barrier_t made; /* waits until rank 0 has made its card */

/* Rank 0 reads rank 1's card after it has made its own. */
static int32_t get_later(void *user, const char *key, void *value_out, uint32_t size,
                         uint32_t *len_out, uint64_t deadline_ns, mr_error *error)
{
    pthread_barrier_wait(&made);
    return below.get(user, key, value_out, size, len_out, deadline_ns, error);
}

/* The version is global in the process, so the ranks make their cards one after the other. */
static void have_versions(struct rig_rank *rank)
{
    if (rank->rank == 0) {
        below = rank->setup.store;
        rank->setup.store.get = get_later;
    } else {
        pthread_barrier_wait(&made);
    }
    atomic_store(&version, rank->rank == 0 ? 21903 : 22005);
    RIG_CHECK(rank, rig_create(rank) == MR_ERR_UNSUPPORTED && !rank->engine);
    RIG_CHECK(rank, strstr(rank->error.text, "rank 1 has NCCL 2.20.5, rank 0 has 2.19.3"));
}

static void ranks_with_different_libraries_get_an_error_with_both_versions(void **state)
{
    (void)state;
    pthread_barrier_init(&made, NULL, 2);
    rig_open(2, DOUBLE_EARLY);
    rig_threads(2, have_versions, NULL);
    rig_close();
    pthread_barrier_destroy(&made);
    atomic_store(&version, 0);
}

static void *abort_engine(void *arg)
{
    struct rig_rank *rank = arg;
    while (atomic_load(&n_blocked) == 0)
        mr_clock_sleep_ms(1);
    rank->calls->abort(rank->engine);
    return NULL;
}

static void block_in_a_call(struct rig_rank *rank)
{
    pthread_t thread;
    double sum = 1;
    void *ticket = NULL;
    uint64_t begin_ms = rig_now_ms();
    atomic_store(&n_blocked, 0);
    atomic_store(&n_aborted, 0);
    atomic_store(&is_blocking, true);
    RIG_CHECK(rank, pthread_create(&thread, NULL, abort_engine, rank) == 0);
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&sum, 1), &ticket) == MR_ERR_CANCELED && !ticket);
    pthread_join(thread, NULL);
    atomic_store(&is_blocking, false);
    RIG_CHECK(rank, rig_now_ms() - begin_ms < 15000);
    RIG_CHECK(rank, rank->calls->health(rank->engine, &rank->error) == MR_ERR_CANCELED);
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&sum, 1), &ticket) == MR_ERR_CANCELED && !ticket);
    rig_destroy(rank, false);
    RIG_CHECK(rank, atomic_load(&n_aborted) == 1);
}

static void an_abort_ends_a_call_that_does_not_return(void **state)
{
    (void)state;
    rig_open(1, DOUBLE_EARLY);
    rig_engines(1, block_in_a_call, NULL);
    rig_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_library_than_the_headers_is_refused),
        cmocka_unit_test(ranks_with_different_libraries_get_an_error_with_both_versions),
        cmocka_unit_test(an_abort_ends_a_call_that_does_not_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
