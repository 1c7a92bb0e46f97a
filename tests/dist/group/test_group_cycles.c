/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hundred groups, one after the other: descriptors, threads and memory are as after the first
 * few.
 */
#include "tests/dist/group/group_rig.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>

#include "base/clock.h"

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

static void once(mr_group *group, void *arg)
{
    double x = 1;
    mr_group_work *work = NULL;
    (void)arg;
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F64, MR_SUM) == MR_OK && x == 2);
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &work) == MR_OK);
    mr_group_work_destroy(work);
}

static void cycle(int n)
{
    for (int i = 0; i < n; i++)
        rig_run(2, 20000, once, NULL);
}

static void a_hundred_groups_leave_nothing_allocated(void **state)
{
    (void)state;
    cycle(5);
    unsigned n_fds = count_entries("/proc/self/fd");
    unsigned n_threads = count_entries("/proc/self/task");
    size_t used = mallinfo2().uordblks;
    cycle(100);
    size_t now = mallinfo2().uordblks;
    assert_int_equal(count_entries("/proc/self/fd"), n_fds);
    for (int i = 0; i < 2000 && count_entries("/proc/self/task") > n_threads; i++)
        mr_clock_sleep_ms(10); /* a joined thread may stay in the list for a moment */
    assert_int_equal(count_entries("/proc/self/task"), n_threads);
    if (now > used + 20000)
        fail_msg("%zu bytes before, %zu after", used, now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_groups_leave_nothing_allocated),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
