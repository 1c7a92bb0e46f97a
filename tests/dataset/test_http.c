/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets from a server that misbehaves: the right bytes after tries, or an end with words; never more
 * transfers than connections.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "dataset/remote/http.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"

enum { FILE_BYTES = 300000, N_GETS = 40 };

struct rig {
    char *folder;
    struct mr_test_http *server;
    struct mr_http *http;
    enum mr_test_fault fault;
    uint64_t n_faults; /* that are left */
    uint8_t bytes[FILE_BYTES];
    char url[200];
};

/* A get with its buffer. */
struct get {
    struct mr_http_get get;
    uint8_t *bytes;
};

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    struct rig *rig = user;
    (void)request;
    if (rig->n_faults == 0)
        return MR_TEST_HTTP_GOOD;
    rig->n_faults--;
    return rig->fault;
}

static uint8_t *reserve(void *user, size_t len)
{
    struct get *get = user;
    get->bytes = realloc(get->bytes, len + 1);
    return get->bytes;
}

static void open_http(struct rig *rig, uint32_t n_connections, uint32_t retry_ms)
{
    mr_error error;
    struct mr_http_options options = {
        .n_connections = n_connections, .retry_ms = retry_ms, .stall_s = 1};
    mr_http_destroy(rig->http);
    if (mr_http_create(&options, &rig->http, &error) != MR_OK)
        fail_msg("%s", error.text);
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    for (size_t i = 0; i < FILE_BYTES; i++)
        rig->bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    rig->folder = mr_test_folder_create();
    mr_test_folder_write(rig->folder, "a b%.bin", rig->bytes, FILE_BYTES);
    mr_test_folder_write(rig->folder, "empty", "", 0);
    rig->server = mr_test_http_start(rig->folder, choose, rig);
    snprintf(rig->url, sizeof rig->url, "%s/a b%%.bin", mr_test_http_url(rig->server));
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    mr_http_destroy(rig->http);
    mr_test_http_stop(rig->server);
    mr_test_folder_remove(rig->folder);
    free(rig);
    return 0;
}

static void begin(struct rig *rig, struct get *get, uint64_t offset, uint64_t len)
{
    get->get = (struct mr_http_get){.url = rig->url,
                                    .wish = {.offset = offset, .len = len, .max_bytes = 1 << 20},
                                    .reserve = reserve,
                                    .user = get};
    mr_http_begin(rig->http, &get->get);
}

static void expect_bytes(const struct rig *rig, const struct get *get)
{
    uint64_t offset = get->get.wish.offset, len = get->get.wish.len;
    if (get->get.status != MR_OK)
        fail_msg("bytes %" PRIu64 " to %" PRIu64 ": %s", offset, offset + len - 1, get->get.words);
    if (len == MR_LEN_UNKNOWN)
        len = FILE_BYTES;
    assert_int_equal(get->get.len, len);
    assert_memory_equal(get->bytes, rig->bytes + offset, len);
}

static struct get run(struct rig *rig, uint64_t offset, uint64_t len,
                      const struct mr_object_version *version)
{
    struct get get = {.bytes = NULL};
    begin(rig, &get, offset, len);
    get.get.wish.version = version;
    struct mr_http_get *ended = mr_http_next(rig->http, true);
    assert_ptr_equal(ended, &get.get);
    assert_null(mr_http_next(rig->http, true));
    return get;
}

static void get_many(struct rig *rig)
{
    static struct get gets[N_GETS];
    memset(gets, 0, sizeof gets);
    for (size_t i = 0; i < N_GETS; i++)
        begin(rig, &gets[i], i * 7001, i % 10 == 9 && i * 7001 == 0 ? MR_LEN_UNKNOWN : 1 + i * 501);
    size_t n = 0;
    while (mr_http_next(rig->http, true))
        n++;
    assert_int_equal(n, N_GETS);
    for (size_t i = 0; i < N_GETS; i++) {
        expect_bytes(rig, &gets[i]);
        free(gets[i].bytes);
    }
}

static void many_ranges_come_over_few_connections(void **state)
{
    struct rig *rig = *state;
    for (uint32_t n = 1; n <= 8; n *= 2) {
        uint32_t before = mr_test_http_n_connections(rig->server);
        open_http(rig, n, 5000);
        get_many(rig);
        get_many(rig);
        assert_in_range(mr_test_http_n_connections(rig->server) - before, 1, n);
    }
    assert_in_range(mr_test_http_most(rig->server), 1, 8 + 4); /* the old ones may close late */
}

static void whole_files_and_their_ends(void **state)
{
    struct rig *rig = *state;
    open_http(rig, 1, 1000);
    struct get get = run(rig, 0, MR_LEN_UNKNOWN, NULL);
    expect_bytes(rig, &get);
    assert_int_equal(get.get.version.size, FILE_BYTES);
    assert_int_equal(get.get.version.etag[0], '"');
    free(get.bytes);
    get = run(rig, FILE_BYTES - 1, 1, NULL);
    expect_bytes(rig, &get);
    assert_int_equal(get.get.version.size, FILE_BYTES);
    free(get.bytes);
    get = run(rig, FILE_BYTES - 10, 11, NULL);
    assert_int_equal(get.get.status, MR_ERR_DAMAGED);
    assert_string_equal(get.get.words, "file ends at byte 300000, needs 300001");
    free(get.bytes);
    get = run(rig, FILE_BYTES + 7, 11, NULL);
    assert_string_equal(get.get.words, "file ends at byte 300000, needs 300018");
    free(get.bytes);
    snprintf(rig->url, sizeof rig->url, "%s/empty", mr_test_http_url(rig->server));
    get = run(rig, 0, MR_LEN_UNKNOWN, NULL);
    assert_int_equal(get.get.status, MR_OK);
    assert_int_equal(get.get.len, 0);
    free(get.bytes);
    /* an empty file has no ranges, also if the server ignores them */
    rig->fault = MR_TEST_HTTP_NO_RANGES;
    for (uint64_t i = 0; i < 2; i++) {
        rig->n_faults = i;
        get = run(rig, 0, 1, NULL);
        assert_string_equal(get.get.words, "file ends at byte 0, needs 1");
        assert_int_equal(get.get.version.size, 0);
        free(get.bytes);
    }
}

/* Faults that pass: the first answers are bad, then the bytes come. */
static void after_every_passing_fault_the_bytes_are_right(void **state)
{
    struct rig *rig = *state;
    for (enum mr_test_fault fault = MR_TEST_HTTP_NO_ETAG; fault <= MR_TEST_HTTP_SILENT; fault++) {
        if (fault == MR_TEST_HTTP_LATER)
            continue;
        open_http(rig, 4, 20000);
        rig->fault = fault;
        rig->n_faults = fault == MR_TEST_HTTP_STALL || fault == MR_TEST_HTTP_SILENT ||
                                fault == MR_TEST_HTTP_RETRY_AFTER
                            ? 4
                            : 12;
        get_many(rig);
        assert_int_equal(rig->n_faults, 0);
        struct get get = run(rig, 0, MR_LEN_UNKNOWN, NULL);
        expect_bytes(rig, &get);
        free(get.bytes);
    }
}

static void expect_end(struct rig *rig, enum mr_test_fault fault, uint32_t retry_ms, int os_error,
                       const char *words)
{
    open_http(rig, 2, retry_ms);
    rig->fault = fault;
    rig->n_faults = UINT64_MAX;
    uint64_t begin_ns = mr_clock_now_ns(), n = mr_test_http_n_requests(rig->server);
    struct get get = run(rig, 100, 1000, NULL);
    assert_int_equal(get.get.status, MR_ERR_DAMAGED);
    assert_int_equal(get.get.os_error, os_error);
    if (!strstr(get.get.words, words))
        fail_msg("'%s' is not in '%s'", words, get.get.words);
    if (strstr(get.get.words, "tries")) { /* until its time was over */
        assert_true(mr_clock_now_ns() - begin_ns >= retry_ms * UINT64_C(1000000));
        assert_true(mr_test_http_n_requests(rig->server) - n > 1);
    }
    free(get.bytes);
}

static void faults_that_stay_end_with_words(void **state)
{
    struct rig *rig = *state;
    expect_end(rig, MR_TEST_HTTP_BUSY, 400, 0, "HTTP 503 Slow Down (");
    expect_end(rig, MR_TEST_HTTP_ERROR, 400, 0, "HTTP 500 Internal Server Error (");
    expect_end(rig, MR_TEST_HTTP_LATER, 60000, 0, "HTTP 503 Service Unavailable (1 try in ");
    expect_end(rig, MR_TEST_HTTP_NO_RANGES, 400, 0, "HTTP 200 instead of 206");
    expect_end(rig, MR_TEST_HTTP_OTHER_RANGE, 400, 0,
               "the server sent bytes 99 to 1098 instead of 100 to 1099 (");
    expect_end(rig, MR_TEST_HTTP_NO_CONTENT_RANGE, 400, 0, "HTTP 206 without a Content-Range (");
    expect_end(rig, MR_TEST_HTTP_GZIP, 400, 0, "the server sent it encoded (gzip) (");
    expect_end(rig, MR_TEST_HTTP_SHORT, 400, 0, "the server sent 500 bytes instead of 1000 (");
    expect_end(rig, MR_TEST_HTTP_RESET, 400, 0, "(");
    expect_end(rig, MR_TEST_HTTP_GARBAGE, 400, 0, "(");
    expect_end(rig, MR_TEST_HTTP_STALL, 400, 0, "(");
    expect_end(rig, MR_TEST_HTTP_LOOP, 60000, 0, "redirect");
    expect_end(rig, MR_TEST_HTTP_FORBIDDEN, 60000, EACCES, "HTTP 403 Forbidden");
    rig->n_faults = 0;
    snprintf(rig->url, sizeof rig->url, "%s/missing", mr_test_http_url(rig->server));
    expect_end(rig, MR_TEST_HTTP_GOOD, 60000, ENOENT, "HTTP 404 Not Found");
}

static void a_replaced_object_is_an_error_whatever_the_server_checks(void **state)
{
    static const enum mr_test_fault answers[] = {MR_TEST_HTTP_GOOD, MR_TEST_HTTP_WEAK_ETAG,
                                                 MR_TEST_HTTP_NO_ETAG, MR_TEST_HTTP_CHUNKED};
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        open_http(rig, 1, 1000);
        mr_test_folder_write(rig->folder, "a b%.bin", rig->bytes, FILE_BYTES);
        rig->fault = answers[i];
        rig->n_faults = UINT64_MAX;
        struct get first = run(rig, 5, 100, NULL);
        expect_bytes(rig, &first);
        struct get again = run(rig, 100, 100, &first.get.version);
        expect_bytes(rig, &again);
        free(again.bytes);
        mr_test_folder_write(rig->folder, "a b%.bin", rig->bytes, FILE_BYTES - 1);
        again = run(rig, 100, 100, &first.get.version);
        assert_int_equal(again.get.status, MR_ERR_DAMAGED);
        assert_int_equal(again.get.os_error, ESTALE);
        free(again.bytes);
        free(first.bytes);
    }
    mr_test_folder_write(rig->folder, "a b%.bin", rig->bytes, FILE_BYTES);
    rig->fault = MR_TEST_HTTP_GOOD;
    struct get first = run(rig, 5, 100, NULL);
    rig->fault = MR_TEST_HTTP_OTHER_ETAG; /* the server ignores If-Match */
    struct get again = run(rig, 5, 100, &first.get.version);
    assert_int_equal(again.get.os_error, ESTALE);
    free(again.bytes);
    free(first.bytes);
}

static void a_body_above_the_limit_is_refused(void **state)
{
    struct rig *rig = *state;
    for (int chunked = 0; chunked < 2; chunked++) {
        struct get get = {.bytes = NULL};
        open_http(rig, 1, 60000);
        rig->fault = MR_TEST_HTTP_CHUNKED;
        rig->n_faults = chunked ? UINT64_MAX : 0;
        begin(rig, &get, 0, MR_LEN_UNKNOWN);
        get.get.wish.max_bytes = FILE_BYTES - 1;
        assert_non_null(mr_http_next(rig->http, true));
        assert_int_equal(get.get.status, MR_ERR_DAMAGED);
        assert_string_equal(get.get.words, chunked ? "more bytes than the limit of 299999"
                                                   : "300000 bytes are above the limit of 299999");
        free(get.bytes);
    }
}

static void no_server_is_an_error_with_its_address(void **state)
{
    struct rig *rig = *state;
    open_http(rig, 1, 300);
    snprintf(rig->url, sizeof rig->url, "http://127.0.0.1:1/x");
    struct get get = run(rig, 0, 10, NULL);
    assert_int_equal(get.get.status, MR_ERR_DAMAGED);
    assert_non_null(strstr(get.get.words, "127.0.0.1"));
    free(get.bytes);
}

/* Run a get of a port where nothing listens. Returns the time in ms. */
static uint64_t run_refused(struct rig *rig)
{
    uint64_t before_ns = mr_clock_now_ns();
    snprintf(rig->url, sizeof rig->url, "http://127.0.0.1:1/x");
    struct get get = run(rig, 0, 10, NULL);
    assert_int_equal(get.get.status, MR_ERR_DAMAGED);
    free(get.bytes);
    return (mr_clock_now_ns() - before_ns) / 1000000;
}

static void a_refused_connection_ends_sooner_if_no_server_has_answered(void **state)
{
    struct rig *rig = *state;
    struct mr_http_options options = {.n_connections = 1, .retry_ms = 2000, .refused_ms = 100};
    assert_int_equal(mr_http_create(&options, &rig->http, NULL), MR_OK);
    assert_in_range(run_refused(rig), 100, 1900);
    snprintf(rig->url, sizeof rig->url, "%s/missing", mr_test_http_url(rig->server));
    struct get get = run(rig, 0, 10, NULL);
    assert_int_equal(get.get.os_error, ENOENT);
    free(get.bytes);
    assert_true(run_refused(rig) >= 2000);
}

/* Not a fault of the file. It is read as soon as there are descriptors. */
static void a_lack_of_descriptors_is_not_damage(void **state)
{
    struct rig *rig = *state;
    struct rlimit limit, low;
    open_http(rig, 1, 300);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int fd = dup(STDIN_FILENO);
    assert_true(fd >= 0);
    low = (struct rlimit){.rlim_cur = (rlim_t)fd, .rlim_max = limit.rlim_max};
    close(fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    struct get get = run(rig, 0, 10, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(get.get.status, MR_ERR_IO);
    assert_int_equal(get.get.os_error, EMFILE);
    assert_non_null(strstr(get.get.words, "Too many open files ("));
    free(get.bytes);
    get = run(rig, 0, 10, NULL);
    expect_bytes(rig, &get);
    free(get.bytes);
}

static void gets_in_flight_are_dropped(void **state)
{
    struct rig *rig = *state;
    struct get gets[20] = {{.bytes = NULL}};
    open_http(rig, 4, 60000);
    rig->fault = MR_TEST_HTTP_SLOW;
    rig->n_faults = UINT64_MAX;
    for (size_t i = 0; i < 20; i++)
        begin(rig, &gets[i], 0, 200000);
    assert_null(mr_http_next(rig->http, false));
    mr_http_destroy(rig->http);
    rig->http = NULL;
    for (size_t i = 0; i < 20; i++)
        free(gets[i].bytes);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(many_ranges_come_over_few_connections),
        T(whole_files_and_their_ends),
        T(after_every_passing_fault_the_bytes_are_right),
        T(faults_that_stay_end_with_words),
        T(a_replaced_object_is_an_error_whatever_the_server_checks),
        T(a_body_above_the_limit_is_refused),
        T(no_server_is_an_error_with_its_address),
        T(a_refused_connection_ends_sooner_if_no_server_has_answered),
        T(a_lack_of_descriptors_is_not_damage),
        T(gets_in_flight_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
