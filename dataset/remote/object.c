/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one object. A long range is read as several at once, each over its connection. */
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
enum { N_CONNECTIONS = 4, PIECE_BYTES = 1 << 20, RETRY_MS = 10000, STEP_BYTES = 16 << 20 };

struct mr_object {
    struct mr_http *http;
    char *url;
    struct mr_object_version version;
};

static uint8_t *reserve(void *user, size_t len)
{
    (void)len; /* the answer has the length that was asked for */
    return user;
}

static mr_status fail_get(const struct mr_object *object, const struct mr_http_get *get,
                          mr_error *error)
{
    mr_error_set(error, MR_ERR_IO, "%.*s: %s", (int)mr_url_shown_len(object->url), object->url,
                 get->os_error == ESTALE ? "it was replaced while it was read" : get->words);
    if (error)
        error->os_error = get->os_error;
    return MR_ERR_IO;
}

static mr_status get_range(struct mr_object *object, uint64_t offset, uint8_t *out, size_t len,
                           const struct mr_object_version *version, mr_error *error)
{
    struct mr_http_get gets[N_CONNECTIONS], *get = gets;
    enum mr_store store = mr_store_name_find(object->url);
    mr_status status = store ? mr_credentials_find(store == MR_STORE_S3, error) : MR_OK;
    if (status != MR_OK)
        return status;
    size_t piece = (len + N_CONNECTIONS - 1) / N_CONNECTIONS;
    piece = piece > PIECE_BYTES ? piece : PIECE_BYTES;
    for (size_t at = 0; at < len; at += piece, get++) {
        size_t n = len - at < piece ? len - at : piece;
        *get = (struct mr_http_get){
            .url = object->url,
            .wish = {.offset = offset + at, .len = n, .max_bytes = n, .version = version},
            .reserve = reserve,
            .user = out + at};
        mr_http_begin(object->http, get);
    }
    while ((get = mr_http_next(object->http, true)))
        if (get->status != MR_OK && status == MR_OK)
            status = fail_get(object, get, error);
    if (status == MR_OK && !version)
        object->version = gets[0].version;
    return status;
}

mr_status mr_object_open(const char *url, struct mr_object **object_out, mr_error *error)
{
    const struct mr_http_options options = {.n_connections = N_CONNECTIONS, .retry_ms = RETRY_MS};
    uint8_t first;
    struct mr_object *object = calloc(1, sizeof *object);
    *object_out = NULL;
    if (!object)
        return mr_error_memory(error, sizeof *object);
    object->url = strdup(url);
    mr_status status = object->url ? mr_http_create(&options, &object->http, error)
                                   : mr_error_memory(error, strlen(url) + 1);
    if (status == MR_OK)
        status = get_range(object, 0, &first, 1, NULL, error);
    if (status == MR_OK && object->version.size == MR_LEN_UNKNOWN)
        status = mr_error_set(error, MR_ERR_IO, "%.*s: the server does not state its size",
                              (int)mr_url_shown_len(url), url);
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

mr_status mr_object_read(struct mr_object *object, uint64_t offset, void *out, size_t len,
                         mr_error *error)
{
    return len > 0 ? get_range(object, offset, out, len, &object->version, error) : MR_OK;
}

mr_status mr_object_load(struct mr_object *object, const char *name, int *fd_out, mr_error *error)
{
    size_t len = (size_t)object->version.size;
    int fd;
    mr_status status = mr_shared_memory_create(name, len, &fd, error);
    if (status != MR_OK)
        return status;
    uint8_t *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        close(fd);
        return mr_error_memory(error, len);
    }
    for (size_t at = 0; status == MR_OK && at < len; at += STEP_BYTES)
        status = mr_object_read(object, at, map + at, len - at < STEP_BYTES ? len - at : STEP_BYTES,
                                error);
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
