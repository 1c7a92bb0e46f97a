/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses both libraries: sets a log function with libmillrace, lets libmillrace-dist report a failed
 * rank in a log line, then sums over a group of one rank. Prints "log: <line>" and "sum: 3".
 */
#include <millrace/dist.h>
#include <millrace/millrace.h>
#include <stdio.h>

static void print_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    printf("log: %d %s\n", (int)level, line);
}

static int fail_rank(void *arg, uint32_t local_rank)
{
    (void)local_rank;
    (void)arg;
    return 3;
}

int main(void)
{
    mr_group *group = NULL;
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    mr_error error;
    double sum = 3;
    mr_log_set(print_line, NULL);
    options.nproc = 1;
    if (mr_launch_spawn(&options, fail_rank, NULL, &result, &error) < 0 ||
        mr_group_create(NULL, &group, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    mr_status status = mr_group_all_reduce(group, &sum, 1, MR_F64, MR_SUM);
    printf("sum: %g\n", sum);
    mr_group_destroy(group);
    return status == MR_OK && result.exit_status == 3 ? 0 : 1;
}
