/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file `marks` of a pack that is being written: the samples' marks, one behind the other, each at a multiple of 8.
 * The file is made with the first of them. As in shards, bytes count once the journal has a record of them.
 */
#ifndef PACKS_PACK_MARKS_H
#define PACKS_PACK_MARKS_H

#include "packs/pack_draft.h"

/* Append a sample's marks. They do not count yet; after a failure the file is as before. */
mr_status mr_pack_marks_append(struct mr_pack_draft *draft, const uint8_t *marks, size_t len,
                               struct mr_pack_record_marks *marks_out, mr_error *error);
/* Drop what does not count, to give a full disk its room back. */
void mr_pack_marks_drop(const struct mr_pack_draft *draft);
mr_status mr_pack_marks_sync(const struct mr_pack_draft *draft, mr_error *error);

/* Do they follow from those that count? */
bool mr_pack_marks_follow(const struct mr_pack_draft *draft, const struct mr_pack_marks *place);
/*
 * Cut the file to what counts and leave it open, or remove it where nothing does. has_begun: the pack's journal was
 * there, so the file is the pack's own.
 */
mr_status mr_pack_marks_cut(struct mr_pack_draft *draft, bool has_begun, mr_error *error);

#endif
