/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on memory, read from a simulated /proc and /sys: which limit counts, and the message. */
#include "pinned/memory_limit.h"
#include "tests/support/folder.h"
#include "tests/support/assert_words.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define MB UINT64_C(1000000)

static char *root;

static int make_root(void **state)
{
    (void)state;
    root = mr_test_folder_create();
    return 0;
}

/* Write a file below the root, and make its folders. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void fits(uint64_t len_bytes)
{
    mr_error error = {0};
    mr_status status = mr_memory_limit_check_below(root, len_bytes, &error);
    assert_ok(status, &error);
}

static void is_too_much(uint64_t len_bytes, const char *words)
{
    mr_error error;
    assert_error(mr_memory_limit_check_below(root, len_bytes, &error), MR_ERR_NO_MEMORY, &error,
                 words);
}

/* 1,024,000,000 bytes are available. */
static void put_meminfo(void)
{
    put("/proc/meminfo",
        "MemTotal:       4000000 kB\nMemFree:         500000 kB\nMemAvailable:   1000000 kB\n"
        "Buffers:          80000 kB\n");
}

static void available_memory_is_the_limit(void **state)
{
    (void)state;
    put_meminfo();
    fits(0);
    fits(1024 * MB);
    is_too_much(1024 * MB + 1, "the slab needs 1024.0 MB, available memory leaves 1024.0 MB");
    is_too_much(UINT64_MAX, "too little; lower batch_size or n_slots");
}

static void limits_that_cannot_be_read_do_not_count(void **state)
{
    (void)state;
    fits(UINT64_MAX);
    put("/proc/meminfo", "MemTotal: 1 kB\n");
    put("/proc/self/cgroup", "0::/a\nrubbish\n:\n1:memory\n\n");
    fits(UINT64_MAX);
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.current", "1000\n");
    fits(UINT64_MAX);
    put("/sys/fs/cgroup/memory.max", "5\n"); /* without memory.current */
    fits(UINT64_MAX);
}

static void the_processs_own_group_limits(void **state)
{
    (void)state;
    put_meminfo();
    put("/proc/self/cgroup", "0::/user/job\n");
    put("/sys/fs/cgroup/user/job/memory.max", "300000000\n");
    put("/sys/fs/cgroup/user/job/memory.current", "100000000\n");
    fits(200 * MB);
    is_too_much(200 * MB + 1, "the memory limit of cgroup /job leaves 200.0 MB");
}

static void the_page_cache_of_a_group_counts_as_free(void **state)
{
    (void)state;
    put_meminfo();
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "300000000\n");
    put("/sys/fs/cgroup/job/memory.current", "290000000\n");
    put("/sys/fs/cgroup/job/memory.stat",
        "anon 5\nfile 6\ninactive_file 90000000\nactive_file 7\n");
    fits(100 * MB);
    is_too_much(100 * MB + 1, "/job leaves 100.0 MB");
}

static void an_enclosing_group_limits(void **state)
{
    (void)state;
    put_meminfo();
    put("/proc/self/cgroup", "0::/outer/middle/inner\n");
    put("/sys/fs/cgroup/outer/middle/inner/memory.max", "max\n");
    put("/sys/fs/cgroup/outer/middle/inner/memory.current", "1\n");
    put("/sys/fs/cgroup/outer/memory.max", "50000000\n");
    put("/sys/fs/cgroup/outer/memory.current", "20000000\n");
    fits(30 * MB);
    is_too_much(31 * MB, "cgroup /outer leaves 30.0 MB");
}

static void the_root_of_a_container_limits(void **state)
{
    (void)state;
    put_meminfo();
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "80000000\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    fits(80 * MB);
    is_too_much(81 * MB, "cgroup /cgroup leaves 80.0 MB");
}

static void a_full_group_leaves_nothing(void **state)
{
    (void)state;
    put_meminfo();
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "1000\n");
    put("/sys/fs/cgroup/job/memory.current", "5000\n");
    fits(0);
    is_too_much(1, "/job leaves 0.0 MB");
}

static void version_one_limits(void **state)
{
    (void)state;
    put_meminfo();
    put("/proc/self/cgroup",
        "12:cpu,cpuacct:/elsewhere\n7:memory:/docker/abc\n1:name=systemd:/x\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "5\n");
    fits(1000 * MB);
    put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "70000000\n");
    put("/sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "60000000\n");
    put("/sys/fs/cgroup/memory/docker/memory.stat",
        "inactive_file 1\ntotal_inactive_file 20000000\n");
    fits(30 * MB);
    is_too_much(31 * MB, "cgroup /docker leaves 30.0 MB");
}

/* The first limit that is exceeded may not be the lowest. */
static void the_lowest_limit_is_named_with_what_is_missing(void **state)
{
    (void)state;
    put_meminfo();
    put("/proc/self/cgroup", "7:memory:/docker/abc\n0::/job\n");
    put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "500000000\n");
    put("/sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "0\n");
    put("/sys/fs/cgroup/memory.max", "700000000\n");
    put("/sys/fs/cgroup/memory.current", "100000000\n");
    is_too_much(1100 * MB,
                "the slab needs 1100.0 MB, the memory limit of cgroup /docker leaves 500.0 MB: "
                "600.0 MB too little; lower batch_size or n_slots");
    put("/sys/fs/cgroup/memory.current", "300000000\n");
    is_too_much(1100 * MB,
                "the memory limit of cgroup /cgroup leaves 400.0 MB: 700.0 MB too little");
}

static void this_machine_has_room_for_a_page_and_not_for_everything(void **state)
{
    (void)state;
    mr_error error;
    assert_int_equal(mr_memory_limit_check(4096, &error), MR_OK);
    assert_int_equal(mr_memory_limit_check(UINT64_C(1) << 60, &error), MR_ERR_NO_MEMORY);
}

#define IN_ROOT(test) cmocka_unit_test_setup(test, make_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOT(available_memory_is_the_limit),
        IN_ROOT(limits_that_cannot_be_read_do_not_count),
        IN_ROOT(the_processs_own_group_limits),
        IN_ROOT(the_page_cache_of_a_group_counts_as_free),
        IN_ROOT(an_enclosing_group_limits),
        IN_ROOT(the_root_of_a_container_limits),
        IN_ROOT(a_full_group_leaves_nothing),
        IN_ROOT(version_one_limits),
        IN_ROOT(the_lowest_limit_is_named_with_what_is_missing),
        cmocka_unit_test(this_machine_has_room_for_a_page_and_not_for_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
