/* SPDX-License-Identifier: Apache-2.0 */
/* Names of samples on the way into a pack and out of it again. */
#ifndef PACKS_PACK_SAMPLE_NAME_H
#define PACKS_PACK_SAMPLE_NAME_H

#include "base/packed_image.h"
#include "dataset/catalog.h"

#define MR_PACK_SAMPLE_NAME_JPEG ".jpg"
#define MR_PACK_SAMPLE_NAME_PNG ".png"

/*
 * The name by which a sample is packed: its file's path without what would lead out of a folder,
 * that is a slash at the start and everything up to the last "..", as tar does. ending: NULL, or
 * one that the name gets where it has none of that kind.
 */
void mr_pack_sample_name_in_pack(const struct mr_catalog *catalog, int64_t index,
                                 const char *ending, char name_out[MR_CATALOG_PATH]);

/* Does the path stay below the folder it is used in, and end with the name of a file? */
bool mr_pack_sample_name_is_safe(const char *name);

/*
 * The ending that is added to a sample's name for the file made from it; "" if the name stays.
 */
const char *mr_pack_sample_name_ending(const char *name, const struct mr_packed_image *image);

/* The SPEC of the pack in a folder; to be freed. NULL: no memory. */
char *mr_pack_sample_name_spec(const char *dir);

#endif
