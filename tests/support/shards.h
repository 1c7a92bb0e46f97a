/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar files for tests, built in memory. A failure here ends the test program.
 *
 *   struct mr_test_shard shard = {0};
 *   mr_test_shard_add(&shard, "a.jpg", bytes, len);
 *   mr_test_shard_end(&shard);
 *   ... shard.bytes, shard.len ...
 *   mr_test_shard_free(&shard);
 */
#ifndef TESTS_SUPPORT_SHARDS_H
#define TESTS_SUPPORT_SHARDS_H

#include <stddef.h>
#include <stdint.h>

struct mr_test_shard {
    uint8_t *bytes;
    size_t len;
};

/* A regular member as ustar; the name has fewer than 100 bytes. Returns where its header begins. */
size_t mr_test_shard_add(struct mr_test_shard *shard, const char *name, const void *bytes,
                         size_t len);
/* The same of any type: '5' is a folder, 'x' a pax header, 'L' a long name, 'S' sparse. */
size_t mr_test_shard_add_type(struct mr_test_shard *shard, char type, const char *name,
                              const void *bytes, size_t len);
/* A member with a text, without its final NUL. */
size_t mr_test_shard_add_text(struct mr_test_shard *shard, const char *name, const char *text);
/* Two blocks of zeros. */
void mr_test_shard_end(struct mr_test_shard *shard);
/* Write the checksum of a changed header of 512 bytes. */
void mr_test_shard_sum(uint8_t *header);
void mr_test_shard_free(struct mr_test_shard *shard);

#endif
