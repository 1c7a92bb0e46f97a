/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network that is slow, breaks and stops: how much a worker reads ahead, 2,000 faults in an
 * epoch, and the deaths of server and proxy. A sample has its bytes, or is named as damaged.
 */
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/dataset.h"
#include "dataset/reader/reader_impl.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"
#include "tests/support/images.h"
#include "tests/support/scale.h"
#include "tests/support/shards.h"
#include "tests/support/tcp_proxy.h"

enum { N_SHARDS = 4, MAX_SAMPLES = 1200, MAX_PLACES = 4096 };

static char *folder;
static struct mr_test_http *server;
static struct mr_test_proxy *proxy; /* NULL: requests go to the server */
static uint32_t n_samples;          /* in all shards */

/* What choose() does about one range of a shard. */
struct place {
    char shard; /* 0: the entry is free */
    uint64_t first;
    uint32_t n_faults;
};

static struct {
    uint32_t n_each;   /* so many first answers of each range are faults */
    bool always_error; /* every answer is a 500 */
    uint32_t n_faults; /* that were sent */
    uint32_t n_final;  /* of them, those that end a sample */
    struct place places[MAX_PLACES];
} plan;

/* Most pass at once. */
static enum mr_test_fault pick_fault(uint32_t i)
{
    static const enum mr_test_fault passing[] = {
        MR_TEST_HTTP_ERROR, MR_TEST_HTTP_RESET,       MR_TEST_HTTP_NO_RANGES,
        MR_TEST_HTTP_SHORT, MR_TEST_HTTP_GARBAGE,     MR_TEST_HTTP_OTHER_RANGE,
        MR_TEST_HTTP_GZIP,  MR_TEST_HTTP_RESET_EARLY, MR_TEST_HTTP_NO_CONTENT_RANGE,
        MR_TEST_HTTP_ERROR, MR_TEST_HTTP_RESET,       MR_TEST_HTTP_SHORT,
    };
    /* each stall takes the time of one */
    static const enum mr_test_fault rare[] = {
        MR_TEST_HTTP_BUSY,        MR_TEST_HTTP_FORBIDDEN,   MR_TEST_HTTP_STALL,
        MR_TEST_HTTP_LOOP,        MR_TEST_HTTP_BUSY,        MR_TEST_HTTP_SILENT,
        MR_TEST_HTTP_OTHER_ETAG,  MR_TEST_HTTP_RETRY_AFTER, MR_TEST_HTTP_LATER,
        MR_TEST_HTTP_LOOP,        MR_TEST_HTTP_FORBIDDEN,   MR_TEST_HTTP_BUSY,
        MR_TEST_HTTP_RETRY_AFTER, MR_TEST_HTTP_LATER,       MR_TEST_HTTP_OTHER_ETAG,
        MR_TEST_HTTP_LOOP,        MR_TEST_HTTP_BUSY,        MR_TEST_HTTP_FORBIDDEN,
        MR_TEST_HTTP_OTHER_ETAG,  MR_TEST_HTTP_LATER,       MR_TEST_HTTP_RETRY_AFTER,
    };
    if (i % 100 == 99)
        return rare[i / 100 % (sizeof rare / sizeof *rare)];
    return passing[i % (sizeof passing / sizeof *passing)];
}

static bool is_final(enum mr_test_fault fault)
{
    return fault == MR_TEST_HTTP_FORBIDDEN || fault == MR_TEST_HTTP_LOOP ||
           fault == MR_TEST_HTTP_LATER || fault == MR_TEST_HTTP_OTHER_ETAG;
}

static struct place *find_place(char shard, uint64_t first)
{
    size_t i = (size_t)(first / 512 + (uint64_t)shard * 1031) % MAX_PLACES;
    while (plan.places[i].shard && (plan.places[i].shard != shard || plan.places[i].first != first))
        i = (i + 1) % MAX_PLACES;
    plan.places[i].shard = shard;
    plan.places[i].first = first;
    return &plan.places[i];
}

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    (void)user;
    if (plan.always_error)
        return MR_TEST_HTTP_ERROR;
    if (plan.n_each == 0 || !request->has_range)
        return MR_TEST_HTTP_GOOD;
    struct place *place = find_place(request->path[strlen(request->path) - 5], request->first);
    if (place->n_faults >= plan.n_each)
        return MR_TEST_HTTP_GOOD;
    place->n_faults++;
    enum mr_test_fault fault = pick_fault(plan.n_faults++);
    plan.n_final += is_final(fault);
    return fault;
}

static void write_shards(uint32_t n)
{
    char name[64];
    n_samples = n;
    for (uint32_t s = 0; s < N_SHARDS; s++) {
        struct mr_test_shard shard = {0};
        for (uint32_t i = s * n / N_SHARDS; i < (s + 1) * n / N_SHARDS; i++) {
            struct mr_test_image image = mr_test_jpeg(
                &(struct mr_test_jpeg){.width = 40 + i % 31, .height = 60 - i % 17, .seed = i});
            snprintf(name, sizeof name, "%04" PRIu32 ".jpg", i);
            mr_test_shard_add(&shard, name, image.bytes, image.len);
            snprintf(name, sizeof name, "%04" PRIu32 ".cls", i);
            mr_test_shard_add_text(&shard, name, i % 2 ? "1" : "0");
            mr_test_image_free(&image);
        }
        mr_test_shard_end(&shard);
        snprintf(name, sizeof name, "t-%" PRIu32 ".tar", s);
        mr_test_folder_write(folder, name, shard.bytes, shard.len);
        mr_test_shard_free(&shard);
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&plan, 0, sizeof plan);
    folder = mr_test_folder_create();
    setenv("XDG_CACHE_HOME", folder, 1);
    server = mr_test_http_start(folder, choose, NULL);
    proxy = NULL;
    write_shards(120);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (proxy)
        mr_test_proxy_stop(proxy);
    mr_test_http_stop(server);
    mr_test_folder_remove(folder);
    return 0;
}

static void start_proxy(uint16_t port, uint32_t delay_us, uint32_t reset_one_in)
{
    struct mr_test_proxy_options options = {.port = port,
                                            .upstream = mr_test_http_port(server),
                                            .delay_us = delay_us,
                                            .reset_one_in = reset_one_in};
    proxy = mr_test_proxy_start(&options);
}

static mr_dataset *open_local(void)
{
    char spec[4200];
    snprintf(spec, sizeof spec, "tar:%s/t-{0..%d}.tar", folder, N_SHARDS - 1);
    return mr_test_dataset(spec);
}

static mr_dataset *open_remote(void)
{
    char spec[200];
    snprintf(spec, sizeof spec, "tar:http://127.0.0.1:%u/t-{0..%d}.tar",
             (unsigned)(proxy ? mr_test_proxy_port(proxy) : mr_test_http_port(server)),
             N_SHARDS - 1);
    return mr_test_dataset(spec);
}

static mr_loader_options base_options(void)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.seed = 5;
    o.num_workers = 2;
    o.n_epochs = 1; /* nothing is read for the next one */
    return o;
}

static struct mr_test_epoch run_local(void)
{
    mr_loader_options o = base_options();
    mr_dataset *dataset = open_local();
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return epoch;
}

static void expect_same(struct mr_test_epoch epoch, struct mr_test_epoch wanted)
{
    if (epoch.status != MR_END || epoch.n_failures > 0)
        fail_msg("%s", epoch.first_error.text);
    assert_int_equal(epoch.n_samples, n_samples);
    assert_true(epoch.digest == wanted.digest);
    mr_test_epoch_free(&epoch);
    mr_test_epoch_free(&wanted);
}

static void connections_are_a_limit_of_all_workers(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n *= 4) {
        mr_loader_options o = base_options();
        o.connections = n;
        o.read_ahead = 16;
        mr_dataset *dataset = open_remote();
        uint32_t before = mr_test_http_n_connections(server);
        mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
        assert_int_equal(mr_loader_resolved(loader)->connections, n);
        expect_same(mr_test_epoch_rest(loader), run_local());
        assert_in_range(mr_test_http_n_connections(server) - before, 1, n);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}

static void requests_are_tried_for_the_time_of_the_option(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    uint32_t n_tries, ms;
    o.retry_ms = 300;
    o.read_ahead = 16;
    mr_dataset *dataset = open_remote();
    plan.always_error = true;
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
    assert_int_equal(epoch.n_failures, n_samples / 8);
    const char *words = strstr(epoch.first_error.text, "HTTP 500 Internal Server Error (");
    assert_non_null(words);
    assert_int_equal(sscanf(words, "HTTP 500 Internal Server Error (%" SCNu32 " tries in %" SCNu32,
                            &n_tries, &ms),
                     2);
    assert_in_range(ms, 300, 29999); /* the default is 30,000 */
    assert_true(n_tries >= 2);
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* Read a sample with the reader of a worker, and take so long to make it. */
static void read_sample(struct mr_reader *reader, int64_t index, uint32_t work_ms)
{
    struct mr_part_list list;
    struct mr_read read;
    mr_catalog_parts(reader->catalog, index, 1 << 20, &list);
    mr_reader_submit(reader, 0, index, &list);
    assert_true(mr_reader_reap(reader, true, &read));
    assert_int_equal(read.status, MR_OK);
    usleep(1000 * work_ms);
    mr_reader_recycle(reader, &read);
}

static void as_much_is_read_ahead_as_the_delay_needs(void **state)
{
    (void)state;
    struct mr_reader *reader;
    mr_error error;
    start_proxy(0, 100000, 0);
    mr_dataset *dataset = open_remote();
    struct mr_reader_options options = {
        .depth = 50, .measures_depth = true, .n_connections = 50, .retry_ms = 30000};
    assert_int_equal(mr_reader_create(mr_dataset_catalog(dataset), &options, &reader, &error),
                     MR_OK);
    assert_int_equal(mr_reader_depth(reader), 4);
    read_sample(reader, 0, 0);
    assert_true(reader->delay_ns >= 100000000);
    reader->work_ns = reader->delay_ns / 10; /* ten samples are made while one arrives */
    assert_int_equal(mr_reader_depth(reader), 2 + 2 * 10);
    reader->work_ns = reader->delay_ns / 1000;
    assert_int_equal(mr_reader_depth(reader), 50);
    read_sample(reader, 1, 400); /* both are means */
    assert_true(reader->delay_ns >= 87500000 && reader->work_ns >= 50000000);
    reader->work_ns = 2 * reader->delay_ns;
    assert_int_equal(mr_reader_depth(reader), 2 + 1);
    mr_reader_destroy(reader);
    options.measures_depth = false;
    assert_int_equal(mr_reader_create(mr_dataset_catalog(dataset), &options, &reader, &error),
                     MR_OK);
    assert_int_equal(mr_reader_depth(reader), 50);
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
}

static void what_waits_for_servers_is_network_bound(void **state)
{
    (void)state;
    char verdict[200];
    mr_loader_options o = base_options();
    o.read_ahead = 1;
    start_proxy(0, 30000, 0);
    mr_dataset *dataset = open_remote();
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    expect_same(mr_test_epoch_rest(loader), run_local());
    mr_loader_verdict(loader, verdict, sizeof verdict);
    assert_int_equal(strncmp(verdict, "network-bound: consumer waited ", 31), 0);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* The sockets of a process. */
static uint32_t count_sockets(int64_t pid)
{
    char path[320], target[64];
    uint32_t n = 0;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd", pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%s", pid, entry->d_name);
        ssize_t len = readlink(path, target, sizeof target);
        n += len > 7 && memcmp(target, "socket:", 7) == 0;
    }
    closedir(dir);
    return n;
}

/* A sample whose row differs is named as damaged, and a named one is a row of zeros. */
static void expect_same_or_named(mr_loader *loader, const struct mr_test_epoch *epoch,
                                 const struct mr_test_epoch *wanted)
{
    static bool is_named[MAX_SAMPLES];
    mr_error error;
    uint64_t n = 0;
    memset(is_named, 0, sizeof is_named);
    for (; mr_loader_damaged(loader, n, &error) == MR_OK; n++) {
        assert_non_null(strstr(error.text, ".jpg (index "));
        is_named[error.index] = true;
    }
    for (uint64_t i = 0; i < epoch->n_samples; i++)
        if ((epoch->row_digests[i] == wanted->row_digests[i]) == is_named[epoch->indices[i]])
            fail_msg("sample %" PRId64 " is %s", epoch->indices[i],
                     is_named[epoch->indices[i]] ? "named, but right" : "wrong, but not named");
    print_message("%" PRIu32 " faults, %" PRIu64 " samples are damaged\n", plan.n_faults, n);
    assert_true(n <= plan.n_final);
    assert_true(n >= 1);
}

static void thousands_of_faults_change_no_bit_and_lose_no_descriptor(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    int64_t pids[2];
    write_shards(mr_test_scale(MAX_SAMPLES / (mr_test_is_long() ? 10 : 1)));
    o.on_error = MR_ON_ERROR_ZERO;
    o.retry_ms = 12000;
    mr_dataset *dataset = open_remote();
    struct mr_test_epoch wanted = run_local();
    plan.n_each = 2;
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    assert_int_equal(mr_loader_worker_pids(loader, pids, 2), 2);
    struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
    assert_int_equal(epoch.status, MR_END);
    assert_int_equal(epoch.n_samples, n_samples);
    assert_true(plan.n_faults >= 2 * n_samples - 2 * plan.n_final);
    for (int i = 0; i < 2; i++)
        assert_in_range(count_sockets(pids[i]), 0, 64 / 2 + 4);
    expect_same_or_named(loader, &epoch, &wanted);
    mr_test_epoch_free(&epoch);
    mr_test_epoch_free(&wanted);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* Take a batch, so the workers are in the middle of their work. */
static mr_loader *begin_epoch(mr_dataset *dataset, uint32_t retry_ms)
{
    mr_loader_options o = base_options();
    mr_batch *batch;
    o.n_slots = 3;
    o.retry_ms = retry_ms;
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    return loader;
}

static struct mr_test_epoch rest_of_local(void)
{
    mr_dataset *dataset = open_local();
    mr_loader *loader = begin_epoch(dataset, 0);
    struct mr_test_epoch epoch = mr_test_epoch_rest(loader);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return epoch;
}

static void end_epoch(mr_dataset *dataset, mr_loader *loader)
{
    n_samples -= 8;
    expect_same(mr_test_epoch_rest(loader), rest_of_local());
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void a_server_that_dies_and_returns_is_asked_again(void **state)
{
    (void)state;
    uint16_t port = mr_test_http_port(server);
    mr_dataset *dataset = open_remote();
    mr_loader *loader = begin_epoch(dataset, 0);
    mr_test_http_stop(server);
    usleep(300000);
    server = mr_test_http_start_at(port, folder, choose, NULL);
    end_epoch(dataset, loader);
}

static void a_proxy_that_dies_and_returns_is_used_again(void **state)
{
    (void)state;
    start_proxy(0, 5000, 0);
    uint16_t port = mr_test_proxy_port(proxy);
    mr_dataset *dataset = open_remote();
    mr_loader *loader = begin_epoch(dataset, 0);
    mr_test_proxy_stop(proxy);
    usleep(300000);
    start_proxy(port, 5000, 0);
    end_epoch(dataset, loader);
}

static void resets_by_the_network_change_no_bit(void **state)
{
    (void)state;
    start_proxy(0, 1000, 0);
    uint16_t port = mr_test_proxy_port(proxy);
    mr_dataset *dataset = open_remote();
    mr_loader *loader = begin_epoch(dataset, 0);
    mr_test_proxy_stop(proxy);
    start_proxy(port, 1000, 3);
    end_epoch(dataset, loader);
}

/* Longer than a stall. In a long run that is 20 seconds, with the default of retry_ms. */
static void nothing_passes_for_a_while(void **state)
{
    (void)state;
    bool is_long = mr_test_is_long();
    start_proxy(0, 1000, 0);
    mr_dataset *dataset = open_remote();
    mr_loader *loader = begin_epoch(dataset, is_long ? 0 : 12000);
    mr_test_proxy_silence(proxy, true);
    uint64_t before = mr_test_proxy_n_bytes(proxy);
    usleep(is_long ? 20000000 : 5000000); /* a stall is 10 or 4 seconds */
    assert_int_equal(mr_test_proxy_n_bytes(proxy), before);
    mr_test_proxy_silence(proxy, false);
    end_epoch(dataset, loader);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(connections_are_a_limit_of_all_workers),
        T(requests_are_tried_for_the_time_of_the_option),
        T(as_much_is_read_ahead_as_the_delay_needs),
        T(what_waits_for_servers_is_network_bound),
        T(thousands_of_faults_change_no_bit_and_lose_no_descriptor),
        T(a_server_that_dies_and_returns_is_asked_again),
        T(a_proxy_that_dies_and_returns_is_used_again),
        T(resets_by_the_network_change_no_bit),
        T(nothing_passes_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
