/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of open shards, compared with a slow and simple model of "least recently used". */
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/reader/file_cache.h"
#include "tests/support/folder.h"

#define N_SHARDS 30

struct fixture {
    char *folder;
    mr_dataset *dataset;
    const struct mr_catalog *catalog;
};

static void shard_path(const struct fixture *fixture, uint64_t file, char path[128])
{
    snprintf(path, 128, "%s/shard-%02u", fixture->folder, (unsigned)file);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    char spec[N_SHARDS * 80], path[128];
    size_t len = (size_t)snprintf(spec, sizeof spec, "records:");
    if (!fixture)
        return -1;
    fixture->folder = mr_test_folder_create();
    for (unsigned i = 0; i < N_SHARDS; i++) {
        shard_path(fixture, i, path);
        FILE *file = fopen(path, "w");
        if (!file || fprintf(file, "%08u", i) != 8 || fclose(file) != 0)
            return -1;
        len += (size_t)snprintf(spec + len, sizeof spec - len, "%s%s", i ? "," : "", path);
    }
    snprintf(spec + len, sizeof spec - len, "?bytes=8");
    if (mr_dataset_open(spec, NULL, &fixture->dataset, NULL) != MR_OK)
        return -1;
    fixture->catalog = mr_dataset_catalog(fixture->dataset);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    mr_dataset_destroy(fixture->dataset);
    free(fixture);
    return 0;
}

static struct mr_file_cache *make(const struct fixture *fixture, uint32_t capacity)
{
    struct mr_file_cache *cache;
    assert_int_equal(mr_file_cache_create(fixture->catalog, NULL, capacity, &cache), 0);
    return cache;
}

/* Assert that the descriptor is open and refers to that file. */
static void assert_descriptor(int fd, uint64_t file)
{
    char text[9] = {0}, expected[16];
    snprintf(expected, sizeof expected, "%08u", (unsigned)file);
    assert_int_equal(pread(fd, text, 8, 0), 8);
    assert_string_equal(text, expected);
}

static void touch(struct mr_file_cache *cache, uint64_t file)
{
    int fd = mr_file_cache_acquire(cache, file);
    assert_true(fd >= 0);
    assert_descriptor(fd, file);
    mr_file_cache_release(cache, file);
}

static bool is_open_here(const struct fixture *fixture, uint64_t file)
{
    char path[128], link[64], target[128];
    shard_path(fixture, file, path);
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (strcmp(target, path) == 0)
            return true;
    }
    return false;
}

static void a_file_is_opened_once(void **state)
{
    struct mr_file_cache *cache = make(*state, 4);
    int fd = mr_file_cache_acquire(cache, 7);
    assert_descriptor(fd, 7);
    assert_int_equal(mr_file_cache_acquire(cache, 7), fd);
    assert_int_equal(mr_file_cache_n_open(cache), 1);
    mr_file_cache_release(cache, 7);
    mr_file_cache_release(cache, 7);
    assert_int_equal(mr_file_cache_acquire(cache, 7), fd);
    mr_file_cache_release(cache, 7);
    mr_file_cache_destroy(cache);
    assert_false(is_open_here(*state, 7));
}

static void the_least_recently_used_file_is_closed_first(void **state)
{
    struct mr_file_cache *cache = make(*state, 3);
    for (uint64_t file = 0; file < 3; file++)
        touch(cache, file);
    touch(cache, 0);
    touch(cache, 3);
    assert_true(is_open_here(*state, 0));
    assert_false(is_open_here(*state, 1));
    assert_true(is_open_here(*state, 2));
    touch(cache, 4);
    assert_false(is_open_here(*state, 2));
    assert_int_equal(mr_file_cache_n_open(cache), 3);
    mr_file_cache_destroy(cache);
}

static void a_file_in_use_is_never_closed(void **state)
{
    struct mr_file_cache *cache = make(*state, 2);
    int fd = mr_file_cache_acquire(cache, 0);
    for (uint64_t file = 1; file < N_SHARDS; file++)
        touch(cache, file);
    assert_descriptor(fd, 0);
    assert_true(mr_file_cache_acquire(cache, 5) >= 0);
    assert_int_equal(mr_file_cache_acquire(cache, 6), -EBUSY);
    assert_false(mr_file_cache_shed(cache));
    assert_descriptor(fd, 0);
    mr_file_cache_release(cache, 0);
    assert_true(mr_file_cache_acquire(cache, 6) >= 0);
    mr_file_cache_destroy(cache); /* this also closes files in use */
    assert_false(is_open_here(*state, 5) || is_open_here(*state, 6));
}

static void shedding_closes_idle_files_oldest_first(void **state)
{
    struct mr_file_cache *cache = make(*state, 4);
    for (uint64_t file = 0; file < 3; file++)
        touch(cache, file);
    assert_true(mr_file_cache_shed(cache));
    assert_false(is_open_here(*state, 0));
    assert_true(mr_file_cache_shed(cache) && mr_file_cache_shed(cache));
    assert_false(mr_file_cache_shed(cache));
    assert_int_equal(mr_file_cache_n_open(cache), 0);
    touch(cache, 2);
    mr_file_cache_destroy(cache);
}

static void a_file_that_cannot_be_opened_takes_no_place(void **state)
{
    struct fixture *fixture = *state;
    struct mr_file_cache *cache = make(fixture, 2);
    char path[128];
    shard_path(fixture, 9, path);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(mr_file_cache_acquire(cache, 9), -ENOENT);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(mr_file_cache_acquire(cache, 9), -EISDIR);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_int_equal(mr_file_cache_acquire(cache, 9), -ENXIO);
    assert_int_equal(mr_file_cache_n_open(cache), 0);
    touch(cache, 1);
    mr_file_cache_destroy(cache);
}

static void a_lack_of_descriptors_closes_idle_files(void **state)
{
    struct rlimit before, limit;
    struct mr_file_cache *cache = make(*state, 20);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    close(next);
    limit = before;
    limit.rlim_cur = (rlim_t)next + 5;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int fd = mr_file_cache_acquire(cache, 0);
    for (uint64_t file = 1; file < N_SHARDS; file++)
        touch(cache, file);
    assert_descriptor(fd, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_in_range(mr_file_cache_n_open(cache), 2, 5);
    mr_file_cache_destroy(cache);
}

static void the_limit_is_a_quarter_of_the_descriptors(void **state)
{
    (void)state;
    static const rlim_t limits[] = {3, 64, 1000, 4000};
    static const uint32_t expected[] = {1, 16, 250, 1000};
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 4; i++) {
        if (limits[i] > before.rlim_max)
            continue;
        limit = before;
        limit.rlim_cur = limits[i];
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        uint32_t share = mr_file_cache_limit();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(share, expected[i]);
    }
}

/* The model: the time of the last use of each file, 0 for closed files, and a count of users. */
struct model {
    uint64_t used_at[N_SHARDS];
    uint32_t users[N_SHARDS];
    uint64_t now;
    uint32_t n_open;
};

/* The expected result of acquire: false if it must return -EBUSY. */
static bool model_acquire(struct model *model, uint32_t capacity, uint64_t file)
{
    if (!model->used_at[file]) {
        int oldest = -1;
        for (int i = 0; i < N_SHARDS; i++)
            if (model->used_at[i] && !model->users[i] &&
                (oldest < 0 || model->used_at[i] < model->used_at[oldest]))
                oldest = i;
        if (model->n_open == capacity && oldest < 0)
            return false;
        if (model->n_open == capacity) {
            model->used_at[oldest] = 0;
            model->n_open--;
        }
        model->n_open++;
    }
    model->used_at[file] = ++model->now;
    model->users[file]++;
    return true;
}

static void random_use_follows_the_model(void **state)
{
    uint64_t random = (uint64_t)time(NULL) * 2654435761u + 1;
    print_message("seed %llu\n", (unsigned long long)random);
    for (uint32_t capacity = 1; capacity <= 17; capacity += 4) {
        struct mr_file_cache *cache = make(*state, capacity);
        struct model model = {0};
        for (int step = 0; step < 3000; step++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t file = (random >> 33) % N_SHARDS;
            if (model.users[file] && (random >> 60) < 11) {
                mr_file_cache_release(cache, file);
                model.users[file]--;
                model.used_at[file] = ++model.now;
                continue;
            }
            bool can = model_acquire(&model, capacity, file);
            int fd = mr_file_cache_acquire(cache, file);
            if (can)
                assert_descriptor(fd, file);
            else
                assert_int_equal(fd, -EBUSY);
            assert_int_equal(mr_file_cache_n_open(cache), model.n_open);
        }
        for (uint64_t file = 0; file < N_SHARDS; file++)
            assert_int_equal(is_open_here(*state, file), model.used_at[file] != 0);
        mr_file_cache_destroy(cache);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_file_is_opened_once),
        T(the_least_recently_used_file_is_closed_first),
        T(a_file_in_use_is_never_closed),
        T(shedding_closes_idle_files_oldest_first),
        T(a_file_that_cannot_be_opened_takes_no_place),
        T(a_lack_of_descriptors_closes_idle_files),
        T(the_limit_is_a_quarter_of_the_descriptors),
        T(random_use_follows_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
