/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the URL of an object, as a SPEC names it, to the URL and the headers of a request.
 * stores/store_request.c does that for s3://, gs:// and hf://.
 */
#ifndef DATASET_REMOTE_REQUEST_H
#define DATASET_REMOTE_REQUEST_H

#include <millrace/status.h>

#include "dataset/remote/answer.h"
#include "dataset/remote/request_headers.h"

struct mr_target;

/*
 * target: where earlier answers have led for this URL; NULL: nowhere. Returns MR_OK, or
 * MR_ERR_DAMAGED with what is wrong in words_out.
 */
mr_status mr_remote_request_make(const char *url, const struct mr_target *target,
                                 const struct mr_answer_wish *wish,
                                 struct mr_remote_request *request_out,
                                 char words_out[MR_ANSWER_WORDS]);

#endif
