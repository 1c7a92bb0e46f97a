/* SPDX-License-Identifier: Apache-2.0 */
/* Adds headers to a request. */
#include "dataset/remote/request_headers.h"

#include <stdio.h>

bool mr_request_headers_add(struct mr_remote_request *request, const char *name, const char *value)
{
    size_t left = sizeof request->headers - request->headers_len;
    int n = snprintf(request->headers + request->headers_len, left, "%s: %s", name, value);
    if (n < 0 || (size_t)n >= left)
        return false;
    request->headers_len += (size_t)n + 1;
    return true;
}
