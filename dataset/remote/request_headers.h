/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent to a server. */
#ifndef DATASET_REMOTE_REQUEST_HEADERS_H
#define DATASET_REMOTE_REQUEST_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "dataset/extent.h"
#include "dataset/remote/stores/settings.h"
#include "dataset/remote/stores/store_name.h"

enum {
    MR_REQUEST_URL = 4 * MR_CATALOG_PATH, /* each byte may be escaped */
    MR_REQUEST_HEADERS = MR_STORE_TOKEN + 2048
};

/* How a request was made, to understand its answer. */
struct mr_request_origin {
    enum mr_store store; /* its answers may lead elsewhere; MR_STORE_NONE: libcurl follows */
    bool is_secure;      /* https, which no redirect leaves */
    bool is_signed;      /* or has a token */
    bool is_anonymous;   /* the settings ask for requests without a signature */
    uint64_t settings;   /* their version */
    char region[MR_STORE_REGION]; /* of s3:// */
    uint64_t target;              /* the number of the kept target that was used; 0: none */
    char etag[MR_ETAG];           /* of the object, for answers of a target; "": not known */
};

struct mr_remote_request {
    char url[MR_REQUEST_URL];
    /* Lines "Name: value", each with a NUL; Range is not among them. */
    char headers[MR_REQUEST_HEADERS];
    size_t headers_len;
    struct mr_request_origin origin;
};

/* Add a header. False: it does not fit. */
bool mr_request_headers_add(struct mr_remote_request *request, const char *name, const char *value);

#endif
