/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures that AWS has published:
 * - the examples of docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
 * - the aws-sig-v4-test-suite, in github.com/awslabs/aws-c-auth, tests/aws-signing-test-suite/v4:
 *   the GET requests without a body whose path is not normalized, as S3's never is
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dataset/remote/stores/sigv4.h"

/* The hash of an empty body. */
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ALL "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static void expect_signature(const struct mr_sigv4_request *request, const struct mr_sigv4_key *key,
                             const char *wanted)
{
    char authorization[MR_SIGV4_AUTHORIZATION];
    mr_error error;
    if (mr_sigv4_sign(request, key, authorization, &error) != MR_OK)
        fail_msg("%s", error.text);
    assert_string_equal(authorization, wanted);
}

static void the_examples_of_s3s_documentation(void **state)
{
    static const struct {
        const char *path, *query, *range, *signature;
    } examples[] = {
        {"/test.txt", "", "bytes=0-9",
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"/", "lifecycle", NULL,
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"/", "max-keys=2&prefix=J", NULL,
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
    static const struct mr_sigv4_key key = {.id = "AKIAIOSFODNN7EXAMPLE",
                                            .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                            .region = "us-east-1",
                                            .service = "s3",
                                            .time = "20130524T000000Z"};
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        char wanted[MR_SIGV4_AUTHORIZATION];
        struct mr_sigv4_header headers[4] = {{"host", "examplebucket.s3.amazonaws.com"}};
        size_t n = 1;
        if (examples[i].range)
            headers[n++] = (struct mr_sigv4_header){"range", examples[i].range};
        headers[n++] = (struct mr_sigv4_header){"x-amz-content-sha256", EMPTY};
        headers[n++] = (struct mr_sigv4_header){"x-amz-date", key.time};
        const struct mr_sigv4_request request = {.method = "GET",
                                                 .path = examples[i].path,
                                                 .query = examples[i].query,
                                                 .headers = headers,
                                                 .n_headers = n,
                                                 .payload_hash = EMPTY};
        snprintf(wanted, sizeof wanted,
                 "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                 "aws4_request,SignedHeaders=host;%sx-amz-content-sha256;x-amz-date,Signature=%s",
                 examples[i].range ? "range;" : "", examples[i].signature);
        expect_signature(&request, &key, wanted);
    }
}

static void the_vectors_of_the_test_suite(void **state)
{
    static const struct {
        const char *path, *query; /* not escaped */
        const char *token, *signature;
    } vectors[] = {
        /* get-vanilla */
        {"/", "", NULL, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
        /* get-vanilla-with-session-token */
        {"/", "", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267",
         "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
        /* get-vanilla-empty-query-key */
        {"/", "Param1=value1", NULL,
         "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
        /* get-vanilla-query-order-key-case */
        {"/", "Param2=value2&Param1=value1", NULL,
         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
        /* get-vanilla-query-order-encoded */
        {"/", "Param-3=Value3&Param=Value2&\xe1\x88\xb4=Value1", NULL,
         "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
        /* get-vanilla-query-unreserved */
        {"/", ALL "=" ALL, NULL,
         "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
        /* get-vanilla-utf8-query */
        {"/", "\xe1\x88\xb4=bar", NULL,
         "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
        /* get-unreserved */
        {"/" ALL, "", NULL, "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
        /* get-utf8 */
        {"/\xe1\x88\xb4", "", NULL,
         "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
        /* get-space-unnormalized */
        {"/example space/", "", NULL,
         "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
        /* get-slashes-unnormalized */
        {"//example//", "", NULL,
         "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"},
    };
    static const struct mr_sigv4_key key = {.id = "AKIDEXAMPLE",
                                            .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                            .region = "us-east-1",
                                            .service = "service",
                                            .time = "20150830T123600Z"};
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char wanted[MR_SIGV4_AUTHORIZATION], path[200], query[400];
        const struct mr_sigv4_header headers[] = {{"host", "example.amazonaws.com"},
                                                  {"x-amz-date", key.time},
                                                  {"x-amz-security-token", vectors[i].token}};
        mr_sigv4_escape(vectors[i].path, "/", path, sizeof path);
        mr_sigv4_escape(vectors[i].query, "=&", query, sizeof query);
        const struct mr_sigv4_request request = {.method = "GET",
                                                 .path = path,
                                                 .query = query,
                                                 .headers = headers,
                                                 .n_headers = vectors[i].token ? 3 : 2,
                                                 .payload_hash = EMPTY};
        snprintf(wanted, sizeof wanted,
                 "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request,"
                 "SignedHeaders=host;x-amz-date%s,Signature=%s",
                 vectors[i].token ? ";x-amz-security-token" : "", vectors[i].signature);
        expect_signature(&request, &key, wanted);
    }
}

static void expect_escaped(const char *text, const char *wanted)
{
    char out[32];
    assert_int_equal(mr_sigv4_escape(text, "/", out, sizeof out), strlen(wanted));
    assert_string_equal(out, wanted);
}

static void a_path_is_escaped_once(void **state)
{
    char out[8];
    (void)state;
    expect_escaped("a/b-c_d.e~f", "a/b-c_d.e~f");
    expect_escaped("a+b=c", "a%2Bb%3Dc");
    expect_escaped("a%2Bb", "a%252Bb");
    expect_escaped("a?b#c&d", "a%3Fb%23c%26d");
    expect_escaped("\x01\x7f\xff", "%01%7F%FF");
    assert_int_equal(mr_sigv4_escape("abcdefg", "", out, sizeof out), 7);
    assert_int_equal(mr_sigv4_escape("abcdefgh", "", out, sizeof out), sizeof out);
    assert_int_equal(mr_sigv4_escape("abcde ", "", out, sizeof out), sizeof out);
}

static void times_are_utc(void **state)
{
    char time[MR_SIGV4_TIME];
    (void)state;
    mr_sigv4_time(1369353600, time);
    assert_string_equal(time, "20130524T000000Z");
    mr_sigv4_time(1440938160, time);
    assert_string_equal(time, "20150830T123600Z");
}

static void what_does_not_fit_is_an_error(void **state)
{
    static char id[2000];
    char authorization[MR_SIGV4_AUTHORIZATION], query[] = "a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q";
    struct mr_sigv4_key key = {
        .id = "id", .secret = "s", .region = "r", .service = "s3", .time = "20130524T000000Z"};
    struct mr_sigv4_request request = {
        .method = "GET", .path = "/", .query = query, .payload_hash = EMPTY};
    mr_error error;
    (void)state;
    assert_int_equal(mr_sigv4_sign(&request, &key, authorization, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "a query has more than 16 parameters");
    query[strlen(query) - 2] = '\0';
    assert_int_equal(mr_sigv4_sign(&request, &key, authorization, &error), MR_OK);
    memset(id, 'x', sizeof id - 1);
    key.id = id;
    assert_int_equal(mr_sigv4_sign(&request, &key, authorization, &error), MR_ERR_INVALID);
    assert_null(strstr(error.text, "xxx"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_s3s_documentation),
        cmocka_unit_test(the_vectors_of_the_test_suite),
        cmocka_unit_test(a_path_is_escaped_once),
        cmocka_unit_test(times_are_utc),
        cmocka_unit_test(what_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
