/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole epochs from an HTTP server: the order and the bits are those of the local files, with every
 * kind of worker and while the server misbehaves.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"
#include "tests/support/images.h"
#include "tests/support/packs.h"
#include "tests/support/processes.h"
#include "tests/support/shards.h"

enum { N_SHARDS = 3, N_EACH = 40 };

static char *folder;
static struct mr_test_http *server;
static _Atomic(enum mr_test_fault) fault;
static _Atomic uint64_t one_in; /* so many answers are that fault; 0: none is */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* closed: no request is answered */

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    (void)user;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    if (one_in == 0 || request->number % one_in != 0)
        return MR_TEST_HTTP_GOOD;
    if (fault != MR_TEST_HTTP_N_FAULTS)
        return fault;
    /* every fault that passes quickly, in turn */
    enum mr_test_fault f = (enum mr_test_fault)(request->number / one_in % MR_TEST_HTTP_STALL);
    return f == MR_TEST_HTTP_LATER || f == MR_TEST_HTTP_RETRY_AFTER ? MR_TEST_HTTP_BUSY : f;
}

static void write_shard(int s, uint32_t seed)
{
    struct mr_test_shard shard = {0};
    char name[64], label[16];
    for (int i = s * N_EACH; i < (s + 1) * N_EACH; i++) {
        struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){
            .width = 60 + (uint32_t)i, .height = 200 - (uint32_t)i, .seed = seed + (uint32_t)i});
        snprintf(name, sizeof name, "%03d.jpg", i);
        mr_test_shard_add(&shard, name, image.bytes, image.len);
        snprintf(name, sizeof name, "%03d.cls", i);
        snprintf(label, sizeof label, "%d", i * 3);
        mr_test_shard_add_text(&shard, name, label);
        mr_test_image_free(&image);
    }
    mr_test_shard_end(&shard);
    snprintf(name, sizeof name, "t-%02d.tar", s);
    mr_test_folder_write(folder, name, shard.bytes, shard.len);
    mr_test_shard_free(&shard);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int s = 0; s < N_SHARDS; s++)
        write_shard(s, 0);
    server = mr_test_http_start(folder, choose, NULL);
    fault = MR_TEST_HTTP_N_FAULTS;
    one_in = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_http_stop(server);
    mr_test_folder_remove(folder);
    return 0;
}

static mr_dataset *open_shards(const char *root)
{
    char spec[4200];
    snprintf(spec, sizeof spec, "tar:%s/t-{00..%02d}.tar", root, N_SHARDS - 1);
    return mr_test_dataset(spec);
}

static mr_loader_options base_options(void)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.seed = 5;
    o.num_workers = 2;
    return o;
}

static uint64_t bytes_read; /* by the last run */

static struct mr_test_epoch run(mr_dataset *dataset, const mr_loader_options *o, const char *reader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader *loader = mr_test_loader(dataset, "train:48", o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 3);
    mr_loader_get_stats(loader, &stats);
    assert_string_equal(stats.reader, reader);
    bytes_read = stats.bytes_read;
    mr_loader_destroy(loader);
    return epoch;
}

static void expect_same(mr_dataset *remote, const struct mr_test_epoch *local,
                        const mr_loader_options *o)
{
    struct mr_test_epoch epoch = run(remote, o, "http");
    if (epoch.status != MR_END || epoch.n_failures > 0)
        fail_msg("%s", epoch.first_error.text);
    assert_int_equal(epoch.n_valid, N_SHARDS * N_EACH);
    assert_int_equal(epoch.n_samples, local->n_samples);
    assert_memory_equal(epoch.indices, local->indices, epoch.n_samples * sizeof *epoch.indices);
    assert_true(epoch.digest == local->digest);
    mr_test_epoch_free(&epoch);
}

/* The server's paths for stores lead to the folder of the shards. */
static void make_names_of_stores(void)
{
    static const char *const names[] = {"bucket", "datasets", "owner", "name", "resolve", "main"};
    char path[4200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(symlink(".", path), 0);
    }
    setenv("AWS_ENDPOINT_URL", mr_test_http_url(server), 1);
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("GS_ENDPOINT_URL", mr_test_http_url(server), 1);
    setenv("HF_ENDPOINT", mr_test_http_url(server), 1);
}

static void order_and_bits_from_stores_are_those_of_local_shards(void **state)
{
    static const char *const roots[] = {"s3://bucket", "gs://bucket", "hf://datasets/owner/name"};
    (void)state;
    mr_loader_options o = base_options();
    mr_dataset *local = open_shards(folder);
    o.reader = MR_READER_PREAD;
    struct mr_test_epoch wanted = run(local, &o, "pread");
    o.reader = MR_READER_AUTO;
    make_names_of_stores();
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        mr_dataset_destroy(open_shards(roots[i]));
        uint64_t before = mr_test_http_n_requests(server);
        mr_dataset *remote = open_shards(roots[i]); /* what was found is kept */
        assert_int_equal(mr_test_http_n_requests(server) - before, N_SHARDS);
        o.num_workers = MR_NO_WORKERS;
        expect_same(remote, &wanted, &o);
        o.num_workers = 2;
        expect_same(remote, &wanted, &o);
#ifndef MR_TEST_ASAN
        o.start = MR_START_FORK;
        expect_same(remote, &wanted, &o);
        o.start = MR_START_DEFAULT;
#endif
        mr_dataset_destroy(remote);
    }
    mr_test_epoch_free(&wanted);
    mr_dataset_destroy(local);
    mr_test_folder_write(folder, "list", "a?b.jpg\t1\n", 10);
    char name[100];
    mr_dataset *list = mr_test_dataset("list:s3://bucket/list");
    mr_dataset_name(list, 0, name, sizeof name);
    assert_string_equal(name, "s3://bucket/a?b.jpg");
    mr_dataset_destroy(list);
}

static void order_and_bits_are_those_of_local_shards(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.reader = MR_READER_PREAD;
    mr_dataset *local = open_shards(folder);
    struct mr_test_epoch wanted = run(local, &o, "pread");
    o.reader = MR_READER_AUTO;
    mr_dataset *first = open_shards(mr_test_http_url(server));
    uint64_t before = mr_test_http_n_requests(server);
    mr_dataset *second = open_shards(mr_test_http_url(server));
    assert_int_equal(mr_test_http_n_requests(server) - before, N_SHARDS); /* no header is read */
    for (int opened = 0; opened < 2; opened++) {
        mr_dataset *remote = opened == 0 ? first : second;
        for (uint32_t start = MR_START_EXEC; start <= MR_START_THREAD; start++) {
#ifdef MR_TEST_ASAN
            if (start == MR_START_FORK)
                continue;
#endif
            o.start = start;
            expect_same(remote, &wanted, &o);
        }
        o.start = MR_START_DEFAULT;
        o.num_workers = MR_NO_WORKERS;
        expect_same(remote, &wanted, &o);
        o.num_workers = 2;
        mr_dataset_destroy(remote);
    }
    mr_test_epoch_free(&wanted);
    mr_dataset_destroy(local);
}

/*
 * Write a list of all images. Of each three lines, n_urls begin with the URL of a server and end
 * with a query, the others are relative paths.
 */
static void write_list(const char *name, int n_urls)
{
    static char text[N_SHARDS * N_EACH * 128];
    size_t len = 0;
    for (int i = 0; i < N_SHARDS * N_EACH; i++) {
        bool is_url = i % 3 < n_urls;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%si %03d.jpg%s\t%d\n",
                                is_url ? mr_test_http_url(server) : "", is_url ? "/" : "", i,
                                is_url ? "?sig=secret" : "", i * 7);
    }
    mr_test_folder_write(folder, name, text, len);
}

static void write_images(void)
{
    char name[64];
    for (int i = 0; i < N_SHARDS * N_EACH; i++) {
        struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){
            .width = 60 + (uint32_t)i, .height = 200 - (uint32_t)i, .seed = 7 + (uint32_t)i});
        snprintf(name, sizeof name, "i %03d.jpg", i);
        mr_test_folder_write(folder, name, image.bytes, image.len);
        mr_test_image_free(&image);
    }
}

static mr_dataset *open_list(const char *root, const char *name)
{
    char spec[4200];
    snprintf(spec, sizeof spec, "list:%s/%s", root, name);
    return mr_test_dataset(spec);
}

static void lists_give_the_same_bits_wherever_they_and_their_files_are(void **state)
{
    (void)state;
    const char *roots[] = {folder, folder, mr_test_http_url(server), mr_test_http_url(server),
                           folder};
    const char *names[] = {"mixed", "urls", "paths", "mixed%3Fsig=secret", "saved"};
    char path[4200];
    mr_error error;
    mr_loader_options o = base_options();
    write_images();
    write_list("paths", 0);
    write_list("mixed", 1);
    write_list("urls", 3);
    o.reader = MR_READER_PREAD;
    mr_dataset *local = open_list(folder, "paths");
    struct mr_test_epoch wanted = run(local, &o, "pread");
    o.reader = MR_READER_AUTO;
    for (int i = 0; i < 5; i++) {
        one_in = i == 1 ? 3 : 0; /* with faults too */
        mr_dataset *remote = open_list(roots[i], names[i]);
        expect_same(remote, &wanted, &o);
        one_in = 0;
        snprintf(path, sizeof path, "%s/saved", folder);
        if (mr_dataset_save_list(remote, path, &error) != MR_OK)
            fail_msg("%s", error.text);
        mr_dataset_destroy(remote);
    }
    mr_test_epoch_free(&wanted);
    mr_dataset_destroy(local);
}

/* Of a pack, only the bytes of each crop are requested, as with local files. */
static void packs_give_the_same_bits_from_the_same_bytes(void **state)
{
    (void)state;
    static const mr_pack_encoding encodings[] = {MR_PACK_DCT, MR_PACK_JPEG, MR_PACK_RAW};
    char spec[4400], dir[4200];
    mr_loader_options o = base_options();
    o.epoch = 3;
    o.n_epochs = 1;    /* nothing is read for the next epoch, */
    o.num_workers = 1; /* and nothing by two workers */
    o.reader = MR_READER_PREAD;
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        snprintf(spec, sizeof spec, "tar:%s/t-{00..%02d}.tar", folder, N_SHARDS - 1);
        snprintf(dir, sizeof dir, "%s/p %zu", folder, i);
        mr_test_packs_make(spec, dir, encodings[i]);
        snprintf(spec, sizeof spec, "pack:%s", dir);
        mr_dataset *local = mr_test_dataset(spec);
        snprintf(spec, sizeof spec, "pack:%s/p %zu", mr_test_http_url(server), i);
        mr_dataset *remote = mr_test_dataset(spec);
        struct mr_test_epoch wanted = run(local, &o, "pread");
        uint64_t local_bytes = bytes_read;
        one_in = i == 0 ? 3 : 0; /* with faults too */
        expect_same(remote, &wanted, &o);
        one_in = 0;
        assert_int_equal(bytes_read, local_bytes);
        mr_test_epoch_free(&wanted);
        mr_dataset_destroy(local);
        mr_dataset_destroy(remote);
    }
}

static void bits_are_the_same_while_the_server_misbehaves(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.reader = MR_READER_PREAD;
    o.read_ahead = 16;
    mr_dataset *local = open_shards(folder);
    struct mr_test_epoch wanted = run(local, &o, "pread");
    one_in = 3;
    mr_dataset *remote = open_shards(mr_test_http_url(server));
    expect_same(remote, &wanted, &o);
    assert_in_range(mr_test_http_most(server), 1, 64);
    mr_dataset_destroy(remote);
    mr_test_epoch_free(&wanted);
    mr_dataset_destroy(local);
}

static void a_replaced_shard_is_an_error_that_names_it(void **state)
{
    (void)state;
    char wanted[200];
    mr_loader_options o = base_options();
    mr_dataset *remote = open_shards(mr_test_http_url(server));
    write_shard(1, 1000);
    struct mr_test_epoch epoch = run(remote, &o, "http");
    assert_true(epoch.n_failures > 0);
    snprintf(wanted, sizeof wanted, "%s/t-01.tar/", mr_test_http_url(server));
    assert_non_null(strstr(epoch.first_error.text, wanted));
    assert_non_null(
        strstr(epoch.first_error.text, "the file changed since the dataset was opened"));
    mr_test_epoch_free(&epoch);
    mr_dataset_destroy(remote);
}

static void what_the_server_refuses_is_a_damaged_sample_with_its_answer(void **state)
{
    (void)state;
    char wanted[200];
    mr_loader_options o = base_options();
    mr_dataset *remote = open_shards(mr_test_http_url(server));
    fault = MR_TEST_HTTP_FORBIDDEN;
    one_in = 1;
    struct mr_test_epoch epoch = run(remote, &o, "http");
    assert_int_equal(epoch.n_failures, N_SHARDS * N_EACH / 8);
    assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
    snprintf(wanted, sizeof wanted, "%s/t-", mr_test_http_url(server));
    assert_non_null(strstr(epoch.first_error.text, wanted));
    assert_non_null(strstr(epoch.first_error.text, ".jpg (index "));
    assert_non_null(strstr(epoch.first_error.text, "): HTTP 403 Forbidden"));
    mr_test_epoch_free(&epoch);
    mr_dataset_destroy(remote);
}

static void expect_open_error(const char *format, const char *text)
{
    char spec[400];
    mr_error error;
    mr_dataset *dataset;
    snprintf(spec, sizeof spec, format, mr_test_http_url(server));
    assert_true(mr_dataset_open(spec, NULL, &dataset, &error) < 0);
    if (!strstr(error.text, text))
        fail_msg("'%s' is not in '%s'", text, error.text);
    assert_null(strstr(error.text, "secret"));
}

static void what_cannot_be_opened_is_named_without_its_query(void **state)
{
    (void)state;
    expect_open_error("tar:%s/missing.tar%%3Fsig=secret", "/missing.tar: HTTP 404 Not Found");
    expect_open_error("tar:%s/t-0*.tar%%3Fsig=secret", "a server is not asked for names");
    expect_open_error("tar:http://secret@host/t.tar%s", "has a user or a password");
    expect_open_error("pack:%s/none", "/none/index: HTTP 404 Not Found");
    expect_open_error("pack:%s/none%%3Fsig=secret", "which has no query");
    expect_open_error("imagefolder:%s/a%%3Fsig=secret", "is a URL that imagefolder does not read");
}

static void headers_of_images_are_read_by_one_request(void **state)
{
    (void)state;
    mr_dataset *local = open_shards(folder), *remote = open_shards(mr_test_http_url(server));
    for (int64_t i = 0; i < N_SHARDS * N_EACH; i += 9) {
        mr_sample_info x = MR_SAMPLE_INFO_INIT, y = MR_SAMPLE_INFO_INIT;
        uint64_t before = mr_test_http_n_requests(server);
        assert_int_equal(mr_dataset_inspect(local, i, &x, NULL), MR_OK);
        assert_int_equal(mr_dataset_inspect(remote, i, &y, NULL), MR_OK);
        assert_memory_equal(&x, &y, sizeof x);
        assert_int_equal(mr_test_http_n_requests(server) - before, 1);
    }
    fault = MR_TEST_HTTP_FORBIDDEN;
    one_in = 1;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;
    assert_int_equal(mr_dataset_inspect(remote, 0, &info, &error), MR_ERR_IO);
    assert_non_null(strstr(error.text, "/t-00.tar: HTTP 403 Forbidden"));
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

static void what_is_wrong_with_a_list_names_its_url_or_line(void **state)
{
    (void)state;
    static const char user[] = "a.jpg\t1\nhttp://secret@host/a.jpg\t1\n";
    char text[200], wanted[200];
    mr_loader_options o = base_options();
    expect_open_error("list:%s/none%%3Fsig=secret", "/none: HTTP 404 Not Found");
    mr_test_folder_write(folder, "user", user, strlen(user));
    expect_open_error("list:%s/user%%3Fsig=secret", "/user:2: a URL of the dataset has a user");
    snprintf(text, sizeof text, "%s/none.jpg?sig=secret\t1\n", mr_test_http_url(server));
    mr_test_folder_write(folder, "missing", text, strlen(text));
    mr_dataset *dataset = open_list(folder, "missing");
    struct mr_test_epoch epoch = run(dataset, &o, "http");
    assert_int_equal(epoch.first_error.status, MR_ERR_DAMAGED);
    snprintf(wanted, sizeof wanted, "%s/none.jpg (index 0): HTTP 404 Not Found",
             mr_test_http_url(server));
    if (!strstr(epoch.first_error.text, wanted))
        fail_msg("'%s' is not in '%s'", wanted, epoch.first_error.text);
    mr_test_epoch_free(&epoch);
    mr_dataset_destroy(dataset);
}

/* Write a list of image 0 with a version, and read the image. */
static void expect_version_error(const char *version, const char *words)
{
    char text[300], wanted[200];
    mr_loader_options o = base_options();
    o.num_workers = MR_NO_WORKERS;
    snprintf(text, sizeof text, "%s/i 000.jpg\t1\t%s\n", mr_test_http_url(server), version);
    mr_test_folder_write(folder, "versions", text, strlen(text));
    mr_dataset *dataset = open_list(folder, "versions");
    struct mr_test_epoch epoch = run(dataset, &o, "http");
    snprintf(wanted, sizeof wanted, "%s/i 000.jpg (index 0): %s", mr_test_http_url(server), words);
    if (!*words)
        assert_int_equal(epoch.first_error.status, MR_OK);
    else if (!strstr(epoch.first_error.text, wanted))
        fail_msg("'%s' is not in '%s'", wanted, epoch.first_error.text);
    mr_test_epoch_free(&epoch);
    mr_dataset_destroy(dataset);
}

static void an_object_that_was_replaced_since_it_was_listed_is_named(void **state)
{
    (void)state;
    char path[4200], good[300];
    struct stat st;
    write_images();
    snprintf(path, sizeof path, "%s/i 000.jpg", folder);
    assert_int_equal(stat(path, &st), 0);
    snprintf(good, sizeof good, "size=%jd etag=\"%s\"", (intmax_t)st.st_size, "other");
    fault = MR_TEST_HTTP_OTHER_ETAG; /* of an object with this ETag */
    one_in = 1;
    expect_version_error(good, "");
    one_in = 0; /* replaced: the server sends 412 */
    expect_version_error(good, "the file changed since it was listed");
    fault = MR_TEST_HTTP_NO_ETAG;
    snprintf(good, sizeof good, "size=%jd", (intmax_t)st.st_size);
    one_in = 1;
    expect_version_error(good, "");
    snprintf(good, sizeof good, "size=%jd", (intmax_t)st.st_size + 1);
    expect_version_error(good, "the file changed since it was listed");
    one_in = 0;
}

/* All workers die while their answers arrive. */
static void killed_workers_change_no_bit(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.read_ahead = 8;
    mr_dataset *local = open_shards(folder), *remote = open_shards(mr_test_http_url(server));
    struct mr_test_epoch wanted, epoch;
    mr_loader *from_local = mr_test_loader(local, "train:48", &o), *loader;
    mr_batch *batch;
    assert_int_equal(mr_loader_next(from_local, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    wanted = mr_test_epoch_rest(from_local);
    fault = MR_TEST_HTTP_SLOW;
    one_in = 1;
    loader = mr_test_loader(remote, "train:48", &o);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    int64_t pids[2];
    uint32_t n = mr_loader_worker_pids(loader, pids, 2);
    assert_int_equal(n, 2);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(kill((pid_t)pids[i], SIGKILL), 0);
    epoch = mr_test_epoch_rest(loader);
    if (epoch.status != MR_END || epoch.n_failures > 0)
        fail_msg("%s", epoch.first_error.text);
    assert_true(epoch.n_samples == wanted.n_samples && epoch.digest == wanted.digest);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    assert_int_equal(stats.n_deaths, 2);
    mr_test_epoch_free(&wanted);
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(from_local);
    mr_loader_destroy(loader);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/* A worker without work leaves alone what another one waits for, */
static void each_sample_is_requested_once(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.epoch = 3;
    o.n_epochs = 1;
    o.num_workers = 4;
    o.read_ahead = 32;
    mr_dataset *remote = open_shards(mr_test_http_url(server));
    uint64_t before = mr_test_http_n_requests(server);
    struct mr_test_epoch epoch = run(remote, &o, "http");
    assert_int_equal(epoch.n_valid, N_SHARDS * N_EACH);
    assert_int_equal(mr_test_http_n_requests(server) - before, N_SHARDS * N_EACH);
    mr_test_epoch_free(&epoch);
    mr_dataset_destroy(remote);
}

/* unless it waits for long: here it is stopped while its requests are on the way. */
static void requests_of_a_stopped_worker_are_made_by_another(void **state)
{
    (void)state;
    int64_t pids[2];
    mr_loader_options o = base_options();
    o.n_epochs = 1;
    o.read_ahead = 8;
    mr_dataset *remote = open_shards(mr_test_http_url(server));
    uint64_t before = mr_test_http_n_requests(server);
    pthread_mutex_lock(&gate);
    mr_loader *loader = mr_test_loader(remote, "train:48", &o);
    while (mr_test_http_n_requests(server) - before < 2 * 8) /* what both workers may ask for */
        mr_test_sleep_ms(1);
    assert_int_equal(mr_loader_worker_pids(loader, pids, 2), 2);
    assert_int_equal(kill((pid_t)pids[0], SIGSTOP), 0);
    pthread_mutex_unlock(&gate);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.status, MR_END);
    assert_int_equal(epoch.n_valid, N_SHARDS * N_EACH);
    assert_true(mr_test_http_n_requests(server) - before > N_SHARDS * N_EACH);
    mr_test_epoch_free(&epoch);
    assert_int_equal(kill((pid_t)pids[0], SIGCONT), 0);
    mr_loader_destroy(loader);
    mr_dataset_destroy(remote);
}

static void a_position_continues_with_local_shards(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    mr_dataset *local = open_shards(folder), *remote = open_shards(mr_test_http_url(server));
    mr_loader *from = mr_test_loader(remote, "train:48", &o);
    mr_loader *to = mr_test_loader(local, "train:48", &o);
    uint8_t position[MR_LOADER_STATE_MAX];
    size_t len;
    mr_batch *batch;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mr_loader_next(from, MR_FOREVER, &batch), MR_OK);
        mr_batch_release(batch);
    }
    assert_int_equal(mr_loader_save(from, position, sizeof position, &len), MR_OK);
    if (mr_loader_restore(to, position, len) != MR_OK)
        fail_msg("%s", mr_loader_error(to)->text);
    struct mr_test_epoch x = mr_test_epoch_rest(from), y = mr_test_epoch_rest(to);
    assert_int_equal(x.status, MR_END);
    assert_true(x.n_samples > 0 && x.digest == y.digest);
    mr_test_epoch_free(&x);
    mr_test_epoch_free(&y);
    mr_loader_destroy(from);
    mr_loader_destroy(to);
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(order_and_bits_are_those_of_local_shards),
        T(order_and_bits_from_stores_are_those_of_local_shards),
        T(lists_give_the_same_bits_wherever_they_and_their_files_are),
        T(packs_give_the_same_bits_from_the_same_bytes),
        T(bits_are_the_same_while_the_server_misbehaves),
        T(a_replaced_shard_is_an_error_that_names_it),
        T(what_the_server_refuses_is_a_damaged_sample_with_its_answer),
        T(what_cannot_be_opened_is_named_without_its_query),
        T(headers_of_images_are_read_by_one_request),
        T(what_is_wrong_with_a_list_names_its_url_or_line),
        T(an_object_that_was_replaced_since_it_was_listed_is_named),
        T(killed_workers_change_no_bit),
        T(each_sample_is_requested_once),
        T(requests_of_a_stopped_worker_are_made_by_another),
        T(a_position_continues_with_local_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
