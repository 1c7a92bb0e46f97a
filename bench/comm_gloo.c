/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the group over gloo against gloo itself, whose ranks find each other through a folder
 * that rank 0 makes. Started by `millrace launch --nproc N`.
 */
#include "bench/bare_gloo.h"
#include "bench/comm_latency.h"

#include <millrace/group.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER 64

static bool by_group(void *group, double *buffer, int count)
{
    return mr_group_all_reduce(group, buffer, (uint64_t)count, MR_F64, MR_SUM) == MR_OK;
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            perror(entry->d_name);
    if (dir)
        closedir(dir);
    if (rmdir(folder) != 0)
        perror(folder);
}

/* NULL after a message on stderr. */
static void *connect_bare(mr_group *group)
{
    char folder[FOLDER] = "/tmp/millrace-bench-XXXXXX";
    uint32_t rank = mr_group_rank(group);
    if (rank == 0 && !mkdtemp(folder)) {
        perror(folder);
        folder[0] = '\0';
    }
    void *bare = NULL;
    if (mr_group_broadcast(group, folder, FOLDER / 8, MR_I64, 0) == MR_OK && folder[0])
        bare = mr_bare_gloo_connect(folder, (int)rank, (int)mr_group_world_size(group));
    (void)mr_group_barrier(group); /* no rank reads the folder after this */
    if (rank == 0 && folder[0])
        remove_folder(folder);
    return bare;
}

int main(int argc, char **argv)
{
    struct mr_latency latency = {.engine = "gloo", .version = mr_bare_gloo_version(), .n_ways = 2};
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = NULL;
    mr_error error = {0};
    void *bare = NULL;
    int result = 2;
    mr_latency_parse(
        argc, argv,
        "The group over gloo beside gloo's own all_reduce; start it with millrace launch.",
        &latency);
    options.backend = "gloo";
    if (mr_group_create(&options, &group, &error) == MR_OK && mr_group_world_size(group) > 1) {
        bare = connect_bare(group);
    } else {
        fprintf(stderr, "no group of two ranks or more over gloo: %s\n", error.text);
    }
    if (bare) {
        latency.rank = mr_group_rank(group);
        latency.world_size = mr_group_world_size(group);
        latency.ways[0] = (struct mr_latency_way){"mr_group_all_reduce", by_group, group};
        latency.ways[1] = (struct mr_latency_way){"gloo::allreduce", mr_bare_gloo_reduce, bare};
        result = mr_latency_run(&latency);
        mr_bare_gloo_close(bare);
    }
    mr_group_destroy(group);
    return result;
}
