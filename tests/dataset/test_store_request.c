/* SPDX-License-Identifier: Apache-2.0 */
/* From s3://, gs:// and hf:// to the URL and the headers of a request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dataset/remote/request.h"
#include "dataset/remote/stores/bucket_region.h"
#include "dataset/remote/stores/target.h"

static struct mr_store_settings settings;
static struct mr_remote_request request;
static const struct mr_target *target;
static const char *query;

static int set_up(void **state)
{
    (void)state;
    settings = (struct mr_store_settings){0};
    target = NULL;
    query = NULL;
    return 0;
}

static void make(const char *url)
{
    char words[MR_ANSWER_WORDS] = "";
    const struct mr_answer_wish wish = {.len = 1, .query = query};
    assert_int_equal(mr_store_settings_use(&settings, NULL), MR_OK);
    if (mr_remote_request_make(url, target, &wish, &request, words) != MR_OK)
        fail_msg("%s: %s", url, words);
}

/* The value of a header, or NULL. */
static const char *header(const char *name)
{
    size_t len = strlen(name);
    for (const char *at = request.headers; at < request.headers + request.headers_len;
         at += strlen(at) + 1)
        if (strncmp(at, name, len) == 0 && strncmp(at + len, ": ", 2) == 0)
            return at + len + 2;
    return NULL;
}

static void expect_url(const char *url, const char *wanted)
{
    make(url);
    assert_string_equal(request.url, wanted);
}

static void expect_failure(const char *url, const char *wanted)
{
    char words[MR_ANSWER_WORDS] = "";
    const struct mr_answer_wish wish = {.len = 1};
    assert_int_equal(mr_store_settings_use(&settings, NULL), MR_OK);
    assert_int_equal(mr_remote_request_make(url, NULL, &wish, &request, words), MR_ERR_DAMAGED);
    assert_string_equal(words, wanted);
}

static void buckets_of_aws_are_hosts_unless_they_cannot_be(void **state)
{
    (void)state;
    expect_url("s3://bucket/a/b.tar", "https://bucket.s3.us-east-1.amazonaws.com/a/b.tar");
    expect_url("S3://bucket", "https://bucket.s3.us-east-1.amazonaws.com/");
    expect_url("s3://my.bucket/k", "https://s3.us-east-1.amazonaws.com/my.bucket/k");
    expect_url("s3://My_Bucket/k", "https://s3.us-east-1.amazonaws.com/My_Bucket/k");
    strcpy(settings.s3.region, "eu-central-1");
    expect_url("s3://bucket/k", "https://bucket.s3.eu-central-1.amazonaws.com/k");
    strcpy(settings.s3.region, "cn-north-1");
    expect_url("s3://bucket/k", "https://bucket.s3.cn-north-1.amazonaws.com.cn/k");
    settings.s3.path_style = true;
    expect_url("s3://bucket/k", "https://s3.cn-north-1.amazonaws.com.cn/bucket/k");
}

static void buckets_of_other_endpoints_are_folders(void **state)
{
    (void)state;
    strcpy(settings.s3.endpoint, "http://localhost:9000");
    expect_url("s3://bucket/k", "http://localhost:9000/bucket/k");
    strcpy(settings.s3.endpoint, "https://minio.example.org/s3//");
    expect_url("s3://bucket/k", "https://minio.example.org/s3/bucket/k");
    strcpy(settings.s3.endpoint, "https://s3.dualstack.eu-west-1.amazonaws.com");
    expect_url("s3://bucket/k", "https://bucket.s3.dualstack.eu-west-1.amazonaws.com/k");
    strcpy(settings.s3.endpoint, "https://x.amazonaws.com.example.org");
    expect_url("s3://bucket/k", "https://x.amazonaws.com.example.org/bucket/k");
    settings.s3.virtual_style = true;
    strcpy(settings.s3.endpoint, "https://oss.example.org/x");
    expect_url("s3://bucket/k", "https://bucket.oss.example.org/x/k");
    expect_url("s3://buc.ket/k", "https://oss.example.org/x/buc.ket/k");
    strcpy(settings.s3.endpoint, "localhost:9000");
    expect_failure("s3://bucket/k",
                   "the endpoint of the store is not http[s]://HOST[:PORT][/PATH]");
    strcpy(settings.s3.endpoint, "https://user@host");
    expect_failure("s3://bucket/k",
                   "the endpoint of the store is not http[s]://HOST[:PORT][/PATH]");
}

static void every_byte_of_a_key_is_escaped_once(void **state)
{
    (void)state;
    strcpy(settings.s3.endpoint, "http://h");
    expect_url("s3://b/a b+c=d%2Be?f#g", "http://h/b/a%20b%2Bc%3Dd%252Be%3Ff%23g");
    expect_url("s3://b/\xc3\xa4\x01'(*)!", "http://h/b/%C3%A4%01%27%28%2A%29%21");
    expect_url("s3://b//a/../b/./c//", "http://h/b//a/../b/./c//");
}

static void requests_are_signed_with_the_token_and_the_payer(void **state)
{
    (void)state;
    expect_url("s3://bucket/k", "https://bucket.s3.us-east-1.amazonaws.com/k");
    assert_null(header("Authorization"));
    assert_null(header("x-amz-date"));
    assert_false(request.origin.is_signed);
    strcpy(settings.s3.key_id, "AKID");
    strcpy(settings.s3.secret, "secret");
    strcpy(settings.s3.region, "eu-west-1");
    make("s3://bucket/k");
    assert_string_equal(header("host"), "bucket.s3.eu-west-1.amazonaws.com");
    assert_string_equal(header("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
    assert_non_null(strstr(header("Authorization"), "/eu-west-1/s3/aws4_request,SignedHeaders=host;"
                                                    "x-amz-content-sha256;x-amz-date,Signature="));
    assert_true(request.origin.is_signed);
    memset(settings.s3.token, 't', MR_STORE_TOKEN - 1);
    settings.s3.requester_pays = true;
    make("s3://bucket/k");
    assert_string_equal(header("x-amz-security-token"), settings.s3.token);
    assert_string_equal(header("x-amz-request-payer"), "requester");
    assert_non_null(strstr(header("Authorization"),
                           "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-request-payer;"
                           "x-amz-security-token,"));
    settings.s3.anonymous = true;
    make("s3://bucket/k");
    assert_null(header("Authorization"));
    assert_null(header("x-amz-security-token"));
    strcpy(settings.s3.problem, "no good");
    expect_failure("s3://bucket/k", "no good");
}

static void a_query_is_of_the_bucket(void **state)
{
    (void)state;
    query = "list-type=2&prefix=a%2Fb";
    expect_url("s3://bucket/",
               "https://bucket.s3.us-east-1.amazonaws.com/?list-type=2&prefix=a%2Fb");
    expect_url("gs://bucket", "https://storage.googleapis.com/bucket/?list-type=2&prefix=a%2Fb");
}

static void google_has_its_own_keys_and_endpoint(void **state)
{
    (void)state;
    strcpy(settings.s3.key_id, "AKID");
    strcpy(settings.s3.token, "token");
    strcpy(settings.s3.endpoint, "http://s3");
    mr_bucket_region_keep("shared", "eu-west-1");
    expect_url("gs://shared/a b", "https://storage.googleapis.com/shared/a%20b");
    assert_null(header("Authorization"));
    strcpy(settings.gcs.key_id, "GOOG");
    strcpy(settings.gcs.secret, "secret");
    make("gs://shared/k");
    assert_non_null(strstr(header("Authorization"), "Credential=GOOG/"));
    assert_non_null(strstr(header("Authorization"), "/auto/s3/aws4_request,"));
    assert_null(header("x-amz-security-token"));
    strcpy(settings.gcs.endpoint, "http://localhost:4443");
    expect_url("gs://shared/k", "http://localhost:4443/shared/k");
}

static void a_region_that_was_learned_is_used(void **state)
{
    (void)state;
    strcpy(settings.s3.key_id, "AKID");
    strcpy(settings.s3.region, "us-west-2");
    mr_bucket_region_keep("far-away", "ap-south-1");
    expect_url("s3://far-away/k", "https://far-away.s3.ap-south-1.amazonaws.com/k");
    assert_string_equal(request.origin.region, "ap-south-1");
    mr_bucket_region_keep("far-away", "ap-south-2");
    expect_url("s3://far-away/k", "https://far-away.s3.ap-south-2.amazonaws.com/k");
    strcpy(settings.s3.endpoint, "https://s3.us-west-2.amazonaws.com");
    expect_url("s3://far-away/k", "https://far-away.s3.ap-south-2.amazonaws.com/k");
    expect_url("s3://near/k", "https://near.s3.us-west-2.amazonaws.com/k");
    strcpy(settings.s3.endpoint, "http://minio:9000");
    expect_url("s3://far-away/k", "http://minio:9000/far-away/k");
    assert_non_null(strstr(header("Authorization"), "/ap-south-2/s3/"));
    for (int i = 0; i < 1000; i++) { /* the table is full: nothing else happens */
        char bucket[20];
        snprintf(bucket, sizeof bucket, "bucket%d", i);
        mr_bucket_region_keep(bucket, "eu-north-1");
    }
    expect_url("s3://far-away/k", "http://minio:9000/far-away/k");
}

static void hugging_face_has_revisions_and_a_token(void **state)
{
    (void)state;
    expect_url("hf://datasets/o/n/d/a b.tar",
               "https://huggingface.co/datasets/o/n/resolve/main/d/a%20b.tar");
    expect_url("hf://datasets/o/n@v1.0/a?b#%20",
               "https://huggingface.co/datasets/o/n/resolve/v1.0/a%3Fb%23%2520");
    expect_url("hf://datasets/o/n@refs/pr/7/a/b",
               "https://huggingface.co/datasets/o/n/resolve/refs%2Fpr%2F7/a/b");
    expect_url("hf://datasets/o/n@refs%2Fconvert%2Fparquet/a",
               "https://huggingface.co/datasets/o/n/resolve/refs%2Fconvert%2Fparquet/a");
    expect_url("hf://o/n@x/a", "https://huggingface.co/o/n/resolve/x/a");
    expect_url("hf://spaces/o/n/a", "https://huggingface.co/spaces/o/n/resolve/main/a");
    assert_null(header("Authorization"));
    strcpy(settings.hf.token, "hf_x");
    make("hf://datasets/o/n/a");
    assert_string_equal(header("Authorization"), "Bearer hf_x");
    strcpy(settings.hf.endpoint, "https://mirror.example.org/hub/");
    expect_url("hf://datasets/o/n/a", "https://mirror.example.org/hub/datasets/o/n/resolve/main/a");
    assert_string_equal(header("Authorization"), "Bearer hf_x");
}

static void the_token_goes_to_no_other_host(void **state)
{
    static const char *const others[] = {"https://cdn.example.org/x?sig=1",
                                         "https://huggingface.co.example.org/x",
                                         "https://huggingface.co@example.org/x",
                                         "http://huggingface.co/x",
                                         "https://huggingface.co:8443/x",
                                         "https://huggingface.co\\@example.org/x",
                                         "https://example.org/https://huggingface.co/",
                                         ""};
    struct mr_targets targets = {.n = 0};
    (void)state;
    strcpy(settings.hf.token, "hf_x");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(mr_target_keep(&targets, "hf://datasets/o/n/a", others[i], "\"e\""));
        target = mr_target_find(&targets, "hf://datasets/o/n/a");
        expect_url("hf://datasets/o/n/a", others[i]);
        assert_null(header("Authorization"));
        assert_string_equal(request.origin.etag, "\"e\"");
        assert_int_equal(request.origin.target, i + 1);
    }
    mr_target_keep(&targets, "hf://datasets/o/n/a", "https://huggingface.co/api/x?y", "");
    target = mr_target_find(&targets, "hf://datasets/o/n/a");
    expect_url("hf://datasets/o/n/a", "https://huggingface.co/api/x?y");
    assert_string_equal(header("Authorization"), "Bearer hf_x");
    assert_string_equal(request.origin.etag, "\"e\"");
    mr_target_clear(&targets);
}

static void targets_are_kept_per_file_and_within_a_limit(void **state)
{
    struct mr_targets targets = {.n = 0};
    char url[40], location[40];
    (void)state;
    for (int i = 0; i < 4096; i++) {
        snprintf(url, sizeof url, "hf://datasets/o/n/%d", i);
        snprintf(location, sizeof location, "https://cdn/%d", i);
        assert_true(mr_target_keep(&targets, url, location, ""));
    }
    for (int i = 0; i < 4096; i++) {
        snprintf(url, sizeof url, "hf://datasets/o/n/%d", i);
        snprintf(location, sizeof location, "https://cdn/%d", i);
        assert_string_equal(mr_target_find(&targets, url)->location, location);
    }
    mr_target_drop(&targets, "hf://datasets/o/n/7", 9); /* another number */
    assert_non_null(mr_target_find(&targets, "hf://datasets/o/n/7"));
    mr_target_drop(&targets, "hf://datasets/o/n/7", 8);
    assert_null(mr_target_find(&targets, "hf://datasets/o/n/7"));
    mr_target_drop(&targets, "hf://datasets/o/n/7", 8);
    assert_int_equal(targets.n, 4095);
    mr_target_keep(&targets, "a", "b", "");
    mr_target_keep(&targets, "c", "d", "");
    assert_int_equal(targets.n, 1);
    assert_null(mr_target_find(&targets, "a"));
    assert_string_equal(mr_target_find(&targets, "c")->location, "d");
    mr_target_clear(&targets);
}

static void what_does_not_fit_is_an_error(void **state)
{
    static char url[60000];
    (void)state;
    memset(url, '+', sizeof url - 1);
    memcpy(url, "s3://bucket/", 12);
    expect_failure(url, "its URL is too long");
    memcpy(url, "hf://o/name/", 12);
    expect_failure(url, "its URL is too long");
    memcpy(url, "hf://o/name@", 12);
    expect_failure(url, "its revision is too long");
    memset(url, 'b', sizeof url - 1);
    memcpy(url, "s3://", 5);
    expect_failure(url, "the name of its bucket is too long");
}

#define T(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(buckets_of_aws_are_hosts_unless_they_cannot_be),
        T(buckets_of_other_endpoints_are_folders),
        T(every_byte_of_a_key_is_escaped_once),
        T(requests_are_signed_with_the_token_and_the_payer),
        T(a_query_is_of_the_bucket),
        T(google_has_its_own_keys_and_endpoint),
        T(a_region_that_was_learned_is_used),
        T(hugging_face_has_revisions_and_a_token),
        T(the_token_goes_to_no_other_host),
        T(targets_are_kept_per_file_and_within_a_limit),
        T(what_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
