/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libjpeg must know about a packed JPEG before it makes its tables and buffers: a header of a
 * few bytes, made from the template, and tables that are filled in directly.
 */
#ifndef TRANSFORMS_PACKED_HEADER_H
#define TRANSFORMS_PACKED_HEADER_H

#include "base/packed_image.h"
#include "transforms/jpeg_box.h"

/* SOI, SOF with four components, SOS. */
#define MR_PACKED_HEADER_BYTES (2 + 10 + 3 * 4 + 8 + 2 * 4)

struct mr_packed_header {
    struct jpeg_source_mgr source;
    uint8_t bytes[MR_PACKED_HEADER_BYTES];
};

void mr_packed_header_init(struct mr_packed_header *header);

/*
 * Inside a step, like jpeg_read_header(), for a decompressor that has been created; afterwards it
 * is ready to start. image has been checked. header must not move until the decompressor is
 * destroyed.
 */
void mr_packed_header_read(struct mr_packed_header *header, j_decompress_ptr cinfo,
                           const struct mr_packed_image *image);

/*
 * The other direction: the template of a file that libjpeg has opened and started. Unused bytes are
 * zeros. MR_ERR_UNSUPPORTED if a pack cannot have its layout or colours.
 */
mr_status mr_packed_header_describe(const struct jpeg_decompress_struct *cinfo,
                                    struct mr_packed_template *template, mr_error *error);

#endif
