/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker process's name, group, nice level, CPUs, signals and descriptors do not depend on the
 * host's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

static char *folder;
static mr_dataset *dataset;

/*
 * A loader with one worker, which has finished a batch, so its setup is complete. *pid_out: the
 * worker.
 */
static mr_loader *start_one_worker(const mr_loader_options *options, pid_t *pid_out)
{
    mr_loader_options o = *options;
    int64_t pid;
    mr_batch *batch;
    o.num_workers = 1;
    o.batch_size = 4;
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    assert_int_equal(mr_loader_worker_pids(loader, &pid, 1), 1);
    *pid_out = (pid_t)pid;
    return loader;
}

/* The value after "name:\t" in /proc/PID/status. */
static void read_status(pid_t pid, const char *name, char value_out[128])
{
    char path[64];
    char line[256];
    size_t len = strlen(name);
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    value_out[0] = '\0';
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            sscanf(line + len + 1, " %127s", value_out);
    fclose(file);
}

static void a_worker_is_named_and_leads_its_own_group(void **state)
{
    (void)state;
    for (int start = MR_START_EXEC; start <= MR_START_FORK; start++) {
        mr_loader_options o = MR_LOADER_OPTIONS_INIT;
        char name[128];
        pid_t pid;
        o.start = (mr_start)start;
        mr_loader *loader = start_one_worker(&o, &pid);
        read_status(pid, "Name", name);
        assert_string_equal(name, "millrace-worker");
        assert_int_equal(getpgid(pid), pid);
        mr_loader_destroy(loader);
    }
}

static void nice_level_and_affinity_are_as_asked_for(void **state)
{
    (void)state;
    int32_t last = -1;
    cpu_set_t mine;
    cpu_set_t set;
    pid_t pid;
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &mine))
            last = cpu;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.nice = 7;
    o.affinity = MR_AFFINITY_LIST;
    o.affinity_cpus = &last;
    o.n_affinity_cpus = 1;
    mr_loader *loader = start_one_worker(&o, &pid);
    int nice = getpriority(PRIO_PROCESS, 0) + 7;
    /* 19 is the highest level */
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)pid), nice < 19 ? nice : 19);
    assert_int_equal(sched_getaffinity(pid, sizeof set, &set), 0);
    assert_int_equal(CPU_COUNT(&set), 1);
    assert_true(CPU_ISSET(last, &set));
    mr_loader_destroy(loader);
    o.affinity = MR_AFFINITY_SPREAD;
    loader = start_one_worker(&o, &pid);
    assert_int_equal(sched_getaffinity(pid, sizeof set, &set), 0);
    assert_int_equal(CPU_COUNT(&set), 1);
    mr_loader_destroy(loader);
}

static void ignore(int signal)
{
    (void)signal;
}

static void the_hosts_signals_are_not_the_workers(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    char mask[128];
    sigset_t block;
    sigset_t before;
    pid_t pid;
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, ignore);
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    mr_loader *loader = start_one_worker(&o, &pid);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    read_status(pid, "SigBlk", mask);
    assert_int_equal(strtoull(mask, NULL, 16), 0);
    read_status(pid, "SigIgn", mask);
    assert_int_equal(strtoull(mask, NULL, 16) & (UINT64_C(1) << (SIGUSR1 - 1)), 0);
    mr_loader_destroy(loader);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
}

/* Has the process a descriptor of this file? */
static bool has_descriptor(pid_t pid, const struct stat *wanted)
{
    char path[512];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, entry->d_name);
        if (stat(path, &st) == 0 && st.st_dev == wanted->st_dev && st.st_ino == wanted->st_ino)
            found = true;
    }
    closedir(dir);
    return found;
}

static void the_hosts_open_files_are_not_the_workers(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    struct stat st;
    pid_t pid;
    FILE *mine = tmpfile(); /* not close-on-exec */
    assert_non_null(mine);
    assert_int_equal(fstat(fileno(mine), &st), 0);
    int high = fcntl(fileno(mine), F_DUPFD, 500);
    mr_loader *loader = start_one_worker(&o, &pid);
    assert_true(has_descriptor(getpid(), &st));
    assert_false(has_descriptor(pid, &st));
    mr_loader_destroy(loader);
    close(high);
    fclose(mine);
}

static uint32_t count_own_fds(void)
{
    uint32_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void destroyed_loaders_leave_no_descriptors(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    pid_t pid;
    mr_loader_destroy(start_one_worker(&o, &pid));
    uint32_t before = count_own_fds();
    for (int i = 0; i < 30; i++) {
        o.start = (mr_start)(MR_START_EXEC + i % 3);
        if (o.start == MR_START_THREAD) {
            o.num_workers = 2;
            mr_loader_destroy(mr_test_loader(dataset, "train:32", &o));
        } else {
            mr_loader_destroy(start_one_worker(&o, &pid));
        }
    }
    assert_int_equal(count_own_fds(), before);
    assert_int_equal(mr_test_count_workers(getpid()), 0);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(2, 20);
    dataset = mr_test_dataset(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_dataset_destroy(dataset);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_is_named_and_leads_its_own_group),
        cmocka_unit_test(nice_level_and_affinity_are_as_asked_for),
        cmocka_unit_test(the_hosts_signals_are_not_the_workers),
        cmocka_unit_test(the_hosts_open_files_are_not_the_workers),
        cmocka_unit_test(destroyed_loaders_leave_no_descriptors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
