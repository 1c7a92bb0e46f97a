/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of objects by HTTP/1.1: any number of gets are begun, and end in any order. A get that
 * fails for a while is tried again, with growing random pauses, until retry_ms have passed since
 * its first try. libcurl's multi interface moves the bytes; gets wait here, not in libcurl, which
 * never has more transfers than there are connections.
 */
#ifndef DATASET_REMOTE_HTTP_H
#define DATASET_REMOTE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "dataset/extent.h"
#include "dataset/remote/answer.h"

struct mr_http;

struct mr_http_options {
    uint32_t n_connections; /* at least 1 */
    uint32_t retry_ms;      /* 0: the first failure is final */
    /* The same while connections are refused and no server has answered; 0: as retry_ms. */
    uint32_t refused_ms;
    /* A transfer below 1,000 bytes a second, or a connection that is not made, has failed after
       this time; 0: a third of retry_ms, 1 to 10 seconds. */
    uint32_t stall_s;
};

/* One range of an object. */
struct mr_http_get {
    /* Set by the caller before begin, and valid until the get has ended: */
    const char *url;
    struct mr_answer_wish wish;
    /* Room for len bytes of the body; bytes that are there stay. NULL: no memory. */
    uint8_t *(*reserve)(void *user, size_t len);
    void *user;
    struct mr_answer *answer; /* gets a copy of the last answer; NULL: it is not wanted */

    /* Set when it has ended: */
    mr_status
        status; /* MR_OK, MR_ERR_DAMAGED, MR_ERR_NO_MEMORY; MR_ERR_IO: no descriptor is left */
    size_t len;
    int os_error;                     /* as of mr_answer_judge(); of the socket that is lacking */
    struct mr_object_version version; /* of the object, as this answer states it */
    char words[2 * MR_ANSWER_WORDS];  /* what is wrong */
    uint32_t n_connects;              /* connections that were made for it */
    bool is_secure;                   /* the request was sent over TLS */

    /* Private: */
    struct mr_http_get *next;
    uint64_t begun_ns; /* the first try; 0: none yet */
    uint64_t tried_ns; /* the last one */
    uint64_t not_before_ns;
    uint32_t n_tries;
    uint32_t n_moves; /* how often an answer led to another server */
};

/* Returns MR_OK; MR_ERR_UNSUPPORTED: there is no libcurl, which the message says. */
mr_status mr_http_create(const struct mr_http_options *options, struct mr_http **http_out,
                         mr_error *error);
/* Drops gets that have not ended. NULL does nothing. */
void mr_http_destroy(struct mr_http *http);

void mr_http_begin(struct mr_http *http, struct mr_http_get *get);

/*
 * Make progress, and take one get that has ended. wait: sleep until one has. NULL: none has ended
 * yet, or none was begun.
 */
struct mr_http_get *mr_http_next(struct mr_http *http, bool wait);
/* Take another one that has ended, without making progress. NULL: there is none. */
struct mr_http_get *mr_http_take(struct mr_http *http);

#endif
