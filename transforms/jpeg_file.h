/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JPEG file in memory, opened by libjpeg: its source, its header with the EXIF orientation, and
 * the limits. The caller decodes it, with jpeg_box.h or otherwise.
 */
#ifndef TRANSFORMS_JPEG_FILE_H
#define TRANSFORMS_JPEG_FILE_H

#include "transforms/jpeg_box.h"

/* The first member of a codec's state, so a pointer to its box is a pointer to all of it. */
struct mr_jpeg_file {
    struct mr_jpeg_box box;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct mr_codec_limits limits;
    /*
     * Called inside a step when an arithmetic decoder has no more data. The decoder would continue
     * with zeros and not report it. It looks only a few bytes ahead, so its data end here.
     */
    void (*on_data_end)(struct mr_jpeg_file *file);
    uint32_t orientation; /* 0 if EXIF gives none */
    bool in_header;       /* no pixel can be complete yet */
    int n_scans;          /* begun and counted so far, if the file has several */
    uint64_t scan_blocks; /* blocks that they visit */
    bool ran_out;         /* libjpeg was given an end-of-image marker that is not in the data */
};

/* file is zeros; on_message becomes libjpeg's emit_message. mr_jpeg_box_fini() ends it. */
void mr_jpeg_file_init(struct mr_jpeg_file *file, const struct mr_codec_limits *limits,
                       void (*on_message)(j_common_ptr cinfo, int level),
                       void (*on_data_end)(struct mr_jpeg_file *file));

/*
 * Read the header, then check the limits; many_scans as in mr_jpeg_box_check(). bytes must stay
 * valid until the decompressor is destroyed. After both have succeeded the caller destroys it; if
 * one fails, it is already destroyed.
 */
mr_status mr_jpeg_file_read(struct mr_jpeg_file *file, const uint8_t *bytes, size_t len,
                            mr_error *error);
mr_status mr_jpeg_file_check(struct mr_jpeg_file *file, bool many_scans,
                             struct mr_image_head *head_out, mr_error *error);

/*
 * Inside a step, after all scans were read: false if a progressive file ends properly but lacks
 * bits. A component without a scan, and bits missing because the file ended, are missing data: then
 * it does not return but leaves the step.
 */
bool mr_jpeg_file_has_every_bit(struct mr_jpeg_file *file);

#endif
