/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads through every reader and stores the outcomes. An outcome is copied before recycle, because
 * the buffer is used again at once.
 */
#include "tests/contract/reader_support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dataset/reader/reader_impl.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"

const struct way ways[N_WAYS] = {
    {"pread", MR_READER_PREAD, false, false, false},
    {"io_uring", MR_READER_URING, false, false, false},
    {"io_uring, plain descriptors", MR_READER_URING, true, false, false},
    {"http", MR_READER_AUTO, false, true, false},
    {"mapped files", MR_READER_PREAD, false, false, true},
};

const uint32_t depths[N_DEPTHS] = {1, 4, 128};

static char *folder_path;
static char server_url[64];

const char *folder(void)
{
    return folder_path;
}

/* A server in another process, whose descriptors and memory are not counted. */
static void start_server(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const char *own = mr_test_http_url(mr_test_http_start("", NULL, NULL));
        _exit(write(ends[1], own, strlen(own) + 1) < 0 || pause());
    }
    assert_true(read(ends[0], server_url, sizeof server_url) > 0);
    close(ends[0]);
    close(ends[1]);
}

int enter_folder(void **state)
{
    (void)state;
    if (!*server_url)
        start_server();
    folder_path = mr_test_folder_create();
    return 0;
}

const char *in_folder(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder_path, name);
    return path;
}

uint8_t pattern(uint64_t seed, uint64_t i)
{
    uint64_t x = (i + seed * 1000003u) * 0x9e3779b97f4a7c15u;
    return (uint8_t)(x >> 56);
}

void write_pattern(const char *name, uint64_t seed, size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(seed, i);
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

static mr_dataset *open_spec(const char *spec)
{
    mr_error error = {0};
    mr_dataset *dataset = NULL;
    if (mr_dataset_open(spec, NULL, &dataset, &error) != MR_OK)
        fail_msg("%.100s: %s", spec, error.text);
    return dataset;
}

mr_dataset *open_list(const char *const *names, size_t n)
{
    /* Each list has its own name, because a list stays mapped while its dataset is open. */
    static unsigned n_lists;
    char name[32], spec[600];
    snprintf(name, sizeof name, "files-%u.list", n_lists++);
    FILE *list = fopen(in_folder(name), "w");
    assert_non_null(list);
    for (size_t i = 0; i < n; i++)
        fprintf(list, "%s\t%zu\n", names[i], i);
    assert_int_equal(fclose(list), 0);
    snprintf(spec, sizeof spec, "list:%s", in_folder(name));
    return open_spec(spec);
}

mr_dataset *open_shards(uint32_t n, const char *keys)
{
    size_t size = n * (strlen(folder_path) + 24) + strlen(keys) + 32;
    char *spec = malloc(size);
    assert_non_null(spec);
    size_t len = (size_t)snprintf(spec, size, "records:");
    for (uint32_t i = 0; i < n; i++)
        len +=
            (size_t)snprintf(spec + len, size - len, "%s%s/shard-%u", i ? "," : "", folder_path, i);
    snprintf(spec + len, size - len, "?%s", keys);
    mr_dataset *dataset = open_spec(spec);
    free(spec);
    return dataset;
}

/* What submit() submits for the reader that was made last. */
static const struct mr_catalog *catalog_now;
static uint64_t max_bytes_now;

struct mr_reader_options reader_options(const struct way *way, uint32_t depth)
{
    return (struct mr_reader_options){.kind = way->kind,
                                      .depth = depth,
                                      .root_url = way->is_remote ? server_url : NULL,
                                      .retry_ms = 5000,
                                      .plain_descriptors = way->plain_descriptors,
                                      .maps_files = way->maps_files};
}

static void on_bus(int signal_)
{
    mr_reader_leave_copy();
    signal(signal_, SIG_DFL); /* another fault ends the test, as it did without a handler */
}

/* cmocka sets a handler of its own before each test. */
static void catch_bus(void)
{
    struct sigaction action = {.sa_handler = on_bus, .sa_flags = SA_NODEFER};
    assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
}

static mr_status create(const mr_dataset *dataset, const struct way *way, uint32_t depth,
                        struct mr_reader **reader_out, mr_error *error)
{
    struct mr_reader_options options = reader_options(way, depth);
    mr_status status = mr_reader_create(mr_dataset_catalog(dataset), &options, reader_out, error);
    if (status == MR_OK && way->maps_files) {
        catch_bus();
        (*reader_out)->mapped.n_cached = MR_READER_PROBES;
    }
    return status;
}

void submit_from(const mr_dataset *dataset, uint64_t max_bytes)
{
    catalog_now = mr_dataset_catalog(dataset);
    max_bytes_now = max_bytes;
}

void submit(struct mr_reader *reader, uint64_t tag, int64_t index)
{
    struct mr_part_list list;
    mr_catalog_parts(catalog_now, index, max_bytes_now, &list);
    mr_reader_submit(reader, tag, index, &list);
}

void submit_range(struct mr_reader *reader, uint64_t tag, const struct range *range, bool marks)
{
    struct mr_part_list list;
    struct mr_extent extent;
    mr_catalog_parts(catalog_now, range->index, max_bytes_now, &list);
    assert_int_equal(
        mr_catalog_restrict(catalog_now, range->index, range->offset, range->len, &list, NULL),
        MR_OK);
    if (marks && mr_catalog_marks(catalog_now, range->index, &extent))
        mr_part_list_add(&list, extent, extent.len, MR_FOR_MARKS);
    mr_reader_submit(reader, tag, range->index, &list);
}

struct mr_reader *make_reader(const mr_dataset *dataset, const struct way *way, uint32_t depth,
                              uint64_t max_bytes)
{
    mr_error error = {0};
    struct mr_reader *reader;
    if (create(dataset, way, depth, &reader, &error) != MR_OK)
        fail_msg("%s: %s", way->name, error.text);
    submit_from(dataset, max_bytes);
    return reader;
}

bool way_works(const struct way *way)
{
    static int known[N_WAYS]; /* 0: not tried; 1: works; -1: refused */
    int *answer = &known[way - ways];
    if (*answer)
        return *answer > 0;
    mr_error error = {0};
    struct mr_reader *reader;
    write_pattern("probe.bin", 0, 1);
    mr_dataset *dataset = open_list((const char *[]){"probe.bin"}, 1);
    *answer = create(dataset, way, 1, &reader, &error) == MR_OK ? 1 : -1;
    if (*answer < 0)
        print_message("not tested here: %s: %s\n", way->name, error.text);
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
    return *answer > 0;
}

/* The bytes of all parts, one after the other. */
static void copy_parts(struct outcome *outcome, const struct mr_read *read)
{
    outcome->bytes = malloc(mr_read_bytes(read) + 1);
    assert_non_null(outcome->bytes);
    for (uint32_t i = 0; i < read->list->n; i++) {
        const struct mr_read_part *part = &read->part[i];
        memcpy(outcome->bytes + outcome->len, part->bytes, part->len);
        for (size_t k = 0; k < 64; k++)
            assert_int_equal(part->bytes[part->len + k], 0);
        outcome->len += part->len;
    }
}

static void store_outcome(struct outcome *outcome, const struct mr_read *read, size_t position)
{
    assert_int_equal(outcome->index, -1); /* each tag is returned once */
    assert_int_equal(read->tag, 1000 + position);
    outcome->index = read->index;
    outcome->status = read->status;
    if (read->status == MR_OK) {
        assert_null(read->error);
        copy_parts(outcome, read);
    } else {
        assert_non_null(read->error);
        assert_int_equal(read->error->status, read->status);
        assert_int_equal(read->error->index, read->index);
        outcome->os_error = read->error->os_error;
        memcpy(outcome->text, read->error->text, sizeof outcome->text);
    }
}

static void submit_index(struct mr_reader *reader, size_t i, const void *indices)
{
    submit(reader, 1000 + i, ((const int64_t *)indices)[i]);
}

static void submit_one_range(struct mr_reader *reader, size_t i, const void *ranges)
{
    submit_range(reader, 1000 + i, (const struct range *)ranges + i, false);
}

static struct outcome *read_n(struct mr_reader *reader, uint32_t depth, size_t n,
                              void (*begin)(struct mr_reader *reader, size_t i, const void *what),
                              const void *what)
{
    struct outcome *outcomes = calloc(n, sizeof *outcomes);
    assert_non_null(outcomes);
    for (size_t i = 0; i < n; i++)
        outcomes[i].index = -1;
    size_t n_submitted = 0, n_ended = 0;
    while (n_ended < n) {
        for (; n_submitted < n && mr_reader_n_busy(reader) < depth; n_submitted++)
            begin(reader, n_submitted, what);
        assert_int_equal(mr_reader_n_pending(reader), n_submitted - n_ended);
        struct mr_read read;
        assert_true(mr_reader_reap(reader, true, &read));
        assert_in_range(read.tag, 1000, 1000 + n - 1);
        store_outcome(&outcomes[read.tag - 1000], &read, (size_t)read.tag - 1000);
        mr_reader_recycle(reader, &read);
        n_ended++;
    }
    struct mr_read none;
    assert_false(mr_reader_reap(reader, true, &none));
    assert_int_equal(mr_reader_n_busy(reader), 0);
    return outcomes;
}

struct outcome *read_with(struct mr_reader *reader, uint32_t depth, const int64_t *indices,
                          size_t n)
{
    return read_n(reader, depth, n, submit_index, indices);
}

struct outcome *read_ranges(struct mr_reader *reader, uint32_t depth, const struct range *ranges,
                            size_t n)
{
    return read_n(reader, depth, n, submit_one_range, ranges);
}

struct outcome *read_all(const mr_dataset *dataset, const struct way *way, uint32_t depth,
                         uint64_t max_bytes, const int64_t *indices, size_t n)
{
    struct mr_reader *reader = make_reader(dataset, way, depth, max_bytes);
    struct outcome *outcomes = read_with(reader, depth, indices, n);
    mr_reader_destroy(reader);
    return outcomes;
}

void free_outcomes(struct outcome *outcomes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(outcomes[i].bytes);
    free(outcomes);
}

bool is_message(const char *way, const char *text, const char *message)
{
    const char *words = strstr(text, "): HTTP 4");
    bool refused =
        strcmp(way, "http") == 0 && words && strncmp(text, message, (size_t)(words - text)) == 0;
    return refused || strcmp(text, message) == 0;
}

/* True if a says that the server refuses the file of the error b. */
static bool is_refusal(const struct outcome *a, const struct outcome *b, const char *way)
{
    return is_message(way, a->text, b->text) && a->status == b->status && a->index == b->index &&
           a->len == 0 && a->os_error == ENOENT && b->os_error != 0;
}

void assert_same(const struct outcome *a, const struct outcome *b, const char *way)
{
    if (is_refusal(a, b, way))
        return;
    if (a->index != b->index || a->status != b->status || a->os_error != b->os_error ||
        a->len != b->len)
        fail_msg("%s: index %lld/%lld status %s/%s os_error %d/%d len %zu/%zu text \"%s\"/\"%s\"",
                 way, (long long)a->index, (long long)b->index, mr_status_name(a->status),
                 mr_status_name(b->status), a->os_error, b->os_error, a->len, b->len, a->text,
                 b->text);
    assert_string_equal(a->text, b->text);
    if (a->len > 0)
        assert_memory_equal(a->bytes, b->bytes, a->len);
}

static void read_fully(int fd, uint8_t *bytes, size_t len, uint64_t offset)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, bytes + done, len - done, (off_t)(offset + done));
        assert_true(n > 0);
        done += (size_t)n;
    }
}

uint8_t *oracle(const mr_dataset *dataset, int64_t index, size_t *len_out)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    struct mr_part_list list;
    uint8_t *bytes = NULL;
    size_t len = 0;
    mr_catalog_parts(catalog, index, NO_LIMIT, &list);
    for (uint32_t i = 0; i < list.n; i++) {
        const struct mr_extent *extent = &list.part[i].extent;
        char path[MR_CATALOG_PATH];
        struct stat st;
        assert_int_equal(mr_catalog_path(catalog, extent->file, path), 0);
        int fd = openat(mr_catalog_root(catalog), path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        size_t part = extent->len == MR_LEN_UNKNOWN ? (size_t)st.st_size : (size_t)extent->len;
        bytes = realloc(bytes, len + part + 1);
        assert_non_null(bytes);
        read_fully(fd, bytes + len, part, extent->offset);
        len += part;
        close(fd);
    }
    *len_out = len;
    return bytes;
}

uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint64_t fresh_seed(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = (uint64_t)now.tv_nsec * 1000003u + (uint64_t)now.tv_sec + 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

void expect_oracle(const mr_dataset *dataset, const struct outcome *outcome, const char *way)
{
    size_t len;
    uint8_t *bytes = oracle(dataset, outcome->index, &len);
    struct outcome expected = {
        .index = outcome->index, .status = MR_OK, .len = len, .bytes = bytes};
    assert_same(outcome, &expected, way);
    free(bytes);
}

uint32_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    uint32_t n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

size_t resident_bytes(void)
{
    unsigned long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}
