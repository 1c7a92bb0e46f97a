/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a JPEG's header without what decoding does not need: thumbnails, EXIF, colour profiles,
 * comments.
 */
#ifndef TRANSFORMS_JPEG_MARKS_HEAD_H
#define TRANSFORMS_JPEG_MARKS_HEAD_H

#include <stddef.h>
#include <stdint.h>

/*
 * file: the first len bytes of a file that libjpeg has opened, up to its scan's first byte. to:
 * room for the copy, or NULL. Returns the copy's bytes, at most len; 0 if the header has segments
 * that no baseline file has.
 */
size_t mr_marks_head_copy(const uint8_t *file, size_t len, uint8_t *to);

#endif
