/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how long this process has been running. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#include <millrace/status.h>

#define NS_PER_S UINT64_C(1000000000)

/* Ticks from the machine's start to the start of this process; false if /proc cannot be read. */
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
    const char *at = strrchr(line, ')'); /* the name may contain any character */
    for (int i = 0; at && i < FIELDS_BETWEEN; i++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, " %" SCNu64, ticks_out) == 1;
}

/* The start of this process on the clock of mr_clock_now_ns(), to the kernel's 10 ms. */
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
     * Read once by each process; a forked child starts later than its parent. Threads that read it
     * at the same time get the same result.
     */
    static _Atomic uint64_t start_ns;
    static _Atomic pid_t start_pid; /* the process whose start it is */
    pid_t pid = getpid();
    if (atomic_load(&start_pid) != pid) {
        atomic_store(&start_ns, find_start_ns());
        atomic_store(&start_pid, pid);
    }
    uint64_t now_ns = mr_clock_now_ns(), since_ns = atomic_load(&start_ns);
    return now_ns > since_ns ? (double)(now_ns - since_ns) / (double)NS_PER_S : 0;
}
