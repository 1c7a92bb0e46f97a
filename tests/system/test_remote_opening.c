/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening datasets at URLs: what is kept of them in the cache folder of the user, and how many
 * requests that saves. Requests are counted at the server.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"
#include "tests/support/images.h"
#include "tests/support/packs.h"
#include "tests/support/processes.h"
#include "tests/support/shards.h"

enum { N = 12, BIG_BYTES = 100000, N_BIG = 130 };

static char *folder;
static struct mr_test_http *server;
static _Atomic(enum mr_test_fault) fault;
static const char *failing;   /* the path whose next n_failing answers are resets; NULL: none */
static uint64_t failing_from; /* only of ranges that begin at this byte or later */
static _Atomic uint32_t n_failing;

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    (void)user;
    if (failing && strcmp(request->path, failing) == 0 && request->first >= failing_from &&
        n_failing > 0) {
        n_failing--;
        return MR_TEST_HTTP_RESET_EARLY;
    }
    return fault;
}

/*
 * N photographs, each after a pax header as Python's tarfile writes it, and their labels. len:
 * bytes of each member, 0: those of the photograph.
 */
static void write_shard(const char *name, uint32_t seed, int n, size_t len)
{
    struct mr_test_shard shard = {0};
    static uint8_t bytes[BIG_BYTES];
    static const char time[] = "17 mtime=12345.5\n";
    char member[64], label[16];
    for (int i = 0; i < n; i++) {
        struct mr_test_image image = mr_test_jpeg(
            &(struct mr_test_jpeg){.width = 60, .height = 50, .seed = seed + (uint32_t)i});
        assert_true(image.len < sizeof bytes);
        memcpy(bytes, image.bytes, image.len);
        snprintf(member, sizeof member, "%03d.jpg", i);
        mr_test_shard_add_type(&shard, 'x', "PaxHeader", time, sizeof time - 1);
        mr_test_shard_add(&shard, member, bytes, len ? len : image.len);
        snprintf(member, sizeof member, "%03d.cls", i);
        snprintf(label, sizeof label, "%d", i);
        mr_test_shard_add_text(&shard, member, label);
        mr_test_image_free(&image);
    }
    mr_test_shard_end(&shard);
    mr_test_folder_write(folder, name, shard.bytes, shard.len);
    mr_test_shard_free(&shard);
}

static int set_up(void **state)
{
    (void)state;
    char cache[4200];
    folder = mr_test_folder_create();
    snprintf(cache, sizeof cache, "%s/kept", folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    fault = MR_TEST_HTTP_GOOD;
    write_shard("t.tar", 1, N, 0);
    server = mr_test_http_start(folder, choose, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_http_stop(server);
    mr_test_folder_remove(folder);
    return 0;
}

static void make_pack(const char *name)
{
    char spec[4400], dir[4200], command[13000];
    snprintf(spec, sizeof spec, "tar:%s/t.tar?index=none", folder);
    snprintf(dir, sizeof dir, "%s/%s", folder, name);
    snprintf(command, sizeof command, "%s.new", dir);
    mr_test_packs_make(spec, command, MR_PACK_JPEG);
    snprintf(command, sizeof command, "rm -rf '%s' && mv '%s.new' '%s'", dir, dir, dir);
    assert_int_equal(system(command), 0);
}

/* Open kind:URL/path and close it. Returns the number of requests. */
static uint64_t open_once(const char *kind, const char *path)
{
    char spec[300];
    uint64_t before = mr_test_http_n_requests(server);
    snprintf(spec, sizeof spec, "%s:%s/%s", kind, mr_test_http_url(server), path);
    mr_dataset *dataset = mr_test_dataset(spec);
    assert_true(mr_dataset_n_samples(dataset) >= N);
    mr_dataset_destroy(dataset);
    return mr_test_http_n_requests(server) - before;
}

/* The path of the only kept file. */
static void find_kept(char path_out[4700])
{
    char name[4300];
    int n = 0;
    snprintf(name, sizeof name, "%s/kept/millrace", folder);
    DIR *dir = opendir(name);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            snprintf(path_out, 4700, "%s/%s", name, entry->d_name);
            n++;
        }
    closedir(dir);
    assert_int_equal(n, 1);
}

/* A request for each of the index, the shard and the marks, and one more for an index that is read.
 */
enum { KEPT = 3, READ = 4 };

static void the_index_of_a_pack_is_read_once(void **state)
{
    (void)state;
    make_pack("p");
    assert_int_equal(open_once("pack", "p"), READ);
    assert_int_equal(open_once("pack", "p"), KEPT);
    assert_int_equal(open_once("pack", "p/"), KEPT);
    assert_int_equal(open_once("pack", "p?index=none"), READ);
    make_pack("p"); /* the same bytes, with other times */
    assert_int_equal(open_once("pack", "p"), READ);
    assert_int_equal(open_once("pack", "p"), KEPT);
}

static void nothing_is_kept_by_index_none(void **state)
{
    (void)state;
    make_pack("p");
    assert_int_equal(open_once("pack", "p?index=none"), READ);
    assert_int_equal(open_once("pack", "p"), READ);
}

static void a_damaged_kept_index_is_made_again(void **state)
{
    (void)state;
    char path[4700];
    struct stat st;
    make_pack("p");
    assert_int_equal(open_once("pack", "p"), READ);
    find_kept(path);
    assert_int_equal(stat(path, &st), 0);
    const off_t places[] = {0, 8, 30, 45, 100, st.st_size - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        FILE *file = fopen(path, "r+");
        assert_non_null(file);
        fseek(file, places[i], SEEK_SET);
        int byte = fgetc(file);
        fseek(file, places[i], SEEK_SET);
        fputc(byte ^ 1, file);
        fclose(file);
        assert_int_equal(open_once("pack", "p"), READ);
        assert_int_equal(open_once("pack", "p"), KEPT);
    }
    const off_t sizes[] = {0, 7, 39, 40, 41, st.st_size - 1, st.st_size + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(truncate(path, sizes[i]), 0);
        assert_int_equal(open_once("pack", "p"), READ);
        assert_int_equal(open_once("pack", "p"), KEPT);
    }
}

/* The oracle is a local pack: every process, which runs this program, compares an epoch. */
static uint64_t digest(const char *root)
{
    char spec[4400];
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 4;
    o.num_workers = MR_NO_WORKERS;
    snprintf(spec, sizeof spec, "pack:%s/p", root);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    uint64_t found = epoch.status == MR_END && epoch.n_failures == 0 ? epoch.digest : 0;
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return found;
}

static void processes_that_open_at_once_do_not_disturb_each_other(void **state)
{
    (void)state;
    enum { N_CHILDREN = 6 };
    pid_t children[N_CHILDREN];
    char text[32];
    make_pack("p");
    uint64_t wanted = digest(folder);
    assert_true(wanted != 0);
    snprintf(text, sizeof text, "%" PRIx64, wanted);
    for (int i = 0; i < N_CHILDREN; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            execl("/proc/self/exe", "child", mr_test_http_url(server), text, (char *)NULL);
            _exit(127);
        }
    }
    for (int i = 0; i < N_CHILDREN; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(open_once("pack", "p"), KEPT);
}

static void another_query_finds_the_index_of_a_shard(void **state)
{
    (void)state;
    assert_true(open_once("tar", "t.tar%3Fsig=a") > 1);
    assert_int_equal(open_once("tar", "t.tar%3Fsig=b"), 1);
    assert_int_equal(open_once("tar", "t.tar"), 1);
    write_shard("t.tar", 100, N + 1, 0);
    assert_true(open_once("tar", "t.tar%3Fsig=c") > 1);
}

/* Objects whose URLs differ only in their queries may have the same Last-Modified and size. */
static void with_a_query_only_an_etag_identifies_an_object(void **state)
{
    (void)state;
    fault = MR_TEST_HTTP_WEAK_ETAG; /* Last-Modified counts */
    assert_true(open_once("tar", "t.tar%3Fid=1") > 1);
    assert_true(open_once("tar", "t.tar%3Fid=1") > 1);
    assert_true(open_once("tar", "t.tar") > 1);
    assert_int_equal(open_once("tar", "t.tar"), 1);
}

/*
 * A shard of small members is read by few requests, and several are in flight at once. With a query
 * no .idx is asked for.
 */
static void long_shards_are_read_by_several_requests_at_once(void **state)
{
    (void)state;
    assert_true(open_once("tar", "t.tar%3Fsig=a") <= 2);
    assert_int_equal(mr_test_http_most(server), 1);
    fault = MR_TEST_HTTP_SLOW;                   /* so they meet */
    write_shard("big.tar", 1, N_BIG, BIG_BYTES); /* 13 MB: 1 + 1 + 2 + 4 + 4 requests */
    assert_in_range(open_once("tar", "big.tar%3Fsig=a"), 8, 12);
    assert_in_range(mr_test_http_most(server), 4, 4 + 1); /* the first one may close late */
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* n_profiles: segments of 64 KiB before the image. */
static void write_photograph(const char *name, uint32_t seed, int n_profiles)
{
    static uint8_t bytes[3 << 16];
    static const uint8_t segment[] = {0xff, 0xe2, 0xff, 0xff};
    struct mr_test_image image = mr_test_jpeg(
        &(struct mr_test_jpeg){.width = 20 + 20 * (seed % 5), .height = 60, .seed = seed});
    size_t len = 2;
    memcpy(bytes, image.bytes, 2);
    for (; n_profiles > 0; n_profiles--, len += 2 + 0xffff)
        memcpy(bytes + len, segment, sizeof segment);
    assert_true(len + image.len <= sizeof bytes);
    memcpy(bytes + len, image.bytes + 2, image.len - 2);
    mr_test_folder_write(folder, name, bytes, len + image.len - 2);
    mr_test_image_free(&image);
}

/* Other ranks may have got it, and all must make the same groups. */
static void a_header_that_a_server_does_not_send_is_no_square(void **state)
{
    (void)state;
    char list[N * 40] = "", spec[4300];
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    mr_loader *loader;
    mr_error error;
    for (uint32_t i = 0; i < N; i++) {
        char name[20];
        snprintf(name, sizeof name, "i-%02u", i);
        write_photograph(name, i, 0);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s\t%u\n", name, i);
    }
    mr_test_folder_write(folder, "list", list, strlen(list));
    o.batch_size = 2;
    o.num_workers = MR_NO_WORKERS;
    o.aspect_ratio_groups = 3;
    struct mr_test_epoch epochs[2];
    failing = "/i-03";
    n_failing = 3; /* for a moment */
    for (int i = 0; i < 2; i++) {
        snprintf(spec, sizeof spec, "list:%s/list", i ? mr_test_http_url(server) : folder);
        mr_dataset *dataset = mr_test_dataset(spec);
        loader = mr_test_loader(dataset, "train:32", &o);
        assert_int_equal(n_failing, i ? 0 : 3);
        epochs[i] = mr_test_epoch_run(loader, 0);
        assert_int_equal(epochs[i].status, MR_END);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
    assert_true(epochs[0].digest == epochs[1].digest);
    for (int i = 0; i < 2; i++)
        mr_test_epoch_free(&epochs[i]);

    n_failing = UINT32_MAX;
    for (int i = 0; i < 2; i++) {
        mr_dataset *dataset = mr_test_dataset(spec);
        assert_int_equal(mr_loader_create(dataset, NULL, &o, &loader, &error), MR_ERR_IO);
        assert_words(error.text, "aspect_ratio_groups cannot be made: http://127.0.0.1:");
        assert_words(error.text, "/i-03: ");
        mr_dataset_destroy(dataset);
        write_photograph("i-03", 3, 2); /* what fails is behind what is read first */
        failing_from = 1;
    }
    failing_from = 0;
    failing = NULL;
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return digest(argv[1]) != strtoull(argv[2], NULL, 16);
    const struct CMUnitTest tests[] = {
        T(the_index_of_a_pack_is_read_once),
        T(nothing_is_kept_by_index_none),
        T(a_damaged_kept_index_is_made_again),
        T(processes_that_open_at_once_do_not_disturb_each_other),
        T(another_query_finds_the_index_of_a_shard),
        T(with_a_query_only_an_etag_identifies_an_object),
        T(long_shards_are_read_by_several_requests_at_once),
        T(a_header_that_a_server_does_not_send_is_no_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
