/* SPDX-License-Identifier: Apache-2.0 */
/* Names of samples, for packing and for unpacking. */
#ifndef PACKS_PACK_SAMPLE_NAME_H
#define PACKS_PACK_SAMPLE_NAME_H

#include "base/packed_image.h"
#include "dataset/catalog.h"

#define MR_PACK_SAMPLE_NAME_JPEG ".jpg"
#define MR_PACK_SAMPLE_NAME_PNG ".png"

/*
 * The name of a sample in the pack: its file's path without the parts that would lead out of a
 * folder, which are slashes at the start and everything up to the last "..", as in tar. ending:
 * NULL, or an ending that is added unless the name already ends like a JPEG file.
 */
void mr_pack_sample_name_in_pack(const struct mr_catalog *catalog, int64_t index,
                                 const char *ending, char name_out[MR_CATALOG_PATH]);

/* True if the path stays inside the folder where it is used, and ends with the name of a file. */
bool mr_pack_sample_name_is_safe(const char *name);

/* The ending to add to a sample's name for the file made from it; "" if none is needed. */
const char *mr_pack_sample_name_ending(const char *name, const struct mr_packed_image *image);

/* The SPEC of the pack in a folder. Ownership: the caller frees it. NULL: no memory. */
char *mr_pack_sample_name_spec(const char *dir);

#endif
