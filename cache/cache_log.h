/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a cache: its records, in memory and in the file. Nothing in a file is trusted before
 * its checksum is verified, and even then sizes are checked.
 */
#ifndef CACHE_CACHE_LOG_H
#define CACHE_CACHE_LOG_H

#include "cache/cache_format.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns the record at bytes (8-aligned), or NULL if there is no whole and valid one. */
const struct mr_cache_head *mr_cache_log_check(const uint8_t *bytes, size_t len);

/* Write the checksum of a record that is otherwise complete. */
void mr_cache_log_seal(struct mr_cache_head *head);

/*
 * Bytes of the record of a sample with n_rows rows (0: without a table of rows) and n_members
 * further members.
 */
uint32_t mr_cache_log_sample_bytes(uint32_t n_rows, uint32_t n_members);
/* The further members in a valid record. */
const struct mr_cache_member *mr_cache_log_members(const struct mr_cache_sample *sample,
                                                   uint32_t *n_out);
/* Bytes in the data file of the sample and its members, of a valid record. */
uint64_t mr_cache_log_data_bytes(const struct mr_cache_sample *sample);

static inline const uint32_t *mr_cache_log_rows(const struct mr_cache_sample *sample)
{
    return (const uint32_t *)(const void *)(sample + 1);
}

/*
 * Read the record at offset `at` into buffer (MR_CACHE_MAX_RECORD bytes, 8-aligned). False if there
 * is no valid record of this kind, or reading fails.
 */
bool mr_cache_log_read(int log, uint64_t at, uint32_t kind, uint8_t *buffer);

/* Check the head at the start of a log. False if it is not valid or has another id. */
bool mr_cache_log_read_head(int log, uint64_t id);
void mr_cache_log_make_head(uint64_t id, struct mr_cache_log_head *head_out);

/*
 * Visit the records from *at, up to the first that is invalid or incomplete, and move *at to the
 * end of the last valid one. Returns 0 or a negative errno.
 */
typedef void mr_cache_log_seen(void *user, uint64_t at, const struct mr_cache_head *head);
int mr_cache_log_walk(int log, uint64_t *at, mr_cache_log_seen *seen, void *user);

#endif
