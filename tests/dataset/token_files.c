/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/dataset/token_files.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void bytes_put(struct bytes *bytes, const void *value, size_t len)
{
    memcpy(bytes->at + bytes->len, value, len);
    bytes->len += len;
}

static void put_u32(struct bytes *bytes, uint32_t value)
{
    bytes_put(bytes, &value, sizeof value);
}

static void put_u64(struct bytes *bytes, uint64_t value)
{
    bytes_put(bytes, &value, sizeof value);
}

static void put_token(struct bytes *bytes, uint32_t i, size_t size)
{
    bytes_put(bytes, &(uint64_t){i * 7 % 251}, size);
}

void bytes_tokens(struct bytes *bytes, size_t size)
{
    for (uint32_t i = 0; i < N_TOKENS; i++)
        put_token(bytes, i, size);
}

struct bytes bytes_llmc(uint32_t magic, uint32_t version, size_t size)
{
    struct bytes bytes = {0};
    put_u32(&bytes, magic);
    put_u32(&bytes, version);
    put_u32(&bytes, N_TOKENS);
    bytes.len = LLMC_HEADER;
    bytes_tokens(&bytes, size);
    return bytes;
}

struct bytes bytes_index(uint8_t dtype, size_t size)
{
    struct bytes bytes = {0};
    bytes_put(&bytes, "MMIDIDX\0", 9);
    put_u64(&bytes, 1);
    bytes_put(&bytes, &dtype, 1);
    put_u64(&bytes, N_DOCUMENTS);
    put_u64(&bytes, N_DOCUMENTS + 1);
    uint32_t before = 0;
    for (uint32_t i = 0; i < N_DOCUMENTS; i++) {
        uint32_t length = i < N_DOCUMENTS - 1 ? i + 1 : N_TOKENS - before;
        put_u32(&bytes, length);
        before += length;
    }
    for (uint64_t i = 0; i < N_DOCUMENTS; i++)
        put_u64(&bytes, i * (i + 1) / 2 * size);
    for (uint64_t i = 0; i <= N_DOCUMENTS; i++)
        put_u64(&bytes, i);
    return bytes;
}

/* What is before the tokens of a sample. */
static void put_head(struct bytes *bytes, const char *encoding, uint32_t length)
{
    const bool is_array = strncmp(encoding, "ndarray", 7) == 0;
    const size_t dimension = length < 256 ? 1 : 2;
    if (strchr(encoding, ':') != strrchr(encoding, ':'))
        return;
    const size_t head = is_array ? (strcmp(encoding, "ndarray") == 0) + 1 + dimension : 0;
    put_u32(bytes, (uint32_t)head + 4 * length);
    if (strcmp(encoding, "ndarray") == 0)
        bytes_put(bytes, &(uint8_t){33}, 1);
    if (is_array)
        bytes_put(bytes, &(uint8_t){dimension == 1 ? 4 : 5}, 1);
    if (is_array)
        bytes_put(bytes, &length, dimension);
}

struct bytes bytes_mds(const char *encoding, const uint32_t *lengths)
{
    struct bytes bytes = {0}, samples = {0};
    uint32_t n = 0, token = 0, ends[N_TOKENS] = {0};
    char config[300];
    for (; lengths[n] > 0; n++) {
        put_head(&samples, encoding, lengths[n]);
        for (uint32_t i = 0; i < lengths[n]; i++)
            put_token(&samples, token++, 4);
        ends[n + 1] = (uint32_t)samples.len;
    }
    int len = snprintf(config, sizeof config,
                       "{\"column_encodings\": [\"%s\"], \"column_names\": [\"tokens\"], "
                       "\"column_sizes\": [null], \"compression\": null, \"format\": \"mds\", "
                       "\"hashes\": [], \"size_limit\": 67108864, \"version\": 2}",
                       encoding);
    put_u32(&bytes, n);
    for (uint32_t i = 0; i <= n; i++)
        put_u32(&bytes, 4 * (n + 2) + (uint32_t)len + ends[i]);
    bytes_put(&bytes, config, (size_t)len);
    bytes_put(&bytes, samples.at, samples.len);
    return bytes;
}

struct bytes bytes_mds_index(const char *shard, size_t n_bytes, const char *compression)
{
    struct bytes bytes = {0};
    bytes.len = (size_t)snprintf(
        (char *)bytes.at, sizeof bytes.at,
        "{\"shards\": [{\"column_names\": [\"tokens\"], \"compression\": %s, \"format\": \"mds\", "
        "\"hashes\": [], \"raw_data\": {\"basename\": \"%s\", \"bytes\": %zu, \"hashes\": {}}, "
        "\"samples\": 3, \"version\": 2, \"zip_data\": null}], \"version\": 2}",
        compression, shard, n_bytes);
    return bytes;
}

void bytes_write(const struct tree *tree, const char *name, const struct bytes *bytes)
{
    unlink(tree_at(tree, name)); /* ext4 waits for the disk if a file is truncated and written */
    tree_write(tree, name, bytes->at, bytes->len);
}

const char *tokens_spec(const struct tree *tree, const char *name, const char *keys)
{
    static char text[2 * PATH_MAX];
    snprintf(text, sizeof text, "%s?%s", tree_spec(tree, "tokens", name), keys);
    return text;
}
