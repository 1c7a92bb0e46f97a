/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the head of an answer, an empty line, and the begin of a body: nothing is read past
 * the end, texts fit and are one line, and an answer is called good only if it has the bytes that
 * were asked for. A redirect never leaves TLS, and ends.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dataset/remote/answer.h"
#include "dataset/remote/stores/store_answer.h"
#include "tests/fuzz/fuzz.h"

struct input {
    struct mr_answer answer;
    char location[200]; /* "": there is none */
};

static void check_text(const char *text, size_t size)
{
    require(strnlen(text, size) < size, "a text has no end");
    require(!strchr(text, '\n'), "a text has two lines");
}

/* Take a line from a copy that ends where a sanitizer sees it. */
static void take_line(struct input *input, const uint8_t *bytes, size_t len)
{
    char *line = malloc(len + (len == 0));
    require(line != NULL, "out of memory");
    if (len > 0)
        memcpy(line, bytes, len);
    mr_answer_line(&input->answer, line, len);
    if (len > 10 && len < 10 + sizeof input->location && strncasecmp(line, "location: ", 10) == 0) {
        memcpy(input->location, line + 10, len - 10);
        input->location[len - 10] = '\0';
    }
    free(line);
}

static void take_answer(struct input *input, const uint8_t *bytes, size_t len)
{
    *input = (struct input){0};
    while (len > 0) {
        const uint8_t *end = memchr(bytes, '\n', len);
        size_t n = end ? (size_t)(end - bytes) : len;
        if (n == 0)
            break;
        take_line(input, bytes, n);
        n += end != NULL;
        bytes += n;
        len -= n;
    }
    if (len > 0) { /* in two pieces, as the network may bring it */
        mr_answer_body(&input->answer, (const char *)bytes, len / 2);
        mr_answer_body(&input->answer, (const char *)bytes + len / 2, len - len / 2);
    }
    const struct mr_answer *a = &input->answer;
    check_text(a->reason, sizeof a->reason);
    check_text(a->encoding, sizeof a->encoding);
    check_text(a->error, sizeof a->error);
    check_text(a->region, sizeof a->region);
    check_text(a->file_etag, sizeof a->file_etag);
    check_text(a->version.etag, sizeof a->version.etag);
    check_text(a->version.modified, sizeof a->version.modified);
    require(a->code >= 0 && a->code < 1000, "a status of four digits");
    require(a->body_len < sizeof a->body && a->body[a->body_len] == '\0', "a body has no end");
}

static void check_good(const struct mr_answer *answer, const struct mr_answer_wish *wish,
                       uint64_t len)
{
    const struct mr_object_version *version = wish->version;
    require(!*answer->encoding || strcasecmp(answer->encoding, "identity") == 0, "encoded");
    require(!version || !*version->etag || !*answer->version.etag ||
                strcmp(version->etag, answer->version.etag) == 0,
            "another version is good");
    if (wish->len == MR_LEN_UNKNOWN)
        require(answer->code == 200 && (len == MR_LEN_UNKNOWN || len <= wish->max_bytes),
                "a part, or too many bytes, are good");
    else if (answer->code == 206)
        require(len == wish->len && answer->has_range && answer->first == wish->offset &&
                    answer->last == wish->offset + wish->len - 1,
                "another range is good");
    else
        require(answer->code == 200 && len == wish->len && wish->offset == 0,
                "an answer without a range is good");
}

static void follow(const struct input *input, enum mr_verdict verdict, const char *words_before)
{
    static const char url[] = "hf://datasets/a/b@main/c.tar";
    const char *location = *input->location ? input->location : NULL;
    for (uint32_t i = 0; i < 12; i++) {
        struct mr_targets targets = {.n = 0};
        struct mr_request_origin origin = {
            .store = i % 2 ? MR_STORE_HF : MR_STORE_S3, .is_secure = i % 4 < 2, .target = 1};
        char words[MR_ANSWER_WORDS];
        uint32_t n_moves = i / 2;
        snprintf(words, sizeof words, "%s", words_before);
        enum mr_verdict now =
            mr_store_answer_judge(&targets, i % 2 ? url : "s3://bucket/c.tar", &origin,
                                  &input->answer, location, n_moves, verdict, words);
        check_text(words, sizeof words);
        require(now != MR_VERDICT_GOOD, "a refusal is good");
        require(now != MR_VERDICT_MOVED || n_moves < 5, "redirects do not end");
        const struct mr_target *target = mr_target_find(&targets, url);
        require(!target || !origin.is_secure || strncasecmp(target->location, "https:", 6) == 0,
                "a redirect leaves TLS");
        mr_target_clear(&targets);
    }
}

static void judge(const struct input *input, const struct mr_answer_wish *wish)
{
    uint64_t len = 0;
    int os_error = -1;
    char words[MR_ANSWER_WORDS];
    enum mr_verdict verdict = mr_answer_judge(&input->answer, wish, &len, &os_error, words);
    check_text(words, sizeof words);
    require(os_error == 0 || os_error == ENOENT || os_error == EACCES || os_error == ESTALE,
            "an error that is none of the three");
    if (verdict == MR_VERDICT_GOOD)
        check_good(&input->answer, wish, len);
    else
        require(*words || os_error == ESTALE, "no words say what is wrong");
    if (verdict != MR_VERDICT_GOOD && input->answer.code >= 300)
        follow(input, verdict, words);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct mr_object_version version = {
        .etag = "\"x-1\"", .modified = "Sat, 28 Nov 2026 10:00:00 GMT", .size = 1000};
    struct mr_answer_wish wishes[] = {
        {.offset = 0, .len = 1},    {.offset = 100, .len = 900},
        {.offset = 990, .len = 20}, {.offset = INT64_MAX, .len = UINT64_MAX - INT64_MAX},
        {.offset = 0, .len = 1000}, {.offset = 0, .len = MR_LEN_UNKNOWN, .max_bytes = 1000}};
    static struct input input;
    take_answer(&input, bytes, len);
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        judge(&input, &wishes[i]);
        wishes[i].version = &version;
        judge(&input, &wishes[i]);
    }
    return 0;
}
