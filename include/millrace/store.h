/* SPDX-License-Identifier: Apache-2.0 */
/* What a web server or an object store can do for a loader. */
#ifndef MILLRACE_STORE_H
#define MILLRACE_STORE_H

#include <millrace/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What mr_store_check() found. Texts are "" where there is nothing to say. */
typedef struct mr_store_report {
    size_t struct_size;
    uint64_t size;          /* bytes of the object that was read */
    uint64_t request_bytes; /* of each request while the rates were measured */
    double delay_ms;        /* from a request for one byte to its answer: the median of nine */
    double rate_one;        /* bytes a second over one connection */
    double rate_many;       /* the same over n_connections */
    uint32_t n_connections;
    uint32_t n_in_flight; /* requests that a loader should have under way */
    bool usable;          /* a loader can read the object */
    bool tls;             /* over TLS, with a certificate that was verified */
    bool ranges;          /* a range is answered with 206 and the right bytes */
    bool strong_etag;     /* the object has an ETag that names its bytes */
    bool weak_etag;       /* it has one that does not */
    bool if_match;        /* a request for another version is answered with 412 */
    bool content_length;  /* answers state their length */
    bool keep_alive;      /* a connection is used for many requests */
    char url[4096];       /* of the object, without its query */
    char region[64];      /* of the bucket */
    char credentials[64]; /* where the keys come from */
    char problem[400];    /* why a loader cannot read the object */
} mr_store_report;

#define MR_STORE_REPORT_INIT MR_STRUCT_INIT(mr_store_report)

/** Do as MR_STORE_REPORT_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_store_report_init(mr_store_report *report, size_t size);

/**
 * Find out what works with the server of a URL (http://, https://, s3://, gs://, hf://), and how
 * fast it is. If the URL ends with a slash, the first file that is listed below it is read.
 *
 * n_connections  1 to 1024; 0 means 32
 * Returns MR_OK with the report, also if a loader cannot use the server; MR_ERR_INVALID (an
 * argument); MR_ERR_IO (the object cannot be reached: names the URL and what the server said);
 * MR_ERR_DAMAGED (there is no file below the URL); MR_ERR_UNSUPPORTED (a build without libcurl);
 * MR_ERR_NO_MEMORY.
 * Blocks: a few seconds.
 */
MR_API mr_status mr_store_check(const char *url, uint32_t n_connections,
                                mr_store_report *report_out, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
