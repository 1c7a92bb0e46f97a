/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4 of a request without a body, in its Authorization header:
 * docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
 */
#ifndef DATASET_REMOTE_STORES_SIGV4_H
#define DATASET_REMOTE_STORES_SIGV4_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    MR_SIGV4_TIME = sizeof "20130524T000000Z",
    MR_SIGV4_PARAMETERS = 16, /* the most in a query */
    MR_SIGV4_AUTHORIZATION = 1024
};

/* Bytes that no escape is needed for in a query, and in a path with the slash. */
#define MR_SIGV4_UNRESERVED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

struct mr_sigv4_header {
    const char *name; /* in lower case */
    const char *value;
};

struct mr_sigv4_request {
    const char *method;
    const char *path;  /* as it is sent, and escaped by mr_sigv4_escape() */
    const char *query; /* as it is sent, in any order, with escaped names and values; "": none */
    const struct mr_sigv4_header *headers; /* in the order of their names */
    size_t n_headers;
    const char *payload_hash; /* in hexadecimal digits, or UNSIGNED-PAYLOAD */
};

struct mr_sigv4_key {
    const char *id, *secret;
    const char *region, *service;
    const char *time; /* as in x-amz-date */
};

/*
 * Write a text as it may stand in a path or a query: all bytes but those of MR_SIGV4_UNRESERVED and
 * of `also` become %XX. Returns the length, or size if it does not fit.
 */
size_t mr_sigv4_escape(const char *text, const char *also, char *out, size_t size);

/* Write a time (as of time()) as x-amz-date has it. */
void mr_sigv4_time(int64_t seconds, char time_out[MR_SIGV4_TIME]);

/*
 * Write the value of the Authorization header. MR_ERR_UNSUPPORTED: there is no libcrypto;
 * MR_ERR_NO_MEMORY; MR_ERR_INVALID: more parameters than MR_SIGV4_PARAMETERS, or too long a key id.
 */
mr_status mr_sigv4_sign(const struct mr_sigv4_request *request, const struct mr_sigv4_key *key,
                        char authorization_out[MR_SIGV4_AUTHORIZATION], mr_error *error);

#endif
