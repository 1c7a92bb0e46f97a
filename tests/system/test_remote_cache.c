/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of samples at URLs: the bits are those of the local files, and each sample is requested
 * once, which is counted at the server. The oracle is loaded from the local files without a cache.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/folder.h"
#include "tests/support/packs.h"
#include "tests/system/remote_rig.h"

/* No range was requested twice. Checks of versions, of one byte, do not count. */
static void expect_each_once(uint32_t n)
{
    uint32_t n_whole = 0;
    for (uint32_t i = 0; i < remote_rig.n_seen; i++) {
        if (remote_rig.seen[i].has_range && remote_rig.seen[i].first == remote_rig.seen[i].last)
            continue;
        n_whole++;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(remote_rig.paths[i], remote_rig.paths[k]) == 0 &&
                remote_rig.seen[i].has_range == remote_rig.seen[k].has_range &&
                (!remote_rig.seen[i].has_range ||
                 (remote_rig.seen[i].first == remote_rig.seen[k].first &&
                  remote_rig.seen[i].last == remote_rig.seen[k].last)))
                fail_msg("%s: bytes %" PRIu64 " to %" PRIu64 " were requested twice",
                         remote_rig.paths[i], remote_rig.seen[i].first, remote_rig.seen[i].last);
    }
    assert_int_equal(n_whole, n);
}

/* query: of each URL. */
static void write_list(const char *name, const char *query)
{
    static char text[REMOTE_N * 128];
    size_t len = 0;
    bool is_remote = query[0] == '?';
    for (int i = 0; i < REMOTE_N; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%si-%03d%s\t%d\n",
                                is_remote ? mr_test_http_url(remote_rig.server) : "",
                                is_remote ? "/" : "", i, query, i * 7);
    mr_test_folder_write(remote_rig.folder, name, text, len);
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
    uint64_t digests[REMOTE_EPOCHS];
    remote_rig_oracle(local, digests);
    for (int w = 0; w < 2; w++) {
        mr_loader_options o = remote_rig_options(workers[w], form);
        remote_rig_empty_cache();
        remote_rig.n_seen = 0;
        assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, digests), 0);
        expect_each_once(n);
        mr_cache_report report = remote_rig_count(remote);
        assert_int_equal(report.n_filled, REMOTE_N);
        assert_int_equal(report.n_entries, REMOTE_N);
        remote_rig.n_seen = 0;
        assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, REMOTE_EPOCHS, digests),
                         REMOTE_EPOCHS * REMOTE_N);
        expect_each_once(0);
        assert_in_range(remote_rig.n_seen, n_asked,
                        2 * n_asked); /* some are in flight for two epochs */
        remote_rig_empty_cache();
        remote_rig_expect_epochs(remote, &o, 0, REMOTE_EPOCHS, digests);
    }
}

static void members_of_shards_are_requested_once(void **state)
{
    (void)state;
    enum { N_MEMBERS = REMOTE_N - (REMOTE_N + 4) / 5 };
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder),
               *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    expect_requests(remote, local, MR_CACHE_FORM_DCT, REMOTE_N + N_MEMBERS, 0);
    expect_requests(remote, local, MR_CACHE_FORM_INDEX, REMOTE_N + N_MEMBERS, 0);
    expect_requests(remote, local, MR_CACHE_FORM_AUTO, REMOTE_N + N_MEMBERS, 0);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

static void files_of_lists_are_requested_once(void **state)
{
    (void)state;
    write_list("local", "");
    write_list("urls", "?sig=secret");
    mr_dataset *local = remote_rig_open("list:%s/local", remote_rig.folder),
               *remote = remote_rig_open("list:%s/urls", remote_rig.folder);
    expect_requests(remote, local, MR_CACHE_FORM_DCT, REMOTE_N, REMOTE_N);
    expect_requests(remote, local, MR_CACHE_FORM_INDEX, REMOTE_N, REMOTE_N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* Further members of a list at URLs, each with a version of its own. Every fifth line has none. */
static void write_members(const char *name, const char *root, const char *member_root)
{
    static char text[REMOTE_N * 400];
    char member[64];
    size_t len = 0;
    for (int i = 0; i < REMOTE_N; i++) {
        bool has = i % 5 > 0;
        snprintf(member, sizeof member, "m-%03d", i);
        mr_test_folder_write(remote_rig.folder, member, member, strlen(member));
        len += (size_t)snprintf(text + len, sizeof text - len, "%si-%03d\t%d\t%s%s\n", root, i, i,
                                has ? member_root : "", has ? member : "");
    }
    mr_test_folder_write(remote_rig.folder, name, text, len);
}

static void further_members_of_lists_are_requested_once(void **state)
{
    (void)state;
    enum { N_MEMBERS = REMOTE_N - (REMOTE_N + 4) / 5 };
    char root[100];
    uint64_t before[REMOTE_EPOCHS], after[REMOTE_EPOCHS];
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_INDEX);
    snprintf(root, sizeof root, "%s/", mr_test_http_url(remote_rig.server));
    write_members("local", "", "");
    write_members("urls", root, root);
    write_members("mixed", root, "");
    mr_dataset *local = remote_rig_open("list:%s/local?extra=note:20", remote_rig.folder),
               *remote = remote_rig_open("list:%s/urls?extra=note:20", remote_rig.folder),
               *mixed = remote_rig_open("list:%s/mixed?extra=note:20", remote_rig.folder);
    expect_requests(remote, local, MR_CACHE_FORM_INDEX, REMOTE_N + N_MEMBERS, REMOTE_N + N_MEMBERS);
    remote_rig_oracle(local, before);
    remote_rig_empty_cache();
    remote_rig_expect_epochs(remote, &o, 0, 1, before);
    mr_test_folder_write(remote_rig.folder, "m-007", "other", 5);
    remote_rig_oracle(local, after);
    assert_true(after[0] != before[0]);
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, after), REMOTE_N - 1);
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, after), REMOTE_N);
    remote_rig_empty_cache(); /* only samples without a member in a local file are kept */
    remote_rig_expect_epochs(mixed, &o, 0, 1, after);
    assert_int_equal(remote_rig_expect_epochs(mixed, &o, 0, 1, after), REMOTE_N - N_MEMBERS);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
    mr_dataset_destroy(mixed);
}

static void samples_of_packs_are_requested_once(void **state)
{
    (void)state;
    static const mr_pack_encoding encodings[] = {MR_PACK_DCT, MR_PACK_JPEG, MR_PACK_RAW};
    enum {
        N_MEMBERS = REMOTE_N - (REMOTE_N + 4) / 5,
        N_PLAIN = REMOTE_N / 6 * 2,
        N_MARKED = REMOTE_N - N_PLAIN
    };
    char spec[4400], dir[4300], kind[20];
    for (int i = 0; i < 3; i++) {
        snprintf(spec, sizeof spec, REMOTE_TAR, remote_rig.folder);
        snprintf(dir, sizeof dir, "%s/p%d", remote_rig.folder, i);
        mr_test_packs_make(spec, dir, encodings[i]);
        snprintf(kind, sizeof kind, "pack:%%s/p%d", i);
        mr_dataset *local = remote_rig_open(kind, remote_rig.folder),
                   *remote = remote_rig_open(kind, mr_test_http_url(remote_rig.server));
        for (int k = 0; k < 3; k++) {
            remote_rig.verifies = k == 1;
            remote_rig.stock = k == 2; /* it does not read marks */
            expect_requests(remote, local, MR_CACHE_FORM_AUTO,
                            REMOTE_N + N_MEMBERS +
                                (encodings[i] == MR_PACK_JPEG && !remote_rig.stock ? N_MARKED : 0),
                            0);
        }
        mr_dataset_destroy(local);
        mr_dataset_destroy(remote);
    }
}

/* Ranks of a node share the cache: what one has requested, the others find. */
static void ranks_request_each_sample_once(void **state)
{
    (void)state;
    enum { N_RANKS = 2, N_MEMBERS = REMOTE_N - (REMOTE_N + 4) / 5 };
    mr_dataset *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_INDEX);
    remote_rig.n_seen = 0;
    for (uint64_t e = 0; e < REMOTE_EPOCHS; e++) {
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
            assert_int_equal(epoch.n_valid, REMOTE_N / N_RANKS);
            mr_test_epoch_free(&epoch);
        }
        for (uint32_t r = 0; r < N_RANKS; r++)
            mr_loader_destroy(loaders[r]);
        expect_each_once(REMOTE_N + N_MEMBERS);
    }
    mr_dataset_destroy(remote);
}

/* Run two loaders that were created together, one after the other. Returns the entries made. */
static uint64_t count_entries_of_two(mr_dataset *remote, uint32_t pause_ms)
{
    mr_loader *loaders[2];
    mr_loader_options o = remote_rig_options(1, MR_CACHE_FORM_DCT);
    remote_rig_empty_cache();
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
    return remote_rig_count(remote).n_entries;
}

/* After about a second. What it has read ahead by then is there twice. */
static void a_running_rank_finds_what_another_adds(void **state)
{
    (void)state;
    mr_dataset *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    uint32_t pause_ms = 1200;
    while (count_entries_of_two(remote, pause_ms) >= 2 * REMOTE_N && pause_ms < 60000)
        pause_ms *= 2;
    assert_true(pause_ms < 60000);
    mr_dataset_destroy(remote);
}

/* The server is stopped: what is in the cache needs it no more. */
static void a_run_goes_on_without_its_server(void **state)
{
    (void)state;
    uint64_t digests[REMOTE_EPOCHS];
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder),
               *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_AUTO);
    remote_rig_oracle(local, digests);
    remote_rig_expect_epochs(remote, &o, 0, 1, digests);
    mr_test_http_stop(remote_rig.server);
    remote_rig.server = NULL;
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, REMOTE_EPOCHS, digests),
                     REMOTE_EPOCHS * REMOTE_N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* Opened again, and with the version in each answer. */
static void a_replaced_object_is_not_taken_from_the_cache(void **state)
{
    (void)state;
    uint64_t before[REMOTE_EPOCHS], after[REMOTE_EPOCHS];
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_DCT);
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder),
               *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    remote_rig_oracle(local, before);
    remote_rig_expect_epochs(remote, &o, 0, 1, before);
    mr_dataset_destroy(remote);
    mr_dataset_destroy(local);
    remote_rig_write_shard(1, 1000);
    local = remote_rig_open(REMOTE_TAR, remote_rig.folder);
    remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    remote_rig_oracle(local, after);
    assert_true(after[0] != before[0]);
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, after), REMOTE_N - REMOTE_EACH);
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, REMOTE_EPOCHS, after),
                     REMOTE_EPOCHS * REMOTE_N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);

    write_list("local", "");
    write_list("urls", "?sig=secret");
    local = remote_rig_open("list:%s/local", remote_rig.folder);
    remote = remote_rig_open("list:%s/urls", remote_rig.folder);
    remote_rig_oracle(local, before);
    remote_rig_expect_epochs(remote, &o, 0, 1, before);
    for (int i = 3; i < 10; i++)
        remote_rig_write_image(i, 2000);
    remote_rig_oracle(local, after);
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, after), REMOTE_N - 7);
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, after), REMOTE_N);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* A signature that was renewed finds the entries; nothing of it is in the cache. */
static void another_query_finds_the_samples(void **state)
{
    (void)state;
    char command[5000];
    uint64_t digests[REMOTE_EPOCHS];
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_INDEX);
    write_list("local", "");
    write_list("urls", "?sig=secret");
    write_list("renewed", "?sig=other&expires=7");
    mr_dataset *local = remote_rig_open("list:%s/local", remote_rig.folder),
               *remote = remote_rig_open("list:%s/urls", remote_rig.folder);
    remote_rig_oracle(local, digests);
    remote_rig_expect_epochs(remote, &o, 0, 1, digests);
    mr_dataset_destroy(remote);
    remote = remote_rig_open("list:%s/renewed", remote_rig.folder);
    remote_rig.n_seen = 0;
    assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, digests), REMOTE_N);
    expect_each_once(0);
    snprintf(command, sizeof command, "grep -rq secret '%s'", remote_rig.cache);
    assert_true(system(command) != 0);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

static void bits_are_the_same_while_the_server_misbehaves(void **state)
{
    (void)state;
    static const enum mr_test_fault faults[] = {MR_TEST_HTTP_NO_ETAG, MR_TEST_HTTP_WEAK_ETAG,
                                                MR_TEST_HTTP_CHUNKED, MR_TEST_HTTP_REDIRECT};
    uint64_t digests[REMOTE_EPOCHS];
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_DCT);
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder);
    remote_rig_oracle(local, digests);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        remote_rig_empty_cache();
        remote_rig.fault = faults[i];
        mr_dataset *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
        remote_rig_expect_epochs(remote, &o, 0, 1, digests);
        assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, REMOTE_EPOCHS, digests),
                         REMOTE_EPOCHS * REMOTE_N);
        mr_dataset_destroy(remote);
    }
    mr_dataset_destroy(local);
}

#define T(name) cmocka_unit_test_setup_teardown(name, remote_rig_set_up, remote_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(members_of_shards_are_requested_once),
        T(files_of_lists_are_requested_once),
        T(further_members_of_lists_are_requested_once),
        T(samples_of_packs_are_requested_once),
        T(ranks_request_each_sample_once),
        T(a_running_rank_finds_what_another_adds),
        T(a_run_goes_on_without_its_server),
        T(a_replaced_object_is_not_taken_from_the_cache),
        T(another_query_finds_the_samples),
        T(bits_are_the_same_while_the_server_misbehaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
