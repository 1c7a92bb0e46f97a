/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by libcurl's easy interface. */
#include "dataset/remote/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/words.h"
#include "dataset/remote/curl_api.h"
#include "dataset/remote/url.h"

#define NS_PER_MS UINT64_C(1000000)
/* The pause is doubled for each further try. */
enum { FIRST_PAUSE_MS = 100, MAX_PAUSE_MS = 10000, STEP_MS = 20 };

struct mr_fetch {
    const struct mr_curl_api *curl;
    CURL *easy;
    const struct mr_fetch_request *request; /* the one under way */
    struct mr_bytes body;
    bool is_large, no_memory;
    char text[CURL_ERROR_SIZE];
};

mr_status mr_fetch_create(struct mr_fetch **fetch_out, mr_error *error)
{
    const struct mr_curl_api *curl;
    *fetch_out = NULL;
    mr_status status = mr_curl_api_open(&curl, error);
    if (status != MR_OK)
        return status;
    struct mr_fetch *fetch = calloc(1, sizeof *fetch);
    if (fetch)
        fetch->easy = curl->easy_init();
    if (!fetch || !fetch->easy) {
        free(fetch);
        return mr_error_memory(error, sizeof *fetch);
    }
    fetch->curl = curl;
    *fetch_out = fetch;
    return MR_OK;
}

static void wipe_body(struct mr_fetch *fetch)
{
    if (fetch->body.data)
        explicit_bzero(fetch->body.data, fetch->body.size);
    mr_bytes_fini(&fetch->body);
}

void mr_fetch_destroy(struct mr_fetch *fetch)
{
    if (!fetch)
        return;
    wipe_body(fetch);
    fetch->curl->easy_cleanup(fetch->easy);
    free(fetch);
}

static size_t take_body(char *bytes, size_t size, size_t n, void *user)
{
    struct mr_fetch *fetch = user;
    size_t len = size * n;
    fetch->is_large = len > fetch->request->max_bytes - fetch->body.len;
    if (fetch->is_large)
        return 0;
    fetch->no_memory = mr_bytes_append(&fetch->body, bytes, len, NULL) != MR_OK;
    return fetch->no_memory ? 0 : len;
}

/* A status line begins the next answer, as after a redirect: values of the one before are wrong. */
static size_t take_header(char *line, size_t size, size_t n, void *user)
{
    const struct mr_fetch_request *request = ((struct mr_fetch *)user)->request;
    size_t len = size * n;
    const char *colon = memchr(line, ':', len);
    bool is_status = len >= 5 && memcmp(line, "HTTP/", 5) == 0;
    for (size_t i = 0; i < request->n_wanted; i++) {
        struct mr_fetch_header *wanted = &request->wanted[i];
        size_t name_len = strlen(wanted->name);
        if (is_status)
            wanted->value[0] = '\0';
        if (is_status || !colon || (size_t)(colon - line) != name_len ||
            !mr_word_begins(line, wanted->name))
            continue;
        const char *value = colon + 1, *end = line + len;
        while (value < end && (*value == ' ' || *value == '\t'))
            value++;
        while (end > value && strchr("\r\n \t", end[-1]))
            end--;
        size_t value_len = (size_t)(end - value) < MR_FETCH_VALUE ? (size_t)(end - value) : 0;
        memcpy(wanted->value, value, value_len);
        wanted->value[value_len] = '\0';
    }
    return len;
}

static bool is_stopped(const struct mr_fetch_request *request)
{
    return request->stop && *request->stop;
}

/* libcurl calls it at least once a second. */
static int check_stop(void *user, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                      curl_off_t up)
{
    (void)down_all, (void)down, (void)up_all, (void)up;
    return is_stopped(user);
}

static bool prepare(struct mr_fetch *fetch, struct curl_slist *headers)
{
    const struct mr_fetch_request *request = fetch->request;
    const struct mr_curl_api *curl = fetch->curl;
    bool is_head = request->method && strcmp(request->method, "HEAD") == 0;
    curl->easy_reset(fetch->easy); /* the connection stays */
    curl->easy_setopt(fetch->easy, CURLOPT_ERRORBUFFER, fetch->text);
    curl->easy_setopt(fetch->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl->easy_setopt(fetch->easy, CURLOPT_HEADERDATA, fetch);
    curl->easy_setopt(fetch->easy, CURLOPT_WRITEFUNCTION, take_body);
    curl->easy_setopt(fetch->easy, CURLOPT_WRITEDATA, fetch);
    curl->easy_setopt(fetch->easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl->easy_setopt(fetch->easy, CURLOPT_HTTPHEADER, headers);
    curl->easy_setopt(fetch->easy, CURLOPT_POSTFIELDS, request->body);
    curl->easy_setopt(fetch->easy, CURLOPT_HTTPGET, request->body ? 0L : 1L);
    curl->easy_setopt(fetch->easy, CURLOPT_NOBODY, is_head ? 1L : 0L);
    curl->easy_setopt(fetch->easy, CURLOPT_XFERINFOFUNCTION, check_stop);
    curl->easy_setopt(fetch->easy, CURLOPT_XFERINFODATA, (void *)request);
    curl->easy_setopt(fetch->easy, CURLOPT_NOPROGRESS, 0L);
    if (request->direct)
        curl->easy_setopt(fetch->easy, CURLOPT_NOPROXY, "*");
    long follows = !request->direct && !request->body; /* a body may have a token */
    return mr_curl_api_set_up(fetch->easy) &&
           curl->easy_setopt(fetch->easy, CURLOPT_FOLLOWLOCATION, follows) == CURLE_OK &&
           mr_curl_api_keep_secure(fetch->easy, request->url) &&
           curl->easy_setopt(fetch->easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK &&
           curl->easy_setopt(fetch->easy, CURLOPT_URL, request->url) == CURLE_OK;
}

/* One try. *code_out is 0 without an answer. */
static mr_status try_once(struct mr_fetch *fetch, struct curl_slist *headers, long *code_out,
                          mr_error *error)
{
    const char *url = fetch->request->url;
    int shown = (int)mr_url_shown_len(url);
    fetch->body.len = 0;
    fetch->is_large = fetch->no_memory = false;
    for (size_t i = 0; i < fetch->request->n_wanted; i++)
        fetch->request->wanted[i].value[0] = '\0';
    fetch->text[0] = '\0';
    *code_out = 0;
    if (!prepare(fetch, headers))
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s refuses an option that is needed",
                            fetch->curl->version());
    CURLcode rc = fetch->curl->easy_perform(fetch->easy);
    if (fetch->no_memory || rc == CURLE_OUT_OF_MEMORY ||
        mr_bytes_append(&fetch->body, "", 1, NULL) != MR_OK)
        return mr_error_memory(error, fetch->body.len);
    if (fetch->is_large)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%.*s: the answer has more bytes than the limit of %zu", shown, url,
                            fetch->request->max_bytes);
    if (rc != CURLE_OK)
        return mr_error_set(error, MR_ERR_IO, "%.*s: %s", shown, url,
                            *fetch->text ? fetch->text : fetch->curl->easy_strerror(rc));
    fetch->curl->easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, code_out);
    return MR_OK;
}

static bool may_pass(mr_status status, long code)
{
    return status == MR_ERR_IO || code == 408 || code == 429 || (code >= 500 && code != 501);
}

mr_status mr_fetch_run(struct mr_fetch *fetch, const struct mr_fetch_request *request,
                       struct mr_fetch_answer *answer_out, mr_error *error)
{
    struct curl_slist *headers = NULL, *longer;
    uint64_t end_ns = mr_clock_now_ns() + request->retry_ms * NS_PER_MS;
    uint32_t pause_ms = FIRST_PAUSE_MS;
    mr_status status = MR_OK;
    long code = 0;
    wipe_body(fetch);
    fetch->request = request;
    for (const char *const *header = request->headers; header && *header; header++) {
        longer = fetch->curl->slist_append(headers, *header);
        if (!longer)
            status = mr_error_memory(error, strlen(*header));
        headers = longer ? longer : headers;
    }
    while (status == MR_OK) {
        curl_off_t asked_s = 0;
        status = try_once(fetch, headers, &code, error);
        fetch->curl->easy_getinfo(fetch->easy, CURLINFO_RETRY_AFTER, &asked_s);
        uint64_t wait_ms = asked_s > 0 && asked_s < 86400 ? (uint64_t)asked_s * 1000 : 0;
        wait_ms = wait_ms > pause_ms ? wait_ms : pause_ms;
        if (!may_pass(status, code) || mr_clock_now_ns() + wait_ms * NS_PER_MS > end_ns)
            break;
        for (uint64_t ms = 0; ms < wait_ms && !is_stopped(request); ms += STEP_MS)
            mr_clock_sleep_ms(STEP_MS);
        pause_ms = 2 * pause_ms < MAX_PAUSE_MS ? 2 * pause_ms : MAX_PAUSE_MS;
        status = MR_OK;
    }
    fetch->curl->slist_free_all(headers);
    if (status == MR_OK)
        *answer_out = (struct mr_fetch_answer){
            .code = (int)code, .body = (char *)fetch->body.data, .len = fetch->body.len - 1};
    return status;
}
