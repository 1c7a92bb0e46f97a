/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libcurl and finds its functions. It is never closed: TLS libraries cannot be unloaded. */
#include "dataset/remote/curl_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mr_curl_api api;
static char failure[300]; /* "": libcurl is open */

static const struct {
    const char *name;
    size_t offset; /* in api */
} functions[] = {
#define FUNCTION(name)                                                                             \
    {                                                                                              \
        "curl_" #name, offsetof(struct mr_curl_api, name)                                          \
    }
    FUNCTION(global_init),
    FUNCTION(version),
    FUNCTION(easy_init),
    FUNCTION(easy_cleanup),
    FUNCTION(easy_setopt),
    FUNCTION(easy_getinfo),
    FUNCTION(easy_strerror),
    FUNCTION(multi_init),
    FUNCTION(multi_cleanup),
    FUNCTION(multi_setopt),
    FUNCTION(multi_add_handle),
    FUNCTION(multi_socket_action),
    FUNCTION(slist_append),
    FUNCTION(multi_remove_handle),
    FUNCTION(multi_info_read),
    FUNCTION(slist_free_all),
    FUNCTION(easy_reset),
    FUNCTION(easy_perform)
#undef FUNCTION
};

static void *open_library(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static void open_api(void)
{
    void *library = open_library();
    if (!library) {
        snprintf(failure, sizeof failure, "reading URLs needs libcurl (package libcurl4): %s",
                 dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        memcpy((char *)&api + functions[i].offset, &function, sizeof function);
        if (!function) {
            snprintf(failure, sizeof failure, "libcurl is older than 7.66: it has no %s",
                     functions[i].name);
            return;
        }
    }
    if (api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(failure, sizeof failure, "libcurl cannot be initialized");
}

mr_status mr_curl_api_open(const struct mr_curl_api **api_out, mr_error *error)
{
    pthread_once(&once, open_api);
    *api_out = &api;
    return *failure ? mr_error_set(error, MR_ERR_UNSUPPORTED, "%s", failure) : MR_OK;
}

static const char *find_ca_bundle(void)
{
    const char *bundle = secure_getenv("CURL_CA_BUNDLE");
    return bundle && *bundle ? bundle : secure_getenv("SSL_CERT_FILE");
}

bool mr_curl_api_set_up(CURL *easy)
{
    const char *bundle = find_ca_bundle();
    const struct {
        CURLoption option;
        long value;
    } numbers[] = {{CURLOPT_NOSIGNAL, 1},
                   {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1},
                   {CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS},
                   {CURLOPT_FOLLOWLOCATION, 1},
                   {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},
                   {CURLOPT_MAXREDIRS, 5},
                   {CURLOPT_TCP_KEEPALIVE, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (api.easy_setopt(easy, numbers[i].option, numbers[i].value) != CURLE_OK)
            return false;
    api.easy_setopt(easy, CURLOPT_USERAGENT, "millrace");
    return !bundle || !*bundle || api.easy_setopt(easy, CURLOPT_CAINFO, bundle) == CURLE_OK;
}

bool mr_curl_api_keep_secure(CURL *easy, const char *url)
{
    long allowed =
        mr_word_begins(url, "https") ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
    return api.easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS, allowed) == CURLE_OK;
}
