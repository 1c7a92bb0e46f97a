/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace check URL` and `millrace list URL`, with servers of different abilities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/support/http_server.h"
#include "tests/tools/run_command.h"

static struct mr_test_http *server;
static enum mr_test_fault fault;
static unsigned n_closed;

static enum mr_test_fault choose(void *user, const struct mr_test_http_request *request)
{
    (void)user, (void)request;
    /* the rates would need too many connections */
    if (fault == MR_TEST_HTTP_CLOSE && n_closed++ >= 20)
        return MR_TEST_HTTP_GOOD;
    return fault;
}

/* The page of a folder of two classes. */
static bool answer(void *user, const struct mr_test_http_request *request,
                   struct mr_test_http_page *page)
{
    (void)user;
    size_t len = strlen(request->path);
    if (request->path[len - 1] != '/')
        return false;
    page->body = strdup(strcmp(request->path, "/photos/") == 0
                            ? "<a href='class_1/'>1</a><a href='class_0/'>0</a>"
                            : "<a href='1.jpg'>1</a><a href='0.jpg'>0</a><a href='n.txt'>n</a>");
    return true;
}

static int set_up(void **state)
{
    char folder[4096];
    mr_run_enter_folder(state);
    mr_run_make_images("photos", 2, 2);
    mr_run_write_file("empty", "", 0);
    fault = MR_TEST_HTTP_GOOD;
    server = mr_test_http_start(realpath(".", folder), choose, NULL);
    mr_test_http_answer_with(server, answer);
    return 0;
}

static int tear_down(void **state)
{
    mr_test_http_stop(server);
    return mr_run_leave_folder(state);
}

static void check(struct mr_run *run, const char *path, int status, const char *words)
{
    char url[200];
    snprintf(url, sizeof url, "%s/%s", mr_test_http_url(server), path);
    mr_run_command(run, "check", "--connections", "4", url, NULL);
    if (run->status != status)
        fail_msg("status %d: %s%s", run->status, run->out, run->err);
    assert_words(status == 0 ? run->out : run->err, words);
}

static void a_good_server_is_praised(void **state)
{
    (void)state;
    struct mr_run run = {0};
    check(&run, "photos/class_0/1.jpg", 0, "A loader can use this server.\n");
    assert_words(run.out, "TLS             no\n");
    assert_words(run.out, "ranges          yes: 206 with the right bytes\n");
    assert_words(run.out, "ETag            strong");
    assert_words(run.out, "If-Match        honoured");
    assert_words(run.out, "Content-Length  stated\nkeep-alive      yes\ndelay ");
    assert_words(run.out, "MB/s over 4, in ranges of ");
    assert_words(run.out, "suggestion      --workers ");
    assert_string_equal(run.err, "");
    /* of a folder the first file is read */
    check(&run, "photos/", 0, "A loader can use this server.\n");
    assert_words(run.out, "/photos/class_1/1.jpg\n");
    check(&run, "photos/class_0/1.jpg?sig=secret", 0, "/photos/class_0/1.jpg\n");
    assert_null(strstr(run.out, "secret"));
    /* as in a SPEC */
    check(&run, "photos/class_0/1%2ejpg%3fsig=secret", 0, "/photos/class_0/1.jpg\n");
    assert_null(strstr(run.out, "secret"));
    mr_run_free(&run);
}

static void an_endpoint_without_tls_is_told(void **state)
{
    struct mr_run run = {0};
    (void)state;
    setenv("AWS_ENDPOINT_URL", mr_test_http_url(server), 1);
    setenv("AWS_NO_SIGN_REQUEST", "1", 1);
    mr_run_command(&run, "check", "--connections", "4", "s3://photos/class_0/1.jpg", NULL);
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_NO_SIGN_REQUEST");
    assert_words(run.out, "TLS             no\n");
    mr_run_free(&run);
}

static void what_a_server_lacks_is_told(void **state)
{
    static const struct {
        enum mr_test_fault fault;
        int status;
        const char *words;
    } cases[] = {
        {MR_TEST_HTTP_WEAK_ETAG, 0, "ETag            weak"},
        {MR_TEST_HTTP_NO_ETAG, 0, "ETag            none"},
        {MR_TEST_HTTP_OTHER_ETAG, 0, "If-Match        ignored"},
        {MR_TEST_HTTP_CHUNKED, 0, "Content-Length  not stated"},
        {MR_TEST_HTTP_CLOSE, 0, "keep-alive      no"},
        {MR_TEST_HTTP_NO_RANGES, 1, "a loader cannot use this server: HTTP 200 instead of 206"},
        {MR_TEST_HTTP_FORBIDDEN, 1, "/photos/class_0/1.jpg: HTTP 403 Forbidden"},
        {MR_TEST_HTTP_OTHER_RANGE, 1, "the server sent bytes"},
        {MR_TEST_HTTP_GZIP, 1, "the server sent it encoded (gzip)"},
    };
    struct mr_run run = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fault = cases[i].fault;
        check(&run, "photos/class_0/1.jpg", cases[i].status, cases[i].words);
    }
    mr_run_free(&run);
}

static void what_cannot_be_checked_is_named(void **state)
{
    (void)state;
    struct mr_run run = {0};
    check(&run, "none.jpg?sig=secret", 1, "/none.jpg: HTTP 404 Not Found");
    assert_null(strstr(run.err, "secret"));
    check(&run, "none.jpg%3Fsig=secret", 1, "/none.jpg: HTTP 404 Not Found");
    assert_null(strstr(run.err, "secret"));
    mr_run_command(&run, "check", "http://user:secret@host/x", NULL);
    assert_int_equal(run.status, 2);
    assert_null(strstr(run.err, "secret"));
    mr_run_command(&run, "check", "s3:///x", NULL);
    assert_int_equal(run.status, 2);
    mr_run_free(&run);
}

static void a_listed_folder_is_saved_and_none_of_its_files_is_opened(void **state)
{
    char url[200], wanted[2000];
    const char *at = mr_test_http_url(server);
    struct mr_run run = {0};
    size_t len;
    (void)state;
    snprintf(url, sizeof url, "%s/photos/", at);
    mr_run_command(&run, "list", url, "--save", "l", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, ": 4 samples, 2 classes\n");
    assert_words(run.out, "     0        2  class_0\n     1        2  class_1\n");
    assert_words(run.err, "/photos/: files that are not listed: 2 .txt\n");
    assert_int_equal(mr_test_http_n_requests(server), 3);
    char *list = mr_run_read_file("l", &len);
    snprintf(wanted, sizeof wanted,
             "# classes:\tclass_0\tclass_1\n%s/photos/class_0/0.jpg\t0\n"
             "%s/photos/class_0/1.jpg\t0\n%s/photos/class_1/0.jpg\t1\n"
             "%s/photos/class_1/1.jpg\t1\n",
             at, at, at, at);
    assert_string_equal(list, wanted);
    free(list);
    mr_run_command(&run, "list", "list:l", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "jpeg            4\n");
    mr_run_command(&run, "list", url, "--no-classes", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, ": 4 samples\n");
    mr_run_free(&run);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_good_server_is_praised), T(an_endpoint_without_tls_is_told),
        T(what_a_server_lacks_is_told), T(what_cannot_be_checked_is_named),
        T(a_listed_folder_is_saved_and_none_of_its_files_is_opened)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
