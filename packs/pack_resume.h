/* SPDX-License-Identifier: Apache-2.0 */
/* Continues an interrupted pack, or begins a new one. */
#ifndef PACKS_PACK_RESUME_H
#define PACKS_PACK_RESUME_H

#include "packs/pack_draft.h"

/*
 * Begin a pack, or find out how far it is: count the samples that the folder holds, cut off what is not whole, and
 * leave the last shard open.
 */
mr_status mr_pack_resume(struct mr_pack_draft *draft, mr_error *error);

#endif
