/* SPDX-License-Identifier: Apache-2.0 */
/* Makes stamps; also in programs without libcurl. */
#include "dataset/remote/object_stamp.h"

#include <string.h>

#include "base/xxh3.h"
#include "dataset/remote/url.h"

uint64_t mr_object_stamp_make(const char *url, const struct mr_object_version *version)
{
    bool has_query = url[mr_url_shown_len(url)] != '\0';
    const char *text = *version->etag || has_query ? version->etag : version->modified;
    uint64_t stamp = mr_xxh3(text, strlen(text));
    return *text ? stamp | (stamp == 0) : 0;
}
