/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank that joins and leaves groups, one after the other: cycles_rank BACKEND N, with the
 * launcher's variables. At the end the numbers of descriptors and threads and the memory must be
 * those after the first few groups. Exit status: 0; 1 with the reason.
 */
#include <millrace/group.h>
#include <millrace/loader.h>

#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* WARM groups are made first, so that an engine or the allocator has what it keeps forever. */
enum { WARM = 20, KEPT_BYTES = 40000 };

struct held {
    unsigned n_fds, n_threads;
    size_t n_bytes;
};

static unsigned count_entries(const char *path)
{
    unsigned n = 0;
    DIR *folder = opendir(path);
    if (!folder) {
        perror(path);
        exit(1);
    }
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static struct held count_resources(void)
{
    return (struct held){.n_fds = count_entries("/proc/self/fd"),
                         .n_threads = count_entries("/proc/self/task"),
                         .n_bytes = mallinfo2().uordblks};
}

static bool cycle(const char *backend, long number)
{
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = NULL;
    mr_group_work *work = NULL;
    mr_error error;
    double x = 1;
    options.backend = backend;
    options.timeout_ms = 30000;
    if (mr_group_create(&options, &group, &error) != MR_OK) {
        fprintf(stderr, "group %ld: %s\n", number, error.text);
        return false;
    }
    bool good = strcmp(mr_group_backend(group), backend) == 0 &&
                mr_group_all_reduce(group, &x, 1, MR_F64, MR_SUM) == MR_OK &&
                x == mr_group_world_size(group) &&
                mr_group_barrier_async(group, NULL, &work) == MR_OK &&
                mr_group_work_sync(work, MR_FOREVER) == MR_OK;
    if (!good)
        fprintf(stderr, "group %ld (%s): %s\n", number, mr_group_backend(group),
                mr_group_error(group)->text);
    mr_group_work_destroy(work);
    mr_group_destroy(group);
    return good;
}

int main(int argc, char **argv)
{
    struct held before = {0}, after = {0};
    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(600);
    long n = WARM + atol(argv[2]);
    for (long i = 0; i < n; i++) {
        if (!cycle(argv[1], i))
            return 1;
        if (i == WARM - 1)
            before = count_resources();
    }
    /* A joined thread may stay in the list for a moment. */
    for (int i = 0; i < 2000 && (after = count_resources()).n_threads > before.n_threads; i++)
        usleep(10000);
    printf("%ld groups: %u and %u descriptors, %u and %u threads, %zu and %zu bytes\n", n,
           before.n_fds, after.n_fds, before.n_threads, after.n_threads, before.n_bytes,
           after.n_bytes);
    return after.n_fds > before.n_fds || after.n_threads > before.n_threads ||
           after.n_bytes > before.n_bytes + KEPT_BYTES;
}
