/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a server the questions on which a loader depends, with the requests that a loader makes, and
 * measures delay and rate.
 */
#include <millrace/store.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/public_struct.h"
#include "base/rng.h"
#include "dataset/remote/http.h"
#include "dataset/remote/listing/listing.h"
#include "dataset/remote/stores/credentials.h"
#include "dataset/remote/stores/settings.h"
#include "dataset/remote/stores/store_name.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"

#define NS_PER_S 1e9
enum {
    RETRY_MS = 2000,
    N_DELAYS = 9,
    MEASURE_MS = 1500,
    MAX_REQUESTS = 2000,       /* of a measurement: their price has a limit too */
    REQUEST_BYTES = 128 << 10, /* as most photographs have */
    COMPARED_BYTES = 64 << 10,
    MAX_CONNECTIONS = 1024,
    LOADER_CONNECTIONS = 64, /* of all workers together, unless it is set */
};

struct probe {
    struct mr_http_get get;
    struct mr_answer answer;
    uint8_t *bytes;
    size_t room;
};

struct check {
    mr_store_report report;
    struct mr_rng rng;
    struct probe *probes; /* n_connections */
};

static uint8_t *reserve(void *user, size_t len)
{
    struct probe *probe = user;
    if (len > probe->room) {
        uint8_t *bytes = realloc(probe->bytes, len);
        if (!bytes)
            return NULL;
        probe->bytes = bytes;
        probe->room = len;
    }
    return probe->bytes;
}

static void begin(struct check *check, struct mr_http *http, struct probe *probe, uint64_t offset,
                  uint64_t len, const struct mr_object_version *version)
{
    probe->answer = (struct mr_answer){0};
    probe->get = (struct mr_http_get){
        .url = check->report.url,
        .wish = {.offset = offset, .len = len, .max_bytes = len, .version = version},
        .reserve = reserve,
        .user = probe,
        .answer = &probe->answer};
    mr_http_begin(http, &probe->get);
}

/* Make one request and wait for its end. */
static void ask(struct check *check, struct mr_http *http, uint64_t offset, uint64_t len,
                const struct mr_object_version *version)
{
    begin(check, http, check->probes, offset, len, version);
    mr_http_next(http, true);
}

static mr_status open_http(uint32_t n_connections, struct mr_http **http_out, mr_error *error)
{
    const struct mr_http_options options = {.n_connections = n_connections, .retry_ms = RETRY_MS};
    return mr_http_create(&options, http_out, error);
}

static void note_problem(struct check *check, const char *words)
{
    if (!*check->report.problem)
        snprintf(check->report.problem, sizeof check->report.problem, "%s", words);
}

/* Find the object: the first byte, and what its headers say. */
static mr_status reach(struct check *check, struct mr_http *http, mr_error *error)
{
    const struct probe *probe = check->probes;
    mr_store_report *report = &check->report;
    const struct mr_answer *answer = &probe->answer;
    ask(check, http, 0, 1, NULL);
    if (probe->get.status == MR_ERR_NO_MEMORY)
        return mr_error_memory(error, 1);
    if (probe->get.status != MR_OK && answer->code != 200)
        return mr_error_set(error, MR_ERR_IO, "%.*s: %s", (int)mr_url_shown_len(report->url),
                            report->url, probe->get.words);
    report->size = answer->code == 200 ? answer->length : answer->version.size;
    report->content_length = answer->length != MR_LEN_UNKNOWN;
    report->tls = probe->get.is_secure; /* an endpoint of s3:// may be without */
    report->strong_etag = *answer->version.etag != '\0';
    report->weak_etag = answer->weak_etag;
    snprintf(report->region, sizeof report->region, "%s", answer->region);
    if (probe->get.status != MR_OK)
        note_problem(check, probe->get.words);
    else if (report->size == MR_LEN_UNKNOWN)
        note_problem(check, "the server does not state the object's size");
    return MR_OK;
}

/* The middle of a range, asked for alone, must be the middle of the range. */
static mr_status check_ranges(struct check *check, struct mr_http *http, mr_error *error)
{
    const struct probe *probe = check->probes;
    uint64_t len = check->report.size < COMPARED_BYTES ? check->report.size : COMPARED_BYTES;
    uint64_t at = len / 3, n = len - 2 * at;
    ask(check, http, 0, len, NULL);
    uint8_t *whole = malloc((size_t)len);
    if (!whole)
        return mr_error_memory(error, (size_t)len);
    bool good = probe->get.status == MR_OK;
    if (good) {
        memcpy(whole, probe->bytes, (size_t)len);
        ask(check, http, at, n, NULL);
        good = probe->get.status == MR_OK;
    }
    check->report.ranges = good && memcmp(probe->bytes, whole + at, (size_t)n) == 0;
    if (!check->report.ranges)
        note_problem(check, good ? "a range has other bytes than the whole" : probe->get.words);
    free(whole);
    return MR_OK;
}

static void check_if_match(struct check *check, struct mr_http *http)
{
    const struct mr_object_version other = {.etag = "\"millrace-check\"", .size = MR_LEN_UNKNOWN};
    ask(check, http, 0, 1, &other);
    check->report.if_match = check->probes->answer.code == 412;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_delay(struct check *check, struct mr_http *http)
{
    double delays[N_DELAYS];
    uint32_t n_new = 0;
    for (int i = 0; i < N_DELAYS; i++) {
        uint64_t begun = mr_clock_now_ns();
        ask(check, http, 0, 1, NULL);
        delays[i] = (double)(mr_clock_now_ns() - begun) / 1e6;
        n_new += check->probes->get.n_connects;
    }
    qsort(delays, N_DELAYS, sizeof *delays, compare_numbers);
    check->report.delay_ms = delays[N_DELAYS / 2];
    check->report.keep_alive = n_new <= 1; /* a connection may just have grown too old */
}

static void begin_range(struct check *check, struct mr_http *http, struct probe *probe)
{
    uint64_t len = check->report.request_bytes, n = check->report.size / len;
    uint64_t i = n > 1 ? mr_rng_u32(&check->rng) % n : 0;
    begin(check, http, probe, i * len, len, NULL);
}

/*
 * Read ranges over n connections for a while. The first range of each connection is not counted,
 * because the connection is made for it.
 */
static mr_status measure_rate(struct check *check, uint32_t n, double *rate_out, mr_error *error)
{
    struct mr_http *http;
    struct mr_http_get *get;
    uint64_t bytes = 0, n_ended = 0, begun = mr_clock_now_ns(), end = begun;
    mr_status status = open_http(n, &http, error);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < n; i++)
        begin_range(check, http, &check->probes[i]);
    while ((get = mr_http_next(http, true))) {
        end = mr_clock_now_ns();
        if (get->status != MR_OK)
            note_problem(check, get->words);
        if (++n_ended > n)
            bytes += get->len;
        if (n_ended == n)
            begun = end;
        if (*check->report.problem || n_ended == n + MAX_REQUESTS ||
            (n_ended > n && end - begun > MEASURE_MS * UINT64_C(1000000)))
            break;
        begin_range(check, http, get->user);
    }
    mr_http_destroy(http);
    *rate_out = end > begun ? (double)bytes / ((double)(end - begun) / NS_PER_S) : 0;
    return MR_OK;
}

/* By Little's law, with a quarter more because answers come irregularly. */
static void suggest(mr_store_report *report)
{
    double n = report->rate_one > 0 ? 1.25 * report->rate_many / report->rate_one : 1;
    uint32_t most = report->n_connections;
    most = most > LOADER_CONNECTIONS ? most : LOADER_CONNECTIONS;
    report->n_in_flight = n < most ? (uint32_t)n + 1 : most;
}

static mr_status run_check(struct check *check, mr_error *error)
{
    mr_store_report *report = &check->report;
    struct mr_http *http;
    mr_status status = open_http(1, &http, error);
    if (status < 0)
        return status;
    status = reach(check, http, error);
    if (status == MR_OK && !*report->problem)
        status = check_ranges(check, http, error);
    if (status == MR_OK && report->ranges) {
        check_if_match(check, http);
        measure_delay(check, http);
    }
    mr_http_destroy(http);
    if (status < 0 || !report->ranges)
        return status;
    report->request_bytes = report->size < REQUEST_BYTES ? report->size : REQUEST_BYTES;
    status = measure_rate(check, 1, &report->rate_one, error);
    if (status == MR_OK)
        status = measure_rate(check, report->n_connections, &report->rate_many, error);
    suggest(report);
    report->usable = !*report->problem;
    return status;
}

/* Find the keys, and name where they come from, never what they are. */
static mr_status find_keys(mr_store_report *report, mr_error *error)
{
    struct mr_store_settings settings;
    enum mr_store store = mr_store_name_find(report->url);
    mr_status status = store ? mr_credentials_find(store == MR_STORE_S3, error) : MR_OK;
    if (status < 0)
        return status;
    mr_store_settings_get(&settings);
    const char *text = "";
    if (store == MR_STORE_S3)
        text = *settings.s3.key_id && !settings.s3.anonymous ? mr_credentials_source() : "none";
    else if (store == MR_STORE_GS)
        text = *settings.gcs.key_id ? "HMAC keys" : "none";
    else if (store == MR_STORE_HF)
        text = *settings.hf.token ? "token" : "none";
    snprintf(report->credentials, sizeof report->credentials, "%s", text);
    explicit_bzero(&settings, sizeof settings);
    return MR_OK;
}

/* A URL as in a SPEC has %3F before its query, which would be shown as a part of the path. */
static mr_status set_url(mr_store_report *report, const char *given, mr_error *error)
{
    char url[MR_CATALOG_PATH];
    size_t len = strlen(given);
    if (!mr_url_is(given))
        return mr_error_set(error, MR_ERR_INVALID, "'%s' is no URL", given);
    if (len >= sizeof url)
        return mr_error_set(error, MR_ERR_INVALID, "the URL has more than 4095 bytes");
    memcpy(url, given, len + 1);
    bool is_escaped = mr_url_has_query(url) && !strchr(url, '?') && strcasestr(url, "%3f");
    mr_status status = is_escaped ? mr_spec_decode(url, error) : MR_OK;
    if (status == MR_OK)
        status = mr_url_check(url, error);
    if (status < 0)
        return status;
    if (url[strlen(url) - 1] == '/')
        return mr_listing_find(url, report->url, error);
    memcpy(report->url, url, sizeof url);
    return MR_OK;
}

mr_status mr_store_check(const char *url, uint32_t n_connections, mr_store_report *report_out,
                         mr_error *error)
{
    struct check check = {.report = {.n_connections = n_connections ? n_connections : 32}};
    uint32_t n = check.report.n_connections;
    mr_status status =
        mr_out_struct_check(report_out, sizeof *report_out, "mr_store_report", error);
    if (status < 0)
        return status;
    if (!url || !report_out || n > MAX_CONNECTIONS)
        return mr_error_set(error, MR_ERR_INVALID, "%s",
                            !url          ? "url is NULL"
                            : !report_out ? "report_out is NULL"
                                          : "n_connections is above the limit of 1024");
    mr_rng_init(&check.rng, mr_clock_now_ns(), 0, 0);
    check.probes = calloc(n, sizeof *check.probes);
    status = check.probes ? set_url(&check.report, url, error)
                          : mr_error_memory(error, n * sizeof *check.probes);
    if (status == MR_OK)
        status = find_keys(&check.report, error);
    if (status == MR_OK)
        status = run_check(&check, error);
    for (uint32_t i = 0; check.probes && i < n; i++)
        free(check.probes[i].bytes);
    free(check.probes);
    check.report.url[mr_url_shown_len(check.report.url)] = '\0'; /* a query may be a signature */
    if (status == MR_OK)
        mr_out_struct_write(report_out, &check.report, sizeof check.report);
    return status;
}
