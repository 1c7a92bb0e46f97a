/* SPDX-License-Identifier: Apache-2.0 */
/* Tells how long this process has been running. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#include <millrace/status.h>

#define NS_PER_S UINT64_C(1000000000)

/* Ticks from the machine's start to this process's; false where /proc cannot tell. */
static bool read_start(uint64_t *ticks_out)
{
    enum { FIELDS_BETWEEN = 20 }; /* from the name's end to field 22, starttime */
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return false;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = '\0';
    const char *at = strrchr(line, ')'); /* the name may hold anything */
    for (int i = 0; at && i < FIELDS_BETWEEN; i++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, " %" SCNu64, ticks_out) == 1;
}

/* By mr_clock_now_ns(). To 10 ms, which is the kernel's own grain. */
static uint64_t find_start_ns(void)
{
    uint64_t ticks, now_ns = mr_clock_now_ns();
    long per_second = sysconf(_SC_CLK_TCK);
    struct timespec boot;
    if (per_second <= 0 || clock_gettime(CLOCK_BOOTTIME, &boot) != 0 || !read_start(&ticks))
        return now_ns;
    uint64_t boot_ns = (uint64_t)boot.tv_sec * NS_PER_S + (uint64_t)boot.tv_nsec;
    uint64_t start_ns = ticks / (uint64_t)per_second * NS_PER_S +
                        ticks % (uint64_t)per_second * (NS_PER_S / (uint64_t)per_second);
    uint64_t age_ns = boot_ns > start_ns ? boot_ns - start_ns : 0;
    return age_ns < now_ns ? now_ns - age_ns : now_ns;
}

double mr_elapsed(void)
{
    /*
     * Found once by each process; a forked child has another start than its parent. Threads that
     * find it at once find the same.
     */
    static _Atomic uint64_t start_ns;
    static _Atomic pid_t of_pid;
    pid_t pid = getpid();
    if (atomic_load(&of_pid) != pid) {
        atomic_store(&start_ns, find_start_ns());
        atomic_store(&of_pid, pid);
    }
    uint64_t now_ns = mr_clock_now_ns(), since_ns = atomic_load(&start_ns);
    return now_ns > since_ns ? (double)(now_ns - since_ns) / (double)NS_PER_S : 0;
}
