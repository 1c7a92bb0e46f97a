/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of a dataset's images by their headers. They are kept in the user's cache folder, so
 * the next loader reads no header of a file that has not changed since.
 */
#ifndef LOADER_HEADER_SIZES_H
#define LOADER_HEADER_SIZES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "dataset/catalog_format.h"
#include "dataset/dataset.h"

struct mr_header_sizes {
    const mr_dataset *dataset;
    bool upright;
    uint64_t key;              /* of the dataset */
    struct mr_kept_size *kept; /* by sample; NULL: nothing is kept of this dataset */
    _Atomic bool changed;
};

/* upright: images are turned by their EXIF orientation. Call fini in any case. */
void mr_header_sizes_load(struct mr_header_sizes *sizes_out, const mr_dataset *dataset,
                          bool upright);
/*
 * Zeros: the header does not say a size, or cannot be read. MR_ERR_IO: a server does not send it
 * now, but another rank may have got it. Threads: any, one for each index.
 */
mr_status mr_header_sizes_find(struct mr_header_sizes *sizes, int64_t index,
                               struct mr_catalog_size *size_out, mr_error *error);
/* Keep the sizes if one was read. A failure is ignored: they are read again next time. */
void mr_header_sizes_save(const struct mr_header_sizes *sizes);
void mr_header_sizes_fini(struct mr_header_sizes *sizes);

#endif
