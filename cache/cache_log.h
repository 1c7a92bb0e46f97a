/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a cache: its records in memory and in the file. Nothing in a file is trusted before
 * its checksum is verified, and sizes are checked after that too.
 */
#ifndef CACHE_CACHE_LOG_H
#define CACHE_CACHE_LOG_H

#include "cache/cache_format.h"

#include <stdbool.h>
#include <stddef.h>

/* The record at bytes (8-aligned), if a whole and right one is there; else NULL. */
const struct mr_cache_head *mr_cache_log_check(const uint8_t *bytes, size_t len);

/* Fill in the checksum of a record that is complete otherwise. */
void mr_cache_log_seal(struct mr_cache_head *head);

/*
 * The bytes of the record of a sample with so many rows; n_rows 0: of one that has no table of
 * rows.
 */
uint32_t mr_cache_log_sample_bytes(uint32_t n_rows);

static inline const uint32_t *mr_cache_log_rows(const struct mr_cache_sample *sample)
{
    return (const uint32_t *)(const void *)(sample + 1);
}

/*
 * Read the record at a place into buffer (MR_CACHE_MAX_RECORD bytes, 8-aligned). False where there
 * is none of this kind, or reading fails.
 */
bool mr_cache_log_read(int log, uint64_t at, uint32_t kind, uint8_t *buffer);

/* The head at the start of a log: false unless it is one, with this id. */
bool mr_cache_log_read_head(int log, uint64_t id);
void mr_cache_log_make_head(uint64_t id, struct mr_cache_log_head *head_out);

/*
 * Go through the records from *at on, up to the first that is not right or not there yet; *at is
 * moved behind the last right one. Returns 0, or a negative errno.
 */
typedef void mr_cache_log_seen(void *user, uint64_t at, const struct mr_cache_head *head);
int mr_cache_log_walk(int log, uint64_t *at, mr_cache_log_seen *seen, void *user);

#endif
