/* SPDX-License-Identifier: Apache-2.0 */
/* The files in which AWS's tools keep keys and settings: ~/.aws/credentials and ~/.aws/config. */
#ifndef DATASET_REMOTE_STORES_AWS_PROFILE_H
#define DATASET_REMOTE_STORES_AWS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct mr_aws_profile {
    const char *name;  /* of the environment, or "default" */
    char *credentials; /* the files' texts; NULL: there is no such file */
    char *config;
};

/*
 * Read both files. MR_ERR_IO for one that cannot be read; MR_ERR_INVALID if the environment names
 * a profile that is in neither. Ownership: close it, whatever is returned.
 */
mr_status mr_aws_profile_open(struct mr_aws_profile *profile_out, mr_error *error);
/* Overwrites the texts. */
void mr_aws_profile_close(struct mr_aws_profile *profile);

/*
 * Copy the value of a key of the profile, "" without one. A value of the credentials file comes
 * first. MR_ERR_INVALID: it has more than size - 1 bytes.
 */
mr_status mr_aws_profile_get(const struct mr_aws_profile *profile, const char *key, char *out,
                             size_t size, mr_error *error);
/* The same of a service in the profile's section [services NAME]. */
mr_status mr_aws_profile_get_service(const struct mr_aws_profile *profile, const char *service,
                                     const char *key, char *out, size_t size, mr_error *error);

#endif
