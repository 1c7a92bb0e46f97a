/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What readers use and release: descriptors, memory, reads in flight. A test may lower a limit, and
 * its teardown raises it again.
 */
#include "tests/contract/reader_support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct rlimit nofile_before;

static int enter(void **state)
{
    return getrlimit(RLIMIT_NOFILE, &nofile_before) == 0 ? enter_folder(state) : -1;
}

static int leave(void **state)
{
    (void)state;
    return setrlimit(RLIMIT_NOFILE, &nofile_before);
}

static void set_nofile(rlim_t soft)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = soft;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void five_hundred_shards_fit_into_64_descriptors(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        char name[24];
        snprintf(name, sizeof name, "shard-%d", i);
        write_pattern(name, (uint64_t)i, 3000);
    }
    mr_dataset *dataset = open_shards(500, "bytes=1000");
    int64_t indices[700];
    uint64_t random = fresh_seed();
    for (size_t i = 0; i < 700; i++)
        indices[i] = i < 500 ? (int64_t)i * 3 : (int64_t)(draw(&random) % 1500);
    uint32_t fds = count_fds();
    set_nofile(64);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        for (size_t d = 0; d < N_DEPTHS && way_works(way); d++) {
            struct mr_reader *reader = make_reader(dataset, way, depths[d], NO_LIMIT);
            struct outcome *outcomes = read_with(reader, depths[d], indices, 700);
            /* also the ring of io_uring, or epoll and what libcurl has open */
            assert_in_range(count_fds(), fds, fds + 16 + 3);
            for (size_t i = 0; i < 700; i++)
                expect_oracle(dataset, &outcomes[i], way->name);
            free_outcomes(outcomes, 700);
            mr_reader_destroy(reader);
            assert_int_equal(count_fds(), fds);
        }
    }
    set_nofile(nofile_before.rlim_cur);
    mr_dataset_destroy(dataset);
}

/* Open descriptors until none is left. The last one goes to *last_out. */
static int take_all_fds(int fds[64])
{
    int n = 0;
    while (n < 64 && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    assert_in_range(n, 1, 63);
    return n;
}

static void *close_soon(void *fd)
{
    nanosleep(&(struct timespec){.tv_nsec = 40000000}, NULL);
    close(*(int *)fd);
    return NULL;
}

static void a_reader_waits_for_missing_descriptors(void **state)
{
    (void)state;
    write_pattern("shard-0", 1, 3000);
    mr_dataset *dataset = open_shards(1, "bytes=1000");
    for (const struct way *way = ways; way < ways + 2; way++) {
        if (!way_works(way))
            continue;
        pthread_t thread;
        int fds[64];
        set_nofile(64);
        struct mr_reader *reader = make_reader(dataset, way, 1, NO_LIMIT);
        int n = take_all_fds(fds);
        assert_int_equal(pthread_create(&thread, NULL, close_soon, &fds[n - 1]), 0);
        struct outcome *outcome = read_with(reader, 1, &(int64_t){1}, 1);
        pthread_join(thread, NULL);
        for (int i = 0; i < n - 1; i++)
            close(fds[i]);
        expect_oracle(dataset, outcome, way->name);
        free_outcomes(outcome, 1);
        mr_reader_destroy(reader);
        set_nofile(nofile_before.rlim_cur);
    }
    mr_dataset_destroy(dataset);
}

static void a_lasting_lack_of_descriptors_is_not_reported_as_damage(void **state)
{
    (void)state;
    write_pattern("shard-0", 1, 3000);
    mr_dataset *dataset = open_shards(1, "bytes=1000");
    struct outcome expected = {.index = 1, .status = MR_ERR_IO, .os_error = EMFILE};
    snprintf(expected.text, sizeof expected.text, "%s#1 (index 1): Too many open files",
             in_folder("shard-0"));
    for (const struct way *way = ways; way < ways + 2; way++) {
        if (!way_works(way))
            continue;
        int fds[64];
        set_nofile(64);
        struct mr_reader *reader = make_reader(dataset, way, 1, NO_LIMIT);
        int n = take_all_fds(fds);
        struct outcome *outcome = read_with(reader, 1, &(int64_t){1}, 1);
        while (n > 0)
            close(fds[--n]);
        assert_same(outcome, &expected, way->name);
        free_outcomes(outcome, 1);
        outcome = read_with(reader, 1, &(int64_t){1}, 1);
        expect_oracle(dataset, outcome, way->name);
        free_outcomes(outcome, 1);
        mr_reader_destroy(reader);
        set_nofile(nofile_before.rlim_cur);
    }
    mr_dataset_destroy(dataset);
}

static void destroying_a_reader_leaves_nothing_in_flight(void **state)
{
    (void)state;
    char names[64][16];
    const char *list[64];
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "d%d", i);
        list[i] = names[i];
        if (i == 5)
            assert_int_equal(mkfifo(in_folder(names[i]), 0644), 0);
        else
            write_pattern(names[i], (uint64_t)i, (size_t)i * 3000);
    }
    int fifo = open(in_folder("d5"), O_RDWR | O_CLOEXEC);
    mr_dataset *dataset = open_list(list, 64);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        for (uint32_t n_reaped = 0; n_reaped < 5 && way_works(way); n_reaped++) {
            uint32_t fds = count_fds();
            struct mr_reader *reader = make_reader(dataset, way, 64, NO_LIMIT);
            struct mr_read read;
            for (int64_t i = 0; i < 64; i++)
                submit(reader, 0, i);
            for (uint32_t i = 0; i < n_reaped; i++)
                assert_true(mr_reader_reap(reader, true, &read));
            mr_reader_destroy(reader);
            assert_int_equal(count_fds(), fds);
        }
    }
    close(fifo);
    mr_dataset_destroy(dataset);
}

/*
 * Read one index n times with two reads in flight, without copying. Returns the resident memory at
 * the end.
 */
static size_t read_and_measure(struct mr_reader *reader, int64_t index, int n)
{
    size_t resident = 0;
    for (int n_submitted = 0; n > 0; n--) {
        for (; n_submitted < n && mr_reader_n_busy(reader) < 2; n_submitted++)
            submit(reader, 0, index);
        struct mr_read read;
        assert_true(mr_reader_reap(reader, true, &read));
        assert_int_equal(read.status, MR_OK);
        resident = resident_bytes();
        mr_reader_recycle(reader, &read);
        n_submitted--;
    }
    return resident;
}

static void the_memory_for_a_huge_file_is_released(void **state)
{
    (void)state;
    write_pattern("huge", 1, 40 * MIB);
    write_pattern("small", 2, 1000);
    mr_dataset *dataset = open_list((const char *[]){"huge", "small"}, 2);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct mr_reader *reader = make_reader(dataset, way, 2, NO_LIMIT);
        size_t before = resident_bytes();
        assert_in_range(read_and_measure(reader, 0, 4), before + 40 * MIB, SIZE_MAX);
        /* Two buffers of up to 4 MiB are not shrunk, and a sanitizer keeps some memory. */
        assert_in_range(read_and_measure(reader, 1, 300), 0, before + 20 * MIB);
        mr_reader_destroy(reader);
    }
    mr_dataset_destroy(dataset);
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(five_hundred_shards_fit_into_64_descriptors),
        T(a_reader_waits_for_missing_descriptors),
        T(a_lasting_lack_of_descriptors_is_not_reported_as_damage),
        T(destroying_a_reader_leaves_nothing_in_flight),
        T(the_memory_for_a_huge_file_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
