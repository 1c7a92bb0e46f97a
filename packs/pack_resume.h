/* SPDX-License-Identifier: Apache-2.0 */
/* Begins a pack, or continues an interrupted one. */
#ifndef PACKS_PACK_RESUME_H
#define PACKS_PACK_RESUME_H

#include "packs/pack_draft.h"

/*
 * Lock the folder's file `unfinished`, count the complete shards, and remove everything after them.
 * MR_END: the folder holds the complete pack. MR_ERR_INVALID: it holds another pack or a part of
 * one, or files that do not belong to a pack, or another process is packing into it. MR_ERR_IO,
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_pack_resume(struct mr_pack_draft *draft, mr_error *error);
/* After the pack is complete: remove the files that only resuming needs. */
void mr_pack_resume_clean(const struct mr_pack_draft *draft);

#endif
