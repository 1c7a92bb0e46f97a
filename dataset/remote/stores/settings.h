/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests to object stores need: keys, endpoints, regions. The program's process finds them;
 * workers use what it hands over.
 */
#ifndef DATASET_REMOTE_STORES_SETTINGS_H
#define DATASET_REMOTE_STORES_SETTINGS_H

#include <stdbool.h>

enum {
    MR_STORE_KEY = 256,
    MR_STORE_TOKEN = 4096,
    MR_STORE_ENDPOINT = 256,
    MR_STORE_REGION = 64,
    MR_STORE_PROBLEM = 200
};

/* "" everywhere: not set. A secret must appear in no message and in no file. */
struct mr_store_s3 {
    char key_id[MR_STORE_KEY]; /* "": requests are not signed */
    char secret[MR_STORE_KEY];
    char token[MR_STORE_TOKEN];       /* of temporary keys */
    char region[MR_STORE_REGION];     /* "": us-east-1 */
    char endpoint[MR_STORE_ENDPOINT]; /* "https://host[:port][/path]"; "": AWS */
    bool path_style;                  /* https://host/bucket/key also at AWS */
    bool virtual_style;               /* https://bucket.host/key also elsewhere */
    bool requester_pays;
    bool anonymous;                 /* the user asks for requests without a signature */
    char problem[MR_STORE_PROBLEM]; /* why requests cannot be made: they fail with these words */
};

struct mr_store_gcs {
    char key_id[MR_STORE_KEY]; /* HMAC keys; "": requests are not signed */
    char secret[MR_STORE_KEY];
    char endpoint[MR_STORE_ENDPOINT]; /* "": https://storage.googleapis.com */
    char problem[MR_STORE_PROBLEM];
};

struct mr_store_hf {
    char token[MR_STORE_TOKEN];       /* "": public files only */
    char endpoint[MR_STORE_ENDPOINT]; /* "": https://huggingface.co */
    char problem[MR_STORE_PROBLEM];
};

/* It has a fixed size and no pointers, so it can be copied into shared memory. */
struct mr_store_settings {
    struct mr_store_s3 s3;
    struct mr_store_gcs gcs;
    struct mr_store_hf hf;
};

/* What the environment says, and the token in Hugging Face's file. */
void mr_store_settings_read(struct mr_store_settings *out);

/*
 * Use these from now on in this process, in place of mr_store_settings_read(). Ownership: they stay
 * as they are until others are in use and no request is being made.
 */
void mr_store_settings_use(const struct mr_store_settings *settings);

/* The settings in use, for one request. Threads: any. */
void mr_store_settings_get(struct mr_store_settings *out);

#endif
