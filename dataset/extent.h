/* SPDX-License-Identifier: Apache-2.0 */
/* A range of bytes in one of the files of a dataset. */
#ifndef DATASET_EXTENT_H
#define DATASET_EXTENT_H

#include <stdint.h>

struct mr_extent {
    uint64_t file; /* number for mr_catalog_path() */
    uint64_t offset;
    uint64_t len; /* MR_LEN_UNKNOWN: to the end of the file */
};
#define MR_LEN_UNKNOWN UINT64_MAX
#define MR_CATALOG_MAX_EXTENTS 4   /* of one sample */
#define MR_MAX_MEMBERS 3           /* of a sample, beside its image */
#define MR_CATALOG_PATH 4096       /* bytes of a path, with its NUL */
#define MR_CATALOG_DESCRIPTION 640 /* bytes of the name of a sample in a message, with its NUL */

#endif
