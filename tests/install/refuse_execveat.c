/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refuse_execveat PROGRAM [ARGUMENTS]: runs PROGRAM where no program can be started from a
 * descriptor, as in some containers.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(execveat), 0) != 0 ||
        seccomp_load(filter) != 0) {
        fprintf(stderr, "seccomp filters are not available here\n");
        return 77;
    }
    seccomp_release(filter);
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
