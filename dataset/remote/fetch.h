/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small requests of the program's process, one after the other: keys, lists of objects. Ranges of
 * objects are gets (http.h).
 */
#ifndef DATASET_REMOTE_FETCH_H
#define DATASET_REMOTE_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { MR_FETCH_VALUE = 1024 };

/* A header of the answer that the caller asks for. */
struct mr_fetch_header {
    const char *name;           /* in any case */
    char value[MR_FETCH_VALUE]; /* "": not sent, or too long */
};

struct mr_fetch_request {
    const char *method;         /* NULL: GET */
    const char *url;            /* escaped; what follows its '?' appears in no message */
    const char *const *headers; /* "Name: value" each, then NULL; NULL: none */
    const char *body;           /* it is not sent on by a redirect; NULL: none */
    uint32_t timeout_ms;        /* of each try */
    uint32_t retry_ms;          /* no answer, 408, 429 and 5xx are tried again for so long */
    size_t max_bytes;           /* of the answer's body */
    const _Atomic bool *stop;   /* if it becomes true, the request soon fails; NULL: none */
    bool direct;                /* to an address of this machine or cloud: no proxy, no redirect */
    struct mr_fetch_header *wanted; /* values are written */
    size_t n_wanted;
};

struct mr_fetch_answer {
    int code;
    char *body; /* len bytes and a zero byte, which may be changed; lent until the next run */
    size_t len;
};

struct mr_fetch;

/* MR_ERR_UNSUPPORTED: there is no libcurl. */
mr_status mr_fetch_create(struct mr_fetch **fetch_out, mr_error *error);
/* Overwrites the last answer's body, which may have keys. NULL does nothing. */
void mr_fetch_destroy(struct mr_fetch *fetch);

/*
 * Make a request, over the connection of the request before it if that is to the same server.
 * Returns MR_OK with an answer of any code; MR_ERR_IO with the URL and what is wrong;
 * MR_ERR_NO_MEMORY. Threads: one at a time. Blocks: until the time is over.
 */
mr_status mr_fetch_run(struct mr_fetch *fetch, const struct mr_fetch_request *request,
                       struct mr_fetch_answer *answer_out, mr_error *error);

#endif
