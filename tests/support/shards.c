/* SPDX-License-Identifier: Apache-2.0 */
/* Builds tar files in memory: headers of ustar, data, padding. */
#include "tests/support/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/die.h"

enum { BLOCK = 512 };

static uint8_t *grow(struct mr_test_shard *shard, size_t len)
{
    uint8_t *bytes = realloc(shard->bytes, shard->len + len + (shard->len + len == 0));
    if (!bytes)
        mr_test_die("realloc of a shard");
    shard->bytes = bytes;
    bytes += shard->len;
    memset(bytes, 0, len);
    shard->len += len;
    return bytes;
}

void mr_test_shard_sum(uint8_t *header)
{
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
    header[155] = ' ';
}

size_t mr_test_shard_add_type(struct mr_test_shard *shard, char type, const char *name,
                              const void *bytes, size_t len)
{
    size_t at = shard->len, padded = (len + BLOCK - 1) / BLOCK * BLOCK;
    uint8_t *header = grow(shard, BLOCK + padded);
    snprintf((char *)header, 100, "%s", name);
    snprintf((char *)header + 100, 8, "%07o", 0644u);
    snprintf((char *)header + 124, 12, "%011llo", (unsigned long long)len);
    header[156] = (uint8_t)type;
    memcpy(header + 257, "ustar\00000", 8);
    mr_test_shard_sum(header);
    if (len > 0)
        memcpy(header + BLOCK, bytes, len);
    return at;
}

size_t mr_test_shard_add(struct mr_test_shard *shard, const char *name, const void *bytes,
                         size_t len)
{
    return mr_test_shard_add_type(shard, '0', name, bytes, len);
}

size_t mr_test_shard_add_text(struct mr_test_shard *shard, const char *name, const char *text)
{
    return mr_test_shard_add(shard, name, text, strlen(text));
}

void mr_test_shard_end(struct mr_test_shard *shard)
{
    grow(shard, 2 * BLOCK);
}

void mr_test_shard_free(struct mr_test_shard *shard)
{
    free(shard->bytes);
    *shard = (struct mr_test_shard){0};
}
