/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of an answer, and whether it is the answer to the request. It makes no request. */
#ifndef DATASET_REMOTE_ANSWER_H
#define DATASET_REMOTE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "dataset/extent.h"

enum { MR_ANSWER_WORDS = 200 };

struct mr_answer {
    int code;          /* 0: there is no answer yet */
    char reason[40];   /* "Not Found" */
    char encoding[24]; /* Content-Encoding; "": none */
    bool has_range;    /* Content-Range with a first and a last byte */
    uint64_t first, last;
    uint64_t length; /* Content-Length; MR_LEN_UNKNOWN: not sent */
    struct mr_object_version version;
};

/*
 * Take one line of the headers, with or without its line end. A status line ("HTTP/...") begins the
 * next answer, as after a redirect.
 */
void mr_answer_line(struct mr_answer *answer, const char *line, size_t len);

struct mr_answer_wish {
    uint64_t offset;
    uint64_t len;                            /* MR_LEN_UNKNOWN: the whole object; offset is 0 */
    uint64_t max_bytes;                      /* of a whole object */
    const struct mr_object_version *version; /* NULL: any */
};

enum mr_verdict {
    MR_VERDICT_GOOD,
    MR_VERDICT_RETRY, /* the same request may succeed later */
    MR_VERDICT_FINAL,
};

/*
 * GOOD: the body is what was asked for, *len_out bytes, or MR_LEN_UNKNOWN. Otherwise words_out says
 * what is wrong; *os_error_out is ENOENT (there is no such object), EACCES, ESTALE (the object was
 * replaced) or 0.
 */
enum mr_verdict mr_answer_judge(const struct mr_answer *answer, const struct mr_answer_wish *wish,
                                uint64_t *len_out, int *os_error_out,
                                char words_out[MR_ANSWER_WORDS]);

#endif
