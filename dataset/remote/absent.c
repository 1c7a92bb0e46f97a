/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for what reads URLs in a program without libcurl. */
#include "dataset/reader/reader_impl.h"
#include "dataset/remote/http.h"
#include "dataset/remote/object.h"
#include "dataset/remote/stores/credentials.h"

static mr_status refuse(mr_error *error)
{
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "reading URLs needs a build with libcurl (package libcurl4-openssl-dev)");
}

static mr_status refuse_reader(struct mr_reader *reader, mr_error *error)
{
    (void)reader;
    return refuse(error);
}

const struct mr_reader_ops mr_reader_remote_ops = {.name = "http", .create = refuse_reader};

mr_status mr_http_create(const struct mr_http_options *options, struct mr_http **http_out,
                         mr_error *error)
{
    (void)options;
    *http_out = NULL;
    return refuse(error);
}

void mr_http_destroy(struct mr_http *http)
{
    (void)http;
}

void mr_http_begin(struct mr_http *http, struct mr_http_get *get)
{
    (void)http, (void)get;
}

struct mr_http_get *mr_http_next(struct mr_http *http, bool wait)
{
    (void)http, (void)wait;
    return NULL;
}

mr_status mr_object_open(const char *url, const struct mr_object_version *version,
                         struct mr_object **object_out, mr_error *error)
{
    (void)url, (void)version;
    *object_out = NULL;
    return refuse(error);
}

mr_status mr_object_versions(const char *paths, size_t n, struct mr_object_version *versions_out,
                             mr_error *error)
{
    (void)paths, (void)n, (void)versions_out;
    return refuse(error);
}

void mr_object_close(struct mr_object *object)
{
    (void)object;
}

const struct mr_object_version *mr_object_version(const struct mr_object *object)
{
    (void)object;
    return NULL;
}

const char *mr_object_url(const struct mr_object *object)
{
    (void)object;
    return NULL;
}

bool mr_object_stat(const struct mr_object *object, struct stat *st_out)
{
    (void)object, (void)st_out;
    return false;
}

mr_status mr_object_read(struct mr_object *object, uint64_t offset, void *out, size_t len,
                         mr_error *error)
{
    (void)object, (void)offset, (void)out, (void)len;
    return refuse(error);
}

mr_status mr_object_load(struct mr_object *object, const char *name, int *fd_out, mr_error *error)
{
    (void)object, (void)name, (void)fd_out;
    return refuse(error);
}

mr_status mr_credentials_find(bool with_s3, mr_error *error)
{
    (void)with_s3, (void)error;
    return MR_OK;
}

mr_status mr_credentials_hold(mr_error *error)
{
    (void)error;
    return MR_OK;
}

void mr_credentials_release(void) {}

const char *mr_credentials_source(void)
{
    return "";
}
