/* SPDX-License-Identifier: Apache-2.0 */
/* A test's environment: "NAME=value" strings, the last one NULL. */
#ifndef TESTS_DIST_RENDEZVOUS_MADE_UP_ENVIRONMENT_H
#define TESTS_DIST_RENDEZVOUS_MADE_UP_ENVIRONMENT_H

#include <string.h>

static inline const char *mr_made_up_get(void *user, const char *name)
{
    size_t len = strlen(name);
    for (const char *const *line = user; *line; line++)
        if (strncmp(*line, name, len) == 0 && (*line)[len] == '=')
            return *line + len + 1;
    return NULL;
}

#endif
