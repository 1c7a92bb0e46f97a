/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaders with keys of stores: keys that end within an epoch change no bit, and a key that was
 * planted is in no message, file, process list or core of a worker.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"

enum { N_IMAGES = 60, PATH_BYTES = 4300, LIFE_S = 2 };

/* Part of each secret; no other text has it. */
#define PLANTED "pLaNtEd"

static char *folder;
static struct mr_test_http *server;
/* Of the server; with its lock. */
static _Atomic int n_sets; /* of keys that it has given */
static int n_signed;       /* requests of this epoch */
static int last_expired;   /* this set and those before it are refused */
static int n_expired;      /* requests with a set that was refused */
static int n_refusals;     /* how often it still refuses to give keys */
static bool expires;       /* the sets end soon, and at requests 10 and 30 of an epoch */
static char logged[10000];

static void keep_log(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    size_t len = strlen(logged);
    snprintf(logged + len, sizeof logged - len, "%s\n", line);
}

static char *make_keys(void)
{
    char text[500], end[40];
    time_t end_s = time(NULL) + (expires ? LIFE_S : 3600);
    struct tm tm;
    strftime(end, sizeof end, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end_s, &tm));
    int n = atomic_fetch_add(&n_sets, 1) + 1;
    snprintf(text, sizeof text,
             "{\"AccessKeyId\": \"ID\", \"SecretAccessKey\": \"" PLANTED "-s3\", \"Token\": "
             "\"" PLANTED "-token-%d\", \"Expiration\": \"%s\"}",
             n, end);
    return strdup(text);
}

static bool answer(void *user, const struct mr_test_http_request *request,
                   struct mr_test_http_page *page)
{
    static const char token[] = "x-amz-security-token: " PLANTED "-token-";
    (void)user;
    if (strcmp(request->path, "/keys") == 0) {
        if (n_refusals > 0) {
            n_refusals--;
            page->status = "403 Forbidden";
            return true;
        }
        page->body = make_keys();
        return true;
    }
    const char *sent = strstr(request->head, token);
    int n = sent ? atoi(sent + strlen(token)) : 0;
    bool is_refused = strstr(request->path, "refused");
    n_signed += n > 0;
    if (expires && (n_signed == 10 || n_signed == 30) && n > last_expired)
        last_expired = n;
    if (n == 0 || (!is_refused && n > last_expired))
        return false;
    n_expired++;
    page->status = "403 Forbidden";
    page->body = strdup(is_refused ? "<Error><Code>AccessDenied</Code></Error>"
                                   : "<Error><Code>ExpiredToken</Code></Error>");
    return true;
}

static int start(void **state)
{
    char text[PATH_BYTES];
    (void)state;
    folder = mr_test_folder_create();
    server = mr_test_http_start(folder, NULL, NULL);
    mr_test_http_answer_with(server, answer);
    mr_log_set(keep_log, NULL);
    snprintf(text, sizeof text, "%s/bucket", folder);
    if (symlink(".", text) != 0)
        return 1;
    for (int i = 0; i < N_IMAGES; i++) {
        struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){
            .width = 60 + (uint32_t)i, .height = 130 - (uint32_t)i, .seed = (uint32_t)i});
        snprintf(text, sizeof text, "%02d.jpg", i);
        mr_test_folder_write(folder, text, image.bytes, image.len);
        mr_test_image_free(&image);
    }
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("HOME", folder, 1);
    setenv("AWS_ENDPOINT_URL_S3", mr_test_http_url(server), 1);
    setenv("GS_ENDPOINT_URL", mr_test_http_url(server), 1);
    setenv("HF_ENDPOINT", mr_test_http_url(server), 1);
    snprintf(text, sizeof text, "%s/keys", mr_test_http_url(server));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", text, 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    mr_test_http_stop(server);
    mr_test_folder_remove(folder);
    return 0;
}

static mr_dataset *open_list(const char *name, const char *prefix, const char *further)
{
    char text[N_IMAGES * 64 + 1000], spec[PATH_BYTES];
    size_t len = 0;
    for (int i = 0; i < N_IMAGES; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%02d.jpg\t%d\n", prefix, i, i);
    len += (size_t)snprintf(text + len, sizeof text - len, "%s", further);
    mr_test_folder_write(folder, name, text, len);
    snprintf(spec, sizeof spec, "list:%s/%s", folder, name);
    return mr_test_dataset(spec);
}

static mr_loader_options base_options(uint32_t start_kind)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 5;
    o.seed = 5;
    o.num_workers = start_kind == 0 ? MR_NO_WORKERS : 2;
    o.start = start_kind;
    return o;
}

static struct mr_test_epoch run(mr_dataset *dataset, const mr_loader_options *o)
{
    mr_loader *loader = mr_test_loader(dataset, "train:48", o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 3);
    mr_loader_destroy(loader);
    return epoch;
}

static void keys_that_end_within_an_epoch_change_no_bit(void **state)
{
    (void)state;
    mr_loader_options o = base_options(MR_START_EXEC);
    mr_dataset *local = open_list("local", "", "");
    struct mr_test_epoch wanted = run(local, &o);
    mr_dataset_destroy(local);
    expires = true;
    mr_dataset *remote = open_list("remote", "s3://bucket/", "");
    for (uint32_t kind = 0; kind <= MR_START_EXEC; kind++) { /* without workers, and with them */
        int before = n_expired, sets = n_sets;
        n_signed = 0;
        n_refusals = kind == MR_START_EXEC ? 2 : 0;
        logged[0] = '\0';
        o = base_options(kind);
        struct mr_test_epoch epoch = run(remote, &o);
        if (epoch.status != MR_END || epoch.n_failures > 0)
            fail_msg("%s", epoch.first_error.text);
        assert_true(epoch.digest == wanted.digest);
        assert_true(n_expired > before);
        assert_true(n_sets > sets);
        if (kind == MR_START_EXEC)
            assert_string_equal(logged, "the keys for S3 are not renewed, and are used on: the "
                                        "container's endpoint: HTTP 403\n");
        mr_test_epoch_free(&epoch);
    }
    mr_test_epoch_free(&wanted);
    mr_dataset_destroy(remote);
    expires = false;
}

/* A worker whose memory is searched, and what was found. */
struct memory {
    int fd;
    unsigned long filter; /* of its core dumps */
    int n_in_core, n_elsewhere;
};

struct region {
    uint64_t start, end;
    char kind; /* 'p' or 's' */
    bool is_present, is_anonymous, is_excluded;
};

/* As the kernel decides for anonymous memory, private and shared. */
static bool is_in_core(const struct region *region, unsigned long filter)
{
    if (region->is_excluded)
        return false;
    return region->kind == 's' ? filter & 2 : region->is_anonymous && (filter & 1);
}

static void search_region(const struct region *region, struct memory *memory)
{
    size_t len = (size_t)(region->end - region->start);
    char *bytes = region->is_present && len <= 1 << 30 ? malloc(len) : NULL;
    ssize_t n = bytes ? pread(memory->fd, bytes, len, (off_t)region->start) : 0;
    if (n > 0 && memmem(bytes, (size_t)n, PLANTED, strlen(PLANTED)))
        ++*(is_in_core(region, memory->filter) ? &memory->n_in_core : &memory->n_elsewhere);
    free(bytes);
}

static FILE *open_of(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("cannot open %s", path);
    return file;
}

static void search_memory(pid_t pid, struct memory *memory)
{
    char line[1000], path[64], perms[8];
    struct region region = {0};
    unsigned long kb;
    FILE *file = open_of(pid, "coredump_filter");
    assert_int_equal(fscanf(file, "%lx", &memory->filter), 1);
    fclose(file);
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    memory->fd = open(path, O_RDONLY | O_CLOEXEC);
    file = open_of(pid, "smaps");
    while (fgets(line, sizeof line, file)) {
        uint64_t from, to;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, perms) == 3) {
            region = (struct region){.start = from, .end = to, .kind = perms[3]};
        } else if (sscanf(line, "Rss: %lu", &kb) == 1) {
            region.is_present = kb > 0;
        } else if (sscanf(line, "Anonymous: %lu", &kb) == 1) {
            region.is_anonymous = kb > 0;
        } else if (strncmp(line, "VmFlags:", 8) == 0) {
            region.is_excluded = strstr(line, " dd") || strstr(line, " io");
            search_region(&region, memory);
        }
    }
    fclose(file);
    close(memory->fd);
}

static void expect_not_in(FILE *file)
{
    static char bytes[1 << 20];
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    if (memmem(bytes, n, PLANTED, strlen(PLANTED)))
        fail_msg("a secret is in a file of a worker in /proc");
}

/* True for a worker of this process, or of its template. */
static bool is_worker(pid_t pid, pid_t parent)
{
    char line[300], name[32] = "";
    int ppid = 0;
    FILE *file = open_of(pid, "stat");
    if (fgets(line, sizeof line, file))
        sscanf(line, "%*d (%31[^)]) %*c %d", name, &ppid);
    fclose(file);
    if (strcmp(name, "millrace-worker") != 0 && strcmp(name, "millrace-templ") != 0)
        return false;
    return ppid == parent || is_worker((pid_t)ppid, parent);
}

/* Search the memory of all workers, and of the template. Returns their number. */
static int search_workers(bool is_forked)
{
    int n = 0, n_found = 0;
    struct dirent *entry;
    DIR *dir = opendir("/proc");
    while ((entry = readdir(dir))) {
        struct memory memory = {0};
        pid_t pid = atoi(entry->d_name);
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        if (pid <= 0 || access(path, R_OK) != 0 || !is_worker(pid, getpid()))
            continue;
        search_memory(pid, &memory);
        if (memory.n_in_core > 0)
            fail_msg("a secret would be in the core of a worker, with the filter %lx",
                     memory.filter);
        n_found += memory.n_elsewhere;
        expect_not_in(open_of(pid, "cmdline"));
        if (!is_forked) /* a forked worker has the memory of the program */
            expect_not_in(open_of(pid, "environ"));
        n++;
    }
    closedir(dir);
    assert_true(n_found > 0); /* it is there, and the search works */
    return n;
}

static int search_file(const char *path, const struct stat *st, int type, struct FTW *unused)
{
    (void)unused;
    if (type != FTW_F)
        return 0;
    char *bytes = calloc(1, (size_t)st->st_size + 1);
    FILE *file = fopen(path, "re");
    if (!bytes || !file)
        fail_msg("cannot read %s", path);
    size_t n = fread(bytes, 1, (size_t)st->st_size, file);
    fclose(file);
    if (memmem(bytes, n, PLANTED, strlen(PLANTED)))
        fail_msg("a secret is in %s", path);
    free(bytes);
    return 0;
}

static void expect_refusal(const char *spec)
{
    mr_dataset *dataset;
    mr_error error;
    assert_true(mr_dataset_open(spec, NULL, &dataset, &error) < 0);
    if (strstr(error.text, PLANTED))
        fail_msg("a secret is in '%s'", error.text);
}

/* Make every error that requests can end with, on all stores. */
static void make_errors(void)
{
    expect_refusal("tar:s3://bucket/refused.tar");
    expect_refusal("tar:s3://bucket/none.tar");
    expect_refusal("tar:gs://bucket/none.tar");
    expect_refusal("tar:hf://datasets/owner/name/none.tar");
    expect_refusal("tar:s3://bucket/00.jpg"); /* no tar */
}

static void search_everything(uint32_t kind)
{
    char path[PATH_BYTES];
    mr_loader_options o = base_options(kind);
    mr_batch *batch;
    mr_status status;
    int n_failures = 0;
    snprintf(path, sizeof path, "%s/trace", folder);
    o.trace = path;
    o.retry_ms = 100;
    mr_dataset *dataset =
        open_list("mixed", "s3://bucket/",
                  "s3://bucket/refused.jpg\t1\ns3://bucket/none.jpg\t1\ngs://bucket/01.jpg\t1\n"
                  "hf://datasets/owner/name/none.jpg\t1\ns3://bucket/mixed\t1\n");
    mr_loader *loader = mr_test_loader(dataset, "train:48", &o);
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) != MR_END) {
        if (status == MR_OK) {
            mr_batch_release(batch);
            continue;
        }
        n_failures++;
        if (strstr(mr_loader_error(loader)->text, PLANTED))
            fail_msg("a secret is in '%s'", mr_loader_error(loader)->text);
    }
    assert_true(n_failures > 0);
    assert_int_equal(search_workers(kind == MR_START_FORK), 2 + (kind == MR_START_FORK));
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void planted_keys_are_nowhere_but_in_memory_that_cores_leave_out(void **state)
{
    (void)state;
    logged[0] = '\0';
    setenv("HF_TOKEN", PLANTED "-hf", 1);
    setenv("GS_ACCESS_KEY_ID", "GID", 1);
    setenv("GS_SECRET_ACCESS_KEY", PLANTED "-gs", 1);
    make_errors();
    search_everything(MR_START_EXEC);
#ifndef MR_TEST_ASAN
    search_everything(MR_START_FORK);
#endif
    setenv("AWS_ACCESS_KEY_ID", "ID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", PLANTED "-env", 1);
    setenv("AWS_SESSION_TOKEN", PLANTED "-token-1", 1);
    make_errors();
    search_everything(MR_START_EXEC);
    if (strstr(logged, PLANTED))
        fail_msg("a secret was logged: %s", logged);
    nftw(folder, search_file, 16, FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_end_within_an_epoch_change_no_bit),
        cmocka_unit_test(planted_keys_are_nowhere_but_in_memory_that_cores_leave_out),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
