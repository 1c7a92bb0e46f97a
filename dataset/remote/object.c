/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one object, and finds the versions of many. A long range is read as several at once, each
 * over its connection.
 */
#include "dataset/remote/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/shared_memory.h"
#include "dataset/remote/http.h"
#include "dataset/remote/object_stamp.h"
#include "dataset/remote/stores/credentials.h"
#include "dataset/remote/stores/store_name.h"
#include "dataset/remote/url.h"

/*
 * Opening reads 16 shards at once, so it has at most 64 connections. A request takes as long as
 * reading about 1 MiB, so shorter pieces do not help.
 */
enum {
    N_CONNECTIONS = 4,
    PIECE_BYTES = 1 << 20,
    RETRY_MS = 10000,
    REFUSED_MS = 1000,
    STEP_BYTES = 16 << 20,
    N_LOOKS = 16
};

struct mr_object {
    struct mr_http *http;
    char *url;
    bool is_given; /* the version is the caller's */
    struct mr_object_version version;
};

static uint8_t *reserve(void *user, size_t len)
{
    (void)len; /* the answer has the length that was asked for */
    return user;
}

static mr_status create_http(uint32_t n_connections, struct mr_http **http_out, mr_error *error)
{
    const struct mr_http_options options = {
        .n_connections = n_connections, .retry_ms = RETRY_MS, .refused_ms = REFUSED_MS};
    return mr_http_create(&options, http_out, error);
}

/* Before each request to a store: keys end. */
static mr_status find_keys(const char *url, mr_error *error)
{
    enum mr_store store = mr_store_name_find(url);
    return store ? mr_credentials_find(store == MR_STORE_S3, error) : MR_OK;
}

static mr_status fail_get(const struct mr_http_get *get, const char *words, mr_error *error)
{
    mr_error_set(error, MR_ERR_IO, "%.*s: %s", (int)mr_url_shown_len(get->url), get->url, words);
    if (error)
        error->os_error = get->os_error;
    return MR_ERR_IO;
}

/* The version that a get of the first byte has found. */
static mr_status take_version(const struct mr_http_get *get, struct mr_object_version *version_out,
                              mr_error *error)
{
    *version_out = get->version;
    if (get->status != MR_OK && (get->os_error || get->version.size > 0)) /* not an empty object */
        return fail_get(get, get->words, error);
    return get->version.size == MR_LEN_UNKNOWN
               ? fail_get(get, "the server does not state its size", error)
               : MR_OK;
}

mr_status mr_object_open(const char *url, const struct mr_object_version *version,
                         struct mr_object **object_out, mr_error *error)
{
    struct mr_object *object = calloc(1, sizeof *object);
    *object_out = NULL;
    if (!object)
        return mr_error_memory(error, sizeof *object);
    object->url = strdup(url);
    mr_status status = object->url ? create_http(N_CONNECTIONS, &object->http, error)
                                   : mr_error_memory(error, strlen(url) + 1);
    object->is_given = version != NULL;
    if (version)
        object->version = *version;
    else if (status == MR_OK)
        status = find_keys(url, error);
    if (status == MR_OK && !version) {
        uint8_t first;
        struct mr_http_get get = {
            .url = object->url, .wish = {.len = 1}, .reserve = reserve, .user = &first};
        mr_http_begin(object->http, &get);
        mr_http_next(object->http, true);
        status = take_version(&get, &object->version, error);
    }
    if (status != MR_OK)
        mr_object_close(object);
    else
        *object_out = object;
    return status;
}

void mr_object_close(struct mr_object *object)
{
    if (!object)
        return;
    mr_http_destroy(object->http);
    free(object->url);
    free(object);
}

/* A get of the first byte of an object. */
struct look {
    struct mr_http_get get;
    uint8_t first;
    size_t number; /* of the object */
};

struct looks {
    struct mr_http *http;
    const char *path; /* of the next object to look at */
    size_t next, n;
    struct mr_object_version *versions;
};

static mr_status begin_look(struct looks *looks, struct look *look, mr_error *error)
{
    for (; looks->next < looks->n && !mr_url_is(looks->path);
         looks->path += strlen(looks->path) + 1)
        looks->versions[looks->next++] = (struct mr_object_version){.size = 0};
    if (looks->next == looks->n)
        return MR_OK;
    *look = (struct look){
        .get = {.url = looks->path, .wish = {.len = 1}, .reserve = reserve, .user = &look->first},
        .number = looks->next++};
    looks->path += strlen(looks->path) + 1;
    mr_status status = find_keys(look->get.url, error);
    if (status == MR_OK)
        mr_http_begin(looks->http, &look->get);
    return status;
}

mr_status mr_object_versions(const char *paths, size_t n, struct mr_object_version *versions_out,
                             mr_error *error)
{
    struct looks looks = {.path = paths, .n = n, .versions = versions_out};
    struct look *all = calloc(N_LOOKS, sizeof *all);
    struct mr_http_get *get;
    if (!all)
        return mr_error_memory(error, N_LOOKS * sizeof *all);
    mr_status status = create_http(N_LOOKS, &looks.http, error);
    for (size_t i = 0; status == MR_OK && i < N_LOOKS; i++)
        status = begin_look(&looks, &all[i], error);
    while (status == MR_OK && (get = mr_http_next(looks.http, true))) {
        struct look *look = (struct look *)(void *)get; /* its first member */
        status = take_version(get, &versions_out[look->number], error);
        if (status == MR_OK)
            status = begin_look(&looks, look, error);
    }
    mr_http_destroy(looks.http);
    free(all);
    return status;
}

const struct mr_object_version *mr_object_version(const struct mr_object *object)
{
    return &object->version;
}

const char *mr_object_url(const struct mr_object *object)
{
    return object->url;
}

bool mr_object_stat(const struct mr_object *object, struct stat *st_out)
{
    uint64_t stamp = mr_object_stamp_make(object->url, &object->version);
    *st_out = (struct stat){.st_size = (off_t)object->version.size};
    st_out->st_mtim.tv_sec = (time_t)(stamp >> 34); /* 30 bits: long ago, for what is fresh */
    st_out->st_mtim.tv_nsec = (long)(stamp & 0x3fffffff);
    return stamp != 0;
}

static mr_status get_range(struct mr_object *object, uint64_t offset, uint8_t *out, size_t len,
                           mr_error *error)
{
    struct mr_http_get gets[N_CONNECTIONS], *get = gets;
    mr_status status = find_keys(object->url, error);
    if (status != MR_OK)
        return status;
    size_t piece = (len + N_CONNECTIONS - 1) / N_CONNECTIONS;
    piece = piece > PIECE_BYTES ? piece : PIECE_BYTES;
    for (size_t at = 0; at < len; at += piece, get++) {
        size_t n = len - at < piece ? len - at : piece;
        *get = (struct mr_http_get){
            .url = object->url,
            .wish = {.offset = offset + at, .len = n, .version = &object->version},
            .reserve = reserve,
            .user = out + at};
        mr_http_begin(object->http, get);
    }
    const char *replaced =
        object->is_given ? "the file was replaced" : "it was replaced while it was read";
    while ((get = mr_http_next(object->http, true)))
        if (get->status != MR_OK && status == MR_OK)
            status = fail_get(get, get->os_error == ESTALE ? replaced : get->words, error);
    return status;
}

mr_status mr_object_read(struct mr_object *object, uint64_t offset, void *out, size_t len,
                         mr_error *error)
{
    mr_status status = MR_OK;
    for (size_t at = 0; status == MR_OK && at < len; at += STEP_BYTES)
        status = get_range(object, offset + at, (uint8_t *)out + at,
                           len - at < STEP_BYTES ? len - at : STEP_BYTES, error);
    return status;
}

mr_status mr_object_load(struct mr_object *object, const char *name, int *fd_out, mr_error *error)
{
    size_t len = (size_t)object->version.size;
    int fd;
    mr_status status = mr_shared_memory_create(name, len, &fd, error);
    if (status != MR_OK)
        return status;
    void *map = len > 0 ? mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
    if (map == MAP_FAILED) {
        close(fd);
        return mr_error_memory(error, len);
    }
    status = mr_object_read(object, 0, map, len, error);
    if (map)
        munmap(map, len);
    int rc = status == MR_OK ? mr_shared_memory_seal_content(fd) : 0;
    if (rc < 0)
        status = mr_error_os(error, MR_ERR_IO, -rc, "cannot seal the copy of %.*s",
                             (int)mr_url_shown_len(object->url), object->url);
    if (status != MR_OK)
        close(fd);
    else
        *fd_out = fd;
    return status;
}
