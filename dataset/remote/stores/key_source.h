/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where temporary keys come from: a program, AWS's STS, the endpoint of a container or of an EC2
 * instance. Each call asks anew.
 *
 * All return MR_OK, or a failure whose text says which source failed and why, without any part of
 * a key. MR_END: the environment does not name this source, or there is none.
 */
#ifndef DATASET_REMOTE_STORES_KEY_SOURCE_H
#define DATASET_REMOTE_STORES_KEY_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "dataset/remote/stores/key_text.h"

/* While it is true, calls fail soon, also those that have begun. */
extern _Atomic bool mr_key_source_stop;

/* credential_process: run without a shell. */
mr_status mr_key_source_process(const char *command, struct mr_key_set *out, mr_error *error);

/* AssumeRoleWithWebIdentity. The file of the token is read again by each call. */
struct mr_web_identity {
    char role[2048];
    char token_file[1024];
    char session[65];                 /* "": one of ours */
    char region[MR_STORE_REGION];     /* "": the global endpoint */
    char endpoint[MR_STORE_ENDPOINT]; /* "": AWS */
};
mr_status mr_key_source_web_identity(const struct mr_web_identity *identity, struct mr_key_set *out,
                                     mr_error *error);

/* AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI: ECS, EKS Pod Identity. */
mr_status mr_key_source_container(struct mr_key_set *out, mr_error *error);

/* IMDSv2, the metadata service of EC2. */
mr_status mr_key_source_instance(struct mr_key_set *out, mr_error *error);

#endif
