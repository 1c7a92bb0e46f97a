/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of OpenSSL's libcrypto that are used here. The library is opened when the first
 * request is signed, so only programs that sign need it. The functions are the same in all versions
 * since 1.1, and are declared here, so a build does not need its headers.
 */
#ifndef DATASET_REMOTE_STORES_CRYPTO_API_H
#define DATASET_REMOTE_STORES_CRYPTO_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { MR_SHA256_BYTES = 32 };

struct mr_crypto_api {
    uint8_t *(*sha256)(const uint8_t *bytes, size_t len, uint8_t *hash_out);
    const void *(*evp_sha256)(void);
    uint8_t *(*hmac)(const void *evp, const void *key, int key_len, const uint8_t *bytes,
                     size_t len, uint8_t *hash_out, unsigned *len_out);
};

/*
 * Open libcrypto once in the process. Returns MR_OK, or MR_ERR_UNSUPPORTED with the package that is
 * needed. Threads: any.
 */
mr_status mr_crypto_api_open(const struct mr_crypto_api **api_out, mr_error *error);

#endif
