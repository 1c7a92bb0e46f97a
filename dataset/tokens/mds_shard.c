/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MDSWriter writes a shard without samples before a sample that is larger than its limit.
 *
 * The length of a sample says how many tokens it has, so the beginnings of samples are not all
 * read: only that of the first; and all of them if each names its dtype.
 */
#include "dataset/tokens/mds_shard.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "dataset/tokens/mds_json.h"

enum { MAX_CONFIG = 1 << 20, MAX_HEAD = 4 + 1 + 1 + 8, DTYPE_AT = 4 };

static const struct {
    const char *name;
    uint8_t code;
    mr_dtype dtype;
} dtypes[] = {{"uint8", 8, MR_U8},   {"int8", 9, MR_I8},     {"uint16", 16, MR_U16},
              {"int16", 17, MR_I16}, {"uint32", 32, MR_U32}, {"int32", 33, MR_I32},
              {"int64", 65, MR_I64}};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

struct shard {
    const struct mr_token_source *source;
    uint8_t *head; /* what is before the samples, and a NUL */
    uint64_t n;
    char encoding[MR_MDS_ENCODING];
    bool is_array, names_dtype; /* ndarray; each sample begins with its dtype */
    mr_dtype dtype;
    uint64_t fixed; /* tokens of each sample; 0: the samples differ */
};

bool mr_mds_is_shard(const char *shown)
{
    size_t len = strlen(shown);
    return len >= 4 && strcmp(shown + len - 4, ".mds") == 0;
}

static uint64_t offset_of(const struct shard *shard, uint64_t i)
{
    uint32_t offset;
    memcpy(&offset, shard->head + sizeof offset * (i + 1), sizeof offset);
    return le32toh(offset);
}

static mr_status read_head(struct shard *shard, mr_error *error)
{
    const struct mr_token_source *source = shard->source;
    uint32_t words[2] = {0};
    mr_status status = MR_OK;
    if (source->size >= sizeof words)
        status = mr_token_source_read(source, 0, words, sizeof words, error);
    if (status != MR_OK)
        return status;
    uint64_t n = shard->n = le32toh(words[0]), begin = le32toh(words[1]), config = 4 * (n + 2);
    if (begin < config || begin - config > MAX_CONFIG || begin > source->size)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s has %" PRIu64 " bytes, which do not fit %" PRIu64
                            " samples from byte %" PRIu64 " on",
                            source->shown, source->size, n, begin);
    shard->head = calloc(1, (size_t)begin + 1);
    if (!shard->head)
        return mr_error_memory(error, (size_t)begin + 1);
    status = mr_token_source_read(source, 0, shard->head, (size_t)begin, error);
    return status == MR_OK ? mr_mds_config_parse((const char *)shard->head + config, source->shown,
                                                 shard->encoding, error)
                           : status;
}

static mr_status check_offsets(const struct shard *shard, mr_error *error)
{
    for (uint64_t i = 0; i < shard->n; i++)
        if (offset_of(shard, i) >= offset_of(shard, i + 1))
            return mr_error_set(
                error, MR_ERR_DAMAGED,
                "%s: sample %" PRIu64 " begins at byte %" PRIu64 " and ends at byte %" PRIu64,
                shard->source->shown, i, offset_of(shard, i), offset_of(shard, i + 1));
    if (offset_of(shard, shard->n) == shard->source->size)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s has %" PRIu64 " bytes; its samples end at byte %" PRIu64,
                        shard->source->shown, shard->source->size, offset_of(shard, shard->n));
}

/* A dimension, or several: 2048 or 1,2048. */
static bool parse_shape(const char *text, uint64_t *product_out)
{
    *product_out = 1;
    do {
        char *end;
        if (*text < '1' || *text > '9' ||
            !mr_checked_mul_u64(*product_out, strtoull(text, &end, 10), product_out))
            return false;
        text = end;
    } while (*text++ == ',');
    return text[-1] == '\0';
}

static mr_status take_encoding(struct shard *shard, mr_dtype asked, mr_error *error)
{
    char text[MR_MDS_ENCODING], *rest = text;
    strcpy(text, shard->encoding);
    const char *type = strsep(&rest, ":"), *dtype = strsep(&rest, ":");
    shard->is_array = strcmp(type, "ndarray") == 0;
    shard->names_dtype = shard->is_array && !dtype;
    if (strcmp(type, "bytes") == 0 && !dtype && asked == MR_DTYPE_DEFAULT)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s has tokens as bytes: it needs dtype=, such as dtype=i64",
                            shard->source->shown);
    if (strcmp(type, "bytes") == 0 && !dtype)
        shard->dtype = asked;
    for (size_t i = 0; shard->is_array && dtype && i < N_DTYPES; i++)
        if (strcmp(dtype, dtypes[i].name) == 0)
            shard->dtype = dtypes[i].dtype;
    if ((shard->dtype != MR_DTYPE_DEFAULT || shard->names_dtype) &&
        (!rest || parse_shape(rest, &shard->fixed)))
        return MR_OK;
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "%s has a column of %s, not of tokens: bytes and ndarray, of integers of "
                        "at most 64 bits, are read",
                        shard->source->shown, shard->encoding);
}

/* The bytes of each dimension, as a logarithm. */
static unsigned dimension_log(uint64_t n)
{
    return n >> 8 == 0 ? 0 : n >> 16 == 0 ? 1 : n >> 32 == 0 ? 2 : 3;
}

/*
 * The number of tokens of a sample with len bytes, and its bytes before them. False: no sample of
 * the encoding has that length.
 */
static bool measure(const struct shard *shard, uint64_t len, uint64_t *n_out, uint8_t *head_out,
                    size_t *head_len_out)
{
    const uint64_t size = mr_dtype_size(shard->dtype);
    const uint32_t column = htole32((uint32_t)len - 4);
    *head_len_out = 0;
    if (shard->fixed > 0) {
        *n_out = shard->fixed;
        return len / size == shard->fixed && len % size == 0;
    }
    memcpy(head_out, &column, sizeof column);
    size_t head = sizeof column;
    for (size_t i = 0; shard->names_dtype && i < N_DTYPES; i++)
        if (dtypes[i].dtype == shard->dtype)
            head_out[head++] = dtypes[i].code;
    for (unsigned log = 0; log < 4; log++) {
        *head_len_out = head + (shard->is_array ? 1 + ((size_t)1 << log) : 0);
        *n_out = len > *head_len_out ? (len - *head_len_out) / size : 0;
        if (*n_out == 0 || (len - *head_len_out) % size != 0)
            continue;
        if (!shard->is_array)
            return true;
        const uint64_t dimension = htole64(*n_out);
        head_out[head] = (uint8_t)(1 << 2 | log);
        memcpy(head_out + head + 1, &dimension, (size_t)1 << log);
        if (dimension_log(*n_out) == log)
            return true;
    }
    return false;
}

static mr_status check_sample(const struct shard *shard, uint64_t i, uint64_t *n_out,
                              size_t *head_len_out, mr_error *error)
{
    uint8_t wanted[MAX_HEAD], head[MAX_HEAD];
    const char *shown = shard->source->shown;
    const uint64_t len = offset_of(shard, i + 1) - offset_of(shard, i);
    if (!measure(shard, len, n_out, wanted, head_len_out))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: sample %" PRIu64 " has %" PRIu64
                            " bytes, which are not tokens of %s (%s)",
                            shown, i, len, mr_dtype_name(shard->dtype), shard->encoding);
    if (i > 0 && !shard->names_dtype)
        return MR_OK;
    mr_status status =
        mr_token_source_read(shard->source, offset_of(shard, i), head, *head_len_out, error);
    if (status == MR_OK && memcmp(head, wanted, *head_len_out) != 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: sample %" PRIu64 " does not begin as one dimension of %" PRIu64
                            " tokens of %s (%s)",
                            shown, i, *n_out, mr_dtype_name(shard->dtype), shard->encoding);
    return status;
}

/* The dtype of the first sample. */
static mr_status read_dtype(struct shard *shard, mr_error *error)
{
    uint8_t code = 0;
    const struct mr_token_source *source = shard->source;
    if (source->object)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s has samples that each name a dtype (ndarray), which are not read "
                            "from a URL: write them as ndarray:int32",
                            source->shown);
    mr_status status = MR_OK;
    if (offset_of(shard, 0) + DTYPE_AT < source->size)
        status = mr_token_source_read(source, offset_of(shard, 0) + DTYPE_AT, &code, 1, error);
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].code == code)
            shard->dtype = dtypes[i].dtype;
    if (status == MR_OK && shard->dtype == MR_DTYPE_DEFAULT)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s: sample 0 has the dtype %u of MDS, not one of tokens",
                            source->shown, code);
    return status;
}

/* Samples of one length are one run. */
static mr_status add_runs(const struct shard *shard, struct mr_bytes *runs, mr_error *error)
{
    struct mr_token_run run = {0};
    for (uint64_t i = 0; i < shard->n; i++) {
        uint64_t n, distance = offset_of(shard, i + 1) - offset_of(shard, i);
        size_t head_len;
        mr_status status = check_sample(shard, i, &n, &head_len, error);
        if (status == MR_OK && run.n > 0 && distance != run.distance) {
            status = mr_bytes_append(runs, &run, sizeof run, error);
            run.n = 0;
        }
        if (status != MR_OK)
            return status;
        if (run.n == 0)
            run = (struct mr_token_run){
                .offset = offset_of(shard, i) + head_len, .n_tokens = n, .distance = distance};
        run.n++;
    }
    return run.n > 0 ? mr_bytes_append(runs, &run, sizeof run, error) : MR_OK;
}

mr_status mr_mds_shard_open(const struct mr_token_source *source, mr_dtype asked,
                            mr_dtype *dtype_out, struct mr_bytes *runs, mr_error *error)
{
    struct shard shard = {.source = source};
    mr_status status = read_head(&shard, error);
    if (status == MR_OK)
        status = check_offsets(&shard, error);
    if (status == MR_OK)
        status = take_encoding(&shard, asked, error);
    if (status == MR_OK && shard.names_dtype && shard.n > 0)
        status = read_dtype(&shard, error);
    if (status == MR_OK)
        status = add_runs(&shard, runs, error);
    *dtype_out = shard.dtype;
    free(shard.head);
    return status;
}
