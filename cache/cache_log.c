/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and checks the records of a log.
 *
 * Invariant: while a log is being written, its last record may look torn. So a walk ends before it,
 * and the next walk begins there.
 */
#include "cache/cache_log.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/xxh3.h"
#include "dataset/file.h"

/* Bytes that a walk reads at once: several of the largest records. */
enum { WALK_BYTES = 1 << 18 };
/* Most records are shorter, so one read is enough for them. */
enum { FIRST_BYTES = 512 };

uint32_t mr_cache_log_sample_bytes(uint32_t n_rows, uint32_t n_members)
{
    size_t rows = n_rows > 0 ? ((size_t)n_rows + 1) * sizeof(uint32_t) : 0;
    return (uint32_t)(mr_align_up(sizeof(struct mr_cache_sample) + rows, 8) +
                      n_members * sizeof(struct mr_cache_member));
}

const struct mr_cache_member *mr_cache_log_members(const struct mr_cache_sample *sample,
                                                   uint32_t *n_out)
{
    uint32_t start = mr_cache_log_sample_bytes(sample->n_rows, 0);
    *n_out = (sample->head.len_bytes - start) / (uint32_t)sizeof(struct mr_cache_member);
    return (const void *)((const uint8_t *)sample + start);
}

uint64_t mr_cache_log_data_bytes(const struct mr_cache_sample *sample)
{
    uint32_t n;
    uint64_t len = sample->len;
    const struct mr_cache_member *members = mr_cache_log_members(sample, &n);
    for (uint32_t k = 0; k < n; k++)
        len += members[k].len;
    return len;
}

static uint64_t compute_checksum(const struct mr_cache_head *head)
{
    const uint8_t *rest = (const uint8_t *)(head + 1);
    return mr_xxh3_pair(head, offsetof(struct mr_cache_head, checksum), rest,
                        head->len_bytes - sizeof *head);
}

void mr_cache_log_seal(struct mr_cache_head *head)
{
    head->checksum = compute_checksum(head);
}

/* True if a record of this kind may have this length. */
static bool length_fits(const struct mr_cache_head *head)
{
    if (head->kind == MR_CACHE_TEMPLATE)
        return head->len_bytes == sizeof(struct mr_cache_template);
    return head->kind == MR_CACHE_SAMPLE && head->len_bytes % 8 == 0 &&
           head->len_bytes <= MR_CACHE_MAX_RECORD &&
           head->len_bytes >= sizeof(struct mr_cache_sample);
}

/* The record has a known number of members, and their lengths cannot overflow. */
static bool members_fit(const struct mr_cache_sample *sample)
{
    uint32_t start = mr_cache_log_sample_bytes(sample->n_rows, 0), n;
    if (sample->head.len_bytes < start ||
        (sample->head.len_bytes - start) % sizeof(struct mr_cache_member) != 0)
        return false;
    const struct mr_cache_member *members = mr_cache_log_members(sample, &n);
    bool good = n <= MR_MAX_MEMBERS;
    for (uint32_t k = 0; good && k < n; k++)
        good = members[k].len <= UINT32_MAX;
    return good;
}

static bool sample_fits(const struct mr_cache_sample *sample)
{
    bool has_rows = mr_packed_image_has_rows(sample->encoding);
    if (sample->len == 0)
        return sample->encoding == MR_PACKED_JPEG && sample->n_rows == 0 &&
               sample->head.len_bytes == sizeof *sample;
    return sample->len <= UINT32_MAX && (has_rows || sample->encoding == MR_PACKED_JPEG) &&
           has_rows == (sample->n_rows > 0) && sample->n_rows <= MR_CACHE_MAX_ROWS &&
           members_fit(sample);
}

const struct mr_cache_head *mr_cache_log_check(const uint8_t *bytes, size_t len)
{
    const struct mr_cache_head *head = (const void *)bytes;
    if (len < sizeof *head || !length_fits(head) || len < head->len_bytes ||
        head->checksum != compute_checksum(head))
        return NULL;
    if (head->kind == MR_CACHE_SAMPLE && !sample_fits((const void *)bytes))
        return NULL;
    return head;
}

/* False if the file has fewer bytes, or cannot be read. */
static bool read_exactly(int log, uint64_t at, uint8_t *out, size_t len)
{
    size_t n;
    return mr_file_read_at(log, at, out, len, &n) == 0 && n == len;
}

bool mr_cache_log_read(int log, uint64_t at, uint32_t kind, uint8_t *buffer)
{
    size_t n;
    const struct mr_cache_head *head = (const void *)buffer;
    if (at > INT64_MAX - MR_CACHE_MAX_RECORD ||
        mr_file_read_at(log, at, buffer, FIRST_BYTES, &n) != 0)
        return false;
    if (n < sizeof *head || head->kind != kind || !length_fits(head))
        return false;
    if (head->len_bytes > n &&
        (n < FIRST_BYTES || !read_exactly(log, at + n, buffer + n, head->len_bytes - n)))
        return false;
    return mr_cache_log_check(buffer, head->len_bytes) != NULL;
}

void mr_cache_log_make_head(uint64_t id, struct mr_cache_log_head *head_out)
{
    *head_out = (struct mr_cache_log_head){
        .magic = MR_CACHE_LOG_MAGIC, .version = MR_CACHE_VERSION, .id = id};
    head_out->checksum = mr_xxh3(head_out, offsetof(struct mr_cache_log_head, checksum));
}

bool mr_cache_log_read_head(int log, uint64_t id)
{
    struct mr_cache_log_head head;
    return read_exactly(log, 0, (uint8_t *)&head, sizeof head) &&
           head.magic == MR_CACHE_LOG_MAGIC && head.version == MR_CACHE_VERSION && head.id == id &&
           head.checksum == mr_xxh3(&head, offsetof(struct mr_cache_log_head, checksum));
}

int mr_cache_log_walk(int log, uint64_t *at, mr_cache_log_seen *seen, void *user)
{
    uint8_t *buffer = malloc(WALK_BYTES);
    int rc = buffer ? 0 : -ENOMEM;
    size_t n = WALK_BYTES, used = WALK_BYTES;
    while (rc == 0 && n == WALK_BYTES && used > 0) {
        const struct mr_cache_head *head;
        used = 0;
        rc = mr_file_read_at(log, *at, buffer, WALK_BYTES, &n);
        while (rc == 0 && (head = mr_cache_log_check(buffer + used, n - used))) {
            seen(user, *at + used, head);
            used += head->len_bytes;
        }
        *at += used;
    }
    free(buffer);
    return rc;
}
