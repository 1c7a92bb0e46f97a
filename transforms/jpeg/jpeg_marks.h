/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marks of a JPEG file say where in its one scan each 16th MCU of each row begins, and from
 * which DC coefficients decoding continues there. With them a crop is decoded from its own bytes
 * alone. They are stored apart from the file, as
 *
 * - u64: XXH3 of all that follows
 * - u32: bytes of the head
 * - u32: offset of the scan
 * - u32: marks
 * - u32: components
 * - the head: the segments of the file's header that decoding needs
 * - of each mark, u32: its bit, counted from the scan's first
 * - of each mark and component, i16: the last DC coefficient, 0 after a restart marker
 *
 * in little-endian numbers. The offset is that of the first byte after the file's header. Rows
 * begin with a mark: a row of n MCUs has ceil(n / 16) of them.
 */
#ifndef TRANSFORMS_JPEG_JPEG_MARKS_H
#define TRANSFORMS_JPEG_JPEG_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_JPEG_MARKS_MCUS 16                            /* from one mark to the next */
#define MR_JPEG_MARKS_MAX_SCAN ((UINT64_C(1) << 29) - 1) /* bytes, whose bits 32 bits can count */

struct mr_jpeg_marks {
    const uint8_t *bytes; /* all of them */
    uint32_t head_len;
    uint32_t scan_at; /* bytes of the file before the scan */
    uint32_t n_marks;
    uint32_t n_components; /* 1 to 4 */
};

struct mr_jpeg_mark {
    uint64_t at;  /* byte of the file */
    uint32_t bit; /* of this byte, 0 to 7, the highest first */
    int32_t predict[4];
};

/* False unless these are marks as they were written. They may still not fit any file. */
bool mr_jpeg_marks_parse(const uint8_t *bytes, size_t len, struct mr_jpeg_marks *marks_out);

const uint8_t *mr_jpeg_marks_head(const struct mr_jpeg_marks *marks);
/* number is below n_marks. */
uint64_t mr_jpeg_marks_byte(const struct mr_jpeg_marks *marks, uint32_t number);
struct mr_jpeg_mark mr_jpeg_marks_get(const struct mr_jpeg_marks *marks, uint32_t number);

/*
 * To write marks: bytes() gives their length for these numbers. begin() writes the numbers and
 * returns where the head goes, put() writes one mark, end() writes the checksum.
 */
uint64_t mr_jpeg_marks_bytes(const struct mr_jpeg_marks *marks);
uint8_t *mr_jpeg_marks_begin(const struct mr_jpeg_marks *marks, uint8_t *to);
void mr_jpeg_marks_put(const struct mr_jpeg_marks *marks, uint8_t *to, uint32_t number,
                       const struct mr_jpeg_mark *mark);
void mr_jpeg_marks_end(const struct mr_jpeg_marks *marks, uint8_t *to);

#endif
