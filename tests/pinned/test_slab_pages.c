/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huge pages: what the kernel offers, read from a simulated /sys, and what a slab uses. The
 * linker's --wrap replaces the slab's queries and the two calls that may fail here, so all of it
 * runs on a machine without huge pages.
 */
#include "pinned/huge_pages.h"
#include "pinned/slab.h"
#include "tests/support/folder.h"
#include "tests/support/assert_words.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LEN (2 * MR_HUGE_PAGES_BYTES + 12345)
#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define TRANSPARENT "/sys/kernel/mm/transparent_hugepage/"

static struct {
    uint64_t pool_bytes; /* free bytes that the pool reports */
    bool on_request;
    bool refuses_memfd; /* for the pool */
    bool refuses_pages;
    bool is_old; /* the kernel has no MADV_POPULATE_WRITE */
    unsigned n_pool_memfds;
} kernel;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_fallocate(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate(int fd, int mode, off_t off, off_t len);
int __real_madvise(void *base, size_t len, int advice);
int __wrap_madvise(void *base, size_t len, int advice);
uint64_t __real_mr_huge_pages_free(const char *root);
uint64_t __wrap_mr_huge_pages_free(const char *root);
bool __real_mr_huge_pages_on_request(const char *root);
bool __wrap_mr_huge_pages_on_request(const char *root);

int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (!(flags & MFD_HUGETLB))
        return __real_memfd_create(name, flags);
    kernel.n_pool_memfds++;
    errno = ENOSYS;
    return kernel.refuses_memfd ? -1 : __real_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int __wrap_fallocate(int fd, int mode, off_t off, off_t len)
{
    errno = ENOSPC;
    return kernel.refuses_pages ? -1 : __real_fallocate(fd, mode, off, len);
}

int __wrap_madvise(void *base, size_t len, int advice)
{
    errno = EINVAL;
    return kernel.is_old && advice == MADV_POPULATE_WRITE ? -1 : __real_madvise(base, len, advice);
}

uint64_t __wrap_mr_huge_pages_free(const char *root)
{
    return root[0] ? __real_mr_huge_pages_free(root) : kernel.pool_bytes;
}

bool __wrap_mr_huge_pages_on_request(const char *root)
{
    return root[0] ? __real_mr_huge_pages_on_request(root) : kernel.on_request;
}

static char *root;

static int set_up(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
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

static void reserved_pages_are_not_free(void **state)
{
    (void)state;
    assert_int_equal(mr_huge_pages_free(root), 0); /* an old kernel has no such file */
    put(POOL "free_hugepages", "7\n");
    assert_int_equal(mr_huge_pages_free(root), 7 * MR_HUGE_PAGES_BYTES);
    put(POOL "resv_hugepages", "5\n");
    assert_int_equal(mr_huge_pages_free(root), 2 * MR_HUGE_PAGES_BYTES);
    put(POOL "resv_hugepages", "8\n");
    assert_int_equal(mr_huge_pages_free(root), 0);
}

static void transparent_pages_follow_the_switch_of_shared_memory(void **state)
{
    static const struct {
        const char *text;
        bool offered;
    } cases[] = {{"always within_size advise [never] deny force\n", false},
                 {"always within_size [advise] never deny force\n", true},
                 {"always [within_size] advise never deny force\n", true},
                 {"[always] within_size advise never deny force\n", true},
                 {"always within_size advise never [deny] force\n", false},
                 {"", false}};
    (void)state;
    assert_false(mr_huge_pages_on_request(root));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(TRANSPARENT "shmem_enabled", cases[i].text);
        assert_int_equal(mr_huge_pages_on_request(root), cases[i].offered);
    }
    put(TRANSPARENT "hugepages-2048kB/shmem_enabled",
        "always inherit within_size [advise] never\n");
    assert_true(mr_huge_pages_on_request(root));
    put(TRANSPARENT "shmem_enabled", cases[1].text);
    put(TRANSPARENT "hugepages-2048kB/shmem_enabled",
        "always inherit within_size advise [never]\n");
    assert_false(mr_huge_pages_on_request(root));
    put(TRANSPARENT "hugepages-2048kB/shmem_enabled",
        "always [inherit] within_size advise never\n");
    assert_true(mr_huge_pages_on_request(root));
}

/* Make, reserve, write and read through a second mapping, destroy. */
static void use(enum mr_slab_pages most, uint64_t len_bytes, enum mr_slab_pages expected,
                uint64_t expected_bytes)
{
    struct mr_slab slab, other;
    mr_error error = {0};
    assert_ok(mr_slab_create(len_bytes, most, &slab, &error), &error);
    assert_int_equal(slab.pages, expected);
    assert_int_equal(slab.len_bytes, expected_bytes);
    assert_int_equal(fcntl(slab.fd, F_GET_SEALS) & F_SEAL_SHRINK, F_SEAL_SHRINK);
    for (uint64_t off = 0; off < slab.len_bytes; off += 1 << 20) {
        uint64_t left = slab.len_bytes - off;
        assert_ok(mr_slab_reserve(&slab, off, left < 1 << 20 ? left : 1 << 20, &error), &error);
    }
    struct stat st;
    assert_int_equal(fstat(slab.fd, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 >= len_bytes);
    assert_int_equal(mr_slab_attach(slab.fd, &other, &error), MR_OK);
    assert_int_equal(other.len_bytes, slab.len_bytes);
    if (len_bytes >= MR_HUGE_PAGES_BYTES) {
        assert_int_equal((uintptr_t)slab.base % MR_HUGE_PAGES_BYTES, 0);
        assert_int_equal((uintptr_t)other.base % MR_HUGE_PAGES_BYTES, 0);
    }
    slab.base[len_bytes - 1] = 42;
    assert_int_equal(other.base[len_bytes - 1], 42);
    mr_slab_destroy(&other);
    mr_slab_destroy(&slab);
}

static void slab_takes_the_pool_then_asks_then_has_small_pages(void **state)
{
    (void)state;
    kernel.pool_bytes = 3 * MR_HUGE_PAGES_BYTES;
    kernel.on_request = true;
    use(MR_SLAB_PAGES_POOL, LEN, MR_SLAB_PAGES_POOL, 3 * MR_HUGE_PAGES_BYTES);
    use(MR_SLAB_PAGES_ASKED, LEN, MR_SLAB_PAGES_ASKED, LEN);
    use(MR_SLAB_PAGES_SMALL, LEN, MR_SLAB_PAGES_SMALL, LEN);
    assert_int_equal(kernel.n_pool_memfds, 1);
    kernel.pool_bytes--;
    use(MR_SLAB_PAGES_POOL, LEN, MR_SLAB_PAGES_ASKED, LEN);
    kernel.on_request = false;
    use(MR_SLAB_PAGES_POOL, LEN, MR_SLAB_PAGES_SMALL, LEN);
    assert_int_equal(kernel.n_pool_memfds, 1); /* the pool was not tried */
}

static void slab_smaller_than_a_huge_page_does_without(void **state)
{
    (void)state;
    kernel.pool_bytes = UINT64_MAX;
    kernel.on_request = true;
    use(MR_SLAB_PAGES_POOL, 4096, MR_SLAB_PAGES_SMALL, 4096);
}

/* Page faults of this process while it writes to all of the slab. */
static long touch_all(const struct mr_slab *slab)
{
    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    for (uint64_t off = 0; off < slab->len_bytes; off += 4096)
        ((volatile uint8_t *)slab->base)[off]++;
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    return after.ru_minflt - before.ru_minflt;
}

static void populated_pages_are_mapped_or_at_least_reserved(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        struct mr_slab slab;
        struct stat st;
        mr_error error = {0};
        kernel.is_old = old;
        assert_int_equal(mr_slab_create(LEN, MR_SLAB_PAGES_SMALL, &slab, &error), MR_OK);
        slab.base[5000] = 7; /* written by a worker */
        assert_ok(mr_slab_populate(&slab, 0, LEN, &error), &error);
        assert_int_equal(fstat(slab.fd, &st), 0);
        assert_true((uint64_t)st.st_blocks * 512 >= LEN);
        assert_int_equal(slab.base[5000], 7);
        long n_faults = touch_all(&slab);
        if (__real_madvise(slab.base, 4096, MADV_POPULATE_WRITE) == 0 && !old)
            assert_in_range(n_faults, 0, LEN / (uint64_t)sysconf(_SC_PAGESIZE) / 4);
        mr_slab_destroy(&slab);
    }
    struct mr_slab slab;
    mr_error error;
    kernel.refuses_pages = true;
    assert_int_equal(mr_slab_create(LEN, MR_SLAB_PAGES_SMALL, &slab, &error), MR_OK);
    assert_error(mr_slab_populate(&slab, 0, LEN, &error), MR_ERR_NO_MEMORY, &error,
                 "cannot reserve the slab's 4.2 MB");
    mr_slab_destroy(&slab);
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void a_pool_that_refuses_pages_is_no_failure(void **state)
{
    struct mr_slab slab;
    mr_error error;
    (void)state;
    int before = count_fds();
    kernel.pool_bytes = UINT64_MAX;
    kernel.refuses_memfd = true;
    use(MR_SLAB_PAGES_POOL, LEN, MR_SLAB_PAGES_SMALL, LEN);
    kernel.refuses_memfd = false;
    kernel.refuses_pages = true;
    assert_int_equal(mr_slab_create(LEN, MR_SLAB_PAGES_POOL, &slab, &error), MR_OK);
    assert_int_equal(slab.pages, MR_SLAB_PAGES_SMALL);
    assert_int_equal(slab.len_bytes, LEN);
    mr_slab_destroy(&slab);
    assert_int_equal(kernel.n_pool_memfds, 2);
    assert_int_equal(count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reserved_pages_are_not_free, set_up),
        cmocka_unit_test_setup(transparent_pages_follow_the_switch_of_shared_memory, set_up),
        cmocka_unit_test_setup(slab_takes_the_pool_then_asks_then_has_small_pages, set_up),
        cmocka_unit_test_setup(slab_smaller_than_a_huge_page_does_without, set_up),
        cmocka_unit_test_setup(populated_pages_are_mapped_or_at_least_reserved, set_up),
        cmocka_unit_test_setup(a_pool_that_refuses_pages_is_no_failure, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
