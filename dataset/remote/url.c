/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, joins and escapes URLs. */
#include "dataset/remote/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "dataset/remote/stores/store_name.h"

/* The length of "https://" and the like at the start of a text; 0: another text. */
static size_t scheme_len(const char *text)
{
    if (mr_word_begins(text, "https://"))
        return 8;
    if (mr_word_begins(text, "http://"))
        return 7;
    return mr_store_name_find(text) ? 5 : 0;
}

bool mr_url_is(const char *text)
{
    return scheme_len(text) > 0;
}

bool mr_url_has_query(const char *url)
{
    return mr_url_is(url) && !mr_store_name_find(url);
}

size_t mr_url_shown_len(const char *url)
{
    return mr_store_name_find(url) ? strlen(url) : strcspn(url, "?");
}

int mr_url_path_len(const char *path)
{
    return (int)(mr_url_is(path) ? mr_url_shown_len(path) : strlen(path));
}

size_t mr_url_host_len(const char *url)
{
    struct mr_store_name name;
    size_t scheme = scheme_len(url);
    if (!mr_store_name_find(url))
        return scheme + strcspn(url + scheme, "/?");
    return mr_store_name_parse(url, &name) ? (size_t)(name.key - url) - (name.key[-1] == '/')
                                           : strlen(url);
}

size_t mr_url_folder_len(const char *path)
{
    size_t host = mr_url_is(path) ? mr_url_host_len(path) : 0;
    size_t len = host > 0 ? mr_url_shown_len(path) : 0;
    while (len > host && path[len - 1] != '/')
        len--;
    return len;
}

mr_status mr_url_check(const char *url, mr_error *error)
{
    struct mr_store_name name;
    enum mr_store store = mr_store_name_find(url);
    if (store)
        return mr_store_name_parse(url, &name)
                   ? MR_OK
                   : mr_error_set(error, MR_ERR_INVALID, "the URL '%s' is not %s", url,
                                  mr_store_name_form(store));
    const char *host = url + scheme_len(url);
    size_t len = strcspn(host, "/?#"), shown = mr_url_shown_len(url);
    if (memchr(host, '@', len)) /* the message must not contain the password */
        return mr_error_set(error, MR_ERR_INVALID,
                            "a URL of the dataset has a user or a password before its host %.*s",
                            (int)(len - strcspn(host, "@") - 1), host + strcspn(host, "@") + 1);
    if (len == 0 || *host == ':')
        return mr_error_set(error, MR_ERR_INVALID, "the URL '%.*s' has no host", (int)shown, url);
    if (strchr(url, '#'))
        return mr_error_set(error, MR_ERR_INVALID,
                            "the URL '%.*s' has a fragment; write %%23 for a # in a name",
                            (int)shown, url);
    return MR_OK;
}

int mr_url_join(const char *folder, const char *name, char *url_out, size_t size)
{
    size_t len = strlen(folder);
    if (mr_url_is(name))
        len = 0;
    else if (*name == '/')
        len = mr_url_host_len(folder);
    int n = snprintf(url_out, size, "%.*s%s", (int)len, folder, name);
    return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

int mr_url_encode(const char *url, char *out, size_t size)
{
    size_t n = 0;
    for (; *url; url++) {
        unsigned char byte = (unsigned char)*url;
        bool escape = byte <= ' ' || byte > 126 || strchr("\"<>\\^`{|}", byte) ||
                      (byte == '%' && !(is_hex(url[1]) && is_hex(url[2])));
        if (n + 4 > size)
            return -ENAMETOOLONG;
        if (escape)
            n += (size_t)snprintf(out + n, 4, "%%%02X", byte);
        else
            out[n++] = (char)byte;
    }
    if (n + 1 > size)
        return -ENAMETOOLONG;
    out[n] = '\0';
    return 0;
}
