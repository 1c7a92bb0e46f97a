/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings of web servers and of a store: the samples, their order and their classes are those of
 * an imagefolder of the same files.
 */
#include <ftw.h>
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

#include "dataset/dataset.h"
#include "dataset/remote/listing/listing_html.h"
#include "dataset/remote/listing/listing_page.h"
#include "dataset/remote/listing/listing_xml.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"
#include "tests/support/http_server.h"

enum { MAX_FILES = 64, PAGE = 3, TEXT = 1 << 16 };

enum style { NGINX, APACHE, PYTHON, S3, GOOGLE, N_STYLES };

static struct tree tree;
static struct mr_test_http *server;
static enum style style;
static const char *odd_page;                           /* is sent for each folder; NULL: none */
static void (*make_page)(uint64_t number, char *text); /* the same for each request */

static char *files[MAX_FILES]; /* below the tree, sorted by bytes */
static int n_files;

static int take_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)ftw;
    if (type == FTW_F)
        files[n_files++] = strdup(path + strlen(tree.path) + 1);
    return 0;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_files(void)
{
    for (; n_files > 0; n_files--)
        free(files[n_files - 1]);
    assert_int_equal(nftw(tree.path, take_file, 8, FTW_PHYS), 0);
    assert_in_range(n_files, 1, MAX_FILES - 1);
    qsort(files, (size_t)n_files, sizeof *files, compare_texts);
}

/* Append a name: bytes that are not plain as %XX, or as they are. */
static void put_name(char *text, const char *name, size_t len, bool escape)
{
    char *at = text + strlen(text);
    for (size_t i = 0; i < len; i++) {
        bool plain = (name[i] >= '0' && name[i] <= '9') ||
                     ((name[i] | 32) >= 'a' && (name[i] | 32) <= 'z') || strchr("/.-_", name[i]);
        at += sprintf(at, escape && !plain ? "%%%02X" : "%c", (unsigned char)name[i]);
    }
}

/*
 * Call put for each item that is directly below a folder: a file, or a folder with its slash. Items
 * up to `after`, and more than max, are left out; returns the last item if more follow.
 */
static const char *each_item(const char *folder, const char *delimiter, const char *after, int max,
                             void (*put)(char *text, const char *item, size_t len), char *text)
{
    static char last[1000], text_of_item[sizeof last];
    size_t len = strlen(folder);
    last[0] = '\0';
    for (int i = 0, n = 0; i < n_files; i++) {
        if (strncmp(files[i], folder, len) != 0)
            continue;
        const char *slash = *delimiter ? strchr(files[i] + len, '/') : NULL;
        size_t item = slash ? (size_t)(slash - files[i]) + 1 : strlen(files[i]);
        snprintf(text_of_item, sizeof text_of_item, "%.*s", (int)item, files[i]);
        if (strcmp(text_of_item, last) == 0 || strcmp(text_of_item, after) <= 0)
            continue; /* the folder was there */
        if (n++ == max)
            return last;
        memcpy(last, text_of_item, sizeof last);
        put(text, files[i], item);
    }
    return "";
}

static void put_link(char *text, const char *item, size_t len)
{
    static const char *const before[] = {"<a href=\"", "<td><a class=x href='./", "<li><A HREF ="};
    static const char *const after[] = {"\">x</a>  28-Nov-2026 10:00   12\r\n",
                                        "'>x&lt;</a></td>\n", ">x</a></li>\n"};
    const char *name = item + len - 1; /* without the folders above */
    while (name > item && name[-1] != '/')
        name--;
    for (int links = style == APACHE ? 2 : 1; links > 0; links--) { /* its icon is a link too */
        strcat(text, before[style]);
        put_name(text, name, (size_t)(item + len - name), true);
        strcat(text, after[style]);
    }
}

static void put_object(char *text, const char *item, size_t len)
{
    bool is_folder = item[len - 1] == '/';
    struct stat st;
    strcat(text, is_folder ? "<CommonPrefixes><Prefix>" : "<Contents><Key>");
    put_name(text, item, len, true);
    strcat(text, is_folder ? "</Prefix></CommonPrefixes>" : "</Key>");
    if (is_folder)
        return;
    assert_int_equal(stat(tree_at(&tree, item), &st), 0);
    sprintf(text + strlen(text),
            "<ETag>&quot;e%jd&quot;</ETag><Size>%jd</Size><Owner><ID>1</ID></Owner></Contents>",
            (intmax_t)st.st_size, (intmax_t)st.st_size);
}

static void make_index(const char *path, char *text)
{
    static const char *const heads[] = {
        "<html><head><title>Index of /</title></head><body><hr><pre><a href=\"../\">../</a>\n",
        "<table><tr><th><a href=\"?C=N;O=D\">Name</a></th></tr>\n"
        "<td><a href='/'>Parent Directory</a></td><!-- <a href='no.jpg'> -->\n",
        "<!DOCTYPE HTML>\n<ul>\n<li><a href=#top>top</a> <a href=mailto:a@b.jpg>mail</a>"
        "<a href=//other/x.jpg>x</a> <a>none</a>"};
    strcpy(text, heads[style]);
    each_item(path + 1, "/", "", MAX_FILES, put_link, text);
}

/* The value of a parameter of the request, decoded; "": none. */
static const char *parameter(const char *head, const char *name, char value[1000])
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s=", name);
    const char *at = strstr(head, wanted);
    value[0] = '\0';
    if (at && at < strstr(head, " HTTP/"))
        sscanf(at + strlen(wanted), "%999[^& ]", value);
    assert_true(mr_listing_page_decode(value, false));
    return value;
}

static void make_store_page(const char *path, const char *head, char *text)
{
    char prefix[1000], delimiter[1000], token[1000], type[1000];
    assert_string_equal(path, "/bucket/");
    assert_string_equal(parameter(head, "list-type", type), "2");
    assert_string_equal(parameter(head, "encoding-type", type), "url");
    strcpy(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
                 "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>");
    parameter(head, "prefix", prefix);
    parameter(head, "continuation-token", token);
    const char *next = each_item(prefix, parameter(head, "delimiter", delimiter),
                                 *token ? token + 2 : "", PAGE, put_object, text);
    if (*next) { /* a token may have bytes that a query may not have */
        strcat(text, "<NextContinuationToken>+=");
        put_name(text, next, strlen(next), false);
        strcat(text, "</NextContinuationToken>");
    }
    sprintf(text + strlen(text), "<IsTruncated>%s</IsTruncated><EncodingType>url</EncodingType>",
            *next ? "true" : "false");
    strcat(text, "</ListBucketResult>");
}

static bool answer(void *user, const struct mr_test_http_request *request,
                   struct mr_test_http_page *page)
{
    (void)user;
    const char *path = request->path;
    bool is_page = style >= S3 || path[strlen(path) - 1] == '/';
    if (!is_page)
        return false;
    page->body = odd_page ? strdup(odd_page) : calloc(1, TEXT);
    if (make_page)
        make_page(request->number, page->body);
    else if (!odd_page && style >= S3)
        make_store_page(path, request->head, page->body);
    else if (!odd_page)
        make_index(path, page->body);
    return true;
}

static int set_up(void **state)
{
    static const char *const names[] = {"p/b ird/1.jpg",
                                        "p/b ird/10.jpg",
                                        "p/b ird/2.jpg",
                                        "p/b ird/sub/x.png",
                                        "p/b ird/sub-a/x.png",
                                        "p/b ird/notes.txt",
                                        "p/b ird/sub/a/b.ppm",
                                        "p/b/a%2Fb+c.JPEG",
                                        "p/b/#?&<>\"'.png",
                                        "p/b/tab\tline.jpg",
                                        "p/b-x/1.jpg",
                                        "p/b-x/deep/er/1.jpg",
                                        "p/\xc3\xbc/1.webp",
                                        "p/z/README",
                                        "p/z/1.tif",
                                        "p/loose.jpg",
                                        "q/none/no image",
                                        "q/some/1.jpg",
                                        "r/x.jpg"};
    (void)state;
    tree_create(&tree);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tree_write(&tree, names[i], "0123456789012345678901234567890", i + 1);
    find_files();
    odd_page = NULL;
    style = NGINX;
    server = mr_test_http_start(tree.path, NULL, NULL);
    mr_test_http_answer_with(server, answer);
    setenv("AWS_ENDPOINT_URL_S3", mr_test_http_url(server), 1);
    setenv("GS_ENDPOINT_URL", mr_test_http_url(server), 1);
    setenv("AWS_NO_SIGN_REQUEST", "1", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_http_stop(server);
    tree_destroy(&tree);
    return 0;
}

static const char *url_of(const char *folder)
{
    static char url[200];
    if (style >= S3)
        snprintf(url, sizeof url, "%s://bucket/%s", style == S3 ? "s3" : "gs", folder);
    else
        snprintf(url, sizeof url, "%s/%s", mr_test_http_url(server), folder);
    return url;
}

static void expect_list_error(const char *folder, mr_status status, const char *words)
{
    mr_dataset *dataset = (mr_dataset *)1;
    mr_error error = {0};
    assert_int_equal(mr_dataset_from_store(url_of(folder), NULL, &dataset, &error), status);
    assert_null(dataset);
    assert_words(error.text, words);
}

/* Assert that both have the same files, in the same order, with the same labels and classes. */
static void expect_same(mr_dataset *local, mr_dataset *listed, const char *folder)
{
    char path[MR_CATALOG_PATH];
    struct mr_object_version version;
    struct stat st;
    assert_int_equal(mr_dataset_n_samples(listed), mr_dataset_n_samples(local));
    assert_int_equal(mr_dataset_n_classes(listed), mr_dataset_n_classes(local));
    for (uint32_t i = 0; i < mr_dataset_n_classes(local); i++)
        assert_string_equal(mr_dataset_class_name(listed, i), mr_dataset_class_name(local, i));
    for (int64_t i = 0; i < mr_dataset_n_samples(local); i++) {
        assert_int_equal(label_of(listed, i), label_of(local, i));
        snprintf(path, sizeof path, "%s", path_of(listed, i));
        size_t len = strlen(url_of(folder));
        assert_memory_equal(path, url_of(folder), len);
        if (style < S3)
            assert_true(mr_listing_page_decode(path + len, false));
        assert_string_equal(path + len, path_of(local, i));
        bool has_version = mr_catalog_version(mr_dataset_catalog(listed), (uint64_t)i, &version);
        assert_int_equal(has_version, style >= S3);
        snprintf(path + len, sizeof path - len, "%s%s", folder, path_of(local, i));
        assert_int_equal(stat(tree_at(&tree, path + len), &st), 0);
        if (has_version) {
            snprintf(path, sizeof path, "\"e%jd\"", (intmax_t)st.st_size);
            assert_int_equal(version.size, st.st_size);
            assert_string_equal(version.etag, path);
        }
    }
}

static void a_listing_is_the_imagefolder_of_a_copy(void **state)
{
    (void)state;
    mr_error error = {0};
    char spec[8300];
    for (style = 0; style < N_STYLES; style++) {
        mr_dataset *listed, *local = open_dataset(tree_spec(&tree, "imagefolder", "p"));
        assert_ok(mr_dataset_from_store(url_of("p/"), NULL, &listed, &error), &error);
        expect_same(local, listed, "p/");
        assert_int_equal(mr_dataset_n_classes(listed), 5);
        assert_ok(mr_dataset_save_list(listed, tree_at(&tree, "saved"), &error), &error);
        mr_dataset_destroy(listed);
        listed = open_dataset(tree_spec(&tree, "list", "saved"));
        remove(tree_at(&tree, "saved"));
        expect_same(local, listed, "p/");
        mr_dataset_destroy(listed);
        mr_dataset_destroy(local);

        mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
        options.no_classes = true;
        snprintf(spec, sizeof spec, "%s?label=none", tree_spec(&tree, "imagefolder", "p"));
        local = open_dataset(spec);
        assert_ok(mr_dataset_from_store(url_of("p"), &options, &listed, &error), &error);
        expect_same(local, listed, "p/");
        mr_dataset_destroy(listed);
        mr_dataset_destroy(local);
    }
}

static void empty_classes_and_missing_ones_are_errors(void **state)
{
    (void)state;
    for (style = 0; style < N_STYLES; style++) {
        mr_dataset *listed;
        mr_error error = {0};
        mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
        expect_list_error("q/", MR_ERR_DAMAGED,
                          "1 of 2 class folders hold no image, such as 'none'");
        expect_list_error("r/", MR_ERR_DAMAGED, "/r/ holds no image in a class folder");
        options.allow_empty_classes = true;
        assert_ok(mr_dataset_from_store(url_of("q/"), &options, &listed, &error), &error);
        assert_int_equal(mr_dataset_n_classes(listed), 2);
        assert_int_equal(label_of(listed, 0), 1);
        mr_dataset_destroy(listed);
    }
}

static void expect_odd_error(const char *page, const char *words)
{
    odd_page = page;
    expect_list_error("p/", MR_ERR_DAMAGED, words);
    odd_page = NULL;
}

#define XML(inner) "<ListBucketResult>" inner "</ListBucketResult>"
#define KEY(key) "<Contents><Key>" key "</Key></Contents>"
#define FOLDER(key) "<CommonPrefixes><Prefix>" key "</Prefix></CommonPrefixes>"

#define NEXT(token)                                                                                \
    "<IsTruncated>true</IsTruncated>"                                                              \
    "<NextContinuationToken>" token "</NextContinuationToken>"

static void a_store_that_lies_is_refused(void **state)
{
    (void)state;
    style = S3;
    expect_odd_error(XML(KEY("other/x.jpg")), "the server lists what is elsewhere: 'other/x.jpg'");
    expect_odd_error(XML(FOLDER("p/a")), "the server lists what is elsewhere: 'p/a'");
    expect_odd_error(XML(FOLDER("p/")), "the server lists what is elsewhere: 'p/'");
    expect_odd_error(XML(FOLDER("p/../")), "no file can be called '..'");
    expect_odd_error(XML(FOLDER("p//")), "a class folder has no name: 's3://bucket/p//'");
    expect_odd_error(XML(KEY("p/x.jpg") NEXT("t")), "the server sends the same page again");
    expect_odd_error(XML(NEXT("t")), "the server sends the same page again");
    expect_odd_error(XML(FOLDER("p/a/") FOLDER("p/a/")), "elsewhere");
    expect_odd_error("<html></html>", "it is <html>, not <ListBucketResult>");
    expect_odd_error("", "no element found");
}

/* Pages without an end, made of their number. */
static void circle_of_tokens(uint64_t number, char *text)
{
    sprintf(text, XML(KEY("p/%" PRIu64 ".jpg") NEXT("t%" PRIu64)), number, number % 5);
}

static void circle_of_keys(uint64_t number, char *text)
{
    sprintf(text, XML(KEY("p/%" PRIu64 ".jpg") NEXT("t%" PRIu64)), number % 7, number);
}

static void no_keys(uint64_t number, char *text)
{
    sprintf(text, XML(NEXT("t%" PRIu64)), number);
}

static void a_listing_without_an_end_is_refused(void **state)
{
    (void)state;
    static void (*const makers[])(uint64_t, char *) = {circle_of_tokens, circle_of_keys, no_keys};
    style = S3;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        make_page = makers[i];
        expect_list_error("p/", MR_ERR_DAMAGED,
                          "cannot list s3://bucket/p/: the server sends the same page again, or "
                          "none with keys");
    }
    make_page = NULL;
}

/* No file system has such names, but the keys are there. */
static void keys_may_have_two_slashes(void **state)
{
    (void)state;
    static const char *const keys[] = {"p/a/1.jpg", "p/a//1.jpg", "p/a//b//2.jpg"};
    mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
    mr_dataset *listed;
    mr_error error;
    char url[200];
    style = S3;
    options.no_classes = true;
    odd_page = XML(KEY("p/a/1.jpg") KEY("p/a//b//2.jpg") KEY("p/a//1.jpg") KEY("p/a//"));
    assert_ok(mr_dataset_from_store(url_of("p/"), &options, &listed, &error), &error);
    odd_page = NULL;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(mr_dataset_n_samples(listed), 3);
        for (int64_t i = 0; i < 3; i++) {
            snprintf(url, sizeof url, "s3://bucket/%s", keys[i]);
            assert_string_equal(path_of(listed, i), url);
        }
        if (round == 0)
            assert_ok(mr_dataset_save_list(listed, tree_at(&tree, "saved"), &error), &error);
        mr_dataset_destroy(listed);
        listed = round == 0 ? open_dataset(tree_spec(&tree, "list", "saved")) : NULL;
    }
}

static void an_index_that_lies_is_refused(void **state)
{
    (void)state;
    expect_odd_error("<a href='x/'><a href='x.jpg'>", "more than 64 folders deep");
    expect_odd_error("<a href='a%2.jpg'>", "a wrong escape in 'a%2.jpg'");
    expect_odd_error("<a href='a%00.jpg'>", "a wrong escape in 'a%00.jpg'");
    expect_odd_error("<a href='%2e%2e/'>", "no file can be called '..'");
    expect_odd_error("<a href='x/'><a href='y/'><a href='z/'>", "more than 64 folders deep");
    expect_odd_error("no page", "holds no image in a class folder");
}

/* Of 118,000 files, as a folder of COCO has. */
static void the_page_of_a_large_folder_is_read(void **state)
{
    const size_t len = 15 << 20;
    char *page = malloc(len + 1);
    mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
    mr_dataset *listed;
    mr_error error;
    (void)state;
    memset(page, ' ', len);
    memcpy(page + len - 20, "<a href='x.jpg'></a>", 21);
    odd_page = page;
    options.no_classes = true;
    assert_ok(mr_dataset_from_store(url_of("p/"), &options, &listed, &error), &error);
    odd_page = NULL;
    free(page);
    assert_int_equal(mr_dataset_n_samples(listed), 1);
    mr_dataset_destroy(listed);
}

static void read_xml(const char *text, mr_status wanted, const char *words)
{
    struct mr_listing_page page = {0};
    mr_error error = {0};
    assert_int_equal(mr_listing_xml_read(text, strlen(text), &page, &error), wanted);
    assert_words(error.text, words);
    mr_listing_page_fini(&page);
}

static void xml_that_is_hostile_is_refused(void **state)
{
    (void)state;
    static const char entities[] =
        "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]>" XML(KEY("&b;"));
    char *deep = calloc(1, TEXT);
    read_xml(entities, MR_ERR_DAMAGED, "it has a document type declaration");
    read_xml(XML(KEY("&b;")), MR_ERR_DAMAGED, "undefined entity");
    read_xml("<ListBucketResult><Contents><Key>a</Key>", MR_ERR_DAMAGED, "no element found");
    read_xml(XML("<Contents><Size>1</Size></Contents>"), MR_ERR_DAMAGED, "an object has no <Key>");
    read_xml(XML("<Contents><Key>a</Key><Size>-1</Size></Contents>"), MR_ERR_DAMAGED,
             "a <Size> is not a number of bytes");
    read_xml(XML("<Contents><Size>99999999999999999999</Size></Contents>"), MR_ERR_DAMAGED,
             "a <Size> is not a number of bytes");
    read_xml(XML("<Contents><Key>a<b/></Key></Contents>"), MR_ERR_DAMAGED,
             "an element within a text");
    read_xml(XML("<IsTruncated>true</IsTruncated>"), MR_ERR_DAMAGED, "no <NextContinuationToken>");
    read_xml(XML("<EncodingType>url</EncodingType>" KEY("a%2")), MR_ERR_DAMAGED,
             "a key with a wrong escape: a%2");
    read_xml("<Error><Code>AccessDenied</Code></Error>", MR_ERR_DAMAGED, "it is <Error>");
    strcpy(deep, "<ListBucketResult><Contents><Key>");
    memset(deep + strlen(deep), 'k', 5000);
    strcat(deep, "</Key></Contents></ListBucketResult>");
    read_xml(deep, MR_ERR_DAMAGED, "a text has more than 4095 bytes");
    strcpy(deep, "<ListBucketResult>");
    for (int i = 0; i < 5000; i++)
        strcat(deep, "<Contents>");
    read_xml(deep, MR_ERR_DAMAGED, "no element found");
    free(deep);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {T(a_listing_is_the_imagefolder_of_a_copy),
                                       T(empty_classes_and_missing_ones_are_errors),
                                       T(a_store_that_lies_is_refused),
                                       T(a_listing_without_an_end_is_refused),
                                       T(keys_may_have_two_slashes),
                                       T(an_index_that_lies_is_refused),
                                       T(the_page_of_a_large_folder_is_read),
                                       cmocka_unit_test(xml_that_is_hostile_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
