/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: what is one, which are refused, and how they are joined and escaped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataset/remote/url.h"

static void urls_begin_with_a_known_scheme(void **state)
{
    (void)state;
    assert_true(mr_url_is("http://a/b"));
    assert_true(mr_url_is("HTTPS://a/b"));
    assert_true(mr_url_is("s3://a/b"));
    assert_true(mr_url_is("GS://a/b"));
    assert_true(mr_url_is("hf://datasets/a/b/c"));
    assert_false(mr_url_is("az://a/b"));
    assert_false(mr_url_is("./s3://a"));
    assert_false(mr_url_is("./http://a"));
    assert_false(mr_url_is("http:/a"));
    assert_false(mr_url_is(""));
}

static void expect_refused(const char *url, const char *text)
{
    mr_error error;
    assert_int_equal(mr_url_check(url, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, text);
}

static void urls_that_cannot_be_read_are_refused_without_their_secrets(void **state)
{
    (void)state;
    assert_int_equal(mr_url_check("https://host:8080/a/b%20c?sig=x", NULL), MR_OK);
    assert_int_equal(mr_url_check("https://host/a@b", NULL), MR_OK);
    expect_refused("http:///a?sig=secret", "the URL 'http:///a' has no host");
    expect_refused("http://:80/a", "the URL 'http://:80/a' has no host");
    expect_refused("http://", "the URL 'http://' has no host");
    expect_refused("http://user:secret@host/a",
                   "a URL of the dataset has a user or a password before its host host");
    expect_refused("http://host/a#b?secret",
                   "the URL 'http://host/a#b' has a fragment; write %23 for a # in a name");
    assert_int_equal(mr_url_check("s3://my-bucket_1.x/a#b?c@d", NULL), MR_OK);
    assert_int_equal(mr_url_check("gs://b", NULL), MR_OK);
    assert_int_equal(mr_url_check("hf://datasets/o/n@refs/pr/1/a", NULL), MR_OK);
    assert_int_equal(mr_url_check("hf://o/n", NULL), MR_OK);
    expect_refused("s3:///a", "the URL 's3:///a' is not s3://BUCKET/KEY");
    expect_refused("s3://b@c/a", "the URL 's3://b@c/a' is not s3://BUCKET/KEY");
    expect_refused("gs://b:80/a", "the URL 'gs://b:80/a' is not gs://BUCKET/KEY");
    expect_refused("hf://datasets/o",
                   "the URL 'hf://datasets/o' is not hf://datasets/OWNER/NAME@REVISION/PATH");
    expect_refused("hf://datasets//n/a",
                   "the URL 'hf://datasets//n/a' is not hf://datasets/OWNER/NAME@REVISION/PATH");
    expect_refused("hf://o/n?x/a",
                   "the URL 'hf://o/n?x/a' is not hf://datasets/OWNER/NAME@REVISION/PATH");
}

static void what_is_shown_of_a_url_is_all_but_its_query(void **state)
{
    (void)state;
    assert_int_equal(mr_url_shown_len("http://h/a?b"), 10);
    assert_int_equal(mr_url_shown_len("az://h/a?b"), 8);
    assert_int_equal(mr_url_shown_len("s3://b/a?b"), 10);
    assert_true(mr_url_has_query("https://h/a"));
    assert_false(mr_url_has_query("s3://b/a?b"));
    assert_false(mr_url_has_query("a?b"));
}

static void expect_joined(const char *folder, const char *name, const char *url)
{
    char out[100];
    assert_int_equal(mr_url_join(folder, name, out, sizeof out), 0);
    assert_string_equal(out, url);
}

static void names_are_resolved_against_a_folder(void **state)
{
    (void)state;
    char out[12];
    expect_joined("http://h/a/", "b/c.jpg", "http://h/a/b/c.jpg");
    expect_joined("http://h/a/", "/b", "http://h/b");
    expect_joined("http://h", "/b", "http://h/b");
    expect_joined("http://h/a/", "https://g/b", "https://g/b");
    expect_joined("s3://b/a/", "b/c?.jpg", "s3://b/a/b/c?.jpg");
    expect_joined("s3://b/a/", "/c", "s3://b/c");
    expect_joined("s3://b/", "/c", "s3://b/c");
    expect_joined("gs://b", "/c", "gs://b/c");
    expect_joined("hf://datasets/o/n@v/a/", "/c", "hf://datasets/o/n@v/c");
    expect_joined("hf://datasets/o/n/a/", "c", "hf://datasets/o/n/a/c");
    expect_joined("s3://b/a/", "http://g/b", "http://g/b");
    assert_int_equal(mr_url_join("http://h/", "abc", out, sizeof out) < 0, true);
    assert_int_equal(mr_url_join("http://h/", "ab", out, sizeof out), 0);
}

static void expect_parts(const char *url, const char *shown, const char *host, const char *folder)
{
    assert_int_equal(mr_url_path_len(url), strlen(shown));
    assert_int_equal(mr_url_host_len(url), strlen(host));
    assert_int_equal(mr_url_folder_len(url), strlen(folder));
}

static void the_parts_of_a_url_are_found(void **state)
{
    (void)state;
    expect_parts("http://h/a/b?c/d", "http://h/a/b", "http://h", "http://h/a/");
    expect_parts("https://h:80/a", "https://h:80/a", "https://h:80", "https://h:80/");
    expect_parts("http://h?a/b", "http://h", "http://h", "http://h");
    expect_parts("http://h", "http://h", "http://h", "http://h");
    assert_int_equal(mr_url_path_len("a/b?c"), 5);
    assert_int_equal(mr_url_folder_len("a/b"), 0);
}

static void expect_encoded(const char *url, const char *wanted)
{
    char out[100];
    assert_int_equal(mr_url_encode(url, out, sizeof out), 0);
    assert_string_equal(out, wanted);
}

static void what_a_request_may_not_contain_is_escaped(void **state)
{
    (void)state;
    char out[32];
    expect_encoded("http://h/a b", "http://h/a%20b");
    expect_encoded("http://h/a%20b", "http://h/a%20b");
    expect_encoded("http://h/100%.jpg", "http://h/100%25.jpg");
    expect_encoded("http://h/\xc3\xa4\r\n?a=b&c", "http://h/%C3%A4%0D%0A?a=b&c");
    expect_encoded("http://h/{0}|\"", "http://h/%7B0%7D%7C%22");
    assert_int_equal(
        mr_url_encode("http://h/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", out, sizeof out) < 0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_begin_with_a_known_scheme),
        cmocka_unit_test(urls_that_cannot_be_read_are_refused_without_their_secrets),
        cmocka_unit_test(what_is_shown_of_a_url_is_all_but_its_query),
        cmocka_unit_test(names_are_resolved_against_a_folder),
        cmocka_unit_test(the_parts_of_a_url_are_found),
        cmocka_unit_test(what_a_request_may_not_contain_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
