/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalog region: every process with the descriptors gets the same answers, and damaged content
 * causes no crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef MR_HAVE_LIBSECCOMP
#include <seccomp.h>
#endif

#include "base/shared_memory.h"
#include "dataset/dataset.h"
#include "dataset/catalog_build.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

/* A hash of everything that a worker reads from a catalog. */
static uint64_t digest(const struct mr_catalog *catalog)
{
    uint64_t sum = 14695981039346656037u;
    for (int64_t i = 0; i < mr_catalog_count(catalog); i++) {
        struct mr_part_list list;
        mr_catalog_parts(catalog, i, UINT64_MAX, &list);
        char path[MR_CATALOG_PATH], name[256];
        mr_catalog_name(catalog, i, name, sizeof name);
        if (mr_catalog_path(catalog, list.part[0].extent.file, path) != 0)
            return 0;
        for (const char *c = path; *c; c++)
            sum = (sum ^ (unsigned char)*c) * 1099511628211u;
        for (const char *c = name; *c; c++)
            sum = (sum ^ (unsigned char)*c) * 1099511628211u;
        for (uint32_t k = 0; k < list.n; k++) {
            const struct mr_extent *extent = &list.part[k].extent;
            sum = ((sum ^ extent->offset) * 1099511628211u ^ extent->len) * 1099511628211u;
        }
        uint8_t bytes[64] = {1, 2, 3};
        const uint8_t *data;
        size_t len;
        int64_t label = -1;
        if (mr_catalog_split(catalog, i, bytes, sizeof bytes, NULL, &data, &len, &label, NULL) !=
            MR_OK)
            return 0;
        sum = (sum ^ (uint64_t)label ^ len) * 1099511628211u;
    }
    return sum;
}

/* Attach as a worker does: with other descriptor numbers, and nothing else inherited. */
static uint64_t digest_in_another_process(const int *fds)
{
    int channel[2];
    assert_int_equal(pipe(channel), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int moved[MR_CATALOG_N_FDS];
        uint64_t sum = 0;
        struct mr_catalog *catalog;
        for (int i = 0; i < MR_CATALOG_N_FDS; i++)
            moved[i] = fds[i] < 0 ? -1 : dup2(fds[i], 100 + i);
        for (int i = 3; i < 100; i++)
            if (i != channel[1])
                close(i);
        if (mr_catalog_attach(moved, &catalog, NULL) == MR_OK) {
            if (mr_catalog_root(catalog) == moved[MR_CATALOG_FD_ROOT])
                sum = digest(catalog);
            mr_catalog_detach(catalog);
        }
        if (write(channel[1], &sum, sizeof sum) != sizeof sum)
            _exit(1);
        _exit(0);
    }
    uint64_t sum = 0;
    close(channel[1]);
    assert_int_equal(read(channel[0], &sum, sizeof sum), sizeof sum);
    close(channel[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return sum;
}

static void every_kind_is_the_same_in_another_process(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    char list[100 * 20] = "", spec[4][8192];
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "data/c%d/%d.jpg", i % 3, i);
        tree_file(&tree, name);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%d.jpg\t%d\n", i, i % 5);
    }
    uint8_t bytes[3073] = {5};
    tree_write(&tree, "list", list, strlen(list));
    tree_write(&tree, "cifar/data_batch_1.bin", bytes, sizeof bytes);
    snprintf(spec[0], sizeof spec[0], "%s", tree_spec(&tree, "", "data"));
    snprintf(spec[1], sizeof spec[1], "%s", tree_spec(&tree, "list", "list"));
    snprintf(spec[2], sizeof spec[2], "%s?bytes=3&stride=2", tree_spec(&tree, "records", "list"));
    snprintf(spec[3], sizeof spec[3], "%s?bytes=2&label_bytes=1",
             tree_spec(&tree, "records", "list"));
    for (int i = 0; i < 4; i++) {
        mr_dataset *dataset = open_dataset(spec[i]);
        uint64_t sum = digest(mr_dataset_catalog(dataset));
        assert_int_not_equal(sum, 0);
        assert_true(digest_in_another_process(mr_dataset_fds(dataset)) == sum);
        mr_dataset_destroy(dataset);
    }
}

static void the_region_is_sealed_and_closes_on_exec(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "c/a.jpg");
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", ""));
    int fd = mr_dataset_fds(dataset)[MR_CATALOG_FD_REGION];
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_true(pwrite(fd, "x", 1, 0) < 0);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    for (int i = 0; i < MR_CATALOG_N_FDS; i++)
        if (mr_dataset_fds(dataset)[i] >= 0)
            assert_int_equal(fcntl(mr_dataset_fds(dataset)[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    mr_dataset_destroy(dataset);
}

static int copy_region(int fd, off_t *len_out, unsigned char **bytes_out)
{
    off_t len = lseek(fd, 0, SEEK_END);
    unsigned char *bytes = malloc((size_t)len);
    assert_int_equal(pread(fd, bytes, (size_t)len, 0), len);
    *len_out = len;
    *bytes_out = bytes;
    return memfd_create("copy", MFD_CLOEXEC);
}

/*
 * Changes every byte of the header and every length. The region is refused or harmless, and nothing
 * crashes.
 */
static void a_damaged_region_is_refused(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "c/a.jpg");
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", ""));
    off_t len;
    unsigned char *bytes;
    int copy = copy_region(mr_dataset_fds(dataset)[MR_CATALOG_FD_REGION], &len, &bytes);
    int fds[MR_CATALOG_N_FDS] = {copy, -1, mr_dataset_fds(dataset)[MR_CATALOG_FD_ROOT]};
    struct mr_catalog *catalog;
    mr_error error;
    for (off_t n = 0; n < len; n++) {
        assert_int_equal(ftruncate(copy, n), 0);
        assert_int_equal(pwrite(copy, bytes, (size_t)n, 0), n);
        assert_true(mr_catalog_attach(fds, &catalog, &error) < 0);
        assert_null(catalog);
    }
    unsigned n_refused = 0;
    for (size_t i = 0; i < sizeof(struct mr_catalog_header); i++) {
        unsigned char byte = bytes[i];
        bytes[i] ^= 0xff;
        assert_int_equal(pwrite(copy, bytes, (size_t)len, 0), len);
        bytes[i] = byte;
        if (mr_catalog_attach(fds, &catalog, &error) < 0)
            n_refused++;
        else
            mr_catalog_detach(catalog);
    }
    assert_true(n_refused > 100); /* magic, version, sizes, scheme, 16 bytes of each section */
    assert_int_equal(pwrite(copy, bytes, (size_t)len, 0), len);
    assert_int_equal(mr_catalog_attach(fds, &catalog, &error), MR_OK);
    mr_catalog_detach(catalog);
    fds[MR_CATALOG_FD_REGION] = -1;
    assert_int_equal(mr_catalog_attach(fds, &catalog, &error), MR_ERR_IO);
    free(bytes);
    close(copy);
    mr_dataset_destroy(dataset);
}

/* A small list is copied. */
static void a_large_list_that_shrank_is_refused_by_new_workers(void **state)
{
    (void)state;
    enum { N = 1500000 };
    struct tree tree;
    tree_create(&tree);
    char *text = malloc((size_t)N * 6);
    assert_non_null(text);
    for (size_t i = 0; i < N; i++)
        memcpy(text + 6 * i, "abc\t1\n", 6);
    tree_write(&tree, "list", text, (size_t)N * 6);
    free(text);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "list", "list"));
    assert_int_equal(truncate(tree_at(&tree, "list"), 3), 0);
    struct mr_catalog *catalog;
    mr_error error;
    assert_error(mr_catalog_attach(mr_dataset_fds(dataset), &catalog, &error), MR_ERR_IO, &error,
                 "shrank from 9000000 to 3 bytes");
    mr_dataset_destroy(dataset);
}

static void a_small_limit_on_file_sizes_gives_an_error_and_no_signal(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    char name[300] = "c/";
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "c/%0200d.jpg", i);
        tree_file(&tree, name);
    }
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    static const struct {
        rlim_t bytes;
        mr_status status;
    } cases[] = {{0, MR_ERR_NO_MEMORY},
                 {65535, MR_ERR_NO_MEMORY},
                 {65536, MR_ERR_NO_MEMORY},
                 {86000, MR_OK}};
    for (int i = 0; i < 4; i++) {
        mr_dataset *dataset;
        mr_error error = {0};
        small = (struct rlimit){.rlim_cur = cases[i].bytes, .rlim_max = limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        mr_status status = mr_dataset_open(tree_spec(&tree, "", ""), NULL, &dataset, &error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        if (status != cases[i].status)
            fail_msg("limit %lld: %s", (long long)cases[i].bytes, error.text);
        if (status < 0)
            assert_words(error.text, "RLIMIT_FSIZE allows");
        mr_dataset_destroy(dataset);
    }
}

static void names_cost_half_a_byte_more_than_their_bytes(void **state)
{
    (void)state;
    enum { N = 200000, LEN = 20 };
    struct mr_catalog_builder builder;
    mr_error error;
    int fd;
    char name[LEN];
    assert_int_equal(mr_catalog_builder_init(&builder, MR_SCHEME_FOLDER, &error), MR_OK);
    assert_int_equal(mr_catalog_builder_root(&builder, "r/", "/r", &error), MR_OK);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "n01440764_%05d.jpg", i % 100000); /* 19 letters and the NUL */
        if (i % 1000 == 0)
            assert_int_equal(mr_catalog_builder_folder(&builder, i < 1000 ? "" : "x",
                                                       (uint64_t)i / 1000, &error),
                             MR_OK);
        assert_int_equal(mr_catalog_builder_name(&builder, name, &error), MR_OK);
    }
    builder.header.n_samples = builder.header.n_files = N;
    builder.header.kind.encoded = 1;
    builder.header.kind.label_bytes = 8;
    assert_int_equal(mr_catalog_builder_finish(&builder, &fd, &error), MR_OK);
    mr_catalog_builder_fini(&builder);
    off_t bytes = lseek(fd, 0, SEEK_END);
    assert_true(bytes > (off_t)N * LEN);
    assert_true(bytes < (off_t)N * (2 * LEN + 1) / 2 + N / 1000 * 40 + 4096);
    struct mr_catalog *catalog;
    assert_int_equal(mr_catalog_attach((int[]){fd, -1, -1}, &catalog, &error), MR_OK);
    for (int i = 0; i < N; i++) {
        char path[MR_CATALOG_PATH], expected[32];
        snprintf(expected, sizeof expected, "%sn01440764_%05d.jpg", i < 1000 ? "" : "x/",
                 i % 100000);
        assert_int_equal(mr_catalog_path(catalog, (uint64_t)i, path), 0);
        assert_string_equal(path, expected);
    }
    mr_catalog_detach(catalog);
    close(fd);
}

#ifdef MR_HAVE_LIBSECCOMP
/*
 * Refuse shared read-only mappings, as kernels before 6.7 do for a memfd with sealed content. A
 * filter cannot see seals, so it refuses them for every file.
 */
static bool refuse_shared_read_only_mappings(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    bool loaded = filter &&
                  seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 2,
                                   SCMP_A2(SCMP_CMP_EQ, PROT_READ),
                                   SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_TYPE, MAP_SHARED)) == 0 &&
                  seccomp_load(filter) == 0;
    seccomp_release(filter);
    return loaded;
}
#endif

static void a_sealed_region_is_mapped_by_kernels_that_forbid_sharing_it(void **state)
{
    (void)state;
#ifdef MR_HAVE_LIBSECCOMP
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "c/a.jpg");
    tree_write(&tree, "list.txt", "c/a.jpg\t0\n", 10); /* its copy is sealed too */
    for (int list = 0; list < 2; list++) {
        const char *spec = list ? tree_spec(&tree, "list", "list.txt") : tree_spec(&tree, "", "");
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            mr_dataset *dataset;
            mr_error error;
            if (!refuse_shared_read_only_mappings())
                _exit(2);
            if (mr_dataset_open(spec, NULL, &dataset, &error) != MR_OK) {
                fprintf(stderr, "%s\n", error.text);
                _exit(1);
            }
            _exit(digest(mr_dataset_catalog(dataset)) == 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    tree_destroy(&tree);
#else
    skip();
#endif
}

static void the_size_of_shared_memory_can_be_sealed_alone(void **state)
{
    (void)state;
    int fd;
    mr_error error;
    assert_int_equal(mr_shared_memory_create("millrace-test", 8192, &fd, &error), MR_OK);
    assert_int_equal(mr_shared_memory_resize(fd, "it", 4096, &error), MR_OK);
    unsigned char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mr_shared_memory_seal_content(fd), -EBUSY);
    assert_int_equal(mr_shared_memory_seal(fd), 0);
    map[4095] = 1;
    assert_true(mr_shared_memory_resize(fd, "it", 8192, &error) < 0);
    assert_int_equal(error.os_error, EPERM);
    munmap(map, 4096);
    close(fd);
    assert_int_equal(mr_shared_memory_create("millrace-test", UINT64_MAX, &fd, &error),
                     MR_ERR_NO_MEMORY);
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_the_same_in_another_process),
        cmocka_unit_test(the_region_is_sealed_and_closes_on_exec),
        cmocka_unit_test(a_damaged_region_is_refused),
        cmocka_unit_test(a_large_list_that_shrank_is_refused_by_new_workers),
        cmocka_unit_test(a_small_limit_on_file_sizes_gives_an_error_and_no_signal),
        cmocka_unit_test(names_cost_half_a_byte_more_than_their_bytes),
        cmocka_unit_test(a_sealed_region_is_mapped_by_kernels_that_forbid_sharing_it),
        cmocka_unit_test(the_size_of_shared_memory_can_be_sealed_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
