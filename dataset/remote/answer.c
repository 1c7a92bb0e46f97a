/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses headers and judges answers.
 *
 * Invariant: every byte may be hostile. Texts are cut to their fields, and a number that does not
 * fit counts as not sent.
 */
#include "dataset/remote/answer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"

/* Copy a header's value; a value that does not fit is as good as none. */
static void copy_value(char *out, size_t size, const char *value, size_t len)
{
    if (len >= size || memchr(value, '\0', len))
        len = 0;
    memcpy(out, value, len);
    out[len] = '\0';
}

/* Parse digits at *text and move past them. */
static bool parse_number(const char **text, const char *end, uint64_t *value_out)
{
    const char *start = *text;
    uint64_t value = 0;
    for (; *text < end && **text >= '0' && **text <= '9'; ++*text) {
        if (value > ((uint64_t)INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(**text - '0');
    }
    *value_out = value;
    return *text > start;
}

static bool skip(const char **text, const char *end, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(end - *text) < len || memcmp(*text, word, len) != 0)
        return false;
    *text += len;
    return true;
}

/* "bytes 0-99/1234", "bytes 0-99/" and a star, or "bytes " and a star before "/1234". */
static void take_range(struct mr_answer *answer, const char *value, size_t len)
{
    const char *text = value, *end = value + len;
    uint64_t first = 0, last = 0, total = MR_LEN_UNKNOWN;
    if (!skip(&text, end, "bytes "))
        return;
    bool is_star = skip(&text, end, "*");
    if (!is_star && (!parse_number(&text, end, &first) || !skip(&text, end, "-") ||
                     !parse_number(&text, end, &last) || last < first))
        return;
    if (!skip(&text, end, "/"))
        return;
    if (!skip(&text, end, "*") && !parse_number(&text, end, &total))
        return;
    if (text != end || (total != MR_LEN_UNKNOWN && !is_star && last >= total))
        return;
    answer->has_range = !is_star;
    answer->first = first;
    answer->last = last;
    answer->version.size = total;
}

static void take_status(struct mr_answer *answer, const char *text, const char *end)
{
    uint64_t code = 0;
    *answer = (struct mr_answer){.length = MR_LEN_UNKNOWN, .version.size = MR_LEN_UNKNOWN};
    while (text < end && *text != ' ')
        text++;
    while (text < end && *text == ' ')
        text++;
    if (parse_number(&text, end, &code) && code < 1000)
        answer->code = (int)code;
    while (text < end && *text == ' ')
        text++;
    copy_value(answer->reason, sizeof answer->reason, text, (size_t)(end - text));
}

/* A weak ETag (W/"...") is not one of the bytes. */
static void take_etag(char etag_out[MR_ETAG], const char *value, size_t len)
{
    if (len >= 2 && value[0] == '"' && value[len - 1] == '"')
        copy_value(etag_out, MR_ETAG, value, len);
}

/* A word of a store, which becomes a part of a message or of a host. */
static void copy_word(char *out, size_t size, const char *value, size_t len)
{
    size_t n = 0;
    while (n < len && ((value[n] >= '0' && value[n] <= '9') || value[n] == '-' ||
                       (mr_word_lower(value[n]) >= 'a' && mr_word_lower(value[n]) <= 'z')))
        n++;
    copy_value(out, size, value, n == len ? len : 0);
}

static void take_header(struct mr_answer *answer, const char *name, const char *value, size_t len)
{
    const char *text = value;
    if (mr_word_is(name, "content-length")) {
        if (!parse_number(&text, value + len, &answer->length) || text != value + len)
            answer->length = MR_LEN_UNKNOWN;
    } else if (mr_word_is(name, "content-range")) {
        take_range(answer, value, len);
    } else if (mr_word_is(name, "content-encoding")) {
        bool fits = len < sizeof answer->encoding;
        copy_value(answer->encoding, sizeof answer->encoding, fits ? value : "unknown",
                   fits ? len : 7);
    } else if (mr_word_is(name, "etag")) {
        take_etag(answer->version.etag, value, len);
        answer->weak_etag = len > 2 && memcmp(value, "W/", 2) == 0;
    } else if (mr_word_is(name, "x-linked-etag")) {
        take_etag(answer->file_etag, value, len);
    } else if (mr_word_is(name, "x-amz-bucket-region")) {
        copy_word(answer->region, sizeof answer->region, value, len);
    } else if (mr_word_is(name, "x-error-code")) {
        copy_word(answer->error, sizeof answer->error, value, len);
    } else if (mr_word_is(name, "last-modified")) {
        copy_value(answer->version.modified, sizeof answer->version.modified, value, len);
    }
}

void mr_answer_line(struct mr_answer *answer, const char *line, size_t len)
{
    char name[20];
    while (len > 0 && strchr("\r\n \t", line[len - 1]) && line[len - 1])
        len--;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        take_status(answer, line, line + len);
        return;
    }
    const char *colon = memchr(line, ':', len);
    if (!colon || (size_t)(colon - line) >= sizeof name)
        return;
    copy_value(name, sizeof name, line, (size_t)(colon - line));
    const char *value = colon + 1, *end = line + len;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    take_header(answer, name, value, (size_t)(end - value));
}

/* Copy a word between <name> and </name>, if it has arrived. */
static void take_element(const char *body, const char *name, char *out, size_t size)
{
    char tag[20];
    snprintf(tag, sizeof tag, "<%s>", name);
    const char *text = strstr(body, tag), *value = text ? text + strlen(tag) : "";
    size_t len = strcspn(value, "<");
    if (value[len] && !*out)
        copy_word(out, size, value, len);
}

void mr_answer_body(struct mr_answer *answer, const char *bytes, size_t len)
{
    size_t left = sizeof answer->body - 1 - answer->body_len;
    len = len < left ? len : left;
    memcpy(answer->body + answer->body_len, bytes, len);
    answer->body_len += len;
    answer->body[answer->body_len] = '\0';
    take_element(answer->body, "Code", answer->error, sizeof answer->error);
    take_element(answer->body, "Region", answer->region, sizeof answer->region);
}

static bool is_replaced(const struct mr_object_version *now, const struct mr_object_version *before)
{
    if (*before->etag && *now->etag)
        return strcmp(before->etag, now->etag) != 0;
    if (before->size != MR_LEN_UNKNOWN && now->size != MR_LEN_UNKNOWN && before->size != now->size)
        return true;
    return *before->modified && *now->modified && strcmp(before->modified, now->modified) != 0;
}

static enum mr_verdict judge_code(const struct mr_answer *answer, int *os_error_out, char *words)
{
    int code = answer->code;
    snprintf(words, MR_ANSWER_WORDS, "HTTP %d%s%s", code, *answer->reason ? " " : "",
             answer->reason);
    if (code == 404 || code == 410)
        *os_error_out = ENOENT;
    else if (code == 401 || code == 403)
        *os_error_out = EACCES;
    bool passes = code == 0 || code == 408 || code == 425 || code == 429 ||
                  (code >= 500 && code != 501 && code != 505);
    return passes ? MR_VERDICT_RETRY : MR_VERDICT_FINAL;
}

static enum mr_verdict judge_whole(const struct mr_answer *answer,
                                   const struct mr_answer_wish *wish, uint64_t *len_out,
                                   char *words)
{
    if (answer->code != 200) {
        snprintf(words, MR_ANSWER_WORDS, "HTTP %d to a request for the whole file", answer->code);
        return MR_VERDICT_RETRY;
    }
    *len_out = answer->length;
    if (answer->length == MR_LEN_UNKNOWN || answer->length <= wish->max_bytes)
        return MR_VERDICT_GOOD;
    snprintf(words, MR_ANSWER_WORDS, "%" PRIu64 " bytes are above the limit of %" PRIu64,
             answer->length, wish->max_bytes);
    return MR_VERDICT_FINAL;
}

static enum mr_verdict judge_range(const struct mr_answer *answer,
                                   const struct mr_answer_wish *wish, uint64_t *len_out,
                                   char *words)
{
    uint64_t last = wish->offset + wish->len - 1, total = answer->version.size;
    *len_out = wish->len;
    if (answer->code == 200) {
        if (wish->offset == 0 && answer->length == wish->len)
            return MR_VERDICT_GOOD; /* the range is the whole file */
        if (answer->length == 0) {
            snprintf(words, MR_ANSWER_WORDS, "file ends at byte 0, needs %" PRIu64, last + 1);
            return MR_VERDICT_FINAL;
        }
        snprintf(words, MR_ANSWER_WORDS, "HTTP 200 instead of 206: the server ignores ranges");
        return MR_VERDICT_RETRY;
    }
    if (answer->has_range && answer->first == wish->offset && answer->last == last &&
        (answer->length == MR_LEN_UNKNOWN || answer->length == wish->len))
        return MR_VERDICT_GOOD;
    if (answer->has_range && answer->first == wish->offset && answer->last < last &&
        answer->last + 1 == total) {
        snprintf(words, MR_ANSWER_WORDS, "file ends at byte %" PRIu64 ", needs %" PRIu64, total,
                 last + 1);
        return MR_VERDICT_FINAL;
    }
    if (answer->has_range)
        snprintf(words, MR_ANSWER_WORDS,
                 "the server sent bytes %" PRIu64 " to %" PRIu64 " instead of %" PRIu64
                 " to %" PRIu64,
                 answer->first, answer->last, wish->offset, last);
    else
        snprintf(words, MR_ANSWER_WORDS, "HTTP 206 without a Content-Range");
    return MR_VERDICT_RETRY;
}

enum mr_verdict mr_answer_judge(const struct mr_answer *answer, const struct mr_answer_wish *wish,
                                uint64_t *len_out, int *os_error_out,
                                char words_out[MR_ANSWER_WORDS])
{
    bool whole = wish->len == MR_LEN_UNKNOWN, good = answer->code == 200 || answer->code == 206;
    struct mr_object_version now = answer->version;
    *os_error_out = 0;
    words_out[0] = '\0';
    if (answer->code == 200)
        now.size = answer->length;
    if (wish->version && (answer->code == 412 ||
                          ((good || answer->code == 416) && is_replaced(&now, wish->version)))) {
        *os_error_out = ESTALE;
        return MR_VERDICT_FINAL;
    }
    if (answer->code == 416 && !whole && now.size != MR_LEN_UNKNOWN) {
        snprintf(words_out, MR_ANSWER_WORDS, "file ends at byte %" PRIu64 ", needs %" PRIu64,
                 now.size, wish->offset + wish->len);
        return MR_VERDICT_FINAL;
    }
    if (!good)
        return judge_code(answer, os_error_out, words_out);
    if (*answer->encoding && !mr_word_is(answer->encoding, "identity")) {
        snprintf(words_out, MR_ANSWER_WORDS, "the server sent it encoded (%s)", answer->encoding);
        return MR_VERDICT_RETRY;
    }
    return whole ? judge_whole(answer, wish, len_out, words_out)
                 : judge_range(answer, wish, len_out, words_out);
}
