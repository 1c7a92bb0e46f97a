/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a JPEG file from a packed sample of coefficients: the original file, byte for byte, from what was kept beside
 * the sample, or another file with the same pixels.
 *
 * The bytes beside a sample are: u8 1 | u8 flags | u16 0 | u32 n | the file's first n bytes, up to the data of its one
 * scan | all bytes behind that scan. The scan itself is made from the coefficients and the tables in those first bytes.
 */
#ifndef PACKS_PACKER_RESTORE_H
#define PACKS_PACKER_RESTORE_H

#include "packs/packer_bytes.h"
#include "packs/packer_head.h"

/* The last bits of a scan, and those before a restart, are zeros; the standard wants ones. */
#define MR_BESIDE_ZEROS 1u

/*
 * Collect what is kept beside the sample of a file whose header has been read. MR_ERR_UNSUPPORTED if its scan cannot be
 * made again.
 */
mr_status mr_packer_restore_keep(const uint8_t *file, size_t len, const struct mr_packer_head *head, uint32_t flags,
                                 struct mr_packer_bytes *beside, mr_error *error);

/* Both: image has been checked, bytes are the whole sample with slack; blocks: scratch, MR_TILE_MAX_BLOCKS, 64-aligned.
 */
mr_status mr_packer_restore_exact(const struct mr_packed_image *image, const uint8_t *bytes, const uint8_t *beside,
                                  size_t beside_len, int16_t (*blocks)[64], struct mr_packer_bytes *out,
                                  mr_error *error);
mr_status mr_packer_restore_same(const struct mr_packed_image *image, const uint8_t *bytes, int16_t (*blocks)[64],
                                 struct mr_packer_bytes *out, mr_error *error);

#endif
