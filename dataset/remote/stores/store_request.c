/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes requests to stores. Google Cloud Storage understands S3's, with HMAC keys.
 *
 * Invariant: a token is sent only to the endpoint that the settings name, never to the target of a
 * redirect at another host.
 */
#include "dataset/remote/stores/store_request.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/words.h"
#include "dataset/remote/stores/bucket_region.h"
#include "dataset/remote/stores/sigv4.h"
#include "dataset/remote/stores/target.h"

#define AWS "amazonaws.com"

enum { HOST_BYTES = 2 * MR_STORE_ENDPOINT + 64 };

/* An endpoint's parts: "https://", "host:9000", "/prefix". */
struct place {
    int scheme_len;
    char host[HOST_BYTES];
    const char *prefix;
    size_t prefix_len; /* without a slash at its end */
};

static mr_status fail(char words_out[MR_ANSWER_WORDS], const char *words)
{
    snprintf(words_out, MR_ANSWER_WORDS, "%.*s", MR_ANSWER_WORDS - 1, words);
    return MR_ERR_DAMAGED;
}

static bool parse_endpoint(const char *endpoint, struct place *place_out)
{
    bool is_https = mr_word_begins(endpoint, "https://");
    if (!is_https && !mr_word_begins(endpoint, "http://"))
        return false;
    place_out->scheme_len = is_https ? 8 : 7;
    const char *host = endpoint + place_out->scheme_len;
    size_t len = strcspn(host, "/?#@");
    if (len == 0 || len >= MR_STORE_ENDPOINT || (host[len] && host[len] != '/'))
        return false;
    snprintf(place_out->host, HOST_BYTES, "%.*s", (int)len, host);
    place_out->prefix = host + len;
    place_out->prefix_len = strlen(host + len);
    while (place_out->prefix_len > 0 && place_out->prefix[place_out->prefix_len - 1] == '/')
        place_out->prefix_len--;
    return true;
}

/* True for a host of AWS, where https://bucket.host/key works. */
static bool is_aws(const char *host)
{
    const char *end = strstr(host, "." AWS);
    end = end ? end + strlen("." AWS) : "-";
    return mr_word_is(end, "") || mr_word_is(end, ".cn") || *end == ':';
}

/* A bucket's name that certificates for *.s3.REGION.amazonaws.com cover. */
static bool is_label(const char *bucket)
{
    return bucket[strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

/* The region that earlier answers have stated replaces that of the settings. */
static void choose_region(struct mr_store_s3 *s3, const char *bucket)
{
    struct place place;
    bool is_learned = mr_bucket_region_find(bucket, s3->region);
    if (!*s3->region)
        snprintf(s3->region, sizeof s3->region, "us-east-1");
    if (!*s3->endpoint ||
        (is_learned && parse_endpoint(s3->endpoint, &place) && is_aws(place.host)))
        snprintf(s3->endpoint, sizeof s3->endpoint, "https://s3.%s." AWS "%s", s3->region,
                 strncmp(s3->region, "cn-", 3) == 0 ? ".cn" : "");
}

/* Write the URL without its query. Returns its path, which is signed, or NULL: it does not fit. */
static const char *write_url(const struct mr_store_s3 *s3, struct place *place, const char *bucket,
                             const char *key, struct mr_remote_request *request)
{
    bool is_path =
        s3->path_style || !(s3->virtual_style || is_aws(place->host)) || !is_label(bucket);
    char host[HOST_BYTES];
    size_t size = sizeof request->url;
    if (!is_path) {
        snprintf(host, sizeof host, "%s.%.*s", bucket, MR_STORE_ENDPOINT, place->host);
        memcpy(place->host, host, sizeof host);
    }
    size_t start = (size_t)snprintf(request->url, size, "%.*s%s", place->scheme_len, s3->endpoint,
                                    place->host);
    size_t len = start + (size_t)snprintf(request->url + start, size - start, "%.*s%s%s/",
                                          (int)place->prefix_len, place->prefix, is_path ? "/" : "",
                                          is_path ? bucket : "");
    return mr_sigv4_escape(key, "/", request->url + len, size - len) < size - len
               ? request->url + start
               : NULL;
}

static mr_status sign(const struct mr_store_s3 *s3, const char *host, const char *path,
                      const char *query, struct mr_remote_request *request, char *words_out)
{
    char date[MR_SIGV4_TIME], authorization[MR_SIGV4_AUTHORIZATION];
    struct mr_sigv4_header headers[5] = {
        {"host", host}, {"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}, {"x-amz-date", date}};
    size_t n = 3;
    mr_error error;
    mr_sigv4_time(time(NULL), date);
    if (s3->requester_pays)
        headers[n++] = (struct mr_sigv4_header){"x-amz-request-payer", "requester"};
    if (*s3->token)
        headers[n++] = (struct mr_sigv4_header){"x-amz-security-token", s3->token};
    const struct mr_sigv4_request what = {.method = "GET",
                                          .path = path,
                                          .query = query,
                                          .headers = headers,
                                          .n_headers = n,
                                          .payload_hash = "UNSIGNED-PAYLOAD"};
    const struct mr_sigv4_key key = {.id = s3->key_id,
                                     .secret = s3->secret,
                                     .region = s3->region,
                                     .service = "s3",
                                     .time = date};
    if (mr_sigv4_sign(&what, &key, authorization, &error) != MR_OK)
        return fail(words_out, error.text);
    bool fits = mr_request_headers_add(request, "Authorization", authorization);
    for (size_t i = 0; i < n; i++)
        fits = fits && mr_request_headers_add(request, headers[i].name, headers[i].value);
    return fits ? MR_OK : fail(words_out, "the headers of its request are too long");
}

static mr_status make_s3(struct mr_store_s3 *s3, const struct mr_store_name *name,
                         const char *query, struct mr_remote_request *request, char *words_out)
{
    char bucket[MR_STORE_ENDPOINT];
    struct place place;
    struct mr_request_origin *origin = &request->origin;
    if (*s3->problem)
        return fail(words_out, s3->problem);
    if (name->bucket_len >= sizeof bucket)
        return fail(words_out, "the name of its bucket is too long");
    snprintf(bucket, sizeof bucket, "%.*s", (int)name->bucket_len, name->bucket);
    if (name->store == MR_STORE_S3)
        choose_region(s3, bucket);
    if (!parse_endpoint(s3->endpoint, &place))
        return fail(words_out, "the endpoint of the store is not http[s]://HOST[:PORT][/PATH]");
    const char *path = write_url(s3, &place, bucket, name->key, request);
    if (!path)
        return fail(words_out, "its URL is too long");
    origin->is_anonymous = s3->anonymous;
    origin->is_signed = !s3->anonymous && *s3->key_id;
    memcpy(origin->region, s3->region, sizeof origin->region);
    mr_status status = origin->is_signed
                           ? sign(s3, place.host, path, query ? query : "", request, words_out)
                           : MR_OK;
    size_t len = strlen(request->url);
    if (status == MR_OK && query &&
        snprintf(request->url + len, sizeof request->url - len, "?%s", query) >=
            (int)(sizeof request->url - len))
        status = fail(words_out, "its URL is too long");
    return status;
}

/* The length of "https://host:port" at the start of a URL. */
static size_t origin_len(const char *url)
{
    const char *host = strstr(url, "://");
    return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

static bool has_origin(const char *url, const char *endpoint)
{
    size_t len = origin_len(url);
    return len > 0 && len == origin_len(endpoint) && strncmp(url, endpoint, len) == 0;
}

static mr_status make_hf(const struct mr_store_hf *hf, const struct mr_store_name *name,
                         const struct mr_target *target, struct mr_remote_request *request,
                         char *words_out)
{
    char revision[512], token[MR_STORE_TOKEN + sizeof "Bearer "];
    const char *endpoint = *hf->endpoint ? hf->endpoint : "https://huggingface.co";
    struct place place;
    size_t size = sizeof request->url, len;
    if (*hf->problem)
        return fail(words_out, hf->problem);
    if (!parse_endpoint(endpoint, &place))
        return fail(words_out, "HF_ENDPOINT is not http[s]://HOST[:PORT][/PATH]");
    snprintf(token, sizeof token, "%.*s", (int)name->revision_len, name->revision);
    if (mr_sigv4_escape(name->revision_len > 0 ? token : "main", "%", revision, sizeof revision) ==
        sizeof revision)
        return fail(words_out, "its revision is too long");
    len = (size_t)snprintf(request->url, size, "%.*s%s%.*s/%.*s/resolve/%s/", place.scheme_len,
                           endpoint, place.host, (int)place.prefix_len, place.prefix,
                           (int)name->bucket_len, name->bucket, revision);
    if (len >= size ||
        mr_sigv4_escape(name->key, "/", request->url + len, size - len) == size - len)
        return fail(words_out, "its URL is too long");
    if (target) {
        request->origin.target = target->number;
        memcpy(request->origin.etag, target->etag, sizeof target->etag);
        if (snprintf(request->url, size, "%s", target->location) >= (int)size)
            return fail(words_out, "the server's redirect is too long");
    }
    request->origin.is_signed = *hf->token;
    snprintf(token, sizeof token, "Bearer %s", hf->token);
    if (*hf->token && has_origin(request->url, endpoint))
        mr_request_headers_add(request, "Authorization", token);
    explicit_bzero(token, sizeof token);
    return MR_OK;
}

mr_status mr_store_request_make(const char *url, const struct mr_target *target, const char *query,
                                struct mr_remote_request *request, char words_out[MR_ANSWER_WORDS])
{
    struct mr_store_settings settings;
    struct mr_store_name name;
    mr_status status;
    if (!mr_store_name_parse(url, &name)) {
        snprintf(words_out, MR_ANSWER_WORDS, "it is not %s", mr_store_name_form(name.store));
        return MR_ERR_DAMAGED;
    }
    request->origin.settings = mr_store_settings_get(&settings);
    if (name.store == MR_STORE_GS) {
        settings.s3 = (struct mr_store_s3){.region = "auto"};
        memcpy(settings.s3.key_id, settings.gcs.key_id, sizeof settings.s3.key_id);
        memcpy(settings.s3.secret, settings.gcs.secret, sizeof settings.s3.secret);
        memcpy(settings.s3.problem, settings.gcs.problem, sizeof settings.s3.problem);
        snprintf(settings.s3.endpoint, sizeof settings.s3.endpoint, "%s",
                 *settings.gcs.endpoint ? settings.gcs.endpoint : "https://storage.googleapis.com");
    }
    if (name.store == MR_STORE_HF)
        status = make_hf(&settings.hf, &name, target, request, words_out);
    else
        status = make_s3(&settings.s3, &name, query, request, words_out);
    explicit_bzero(&settings, sizeof settings);
    return status;
}
