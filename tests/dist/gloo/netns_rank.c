/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a test over several hosts: netns_rank INIT RANK WORLD_SIZE TIMEOUT_MS SECONDS runs
 * all_reduces for SECONDS and prints how they ended. RANK and WORLD_SIZE are "-" if the environment
 * has them. Exit status: 0 success; 2 no group; 3 a collective failed; 4 a sum was wrong.
 */
#include <millrace/group.h>

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { COUNT = 1 << 16 };

static double values[COUNT];

/* Ends after the same round on all ranks: the first element counts the ranks whose time is up. */
static int reduce_until(mr_group *group, uint64_t for_ms)
{
    uint32_t n = mr_group_world_size(group);
    uint64_t until_ns = mr_clock_now_ns() + for_ms * 1000000;
    for (uint32_t round = 0;; round++) {
        values[0] = mr_clock_now_ns() > until_ns;
        values[COUNT - 1] = mr_group_rank(group) + round;
        if (mr_group_all_reduce(group, values, COUNT, MR_F64, MR_SUM) != MR_OK)
            return 3;
        if (values[COUNT - 1] != n * (n - 1) / 2.0 + (double)n * round)
            return 4;
        if (round == 10)
            fprintf(stderr, "rank %u goes\n", mr_group_rank(group));
        if (values[0] > 0)
            return 0;
        memset(values, 0, sizeof values);
    }
}

int main(int argc, char **argv)
{
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = NULL;
    mr_error error;
    if (argc != 6)
        return 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    options.init = argv[1];
    options.backend = "gloo";
    if (strcmp(argv[2], "-") != 0) {
        options.rank = (uint32_t)atoi(argv[2]);
        options.world_size = (uint32_t)atoi(argv[3]);
    }
    options.timeout_ms = (uint32_t)atoi(argv[4]);
    if (mr_group_create(&options, &group, &error) != MR_OK) {
        fprintf(stderr, "no group: %s\n", error.text);
        return 2;
    }
    fprintf(stderr, "rank %u of %u is in\n", mr_group_rank(group), mr_group_world_size(group));
    int end = reduce_until(group, (uint64_t)atoi(argv[5]) * 1000);
    if (end != 0)
        fprintf(stderr, "ended: %s\n", mr_group_error(group)->text);
    mr_group_destroy(group);
    return end;
}
