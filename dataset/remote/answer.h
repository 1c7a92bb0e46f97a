/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of an answer, and whether it is the answer to the request. It makes no request. */
#ifndef DATASET_REMOTE_ANSWER_H
#define DATASET_REMOTE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "dataset/extent.h"

enum { MR_ANSWER_WORDS = 200, MR_ANSWER_BODY = 1024 };

struct mr_answer {
    int code;          /* 0: there is no answer yet */
    char reason[40];   /* "Not Found" */
    char encoding[24]; /* Content-Encoding; "": none */
    bool has_range;    /* Content-Range with a first and a last byte */
    uint64_t first, last;
    uint64_t length; /* Content-Length; MR_LEN_UNKNOWN: not sent */
    bool weak_etag;  /* it has one that does not name its bytes */
    struct mr_object_version version;
    char error[64];          /* a store's name for what is wrong: "NoSuchKey" */
    char region[40];         /* of the bucket */
    char file_etag[MR_ETAG]; /* of the file that a redirect leads to */
    /* The begin of the body, if the answer is not good. */
    char body[MR_ANSWER_BODY];
    size_t body_len;
};

/*
 * Take one line of the headers, with or without its line end. A status line ("HTTP/...") begins the
 * next answer, as after a redirect.
 */
void mr_answer_line(struct mr_answer *answer, const char *line, size_t len);

/* Take bytes of the body of an answer that is not good. */
void mr_answer_body(struct mr_answer *answer, const char *bytes, size_t len);

struct mr_answer_wish {
    uint64_t offset;
    uint64_t len;                            /* MR_LEN_UNKNOWN: the whole object; offset is 0 */
    uint64_t max_bytes;                      /* of a whole object */
    const struct mr_object_version *version; /* NULL: any */
    const char *query; /* of a request to a bucket, escaped: "list-type=2"; NULL: none */
};

enum mr_verdict {
    MR_VERDICT_GOOD,
    MR_VERDICT_RETRY, /* the same request may succeed later */
    MR_VERDICT_FINAL,
    MR_VERDICT_MOVED, /* another request, which may be made at once, will succeed */
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
