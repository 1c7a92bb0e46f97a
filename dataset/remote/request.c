/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a plain HTTP server: the URL itself, and a guard against a replaced object. */
#include "dataset/remote/request.h"

#include <stdio.h>

#include "dataset/remote/url.h"

static void add_header(struct mr_remote_request *request, const char *name, const char *value)
{
    snprintf(request->headers[request->n_headers++], MR_REQUEST_HEADER, "%s: %s", name, value);
}

mr_status mr_remote_request_make(const char *url, const struct mr_answer_wish *wish,
                                 struct mr_remote_request *request_out,
                                 char words_out[MR_ANSWER_WORDS])
{
    request_out->n_headers = 0;
    if (mr_url_encode(url, request_out->url, sizeof request_out->url) < 0) {
        snprintf(words_out, MR_ANSWER_WORDS, "its URL is too long");
        return MR_ERR_DAMAGED;
    }
    add_header(request_out, "Accept-Encoding", "identity");
    if (wish->version && *wish->version->etag)
        add_header(request_out, "If-Match", wish->version->etag);
    return MR_OK;
}
