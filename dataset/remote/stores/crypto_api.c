/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libcrypto and finds its functions. libcurl usually has it open already. */
#include "dataset/remote/stores/crypto_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mr_crypto_api api;
static char failure[300]; /* "": libcrypto is open */

static const struct {
    const char *name;
    size_t offset; /* in api */
} functions[] = {
    {"SHA256", offsetof(struct mr_crypto_api, sha256)},
    {"EVP_sha256", offsetof(struct mr_crypto_api, evp_sha256)},
    {"HMAC", offsetof(struct mr_crypto_api, hmac)},
};

static void open_api(void)
{
    static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(failure, sizeof failure,
                 "signing a request needs libcrypto of OpenSSL (package libssl3): %s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        memcpy((char *)&api + functions[i].offset, &function, sizeof function);
        if (!function)
            snprintf(failure, sizeof failure, "libcrypto has no function %s", functions[i].name);
    }
}

mr_status mr_crypto_api_open(const struct mr_crypto_api **api_out, mr_error *error)
{
    pthread_once(&once, open_api);
    *api_out = &api;
    return *failure ? mr_error_set(error, MR_ERR_UNSUPPORTED, "%s", failure) : MR_OK;
}
