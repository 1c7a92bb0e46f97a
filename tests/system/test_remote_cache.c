/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of samples at URLs: the bits are those of the local files, and each sample is requested
 * once, which is counted at the server. The oracle is loaded from the local files without a cache.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>

#include <millrace/cache.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"
#include "tests/support/images.h"
#include "tests/support/packs.h"
#include "tests/support/processes.h"
#include "tests/support/shards.h"

/*
 * ThreadSanitizer mistakes descriptors that a starting worker opens for this process's, so workers
 * are threads.
 */
#if defined(__SANITIZE_THREAD__)
#define MR_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MR_TEST_TSAN 1
#endif
#endif

/* Of each six images, one is a PNG and one a progressive JPEG. */
enum { N_SHARDS = 3, N_EACH = 18, N = N_SHARDS * N_EACH, N_EPOCHS = 3, MAX_SEEN = 1 << 14 };

static char *folder;
static char cache[4200];
static struct mr_test_http *server;
static _Atomic(enum mr_test_fault) fault;
static struct mr_test_http_request seen[MAX_SEEN]; /* n_seen of them, since it was set to 0 */
static char paths[MAX_SEEN][64];
static _Atomic uint32_t n_seen;
static bool verifies, stock; /* options of the loaders */

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    (void)user;
    uint32_t i = n_seen;
    assert_true(i < MAX_SEEN);
    seen[i] = *request;
    snprintf(paths[i], sizeof *paths, "%s", request->path);
    n_seen = i + 1;
    return fault;
}

/* No range was requested twice. Checks of versions, of one byte, do not count. */
static void expect_each_once(uint32_t n)
{
    uint32_t n_whole = 0;
    for (uint32_t i = 0; i < n_seen; i++) {
        if (seen[i].has_range && seen[i].first == seen[i].last)
            continue;
        n_whole++;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(paths[i], paths[k]) == 0 && seen[i].has_range == seen[k].has_range &&
                (!seen[i].has_range ||
                 (seen[i].first == seen[k].first && seen[i].last == seen[k].last)))
                fail_msg("%s: bytes %" PRIu64 " to %" PRIu64 " were requested twice", paths[i],
                         seen[i].first, seen[i].last);
    }
    assert_int_equal(n_whole, n);
}

static struct mr_test_image make_image(int i, uint32_t seed)
{
    if (i % 6 == 4)
        return mr_test_png(&(struct mr_test_png){
            .width = 40 + (uint32_t)i, .height = 60, .colour_type = 2, .seed = seed + (uint32_t)i});
    return mr_test_jpeg(&(struct mr_test_jpeg){.width = 60 + (uint32_t)i,
                                               .height = 200 - (uint32_t)i,
                                               .seed = seed + (uint32_t)i,
                                               .progressive = i % 6 == 5});
}

/* Each sample has a further member; every fifth lacks it. */
static void write_shard(int s, uint32_t seed)
{
    struct mr_test_shard shard = {0};
    char name[64], text[64];
    for (int i = s * N_EACH; i < (s + 1) * N_EACH; i++) {
        struct mr_test_image image = make_image(i, seed);
        snprintf(name, sizeof name, "%03d.%s", i, i % 6 == 4 ? "png" : "jpg");
        mr_test_shard_add(&shard, name, image.bytes, image.len);
        mr_test_image_free(&image);
        snprintf(name, sizeof name, "%03d.cls", i);
        snprintf(text, sizeof text, "%d", i * 3);
        mr_test_shard_add_text(&shard, name, text);
        snprintf(name, sizeof name, "%03d.txt", i);
        snprintf(text, sizeof text, "caption %d of %u", i, seed);
        if (i % 5)
            mr_test_shard_add_text(&shard, name, text);
    }
    mr_test_shard_end(&shard);
    snprintf(name, sizeof name, "t-%02d.tar", s);
    mr_test_folder_write(folder, name, shard.bytes, shard.len);
    mr_test_shard_free(&shard);
}

/* query: of each URL. */
static void write_list(const char *name, const char *query)
{
    static char text[N * 128];
    size_t len = 0;
    bool is_remote = query[0] == '?';
    for (int i = 0; i < N; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%si-%03d%s\t%d\n",
                                is_remote ? mr_test_http_url(server) : "", is_remote ? "/" : "", i,
                                query, i * 7);
    mr_test_folder_write(folder, name, text, len);
}

static void write_image(int i, uint32_t seed)
{
    char name[64];
    struct mr_test_image image = make_image(i, seed);
    snprintf(name, sizeof name, "i-%03d", i);
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int s = 0; s < N_SHARDS; s++)
        write_shard(s, 0);
    for (int i = 0; i < N; i++)
        write_image(i, 50);
    fault = MR_TEST_HTTP_GOOD;
    verifies = stock = false;
    n_seen = 0;
    server = mr_test_http_start(folder, choose, NULL);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (server)
        mr_test_http_stop(server);
    server = NULL;
    mr_test_folder_remove(folder);
    return 0;
}

static void empty_cache(void)
{
    static int n;
    snprintf(cache, sizeof cache, "%s/cache-%d", folder, n++);
}

/* kind: format with the place of the root, which is a folder or a URL. */
static mr_dataset *open_at(const char *kind, const char *root)
{
    char spec[4400];
    snprintf(spec, sizeof spec, kind, root);
    return mr_test_dataset(spec);
}

static const char tar_spec[] = "tar:%s/t-{00..02}.tar?image=jpg,png&keep=txt:100";

static mr_loader_options make_options(uint32_t n_workers, mr_cache_form form)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.seed = 5;
    o.num_workers = n_workers;
    o.n_epochs = N_EPOCHS;
    o.cache = cache;
    o.cache_form = form;
    o.read_ahead = 8;
#ifdef MR_TEST_TSAN
    o.start = MR_START_THREAD;
#endif
    o.verify_packs = verifies;
    o.jpeg_decoder = stock ? MR_JPEG_STOCK : MR_JPEG_AUTO;
    return o;
}

static void find_oracle(mr_dataset *local, uint64_t digests[N_EPOCHS])
{
    mr_loader_options o = make_options(MR_NO_WORKERS, MR_CACHE_FORM_AUTO);
    o.cache = NULL;
    mr_loader *loader = mr_test_loader(local, "train:48", &o);
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        if (epoch.status != MR_END || epoch.n_failures > 0)
            fail_msg("%s", epoch.first_error.text);
        digests[e] = epoch.digest;
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
}

static void expect_epoch(mr_loader *loader, uint64_t number, const uint64_t digests[N_EPOCHS])
{
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, number);
    if (epoch.status != MR_END || epoch.n_failures > 0)
        fail_msg("%s", epoch.n_failures ? epoch.first_error.text : mr_loader_error(loader)->text);
    assert_int_equal(epoch.n_valid, N);
    assert_true(epoch.digest == digests[number]);
    mr_test_epoch_free(&epoch);
}

/* Run epochs in a new loader. Returns the number of samples from the cache. */
static uint64_t expect_epochs(mr_dataset *remote, const mr_loader_options *o, uint64_t first,
                              uint64_t n, const uint64_t digests[N_EPOCHS])
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_options own = *o;
    own.epoch = first;
    own.n_epochs = n;
    mr_loader *loader = mr_test_loader(remote, "train:48", &own);
    for (uint64_t e = first; e < first + n; e++)
        expect_epoch(loader, e, digests);
    mr_loader_get_stats(loader, &stats);
    mr_loader_destroy(loader);
    return stats.n_cached;
}

static mr_cache_report count_cache(mr_dataset *dataset)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    assert_ok(mr_cache_stat(cache, dataset, true, &report, &error), &error);
    assert_int_equal(report.n_damaged, 0);
    assert_int_equal(report.n_torn, 0);
    return report;
}

/*
 * An epoch from an empty cache, then others in a new loader from the full one. n: requests for
 * samples; n_asked: requests of the second loader, for versions. A loader that goes on may request
 * a sample twice that is in flight both for the end of an epoch and for the beginning of the next.
 */
static void expect_requests(mr_dataset *remote, mr_dataset *local, mr_cache_form form, uint32_t n,
                            uint32_t n_asked)
{
    static const uint32_t workers[] = {2, MR_NO_WORKERS};
    uint64_t digests[N_EPOCHS];
    find_oracle(local, digests);
    for (int w = 0; w < 2; w++) {
        mr_loader_options o = make_options(workers[w], form);
        empty_cache();
        n_seen = 0;
        assert_int_equal(expect_epochs(remote, &o, 0, 1, digests), 0);
        expect_each_once(n);
        mr_cache_report report = count_cache(remote);
        assert_int_equal(report.n_filled, N);
        assert_int_equal(report.n_entries, N);
        n_seen = 0;
        assert_int_equal(expect_epochs(remote, &o, 0, N_EPOCHS, digests), N_EPOCHS * N);
        expect_each_once(0);
        assert_in_range(n_seen, n_asked, 2 * n_asked); /* some are in flight for two epochs */
        empty_cache();
        expect_epochs(remote, &o, 0, N_EPOCHS, digests);
    }
}

static void members_of_shards_are_requested_once(void **state)
{
    (void)state;
    enum { N_MEMBERS = N - (N + 4) / 5 };
    mr_dataset *local = open_at(tar_spec, folder),
               *remote = open_at(tar_spec, mr_test_http_url(server));
    expect_requests(remote, local, MR_CACHE_FORM_DCT, N + N_MEMBERS, 0);
    expect_requests(remote, local, MR_CACHE_FORM_INDEX, N + N_MEMBERS, 0);
    expect_requests(remote, local, MR_CACHE_FORM_AUTO, N + N_MEMBERS, 0);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

static void files_of_lists_are_requested_once(void **state)
{
    (void)state;
    write_list("local", "");
    write_list("urls", "?sig=secret");
    mr_dataset *local = open_at("list:%s/local", folder), *remote = open_at("list:%s/urls", folder);
    expect_requests(remote, local, MR_CACHE_FORM_DCT, N, N);
    expect_requests(remote, local, MR_CACHE_FORM_INDEX, N, N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* Further members of a list at URLs, each with a version of its own. Every fifth line has none. */
static void write_members(const char *name, const char *root, const char *member_root)
{
    static char text[N * 400];
    char member[64];
    size_t len = 0;
    for (int i = 0; i < N; i++) {
        bool has = i % 5 > 0;
        snprintf(member, sizeof member, "m-%03d", i);
        mr_test_folder_write(folder, member, member, strlen(member));
        len += (size_t)snprintf(text + len, sizeof text - len, "%si-%03d\t%d\t%s%s\n", root, i, i,
                                has ? member_root : "", has ? member : "");
    }
    mr_test_folder_write(folder, name, text, len);
}

static void further_members_of_lists_are_requested_once(void **state)
{
    (void)state;
    enum { N_MEMBERS = N - (N + 4) / 5 };
    char root[100];
    uint64_t before[N_EPOCHS], after[N_EPOCHS];
    mr_loader_options o = make_options(2, MR_CACHE_FORM_INDEX);
    snprintf(root, sizeof root, "%s/", mr_test_http_url(server));
    write_members("local", "", "");
    write_members("urls", root, root);
    write_members("mixed", root, "");
    mr_dataset *local = open_at("list:%s/local?extra=note:20", folder),
               *remote = open_at("list:%s/urls?extra=note:20", folder),
               *mixed = open_at("list:%s/mixed?extra=note:20", folder);
    expect_requests(remote, local, MR_CACHE_FORM_INDEX, N + N_MEMBERS, N + N_MEMBERS);
    find_oracle(local, before);
    empty_cache();
    expect_epochs(remote, &o, 0, 1, before);
    mr_test_folder_write(folder, "m-007", "other", 5);
    find_oracle(local, after);
    assert_true(after[0] != before[0]);
    assert_int_equal(expect_epochs(remote, &o, 0, 1, after), N - 1);
    assert_int_equal(expect_epochs(remote, &o, 0, 1, after), N);
    empty_cache(); /* only samples without a member in a local file are kept */
    expect_epochs(mixed, &o, 0, 1, after);
    assert_int_equal(expect_epochs(mixed, &o, 0, 1, after), N - N_MEMBERS);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
    mr_dataset_destroy(mixed);
}

static void samples_of_packs_are_requested_once(void **state)
{
    (void)state;
    static const mr_pack_encoding encodings[] = {MR_PACK_DCT, MR_PACK_JPEG, MR_PACK_RAW};
    enum { N_MEMBERS = N - (N + 4) / 5, N_PLAIN = N / 6 * 2, N_MARKED = N - N_PLAIN };
    char spec[4400], dir[4300], kind[20];
    for (int i = 0; i < 3; i++) {
        snprintf(spec, sizeof spec, tar_spec, folder);
        snprintf(dir, sizeof dir, "%s/p%d", folder, i);
        mr_test_packs_make(spec, dir, encodings[i]);
        snprintf(kind, sizeof kind, "pack:%%s/p%d", i);
        mr_dataset *local = open_at(kind, folder),
                   *remote = open_at(kind, mr_test_http_url(server));
        for (int k = 0; k < 3; k++) {
            verifies = k == 1;
            stock = k == 2; /* it does not read marks */
            expect_requests(remote, local, MR_CACHE_FORM_AUTO,
                            N + N_MEMBERS + (encodings[i] == MR_PACK_JPEG && !stock ? N_MARKED : 0),
                            0);
        }
        mr_dataset_destroy(local);
        mr_dataset_destroy(remote);
    }
}

/* Flip a byte in each segment of the cache. Returns the number of segments. */
static int damage_cache(void)
{
    char path[9000];
    int n = 0;
    DIR *dir = opendir(cache);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!strstr(entry->d_name, ".data"))
            continue;
        snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
        FILE *file = fopen(path, "r+");
        assert_non_null(file);
        fseek(file, 100, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, 100, SEEK_SET);
        fputc(byte ^ 16, file);
        fclose(file);
        n++;
    }
    closedir(dir);
    return n;
}

static void damage_is_requested_again(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    uint64_t digests[N_EPOCHS];
    mr_dataset *local = open_at(tar_spec, folder),
               *remote = open_at(tar_spec, mr_test_http_url(server));
    find_oracle(local, digests);
    for (int i = 0; i < 2; i++) {
        mr_loader_options o = make_options(2, forms[i]);
        empty_cache();
        expect_epochs(remote, &o, 0, 1, digests);
        int n = damage_cache();
        assert_in_range(n, 1, 2);
        assert_int_equal(expect_epochs(remote, &o, 0, 1, digests), N - n);
        assert_int_equal(expect_epochs(remote, &o, 0, 1, digests), N);
    }
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* Ranks of a node share the cache: what one has requested, the others find. */
static void ranks_request_each_sample_once(void **state)
{
    (void)state;
    enum { N_RANKS = 2, N_MEMBERS = N - (N + 4) / 5 };
    mr_dataset *remote = open_at(tar_spec, mr_test_http_url(server));
    mr_loader_options o = make_options(2, MR_CACHE_FORM_INDEX);
    n_seen = 0;
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        mr_loader *loaders[N_RANKS];
        o.epoch = e;
        o.n_epochs = 1;
        o.world_size = N_RANKS;
        for (uint32_t r = 0; r < N_RANKS; r++) {
            o.rank = r;
            loaders[r] = mr_test_loader(remote, "train:48", &o);
        }
        for (uint32_t r = 0; r < N_RANKS; r++) {
            struct mr_test_epoch epoch = mr_test_epoch_run(loaders[r], e);
            assert_int_equal(epoch.status, MR_END);
            assert_int_equal(epoch.n_valid, N / N_RANKS);
            mr_test_epoch_free(&epoch);
        }
        for (uint32_t r = 0; r < N_RANKS; r++)
            mr_loader_destroy(loaders[r]);
        expect_each_once(N + N_MEMBERS);
    }
    mr_dataset_destroy(remote);
}

/* Run two loaders that were created together, one after the other. Returns the entries made. */
static uint64_t count_entries_of_two(mr_dataset *remote, uint32_t pause_ms)
{
    mr_loader *loaders[2];
    mr_loader_options o = make_options(1, MR_CACHE_FORM_DCT);
    empty_cache();
    for (int i = 0; i < 2; i++)
        loaders[i] = mr_test_loader(remote, "train:48", &o);
    for (int i = 0; i < 2; i++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loaders[i], 0);
        assert_int_equal(epoch.status, MR_END);
        mr_test_epoch_free(&epoch);
        mr_test_sleep_ms(pause_ms);
    }
    for (int i = 0; i < 2; i++)
        mr_loader_destroy(loaders[i]);
    return count_cache(remote).n_entries;
}

/* After about a second. What it has read ahead by then is there twice. */
static void a_running_rank_finds_what_another_adds(void **state)
{
    (void)state;
    mr_dataset *remote = open_at(tar_spec, mr_test_http_url(server));
    uint32_t pause_ms = 1200;
    while (count_entries_of_two(remote, pause_ms) >= 2 * N && pause_ms < 60000)
        pause_ms *= 2;
    assert_true(pause_ms < 60000);
    mr_dataset_destroy(remote);
}

/* The server is stopped: what is in the cache needs it no more. */
static void a_run_goes_on_without_its_server(void **state)
{
    (void)state;
    uint64_t digests[N_EPOCHS];
    mr_dataset *local = open_at(tar_spec, folder),
               *remote = open_at(tar_spec, mr_test_http_url(server));
    mr_loader_options o = make_options(2, MR_CACHE_FORM_AUTO);
    find_oracle(local, digests);
    expect_epochs(remote, &o, 0, 1, digests);
    mr_test_http_stop(server);
    server = NULL;
    assert_int_equal(expect_epochs(remote, &o, 0, N_EPOCHS, digests), N_EPOCHS * N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* First come stays: at its limit the cache no longer grows, and is as useful in each epoch. */
static void a_cache_at_its_limit_stops_growing(void **state)
{
    (void)state;
    uint64_t digests[N_EPOCHS];
    mr_dataset *local = open_at(tar_spec, folder),
               *remote = open_at(tar_spec, mr_test_http_url(server));
    mr_loader_options o = make_options(2, MR_CACHE_FORM_INDEX);
    find_oracle(local, digests);
    o.cache_bytes = 200000;
    assert_int_equal(expect_epochs(remote, &o, 0, 1, digests), 0);
    uint64_t n = count_cache(remote).n_filled;
    assert_in_range(n, 5, N - 5);
    for (uint64_t e = 0; e < N_EPOCHS; e++)
        assert_int_equal(expect_epochs(remote, &o, e, 1, digests), n);
    assert_int_equal(count_cache(remote).n_filled, n);
    assert_in_range(count_cache(remote).bytes, 100000, 220000);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

#ifndef MR_TEST_TSAN
/* Also while it is written. */
static void killed_workers_change_no_bit(void **state)
{
    (void)state;
    uint64_t digests[N_EPOCHS];
    mr_dataset *local = open_at(tar_spec, folder),
               *remote = open_at(tar_spec, mr_test_http_url(server));
    mr_loader_options o = make_options(2, MR_CACHE_FORM_DCT);
    find_oracle(local, digests);
    for (int round = 0; round < 8; round++) {
        int64_t pids[2];
        empty_cache();
        mr_loader *loader = mr_test_loader(remote, "train:48", &o);
        mr_test_sleep_ms(5 * (uint32_t)round);
        uint32_t n = mr_loader_worker_pids(loader, pids, 2);
        for (uint32_t i = 0; i < n; i++)
            kill((pid_t)pids[i], SIGKILL);
        for (uint64_t e = 0; e < N_EPOCHS; e++)
            expect_epoch(loader, e, digests);
        mr_loader_destroy(loader);
        assert_true(count_cache(remote).n_filled >= N - 2); /* claims of the dead stay */
        expect_epochs(remote, &o, 0, 1, digests);
        assert_int_equal(count_cache(remote).n_filled, N);
    }
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}
#endif

/* Opened again, and with the version in each answer. */
static void a_replaced_object_is_not_taken_from_the_cache(void **state)
{
    (void)state;
    uint64_t before[N_EPOCHS], after[N_EPOCHS];
    mr_loader_options o = make_options(2, MR_CACHE_FORM_DCT);
    mr_dataset *local = open_at(tar_spec, folder),
               *remote = open_at(tar_spec, mr_test_http_url(server));
    find_oracle(local, before);
    expect_epochs(remote, &o, 0, 1, before);
    mr_dataset_destroy(remote);
    mr_dataset_destroy(local);
    write_shard(1, 1000);
    local = open_at(tar_spec, folder);
    remote = open_at(tar_spec, mr_test_http_url(server));
    find_oracle(local, after);
    assert_true(after[0] != before[0]);
    assert_int_equal(expect_epochs(remote, &o, 0, 1, after), N - N_EACH);
    assert_int_equal(expect_epochs(remote, &o, 0, N_EPOCHS, after), N_EPOCHS * N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);

    write_list("local", "");
    write_list("urls", "?sig=secret");
    local = open_at("list:%s/local", folder);
    remote = open_at("list:%s/urls", folder);
    find_oracle(local, before);
    expect_epochs(remote, &o, 0, 1, before);
    for (int i = 3; i < 10; i++)
        write_image(i, 2000);
    find_oracle(local, after);
    assert_int_equal(expect_epochs(remote, &o, 0, 1, after), N - 7);
    assert_int_equal(expect_epochs(remote, &o, 0, 1, after), N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* A signature that was renewed finds the entries; nothing of it is in the cache. */
static void another_query_finds_the_samples(void **state)
{
    (void)state;
    char command[5000];
    uint64_t digests[N_EPOCHS];
    mr_loader_options o = make_options(2, MR_CACHE_FORM_INDEX);
    write_list("local", "");
    write_list("urls", "?sig=secret");
    write_list("renewed", "?sig=other&expires=7");
    mr_dataset *local = open_at("list:%s/local", folder), *remote = open_at("list:%s/urls", folder);
    find_oracle(local, digests);
    expect_epochs(remote, &o, 0, 1, digests);
    mr_dataset_destroy(remote);
    remote = open_at("list:%s/renewed", folder);
    n_seen = 0;
    assert_int_equal(expect_epochs(remote, &o, 0, 1, digests), N);
    expect_each_once(0);
    snprintf(command, sizeof command, "grep -rq secret '%s'", cache);
    assert_true(system(command) != 0);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

static void bits_are_the_same_while_the_server_misbehaves(void **state)
{
    (void)state;
    static const enum mr_test_fault faults[] = {MR_TEST_HTTP_NO_ETAG, MR_TEST_HTTP_WEAK_ETAG,
                                                MR_TEST_HTTP_CHUNKED, MR_TEST_HTTP_REDIRECT};
    uint64_t digests[N_EPOCHS];
    mr_loader_options o = make_options(2, MR_CACHE_FORM_DCT);
    mr_dataset *local = open_at(tar_spec, folder);
    find_oracle(local, digests);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        empty_cache();
        fault = faults[i];
        mr_dataset *remote = open_at(tar_spec, mr_test_http_url(server));
        expect_epochs(remote, &o, 0, 1, digests);
        assert_int_equal(expect_epochs(remote, &o, 0, N_EPOCHS, digests), N_EPOCHS * N);
        mr_dataset_destroy(remote);
    }
    mr_dataset_destroy(local);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(members_of_shards_are_requested_once),
        T(files_of_lists_are_requested_once),
        T(further_members_of_lists_are_requested_once),
        T(samples_of_packs_are_requested_once),
        T(damage_is_requested_again),
        T(ranks_request_each_sample_once),
        T(a_running_rank_finds_what_another_adds),
        T(a_run_goes_on_without_its_server),
        T(a_cache_at_its_limit_stops_growing),
#ifndef MR_TEST_TSAN
        T(killed_workers_change_no_bit),
#endif
        T(a_replaced_object_is_not_taken_from_the_cache),
        T(another_query_finds_the_samples),
        T(bits_are_the_same_while_the_server_misbehaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
