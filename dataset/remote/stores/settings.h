/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests to object stores need: keys, endpoints, regions. The program's process finds them;
 * workers use what it hands over.
 */
#ifndef DATASET_REMOTE_STORES_SETTINGS_H
#define DATASET_REMOTE_STORES_SETTINGS_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

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
    alignas(8) struct mr_store_s3 s3;
    struct mr_store_gcs gcs;
    struct mr_store_hf hf;
};

/* What the environment says, and the token in Hugging Face's file. */
void mr_store_settings_read(struct mr_store_settings *out);

/* True for "NAME=VALUE" of the environment if the value is a secret of a store. */
bool mr_store_settings_is_secret(const char *variable);

/*
 * Use these from now on, in this process and its workers (settings_cell.h). MR_ERR_NO_MEMORY,
 * MR_ERR_IO. Threads: one at a time.
 */
mr_status mr_store_settings_use(const struct mr_store_settings *settings, mr_error *error);

/*
 * For one request: the settings in use, or those of the environment if none are. Returns their
 * version, which grows. Threads: any. Ownership: the caller overwrites them afterwards.
 */
uint64_t mr_store_settings_get(struct mr_store_settings *out);

#endif
