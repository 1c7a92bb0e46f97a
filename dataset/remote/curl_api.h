/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libcurl that are used here. The library is opened when the first remote file is
 * read, so programs without remote data neither need it nor load it.
 */
#ifndef DATASET_REMOTE_CURL_API_H
#define DATASET_REMOTE_CURL_API_H

/* Of two options with one meaning, the older one is used: the library may be as old as 7.66. */
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>
#include <stdbool.h>

#include "base/error.h"

struct mr_curl_api {
    CURLcode (*global_init)(long flags);
    const char *(*version)(void);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *easy);
    void (*easy_reset)(CURL *easy);
    CURLcode (*easy_perform)(CURL *easy);
    CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
    const char *(*easy_strerror)(CURLcode code);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_cleanup)(CURLM *multi);
    CURLMcode (*multi_setopt)(CURLM *multi, CURLMoption option, ...);
    CURLMcode (*multi_add_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_remove_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_socket_action)(CURLM *multi, curl_socket_t fd, int events, int *n_running);
    CURLMsg *(*multi_info_read)(CURLM *multi, int *n_left);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
};

/*
 * Open libcurl once in the process. Returns MR_OK, or MR_ERR_UNSUPPORTED with the package that is
 * needed. Threads: any.
 */
mr_status mr_curl_api_open(const struct mr_curl_api **api_out, mr_error *error);

/* After mr_curl_api_open(). HTTP/1.1, redirects, certificates. False: libcurl refuses an option. */
bool mr_curl_api_set_up(CURL *easy);
/* As above. Never go on without TLS after a redirect. */
bool mr_curl_api_keep_secure(CURL *easy, const char *url);

#endif
