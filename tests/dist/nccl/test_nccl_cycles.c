/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hundred groups over nccl, one after the other, use no more memory than the first few.
 * MR_TEST_LONG: a thousand.
 */
#include "tests/dist/nccl/nccl_world.h"

#include <dirent.h>
#include <malloc.h>
#include "tests/support/scale.h"

enum { WARM_UP = 5, CYCLES = 100, GROWTH = 20000 };

static unsigned count_entries(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

/* A sum, a barrier that is not waited for, and a broadcast. */
static void use_group(mr_group *group, void *arg)
{
    mr_group_work *work = NULL;
    float *buffer = nccl_world_floats(group, 100, 1);
    (void)arg;
    NCCL_CHECK(group, mr_group_all_reduce(group, buffer, 100, MR_F32, MR_SUM) == MR_OK);
    NCCL_CHECK(group, mr_group_barrier_async(group, NULL, &work) == MR_OK);
    mr_group_work_destroy(work);
    NCCL_CHECK(group, mr_group_broadcast(group, buffer, 100, MR_F32, 0) == MR_OK);
    NCCL_EXPECT(group, buffer, 100, 2);
    NCCL_CHECK(group, cudaFree(buffer) == cudaSuccess);
}

/* Each cycle has a separate machine, which reports leaked memory, streams and events. */
static void run_cycle(int n)
{
    for (int i = 0; i < n; i++) {
        struct nccl_world world = {.n_ranks = 2,
                                   .policy = (enum double_policy)(i % 3),
                                   .seed = (uint64_t)i,
                                   .f = use_group};
        nccl_world_threads(&world);
    }
}

static void many_groups_leave_nothing(void **state)
{
    (void)state;
    int n = (int)mr_test_scale(CYCLES);
    run_cycle(WARM_UP);
    unsigned n_fds = count_entries("/proc/self/fd");
    unsigned n_threads = count_entries("/proc/self/task");
    size_t used = mallinfo2().uordblks;
    run_cycle(n);
    for (int i = 0; i < 2000 && (count_entries("/proc/self/task") > n_threads ||
                                 count_entries("/proc/self/fd") > n_fds);
         i++)
        nccl_world_rest_ms(10); /* a thread may still be exiting */
    size_t now = mallinfo2().uordblks;
    assert_int_equal(count_entries("/proc/self/fd"), n_fds);
    assert_int_equal(count_entries("/proc/self/task"), n_threads);
    if (now > used + GROWTH)
        fail_msg("%zu bytes before, %zu after", used, now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_groups_leave_nothing),
    };
    nccl_world_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
