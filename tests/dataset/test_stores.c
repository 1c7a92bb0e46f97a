/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gets from stores whose answers lead elsewhere: another region, another token, the server of a
 * redirect. One server is the store, a second one the target of its redirects.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "dataset/remote/http.h"
#include "dataset/remote/stores/settings.h"
#include "dataset/remote/stores/store_answer.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"

enum { FILE_BYTES = 50000, MOVED_COUNT = 6 };

#define LINKED "X-Linked-ETag: \"linked\"\r\n"

/* One of the servers, as a test wants it. */
struct side {
    struct rig *rig;
    struct mr_test_http *server;
    const char *wanted; /* a request with this text gets the file; NULL: each does */
    const char *status; /* of the answer to the others */
    char headers[300];
    const char *body;
    uint64_t n_refused;  /* requests without the text */
    uint64_t renew_at;   /* at the so-manieth of them, the settings are renewed */
    bool was_authorized; /* a request had a token or a signature */
    bool had_if_match;
    char head[8000]; /* of the last request */
};

struct rig {
    char *folder;
    struct side store, target;
    struct mr_http *http;
    struct mr_store_settings settings, renewed;
    uint8_t bytes[FILE_BYTES];
};

static bool answer(void *user, const struct mr_test_http_request *request,
                   struct mr_test_http_page *page_out)
{
    struct side *side = user;
    snprintf(side->head, sizeof side->head, "%s", request->head);
    side->was_authorized = side->was_authorized || strcasestr(request->head, "\r\nauthorization:");
    side->had_if_match = side->had_if_match || strcasestr(request->head, "\r\nif-match:");
    if (!side->wanted || strstr(request->head, side->wanted))
        return false;
    if (++side->n_refused == side->renew_at)
        mr_store_settings_use(&side->rig->renewed, NULL);
    page_out->status = side->status;
    snprintf(page_out->headers, sizeof page_out->headers, "%s", side->headers);
    page_out->body = side->body ? strdup(side->body) : NULL;
    return true;
}

static void start_side(struct rig *rig, struct side *side)
{
    side->rig = rig;
    side->server = mr_test_http_start(rig->folder, NULL, side);
    mr_test_http_answer_with(side->server, answer);
}

/* Make the folders of a path, and a file there. */
static void write_file(const struct rig *rig, const char *path, size_t len)
{
    char full[5000];
    snprintf(full, sizeof full, "%s/%s", rig->folder, path);
    for (char *slash = full + strlen(rig->folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(full, 0700) != 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
    mr_test_folder_write(rig->folder, path, rig->bytes, len);
}

static void open_http(struct rig *rig, uint32_t retry_ms)
{
    const struct mr_http_options options = {.n_connections = 4, .retry_ms = retry_ms};
    mr_error error;
    mr_http_destroy(rig->http);
    if (mr_http_create(&options, &rig->http, &error) != MR_OK)
        fail_msg("%s", error.text);
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    for (size_t i = 0; i < FILE_BYTES; i++)
        rig->bytes[i] = (uint8_t)(i * 2654435761u >> 11);
    rig->folder = mr_test_folder_create();
    start_side(rig, &rig->store);
    start_side(rig, &rig->target);
    const char *url = mr_test_http_url(rig->store.server);
    strcpy(rig->settings.s3.key_id, "PLANTEDID");
    strcpy(rig->settings.s3.secret, "planted-secret");
    strcpy(rig->settings.s3.token, "planted-token");
    strcpy(rig->settings.hf.token, "hf_planted");
    strcpy(rig->settings.s3.endpoint, url);
    strcpy(rig->settings.gcs.endpoint, url);
    strcpy(rig->settings.hf.endpoint, url);
    rig->renewed = rig->settings;
    strcpy(rig->renewed.s3.token, "token2");
    assert_int_equal(mr_store_settings_use(&rig->settings, NULL), MR_OK);
    open_http(rig, 60000);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    mr_http_destroy(rig->http);
    mr_test_http_stop(rig->store.server);
    mr_test_http_stop(rig->target.server);
    mr_test_folder_remove(rig->folder);
    free(rig);
    return 0;
}

static uint8_t *reserve(void *user, size_t len)
{
    (void)len;
    return user;
}

static struct mr_http_get get(struct rig *rig, const char *url,
                              const struct mr_object_version *version)
{
    static uint8_t bytes[1000];
    struct mr_http_get get = {
        .url = url,
        .wish = {.offset = 777, .len = sizeof bytes, .max_bytes = 1000, .version = version},
        .reserve = reserve,
        .user = bytes};
    memset(bytes, 0, sizeof bytes);
    mr_http_begin(rig->http, &get);
    assert_ptr_equal(mr_http_next(rig->http, true), &get);
    if (get.status == MR_OK)
        assert_memory_equal(bytes, rig->bytes + 777, sizeof bytes);
    return get;
}

static struct mr_object_version expect_good(struct rig *rig, const char *url,
                                            const struct mr_object_version *version)
{
    struct mr_http_get got = get(rig, url, version);
    if (got.status != MR_OK)
        fail_msg("%s: %s", url, got.words);
    assert_int_equal(got.version.size, FILE_BYTES);
    return got.version;
}

static void expect_words(struct rig *rig, const char *url, const char *wanted)
{
    static const char *const secrets[] = {"PLANTED", "planted", "Signature="};
    assert_int_equal(mr_store_settings_use(&rig->settings, NULL), MR_OK);
    struct mr_http_get got = get(rig, url, NULL);
    assert_int_equal(got.status, MR_ERR_DAMAGED);
    if (strncmp(got.words, wanted, strlen(wanted)) != 0)
        fail_msg("'%s' does not begin with '%s'", got.words, wanted);
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        assert_null(strstr(got.words, secrets[i]));
}

static void keys_arrive_as_they_are(void **state)
{
    static const char *const keys[] = {"plain", "a b+c=d%2Be?f&g", "\xc3\xa4'(*)!~", "#x/$@,;:"};
    struct rig *rig = *state;
    char path[100], url[100];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(path, sizeof path, "bucket/%s", keys[i]);
        snprintf(url, sizeof url, "s3://bucket/%s", keys[i]);
        write_file(rig, path, FILE_BYTES);
        struct mr_object_version version = expect_good(rig, url, NULL);
        expect_good(rig, url, &version);
        assert_non_null(strstr(rig->store.head, "\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n"));
        assert_non_null(strstr(rig->store.head, "\r\nx-amz-security-token: planted-token\r\n"));
        assert_non_null(strstr(rig->store.head, "\r\nIf-Match: \""));
        memcpy(url, "gs", 2); /* without a signature */
        expect_good(rig, url, NULL);
        assert_null(strstr(rig->store.head, "x-amz"));
    }
}

static void a_wrong_region_is_followed_once_and_remembered(void **state)
{
    static const struct {
        const char *status, *headers, *body;
    } answers[] = {
        {"301 Moved Permanently", "x-amz-bucket-region: eu-north-1\r\n", NULL},
        {"307 Temporary Redirect",
         "Location: http://127.0.0.1:1/\r\nx-amz-bucket-region: eu-north-1\r\n", NULL},
        {"400 Bad Request", "",
         "<Error><Code>AuthorizationHeaderMalformed</Code><Message>The "
         "authorization header is malformed; the region 'us-east-1' is "
         "wrong</Message><Region>eu-north-1</Region></Error>"},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        char path[40], url[60];
        snprintf(path, sizeof path, "away%zu/k", i);
        snprintf(url, sizeof url, "s3://%s", path);
        write_file(rig, path, FILE_BYTES);
        rig->store.wanted = "/eu-north-1/s3/aws4_request";
        rig->store.status = answers[i].status;
        strcpy(rig->store.headers, answers[i].headers);
        rig->store.body = answers[i].body;
        rig->store.n_refused = 0;
        expect_good(rig, url, NULL);
        assert_int_equal(rig->store.n_refused, 1);
        expect_good(rig, url, NULL);
        assert_int_equal(rig->store.n_refused, 1);
    }
    /* the region is the right one already, is no region, or the answer names none */
    rig->store.wanted = "nothing";
    rig->store.status = "301 Moved Permanently";
    rig->store.body = "<Error><Code>PermanentRedirect</Code></Error>";
    expect_words(rig, "s3://away0/k", "HTTP 301 Moved Permanently (PermanentRedirect)");
    strcpy(rig->store.headers, "x-amz-bucket-region: evil.example.org/\r\n");
    expect_words(rig, "s3://away0/k", "HTTP 301 Moved Permanently (PermanentRedirect)");
    assert_int_equal(rig->store.n_refused, 3);
}

static void expired_tokens_are_tried_again_with_the_newest_settings(void **state)
{
    struct rig *rig = *state;
    write_file(rig, "bucket/k", FILE_BYTES);
    rig->store.wanted = "x-amz-security-token: token2";
    rig->store.status = "400 Bad Request";
    rig->store.body =
        "<?xml version=\"1.0\"?>\n<Error><Code>ExpiredToken</Code><Message>x</Message>";
    open_http(rig, 200);
    expect_words(rig, "s3://bucket/k",
                 "HTTP 400 Bad Request (ExpiredToken: the credentials have expired) (");
    rig->store.status = "403 Forbidden"; /* as some stores answer */
    expect_words(rig, "s3://bucket/k",
                 "HTTP 403 Forbidden (ExpiredToken: the credentials have expired) (");
    rig->store.status = "400 Bad Request";
    rig->store.body = "<Error><Code>RequestTimeout</Code>";
    expect_words(rig, "s3://bucket/k", "HTTP 400 Bad Request (RequestTimeout) (");
    open_http(rig, 60000);
    rig->store.body = "<Error><Code>ExpiredToken</Code>";
    rig->store.renew_at = rig->store.n_refused + 2;
    rig->store.status = "403 Forbidden";
    expect_good(rig, "s3://bucket/k", NULL);
    assert_int_equal(rig->store.n_refused, rig->store.renew_at);
    /* another refusal is tried again if the keys were renewed after the request was made */
    assert_int_equal(mr_store_settings_use(&rig->settings, NULL), MR_OK);
    rig->store.body = "<Error><Code>InvalidAccessKeyId</Code>";
    rig->store.renew_at = rig->store.n_refused + 1;
    expect_good(rig, "s3://bucket/k", NULL);
    assert_int_equal(rig->store.n_refused, rig->store.renew_at);
}

static void words_of_a_store_may_arrive_in_parts(void **state)
{
    static const char body[] = "<Error><Code>ExpiredToken</Code><Region>eu-north-1</Region>";
    (void)state;
    for (size_t len = 1; len < sizeof body; len++) {
        struct mr_answer got = {.code = 400};
        mr_answer_body(&got, body, len);
        mr_answer_body(&got, body + len, sizeof body - 1 - len);
        assert_string_equal(got.error, "ExpiredToken");
        assert_string_equal(got.region, "eu-north-1");
    }
}

static void other_refusals_are_final_and_have_the_stores_word(void **state)
{
    static const struct {
        const char *status, *body, *words;
    } answers[] = {
        {"403 Forbidden", "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>PLANTEDID<",
         "HTTP 403 Forbidden (SignatureDoesNotMatch)"},
        {"403 Forbidden", "<Error><Code>RequestTimeTooSkewed</Code>",
         "HTTP 403 Forbidden (RequestTimeTooSkewed: the clock of this machine is wrong)"},
        {"404 Not Found", "<Error><Code>NoSuchKey</Code>", "HTTP 404 Not Found (NoSuchKey)"},
        {"403 Forbidden", "<Error><Code>no word\r\n</Code>", "HTTP 403 Forbidden"},
        {"403 Forbidden", "<Code>", "HTTP 403 Forbidden"},
        {"403 Forbidden", NULL, "HTTP 403 Forbidden"},
    };
    struct rig *rig = *state;
    rig->store.wanted = "nothing";
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        rig->store.status = answers[i].status;
        rig->store.body = answers[i].body;
        expect_words(rig, "s3://bucket/k", answers[i].words);
        assert_int_equal(rig->store.n_refused, i + 1);
    }
    rig->store.status = "403 Forbidden";
    rig->store.body = "<Error><Code>AccessDenied</Code>";
    expect_words(rig, "gs://bucket/k",
                 "HTTP 403 Forbidden (AccessDenied: not signed: GS_ACCESS_KEY_ID is not set)");
    rig->settings.s3.anonymous = true;
    expect_words(rig, "s3://bucket/k",
                 "HTTP 403 Forbidden (AccessDenied: not signed, as the settings ask)");
    rig->settings.s3 = (struct mr_store_s3){0};
    strcpy(rig->settings.s3.endpoint, mr_test_http_url(rig->store.server));
    expect_words(rig, "s3://bucket/k",
                 "HTTP 403 Forbidden (AccessDenied: not signed: no AWS credentials were found)");
    rig->settings.hf.token[0] = '\0';
    rig->store.status = "401 Unauthorized";
    strcpy(rig->store.headers, "X-Error-Code: GatedRepo\r\n");
    rig->store.body = NULL;
    expect_words(rig, "hf://datasets/o/n/k",
                 "HTTP 401 Unauthorized (GatedRepo: no token: HF_TOKEN is not set)");
}

/* The store redirects to the target's file with this query. */
static void redirect(struct rig *rig, const char *query, const char *more)
{
    rig->store.wanted = "nothing";
    rig->store.status = "302 Found";
    snprintf(rig->store.headers, sizeof rig->store.headers, "Location: %s/blob?%s\r\n%s",
             mr_test_http_url(rig->target.server), query, more);
}

static void redirects_of_hugging_face_are_kept_per_file(void **state)
{
    struct rig *rig = *state;
    write_file(rig, "blob", FILE_BYTES);
    redirect(rig, "sig=1", LINKED);
    struct mr_object_version version = expect_good(rig, "hf://datasets/o/n/a", NULL);
    assert_string_equal(version.etag, "\"linked\"");
    assert_string_equal(version.modified, "");
    assert_non_null(strstr(rig->store.head, "GET /datasets/o/n/resolve/main/a HTTP"));
    assert_non_null(strstr(rig->store.head, "\r\nAuthorization: Bearer hf_planted\r\n"));
    for (int i = 0; i < 5; i++)
        expect_good(rig, "hf://datasets/o/n/a", &version);
    assert_int_equal(rig->store.n_refused, 1);
    expect_good(rig, "hf://datasets/o/n/b", NULL);
    assert_int_equal(rig->store.n_refused, 2);
    assert_false(rig->target.was_authorized || rig->target.had_if_match);
    assert_false(rig->store.had_if_match);
}

static void a_redirect_that_has_expired_is_resolved_again(void **state)
{
    struct rig *rig = *state;
    write_file(rig, "blob", FILE_BYTES);
    redirect(rig, "sig=1", LINKED);
    struct mr_object_version version = expect_good(rig, "hf://datasets/o/n/a", NULL);
    redirect(rig, "sig=2", LINKED);
    rig->target.wanted = "sig=2";
    rig->target.status = "403 Forbidden";
    expect_good(rig, "hf://datasets/o/n/a", &version);
    assert_int_equal(rig->store.n_refused, 2);
    expect_good(rig, "hf://datasets/o/n/a", &version);
    assert_int_equal(rig->store.n_refused, 2);
    /* the file was replaced meanwhile */
    redirect(rig, "sig=3", "X-Linked-ETag: \"other\"\r\n");
    rig->target.wanted = "sig=3";
    assert_int_equal(get(rig, "hf://datasets/o/n/a", &version).os_error, ESTALE);
    /* the new one is refused too */
    rig->target.wanted = "nothing";
    rig->target.n_refused = 0;
    expect_words(rig, "hf://datasets/o/n/a", "HTTP 403 Forbidden");
    assert_int_equal(rig->target.n_refused, 2);
}

static void a_redirect_to_a_host_that_is_gone_is_resolved_again(void **state)
{
    struct rig *rig = *state;
    write_file(rig, "blob", FILE_BYTES);
    redirect(rig, "sig=1", LINKED);
    struct mr_object_version version = expect_good(rig, "hf://datasets/o/n/a", NULL);
    mr_test_http_stop(rig->target.server);
    start_side(rig, &rig->target); /* at another port */
    redirect(rig, "sig=2", LINKED);
    expect_good(rig, "hf://datasets/o/n/a", &version);
    assert_int_equal(rig->store.n_refused, 2);
}

static void the_token_follows_a_redirect_only_within_the_host(void **state)
{
    struct rig *rig = *state;
    write_file(rig, "api/x", FILE_BYTES);
    rig->store.wanted = "GET /api/x?y=1 HTTP";
    rig->store.status = "307 Temporary Redirect";
    strcpy(rig->store.headers, "Location: /api/x?y=1\r\n");
    struct mr_object_version version = expect_good(rig, "hf://datasets/o/n/a", NULL);
    assert_int_equal(version.etag[0], '"'); /* the file's own: no other was stated */
    assert_non_null(strstr(rig->store.head, "\r\nAuthorization: Bearer hf_planted\r\n"));
    write_file(rig, "blob", FILE_BYTES);
    redirect(rig, "sig=1", "");
    expect_good(rig, "hf://datasets/o/n/b", NULL);
    assert_false(rig->target.was_authorized);
}

static void redirects_end(void **state)
{
    struct rig *rig = *state;
    rig->store.wanted = "nothing";
    rig->store.status = "302 Found";
    strcpy(rig->store.headers, "Location: /again\r\n");
    expect_words(rig, "hf://datasets/o/n/a", "HTTP 302 Found");
    assert_int_equal(rig->store.n_refused, MOVED_COUNT);
    strcpy(rig->store.headers, "");
    expect_words(rig, "hf://datasets/o/n/b", "HTTP 302 Found");
}

static void no_redirect_leaves_tls(void **state)
{
    struct mr_targets targets = {.n = 0};
    const struct mr_request_origin origin = {.store = MR_STORE_HF, .is_secure = true};
    const struct mr_answer found = {.code = 302};
    char words[MR_ANSWER_WORDS] = "HTTP 302 Found";
    (void)state;
    assert_int_equal(mr_store_answer_judge(&targets, "hf://datasets/o/n/a", &origin, &found,
                                           "http://cdn/a", 0, MR_VERDICT_FINAL, words),
                     MR_VERDICT_FINAL);
    assert_int_equal(targets.n, 0);
    assert_string_equal(words, "HTTP 302 Found (a redirect from https:// to http://)");
    assert_int_equal(mr_store_answer_judge(&targets, "hf://datasets/o/n/a", &origin, &found,
                                           "https://cdn/a", 0, MR_VERDICT_FINAL, words),
                     MR_VERDICT_MOVED);
    mr_target_clear(&targets);
}

static void many_gets_of_a_file_whose_redirect_expires(void **state)
{
    enum { N = 60 };
    static struct mr_http_get gets[N];
    static uint8_t bytes[N][500];
    struct rig *rig = *state;
    write_file(rig, "blob", FILE_BYTES);
    redirect(rig, "sig=1", LINKED);
    struct mr_object_version version = expect_good(rig, "hf://datasets/o/n/a", NULL);
    redirect(rig, "sig=2", LINKED);
    rig->target.wanted = "sig=2";
    rig->target.status = "403 Forbidden";
    for (size_t i = 0; i < N; i++) {
        gets[i] = (struct mr_http_get){
            .url = "hf://datasets/o/n/a",
            .wish = {.offset = i * 800, .len = 500, .max_bytes = 500, .version = &version},
            .reserve = reserve,
            .user = bytes[i]};
        mr_http_begin(rig->http, &gets[i]);
    }
    for (size_t i = 0; i < N; i++)
        assert_non_null(mr_http_next(rig->http, true));
    for (size_t i = 0; i < N; i++) {
        if (gets[i].status != MR_OK)
            fail_msg("%s", gets[i].words);
        assert_memory_equal(bytes[i], rig->bytes + i * 800, 500);
    }
    assert_in_range(rig->store.n_refused, 2, 1 + 4); /* each connection may have asked */
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(keys_arrive_as_they_are),
        T(a_wrong_region_is_followed_once_and_remembered),
        T(expired_tokens_are_tried_again_with_the_newest_settings),
        cmocka_unit_test(words_of_a_store_may_arrive_in_parts),
        T(other_refusals_are_final_and_have_the_stores_word),
        T(redirects_of_hugging_face_are_kept_per_file),
        T(a_redirect_that_has_expired_is_resolved_again),
        T(a_redirect_to_a_host_that_is_gone_is_resolved_again),
        T(the_token_follows_a_redirect_only_within_the_host),
        T(redirects_end),
        cmocka_unit_test(no_redirect_leaves_tls),
        T(many_gets_of_a_file_whose_redirect_expires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
