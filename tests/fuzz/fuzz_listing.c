/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what servers answer to a listing. The first byte says whom is asked: (s) a store,
 * (h) a web server. The rest is cut at bytes of 1 into pages, which are sent one after the other;
 * then there is no more answer. A list that is accepted names files below the root.
 *
 * The functions of http.h here replace those of the library.
 */
#include <string.h>

#include "dataset/dataset.h"
#include "dataset/remote/http.h"
#include "dataset/remote/listing/listing.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_GETS = 4096 };

struct mr_http {
    struct mr_http_get *gets[MAX_GETS];
    size_t n_begun, n_ended;
};

static const uint8_t *pages, *pages_end;

mr_status mr_http_create(const struct mr_http_options *options, struct mr_http **http_out,
                         mr_error *error)
{
    (void)options, (void)error;
    *http_out = calloc(1, sizeof **http_out);
    require(*http_out != NULL, "out of memory");
    return MR_OK;
}

void mr_http_destroy(struct mr_http *http)
{
    free(http);
}

void mr_http_begin(struct mr_http *http, struct mr_http_get *get)
{
    require(strcmp(get->url, "s3://b/") == 0 || strncmp(get->url, "http://h/p/", 11) == 0,
            "what is not below the root is asked for");
    if (http->n_begun < MAX_GETS)
        http->gets[http->n_begun++] = get;
}

struct mr_http_get *mr_http_next(struct mr_http *http, bool wait)
{
    (void)wait;
    if (http->n_ended == http->n_begun)
        return NULL;
    struct mr_http_get *get = http->gets[http->n_ended++];
    const uint8_t *end = memchr(pages, 1, (size_t)(pages_end - pages));
    size_t len = (size_t)((end ? end : pages_end) - pages);
    uint8_t *room = len > 0 ? get->reserve(get->user, len) : NULL;
    require(room != NULL || len == 0, "out of memory");
    if (len > 0)
        memcpy(room, pages, len);
    get->status = pages < pages_end ? MR_OK : MR_ERR_DAMAGED;
    get->len = len;
    strcpy(get->words, "no page is left");
    pages = end ? end + 1 : pages_end;
    return get;
}

static void walk(const mr_dataset *dataset, const char *root)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    struct mr_object_version version;
    char path[MR_CATALOG_PATH];
    for (int64_t i = 0; i < mr_dataset_n_samples(dataset); i++) {
        int64_t label;
        require(mr_catalog_path(catalog, (uint64_t)i, path) == 0 &&
                    strncmp(path, root, strlen(root)) == 0,
                "a file is not below the root");
        require(mr_dataset_label(dataset, i, &label, NULL) == MR_OK && label >= 0 &&
                    label < (int64_t)mr_dataset_n_classes(dataset),
                "a label is no class");
        (void)mr_catalog_version(catalog, (uint64_t)i, &version);
    }
}

static void be_silent(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0 || (bytes[0] != 's' && bytes[0] != 'h'))
        return 0;
    mr_log_set(be_silent, NULL);
    const char *root = bytes[0] == 's' ? "s3://b/p/" : "http://h/p/";
    mr_dataset *dataset;
    mr_error error = {0};
    pages = bytes + 1;
    pages_end = bytes + len;
    if (mr_dataset_from_store(root, NULL, &dataset, &error) == MR_OK)
        walk(dataset, root);
    else
        require((error.status == MR_ERR_DAMAGED || error.status == MR_ERR_IO) && error.text[0] &&
                    !strchr(error.text, '\n'),
                "no line says what is wrong");
    mr_dataset_destroy(dataset);
    return 0;
}
