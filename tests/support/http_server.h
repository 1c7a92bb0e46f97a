/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/1.1 server for tests, in threads of the test program: regular files, ranges, ETags, and
 * every fault of a server on purpose. A failure here ends the test program.
 */
#ifndef TESTS_SUPPORT_HTTP_SERVER_H
#define TESTS_SUPPORT_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

enum mr_test_fault {
    MR_TEST_HTTP_GOOD,
    MR_TEST_HTTP_NO_ETAG,   /* good, with Last-Modified alone */
    MR_TEST_HTTP_WEAK_ETAG, /* good, with W/"..." */
    MR_TEST_HTTP_CHUNKED,   /* good, without Content-Length */
    MR_TEST_HTTP_SLOW,      /* good, in small pieces */
    MR_TEST_HTTP_REDIRECT,  /* good, after a redirect to the same path with ?moved */
    MR_TEST_HTTP_CLOSE,     /* good, then the connection is closed without announcing it */
    /* From here on, what was asked for is not sent. */
    MR_TEST_HTTP_BUSY,             /* 503 */
    MR_TEST_HTTP_RETRY_AFTER,      /* 429 with Retry-After: 1 */
    MR_TEST_HTTP_LATER,            /* 503 with Retry-After: 3600 */
    MR_TEST_HTTP_ERROR,            /* 500 with a long body */
    MR_TEST_HTTP_NO_RANGES,        /* 200 with the whole file */
    MR_TEST_HTTP_OTHER_RANGE,      /* 206 with other bytes */
    MR_TEST_HTTP_NO_CONTENT_RANGE, /* 206 without Content-Range */
    MR_TEST_HTTP_GZIP,             /* Content-Encoding: gzip */
    MR_TEST_HTTP_SHORT,            /* fewer bytes than announced, then the connection is closed */
    MR_TEST_HTTP_RESET,            /* the connection is reset within the body */
    MR_TEST_HTTP_RESET_EARLY,      /* the connection is reset before the answer */
    MR_TEST_HTTP_GARBAGE,          /* no HTTP */
    MR_TEST_HTTP_STALL,            /* half of the body, then nothing until the client has gone */
    MR_TEST_HTTP_SILENT,           /* no answer until the client has gone */
    MR_TEST_HTTP_LOOP,             /* a redirect to itself */
    MR_TEST_HTTP_FORBIDDEN,        /* 403 */
    MR_TEST_HTTP_OTHER_ETAG,       /* good, with the ETag of another version; ignores If-Match */
    MR_TEST_HTTP_N_FAULTS
};

struct mr_test_http_request {
    uint64_t number; /* counted from 0 */
    const char *path;
    bool has_range;
    uint64_t first, last;
    const char *head; /* the request line and the headers as they were sent */
    const char *body; /* "": none */
};

struct mr_test_http;

/* Called by the threads of the server, one at a time. NULL: all answers are good. */
typedef enum mr_test_fault mr_test_http_choose(void *user,
                                               const struct mr_test_http_request *request);

/* Serve the files below root at a free port of 127.0.0.1. */
struct mr_test_http *mr_test_http_start(const char *root, mr_test_http_choose *choose, void *user);
/* The same at a port that was used before. */
struct mr_test_http *mr_test_http_start_at(uint16_t port, const char *root,
                                           mr_test_http_choose *choose, void *user);
void mr_test_http_stop(struct mr_test_http *server);

/* An answer that is no file. Its body is allocated, and freed by the server. */
struct mr_test_http_page {
    const char *status; /* "200 OK" */
    char headers[512];  /* "Name: value\r\n" each */
    char *body;         /* NULL: empty */
};

/*
 * Called as choose, with the same user, for each request whose answer should be good. False: the
 * answer is the file. Set it before the first request.
 */
typedef bool mr_test_http_answer(void *user, const struct mr_test_http_request *request,
                                 struct mr_test_http_page *page_out);
void mr_test_http_answer_with(struct mr_test_http *server, mr_test_http_answer *answer);

/* "http://127.0.0.1:PORT" */
const char *mr_test_http_url(const struct mr_test_http *server);
uint16_t mr_test_http_port(const struct mr_test_http *server);
uint64_t mr_test_http_n_requests(const struct mr_test_http *server);
/* The most connections that were open at once, and all that were made. */
uint32_t mr_test_http_most(const struct mr_test_http *server);
uint32_t mr_test_http_n_connections(const struct mr_test_http *server);

#endif
