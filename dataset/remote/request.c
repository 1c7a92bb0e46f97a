/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a plain HTTP server: the URL itself, and a guard against a replaced object. */
#include "dataset/remote/request.h"

#include <stdio.h>

#include "base/words.h"
#include "dataset/remote/stores/store_request.h"
#include "dataset/remote/url.h"

mr_status mr_remote_request_make(const char *url, const struct mr_target *target,
                                 const struct mr_answer_wish *wish,
                                 struct mr_remote_request *request_out,
                                 char words_out[MR_ANSWER_WORDS])
{
    request_out->headers_len = 0;
    request_out->origin = (struct mr_request_origin){.store = mr_store_name_find(url)};
    mr_request_headers_add(request_out, "Accept-Encoding", "identity");
    /* Hugging Face answers with another server's ETag, and targets never change */
    if (wish->version && *wish->version->etag && request_out->origin.store != MR_STORE_HF)
        mr_request_headers_add(request_out, "If-Match", wish->version->etag);
    mr_status status = MR_OK;
    if (request_out->origin.store) {
        status = mr_store_request_make(url, target, wish->query, request_out, words_out);
    } else if (mr_url_encode(url, request_out->url, sizeof request_out->url) < 0) {
        snprintf(words_out, MR_ANSWER_WORDS, "its URL is too long");
        status = MR_ERR_DAMAGED;
    }
    request_out->origin.is_secure = status == MR_OK && mr_word_begins(request_out->url, "https:");
    return status;
}
