/* SPDX-License-Identifier: Apache-2.0 */
/* Small requests: what is sent, what comes back, when they are tried again, what errors say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "dataset/remote/fetch.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"

struct rig {
    char *folder;
    struct mr_test_http *server;
    struct mr_fetch *fetch;
    enum mr_test_fault fault;
    uint64_t n_faults; /* that are left */
    char head[4096];   /* of the last request that was answered with a page */
    char body[4096];
    char url[200];
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

static bool answer(void *user, const struct mr_test_http_request *request,
                   struct mr_test_http_page *page_out)
{
    struct rig *rig = user;
    if (strcmp(request->path, "/page") != 0)
        return false;
    snprintf(rig->head, sizeof rig->head, "%s", request->head);
    snprintf(rig->body, sizeof rig->body, "%s", request->body);
    snprintf(page_out->headers, sizeof page_out->headers, "X-One:  a b \r\nX-Two-More: c\r\n");
    page_out->status = "201 Created";
    page_out->body = strdup("the answer");
    return true;
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    mr_error error;
    assert_non_null(rig);
    rig->folder = mr_test_folder_create();
    mr_test_folder_write(rig->folder, "file", "0123456789", 10);
    rig->server = mr_test_http_start(rig->folder, choose, rig);
    mr_test_http_answer_with(rig->server, answer);
    snprintf(rig->url, sizeof rig->url, "%s/page?key=SECRET", mr_test_http_url(rig->server));
    if (mr_fetch_create(&rig->fetch, &error) != MR_OK)
        fail_msg("%s", error.text);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    mr_fetch_destroy(rig->fetch);
    mr_test_http_stop(rig->server);
    mr_test_folder_remove(rig->folder);
    free(rig);
    return 0;
}

static struct mr_fetch_answer run(struct rig *rig, const struct mr_fetch_request *request)
{
    struct mr_fetch_answer answered;
    mr_error error;
    if (mr_fetch_run(rig->fetch, request, &answered, &error) != MR_OK)
        fail_msg("%s", error.text);
    return answered;
}

static void requests_have_method_headers_and_body(void **state)
{
    struct rig *rig = *state;
    const char *const headers[] = {"X-Asked: 1", "Authorization: Bearer x", NULL};
    struct mr_fetch_header wanted[] = {
        {.name = "x-one"}, {.name = "X-Two"}, {.name = "X-TWO-MORE"}};
    struct mr_fetch_request request = {.url = rig->url,
                                       .headers = headers,
                                       .timeout_ms = 5000,
                                       .max_bytes = 10,
                                       .wanted = wanted,
                                       .n_wanted = 3};
    struct mr_fetch_answer answered = run(rig, &request);
    assert_int_equal(answered.code, 201);
    assert_int_equal(answered.len, 10);
    assert_string_equal(answered.body, "the answer");
    assert_string_equal(wanted[0].value, "a b");
    assert_string_equal(wanted[1].value, "");
    assert_string_equal(wanted[2].value, "c");
    assert_non_null(strstr(rig->head, "GET /page?key=SECRET HTTP/1.1\r\n"));
    assert_non_null(strstr(rig->head, "X-Asked: 1\r\nAuthorization: Bearer x\r\n"));
    request.method = "PUT";
    run(rig, &request);
    assert_non_null(strstr(rig->head, "PUT /page"));
    assert_string_equal(rig->body, "");
    request.method = "POST";
    request.body = "a=1&b=2";
    run(rig, &request);
    assert_non_null(strstr(rig->head, "POST /page"));
    assert_string_equal(rig->body, "a=1&b=2");
    request = (struct mr_fetch_request){.method = "HEAD", .url = rig->url, .timeout_ms = 5000};
    answered = run(rig, &request);
    assert_non_null(strstr(rig->head, "HEAD /page"));
    assert_null(strstr(rig->head, "X-Asked"));
    assert_int_equal(answered.len, 0);
    request = (struct mr_fetch_request){.url = rig->url, .timeout_ms = 5000, .max_bytes = 99};
    run(rig, &request);
    assert_non_null(strstr(rig->head, "GET /page"));
    assert_int_equal(mr_test_http_n_connections(rig->server), 1);
}

static void busy_servers_are_asked_again(void **state)
{
    static const enum mr_test_fault faults[] = {MR_TEST_HTTP_BUSY, MR_TEST_HTTP_ERROR,
                                                MR_TEST_HTTP_RESET_EARLY, MR_TEST_HTTP_GARBAGE};
    struct rig *rig = *state;
    struct mr_fetch_request request = {
        .url = rig->url, .timeout_ms = 5000, .retry_ms = 20000, .max_bytes = 1 << 21};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        rig->fault = faults[i];
        rig->n_faults = 2;
        assert_int_equal(run(rig, &request).code, 201);
        assert_int_equal(rig->n_faults, 0);
    }
    rig->fault = MR_TEST_HTTP_RETRY_AFTER; /* a second, where the first pause is shorter */
    rig->n_faults = 1;
    uint64_t begin_ns = mr_clock_now_ns();
    assert_int_equal(run(rig, &request).code, 201);
    assert_true(mr_clock_now_ns() - begin_ns >= UINT64_C(1000000000));
    uint64_t n = mr_test_http_n_requests(rig->server);
    rig->fault = MR_TEST_HTTP_FORBIDDEN; /* no reason to ask again */
    rig->n_faults = 1;
    assert_int_equal(run(rig, &request).code, 403);
    assert_int_equal(mr_test_http_n_requests(rig->server) - n, 1);
    rig->fault = MR_TEST_HTTP_LATER; /* later than there is time */
    rig->n_faults = 1;
    assert_int_equal(run(rig, &request).code, 503);
}

static void expect_error(struct rig *rig, const struct mr_fetch_request *request, mr_status status,
                         const char *words)
{
    struct mr_fetch_answer answered;
    mr_error error;
    assert_int_equal(mr_fetch_run(rig->fetch, request, &answered, &error), status);
    if (!strstr(error.text, words))
        fail_msg("'%s' is not in '%s'", words, error.text);
    assert_null(strstr(error.text, "SECRET"));
}

static void errors_name_the_url_without_its_query(void **state)
{
    struct rig *rig = *state;
    struct mr_fetch_request request = {.url = rig->url, .timeout_ms = 5000, .max_bytes = 9};
    expect_error(rig, &request, MR_ERR_DAMAGED,
                 "/page: the answer has more bytes than the limit of 9");
    rig->fault = MR_TEST_HTTP_SILENT;
    rig->n_faults = 1;
    request.timeout_ms = 100;
    expect_error(rig, &request, MR_ERR_IO, "timed out after ");
    request.url = "http://127.0.0.1:1/x?SECRET";
    expect_error(rig, &request, MR_ERR_IO, "http://127.0.0.1:1/x: ");
    request.url = "file:///etc/passwd";
    expect_error(rig, &request, MR_ERR_IO, "Protocol \"file\" ");
}

static void only_requests_that_are_not_direct_follow_redirects_and_use_proxies(void **state)
{
    struct rig *rig = *state;
    char url[200];
    struct mr_fetch_request request = {.url = url, .timeout_ms = 5000, .max_bytes = 100};
    snprintf(url, sizeof url, "%s/file", mr_test_http_url(rig->server));
    for (int direct = 0; direct < 2; direct++) {
        request.direct = direct == 1;
        rig->fault = MR_TEST_HTTP_REDIRECT;
        rig->n_faults = 2;
        assert_int_equal(run(rig, &request).code, direct ? 302 : 200);
        rig->n_faults = 0;
    }
    request.direct = false;
    request.body = "a=SECRET"; /* it is for this server alone */
    rig->n_faults = 1;
    assert_int_equal(run(rig, &request).code, 302);
    request.body = NULL;
    request.direct = true;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    assert_int_equal(run(rig, &request).code, 200);
    request.direct = false;
    expect_error(rig, &request, MR_ERR_IO, "127.0.0.1");
    unsetenv("http_proxy");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(requests_have_method_headers_and_body),
        T(busy_servers_are_asked_again),
        T(errors_name_the_url_without_its_query),
        T(only_requests_that_are_not_direct_follow_redirects_and_use_proxies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
