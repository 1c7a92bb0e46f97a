/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the URL of an object, as a SPEC names it, to the URL and the headers of a request. Stores
 * with URLs or signatures of their own have their place here.
 */
#ifndef DATASET_REMOTE_REQUEST_H
#define DATASET_REMOTE_REQUEST_H

#include <millrace/status.h>

#include "dataset/remote/answer.h"

enum {
    MR_REQUEST_URL = 3 * MR_CATALOG_PATH, /* each byte may be escaped */
    MR_REQUEST_HEADERS = 8,
    MR_REQUEST_HEADER = 200
};

struct mr_remote_request {
    char url[MR_REQUEST_URL];
    uint32_t n_headers;
    char headers[MR_REQUEST_HEADERS]
                [MR_REQUEST_HEADER]; /* "Name: value"; Range is not among them */
};

/* Returns MR_OK, or MR_ERR_DAMAGED with what is wrong in words_out. */
mr_status mr_remote_request_make(const char *url, const struct mr_answer_wish *wish,
                                 struct mr_remote_request *request_out,
                                 char words_out[MR_ANSWER_WORDS]);

#endif
