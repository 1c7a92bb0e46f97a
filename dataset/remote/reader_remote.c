/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of remote files: each part is one get. Parts in local files (of a list that has both,
 * or of a cache) are read with ordinary calls.
 *
 * Invariant: a get writes to the buffer of its part, which only the get enlarges until it has
 * ended.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "dataset/file.h"
#include "dataset/reader/reader_impl.h"
#include "dataset/remote/http.h"
#include "dataset/remote/url.h"

struct flight {
    struct mr_http_get get;
    struct mr_reader_part *part;
    char url[MR_CATALOG_PATH];
    struct mr_object_version version;
};

struct remote {
    struct mr_http *http;
    struct flight *flights; /* one per part */
};

static uint8_t *reserve(void *user, size_t len)
{
    struct flight *flight = user;
    return mr_reader_reserve(flight->part, len) == 0 ? flight->part->bytes : NULL;
}

/* As mr_catalog_url(). */
static int find_url(struct mr_reader *reader, uint64_t file, char url_out[MR_CATALOG_PATH])
{
    const char *root = reader->options.root_url;
    char path[MR_CATALOG_PATH];
    if (!root)
        return mr_catalog_url(reader->catalog, file, url_out);
    int rc = mr_catalog_path(reader->catalog, file, path);
    if (rc < 0)
        return rc;
    bool whole = path[0] == '/';
    int n =
        snprintf(url_out, MR_CATALOG_PATH, "%s%s%s%s", root,
                 whole ? "" : mr_catalog_absolute_root(reader->catalog), whole ? "" : "/", path);
    return n < MR_CATALOG_PATH ? 0 : -ENAMETOOLONG;
}

static void fail(struct mr_reader *reader, struct mr_reader_part *part, mr_status status,
                 int os_error, const char *words)
{
    char name[MR_CATALOG_DESCRIPTION];
    mr_error_set(&part->error, status, "%s: %s", mr_reader_describe(reader, part, name), words);
    part->error.os_error = os_error;
    mr_reader_finish(reader, part, status, 0);
}

static struct mr_answer_wish make_wish(struct mr_reader *reader, const struct mr_reader_part *part,
                                       struct mr_object_version *version)
{
    const struct mr_extent *extent = &part->want->extent;
    struct mr_answer_wish wish = {
        .offset = extent->offset, .len = extent->len, .max_bytes = part->want->max_bytes};
    uint64_t end;
    if (mr_catalog_version(reader->catalog, extent->file, version))
        wish.version = version;
    /* no file has such an end, and the answer says where it ends */
    if (wish.len != MR_LEN_UNKNOWN &&
        (!mr_checked_add_u64(wish.offset, wish.len, &end) || end > INT64_MAX))
        wish.len = UINT64_MAX - wish.offset;
    return wish;
}

static void begin_remote(struct mr_reader *reader, struct mr_reader_part *part)
{
    struct remote *remote = reader->state;
    struct flight *flight = &remote->flights[mr_reader_number(reader, part)];
    const struct mr_extent *extent = &part->want->extent;
    int rc =
        mr_reader_is_other(reader, part) ? -ENOENT : find_url(reader, extent->file, flight->url);
    if (rc == -ENOENT) {
        mr_reader_pread_later(reader, part);
    } else if (rc < 0) {
        fail(reader, part, MR_ERR_DAMAGED, -rc, "its URL is too long");
    } else if (extent->len != MR_LEN_UNKNOWN && extent->len > part->want->max_bytes) {
        mr_reader_finish(reader, part, mr_reader_fail_large(reader, part, extent->len), 0);
    } else if (mr_reader_reserve(part, 0) != 0) {
        mr_reader_finish(reader, part, mr_reader_fail_memory(reader, part, 0), 0);
    } else {
        flight->part = part;
        flight->get = (struct mr_http_get){.url = flight->url,
                                           .wish = make_wish(reader, part, &flight->version),
                                           .reserve = reserve,
                                           .user = flight};
        mr_http_begin(remote->http, &flight->get);
    }
}

static void end_get(struct mr_reader *reader, struct mr_http_get *get)
{
    struct flight *flight = get->user;
    struct mr_reader_part *part = flight->part;
    mr_reader_average(&reader->delay_ns, mr_clock_now_ns() - get->tried_ns);
    part->version = get->status == MR_OK ? &get->version : NULL;
    if (get->status == MR_OK || (get->os_error == ENOENT && mr_reader_may_lack(reader, part)))
        mr_reader_finish(reader, part, MR_OK, get->len);
    else if (get->status == MR_ERR_NO_MEMORY)
        mr_reader_finish(reader, part, mr_reader_fail_memory(reader, part, get->len), 0);
    else
        fail(reader, part, get->status, get->os_error,
             get->os_error != ESTALE                   ? get->words
             : mr_catalog_loose_files(reader->catalog) ? "the file changed since it was listed"
                                                       : mr_file_words(ESTALE));
}

static void advance_remote(struct mr_reader *reader, bool wait)
{
    struct remote *remote = reader->state;
    do {
        bool sleep = wait && !reader->ended.head && !reader->slow.head;
        struct mr_http_get *get = mr_http_next(remote->http, sleep);
        for (; get; get = mr_http_take(remote->http))
            end_get(reader, get);
        if (!reader->ended.head && reader->slow.head)
            mr_reader_pread_now(reader, mr_reader_pop_slow(reader));
    } while (wait && !reader->ended.head);
}

static mr_status create_remote(struct mr_reader *reader, mr_error *error)
{
    struct remote *remote = calloc(1, sizeof *remote);
    if (!remote)
        return mr_error_memory(error, sizeof *remote);
    reader->state = remote;
    uint32_t n_parts = reader->options.depth * reader->max_parts;
    uint32_t n =
        reader->options.n_connections ? reader->options.n_connections : reader->options.depth;
    uint32_t limit = mr_file_cache_limit(); /* a connection is a descriptor */
    limit = n_parts < limit ? n_parts : limit;
    const struct mr_http_options options = {
        .n_connections = n < limit ? n : limit,
        .retry_ms = reader->options.retry_ms ? reader->options.retry_ms : MR_READER_RETRY_MS};
    remote->flights = calloc(n_parts, sizeof *remote->flights);
    if (!remote->flights)
        return mr_error_memory(error, n_parts * sizeof *remote->flights);
    return mr_http_create(&options, &remote->http, error);
}

static void destroy_remote(struct mr_reader *reader)
{
    struct remote *remote = reader->state;
    if (!remote)
        return;
    mr_http_destroy(remote->http);
    free(remote->flights);
    free(remote);
    reader->state = NULL;
}

const struct mr_reader_ops mr_reader_remote_ops = {
    .name = "http",
    .create = create_remote,
    .destroy = destroy_remote,
    .begin = begin_remote,
    .advance = advance_remote,
};
