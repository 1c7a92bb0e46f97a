/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a finished shard, DIR/shard-00000.part, holds the index entries of the shard's
 * samples. It is renamed into place after the shard and the marks are on the disk, so a shard with
 * a part is complete.
 */
#ifndef PACKS_PACK_PART_H
#define PACKS_PACK_PART_H

#include "packs/pack_draft.h"

/*
 * Sync the marks and the shard that is being written, save the shard's part, and close the shard.
 */
mr_status mr_pack_part_save(struct mr_pack_draft *draft, mr_error *error);
/*
 * Count the next shard if it is complete. MR_END: it has no part, or shard, marks and part do not
 * match. MR_ERR_NO_MEMORY.
 */
mr_status mr_pack_part_load(struct mr_pack_draft *draft, mr_error *error);
/*
 * Open a part that was saved or loaded. *off_out and *len_out: where this section is in the file.
 * Ownership: the caller closes *fd_out. MR_ERR_IO.
 */
mr_status mr_pack_part_open(const struct mr_pack_draft *draft, uint32_t shard,
                            enum mr_pack_section which, int *fd_out, uint64_t *off_out,
                            uint64_t *len_out, mr_error *error);
/* Remove the parts and shards from this shard to the first gap; if parts_only, only the parts. */
mr_status mr_pack_part_remove(const struct mr_pack_draft *draft, uint32_t first, bool parts_only,
                              mr_error *error);

#endif
