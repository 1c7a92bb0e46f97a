/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the index of a pack. All its shards must have a part. */
#ifndef PACKS_PACK_INDEX_SAVE_H
#define PACKS_PACK_INDEX_SAVE_H

#include "packs/pack_draft.h"

/* Write DIR/index from the parts: temporary name, sync, rename. */
mr_status mr_pack_index_save(struct mr_pack_draft *draft, mr_error *error);

#endif
