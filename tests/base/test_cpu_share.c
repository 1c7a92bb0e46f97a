/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's part of its machine's CPUs, from invented masks, files of cgroups and variables of
 * launchers.
 */
#include "base/cpu_share.h"

#include "base/cpu.h"

#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/mr_cpu_share_XXXXXX";

static uint32_t count(uint32_t n_own, uint32_t n_launcher, uint32_t n_quota, uint32_t n_ranks)
{
    const struct mr_cpu_share share = {
        .n_own = n_own, .n_launcher = n_launcher, .n_quota = n_quota, .n_ranks = n_ranks};
    return mr_cpu_share_count(&share);
}

static void ranks_that_are_not_bound_divide_the_machine(void **state)
{
    (void)state;
    assert_int_equal(count(64, 64, 0, 4), 16);
    assert_int_equal(count(64, 64, 0, 3), 21);
    assert_int_equal(count(2, 2, 0, 8), 1);
    assert_int_equal(count(64, 64, 0, 0), 64);
    /* taskset before the launcher, or a container's cpuset */
    assert_int_equal(count(8, 8, 0, 4), 2);
}

static void a_bound_rank_keeps_its_own(void **state)
{
    (void)state;
    assert_int_equal(count(1, 64, 0, 64), 1);
    assert_int_equal(count(16, 64, 0, 4), 16);
    assert_int_equal(count(4, 64, 0, 4), 4);   /* bound to less than its part */
    assert_int_equal(count(32, 64, 0, 4), 16); /* a socket that two ranks share */
    assert_int_equal(count(8, 64, 0, 1), 8);
}

static void a_quota_is_shared_too(void **state)
{
    (void)state;
    assert_int_equal(count(64, 64, 3, 1), 3);
    assert_int_equal(count(64, 64, 8, 4), 2);
    assert_int_equal(count(64, 64, 1, 4), 1);
    assert_int_equal(count(2, 2, 100, 1), 2);
}

static void write_file(const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    return where->level > 0 ? remove(path) : 0;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0 || rmdir(folder) != 0;
}

/* The limit if /proc/self/cgroup has these lines. */
static uint32_t quota(const char *lines)
{
    char cgroup[300];
    write_file("cgroup", lines);
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", folder);
    return mr_cpu_share_quota(cgroup, folder);
}

static void the_least_quota_of_all_levels_holds(void **state)
{
    (void)state;
    assert_int_equal(quota("0::/a/b\n"), 0);
    write_file("a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 0);
    write_file("a/cpu.max", "250000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 3);
    write_file("a/b/cpu.max", "400000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 3);
    write_file("a/b/cpu.max", "5000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 1);
    assert_int_equal(quota("0::/a\n"), 3);
    assert_int_equal(quota("0::/\n"), 0);
    write_file("cpu.max", "200000 100000\n");
    assert_int_equal(quota("0::/\n"), 2);
}

static void version_1_has_two_files(void **state)
{
    (void)state;
    write_file("cpu/job/cpu.cfs_quota_us", "-1\n");
    write_file("cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("5:memory:/job\n4:cpu,cpuacct:/job\n0::/\n"), 0);
    write_file("cpu/job/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(quota("5:memory:/job\n4:cpu,cpuacct:/job\n0::/\n"), 2);
    assert_int_equal(quota("5:memory:/job\n4:cpuset,cpuacct:/job\n0::/\n"), 0);
    write_file("cpu/job/cpu.cfs_period_us", "50000\n");
    assert_int_equal(quota("1:cpu:/job/step\n"), 3);
}

/* A path of the host, of which the container sees only the end; and paths outside the mount. */
static void a_container_s_limit_is_at_the_root(void **state)
{
    (void)state;
    write_file("cpu.max", "200000 100000\n");
    assert_int_equal(quota("0::/system.slice/docker-0123.scope\n"), 2);
    assert_int_equal(quota("0::/../other\n"), 2);
}

static void nonsense_is_no_limit(void **state)
{
    (void)state;
    static const char *const lines[] = {"", "\n", "0\n", "0:\n", "0::\n", ":::::\n", "4:cpu:\n"};
    write_file("cpu.max", "many\n");
    write_file("cpu/cpu.cfs_quota_us", "100000\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(quota(lines[i]), 0);
    assert_int_equal(mr_cpu_share_quota("/nonexistent", folder), 0);
    static const char *const limits[] = {
        "0 100000", "100000 0", "-5 100000", "100000", "9223372036854775807 1", ""};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        write_file("cpu.max", limits[i]);
        assert_int_equal(quota("0::/\n"), 0);
    }
}

static uint32_t ranks(const char *name, const char *value)
{
    setenv(name, value, 1);
    uint32_t n = mr_cpu_share_ranks();
    unsetenv(name);
    return n;
}

static void each_launcher_s_variable_is_read(void **state)
{
    (void)state;
    assert_int_equal(mr_cpu_share_ranks(), 0);
    assert_int_equal(ranks("LOCAL_WORLD_SIZE", "2"), 2);
    assert_int_equal(ranks("OMPI_COMM_WORLD_LOCAL_SIZE", "3"), 3);
    assert_int_equal(ranks("MPI_LOCALNRANKS", "4"), 4);
    assert_int_equal(ranks("PMI_LOCAL_SIZE", "5"), 5);
    assert_int_equal(ranks("PALS_LOCAL_SIZE", "6"), 6);
    assert_int_equal(ranks("SLURM_STEP_TASKS_PER_NODE", "7"), 7);
    assert_int_equal(ranks("SLURM_STEP_TASKS_PER_NODE", "2(x3),1"), 2);
    assert_int_equal(ranks("LOCAL_WORLD_SIZE", "some"), 0);
    assert_int_equal(ranks("LOCAL_WORLD_SIZE", "-1"), 0);
    assert_int_equal(ranks("LOCAL_WORLD_SIZE", "99999999999999999999"), 0);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    assert_int_equal(ranks("SLURM_STEP_TASKS_PER_NODE", "7"), 2);
    unsetenv("LOCAL_WORLD_SIZE");
}

/* Two children of this process as ranks: one is bound to a CPU, the other is not. */
static uint32_t share_of_child(bool is_bound)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cpu_set_t set, one;
        struct mr_cpu_share share;
        size_t cpu = 0;
        if (is_bound && sched_getaffinity(0, sizeof set, &set) == 0) {
            while (!CPU_ISSET(cpu, &set))
                cpu++;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
        setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
        mr_cpu_share_read(&share);
        share.n_quota = 0; /* ignore the limit of this machine */
        _exit((int)mr_cpu_share_count(&share));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return (uint32_t)WEXITSTATUS(status);
}

static void the_parent_s_mask_is_what_ranks_share(void **state)
{
    (void)state;
    uint32_t n = mr_cpu_count();
    if (n > 255)
        skip();
    assert_int_equal(share_of_child(true), 1);
    assert_int_equal(share_of_child(false), n > 1 ? n / 2 : 1);
}

/* The CPUs that Slurm gave the job, not those that this process may use. */
static void under_slurm_it_is_what_the_job_was_given(void **state)
{
    (void)state;
    struct mr_cpu_share share;
    setenv("SLURM_STEP_TASKS_PER_NODE", "4", 1);
    setenv("SLURM_CPUS_ON_NODE", "1", 1);
    mr_cpu_share_read(&share);
    assert_int_equal(share.n_launcher, 1);
    assert_int_equal(share.n_ranks, 4);
    unsetenv("SLURM_STEP_TASKS_PER_NODE");
    mr_cpu_share_read(&share);
    assert_true(share.n_launcher >= share.n_own);
    assert_int_equal(share.n_ranks, 0);
    unsetenv("SLURM_CPUS_ON_NODE");
}

int main(void)
{
    static const char *const names[] = {
        "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",   "PMI_LOCAL_SIZE",
        "PALS_LOCAL_SIZE",  "SLURM_STEP_TASKS_PER_NODE",  "SLURM_CPUS_ON_NODE"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_are_not_bound_divide_the_machine),
        cmocka_unit_test(a_bound_rank_keeps_its_own),
        cmocka_unit_test(a_quota_is_shared_too),
        cmocka_unit_test_setup_teardown(the_least_quota_of_all_levels_holds, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(version_1_has_two_files, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_container_s_limit_is_at_the_root, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(nonsense_is_no_limit, make_folder, remove_folder),
        cmocka_unit_test(each_launcher_s_variable_is_read),
        cmocka_unit_test(the_parent_s_mask_is_what_ranks_share),
        cmocka_unit_test(under_slurm_it_is_what_the_job_was_given),
    };
    /* this test may run under a launcher */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
