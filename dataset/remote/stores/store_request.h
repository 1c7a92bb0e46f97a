/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to S3, Google Cloud Storage and Hugging Face. */
#ifndef DATASET_REMOTE_STORES_STORE_REQUEST_H
#define DATASET_REMOTE_STORES_STORE_REQUEST_H

#include <millrace/status.h>

#include "dataset/remote/answer.h"
#include "dataset/remote/request_headers.h"

struct mr_target;

/*
 * Write the URL of the request, and add headers with its signature or token, by the settings in
 * use. query: of a request for a bucket, as of mr_sigv4_request; NULL: none. Returns as
 * mr_remote_request_make().
 */
mr_status mr_store_request_make(const char *url, const struct mr_target *target, const char *query,
                                struct mr_remote_request *request, char words_out[MR_ANSWER_WORDS]);

#endif
