/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong regions, targets that have expired, tokens that have expired, and words for the rest. */
#include "dataset/remote/stores/store_answer.h"

#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "dataset/remote/stores/bucket_region.h"
#include "dataset/remote/stores/settings_cell.h"

enum { MAX_MOVES = 5 };

static bool is_redirect(int code)
{
    return code == 301 || code == 302 || code == 303 || code == 307 || code == 308;
}

static bool is_error(const struct mr_answer *answer, const char *word)
{
    return strcmp(answer->error, word) == 0;
}

/* The settings may have another token by the next try. */
static bool is_expired(const struct mr_answer *answer)
{
    return is_error(answer, "ExpiredToken") || is_error(answer, "TokenRefreshRequired");
}

/* Were the keys of a refused request replaced meanwhile? */
static bool has_newer_keys(const struct mr_request_origin *origin, const struct mr_answer *answer)
{
    return (answer->code == 401 || answer->code == 403) && origin->is_signed &&
           mr_settings_cell_version() != origin->settings;
}

static enum mr_verdict learn_region(const char *url, const struct mr_request_origin *origin,
                                    const struct mr_answer *answer, enum mr_verdict verdict)
{
    struct mr_store_name name;
    char bucket[MR_STORE_ENDPOINT];
    if ((!is_redirect(answer->code) && answer->code != 400) || !*answer->region ||
        strcmp(answer->region, origin->region) == 0 || !mr_store_name_parse(url, &name))
        return verdict;
    snprintf(bucket, sizeof bucket, "%.*s", (int)name.bucket_len, name.bucket);
    mr_bucket_region_keep(bucket, answer->region);
    return MR_VERDICT_MOVED;
}

static bool leaves_tls(const struct mr_request_origin *origin, const char *location)
{
    return origin->is_secure && location && !mr_word_begins(location, "https:");
}

static enum mr_verdict follow(struct mr_targets *targets, const char *url,
                              const struct mr_request_origin *origin,
                              const struct mr_answer *answer, const char *location,
                              uint32_t n_moves, enum mr_verdict verdict)
{
    if (leaves_tls(origin, location))
        return MR_VERDICT_FINAL;
    if (is_redirect(answer->code) && location)
        return mr_target_keep(targets, url, location, answer->file_etag) ? MR_VERDICT_MOVED
                                                                         : MR_VERDICT_RETRY;
    /* a kept target works for a time only */
    if (origin->target && n_moves == 0 &&
        (answer->code == 400 || answer->code == 401 || answer->code == 403 || answer->code == 404 ||
         answer->code == 410)) {
        mr_target_drop(targets, url, origin->target);
        return MR_VERDICT_MOVED;
    }
    return verdict;
}

/* Why a request without a signature was refused, or what a store's word means. */
static const char *find_reason(const struct mr_request_origin *origin,
                               const struct mr_answer *answer, const char *location)
{
    if (leaves_tls(origin, location))
        return "a redirect from https:// to http://";
    if (is_error(answer, "RequestTimeTooSkewed"))
        return "the clock of this machine is wrong";
    if (is_expired(answer))
        return "the credentials have expired";
    if ((answer->code != 401 && answer->code != 403) || origin->is_signed)
        return "";
    if (origin->is_anonymous)
        return "not signed, as the settings ask";
    switch (origin->store) {
    case MR_STORE_S3: return "not signed: no AWS credentials were found";
    case MR_STORE_GS: return "not signed: GS_ACCESS_KEY_ID is not set";
    case MR_STORE_HF: return "no token: HF_TOKEN is not set";
    default: return "";
    }
}

enum mr_verdict mr_store_answer_judge(struct mr_targets *targets, const char *url,
                                      const struct mr_request_origin *origin,
                                      const struct mr_answer *answer, const char *location,
                                      uint32_t n_moves, enum mr_verdict verdict,
                                      char words[MR_ANSWER_WORDS])
{
    const char *reason = find_reason(origin, answer, location);
    size_t len = strlen(words);
    if (*answer->error || *reason)
        snprintf(words + len, MR_ANSWER_WORDS - len, " (%s%s%s)", answer->error,
                 *answer->error && *reason ? ": " : "", reason);
    if ((is_expired(answer) && origin->is_signed) || has_newer_keys(origin, answer) ||
        is_error(answer, "RequestTimeout")) /* which comes with 400 */
        return MR_VERDICT_RETRY;
    if (origin->store == MR_STORE_S3)
        verdict = learn_region(url, origin, answer, verdict);
    else if (origin->store == MR_STORE_HF)
        verdict = follow(targets, url, origin, answer, location, n_moves, verdict);
    return verdict == MR_VERDICT_MOVED && n_moves >= MAX_MOVES ? MR_VERDICT_FINAL : verdict;
}
