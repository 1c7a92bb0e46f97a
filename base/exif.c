/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the orientation tag of an EXIF block in place.
 *
 * Only one entry of the first directory is needed, so only that directory is read. libexif would
 * copy and parse the whole block of every image on the heap, with maker notes and thumbnail.
 *
 * Invariant: every offset and count comes from the file, so each is compared with the bytes left
 * before it is used.
 */
#include "base/exif.h"

#include <stdbool.h>
#include <string.h>

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT 3
#define TYPE_LONG 4
#define ENTRY_BYTES 12

static uint32_t read_u16(const uint8_t *p, bool big)
{
    return big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t read_u32(const uint8_t *p, bool big)
{
    return big ? read_u16(p, big) << 16 | read_u16(p + 2, big)
               : read_u16(p + 2, big) << 16 | read_u16(p, big);
}

static uint32_t read_entry_value(const uint8_t *entry, bool big)
{
    switch (read_u16(entry + 2, big)) {
    case TYPE_SHORT: return read_u16(entry + 8, big);
    case TYPE_LONG: return read_u32(entry + 8, big);
    default: return 0;
    }
}

uint32_t mr_exif_orientation(const uint8_t *tiff, size_t len)
{
    if (len < 8 || (memcmp(tiff, "II*\0", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0))
        return 1;
    bool big = tiff[0] == 'M';
    size_t at = read_u32(tiff + 4, big);
    if (at > len || len - at < 2)
        return 1;
    size_t n_entries = read_u16(tiff + at, big);
    at += 2;
    for (size_t i = 0; i < n_entries && len - at >= ENTRY_BYTES; i++, at += ENTRY_BYTES) {
        if (read_u16(tiff + at, big) != TAG_ORIENTATION)
            continue;
        uint32_t value = read_entry_value(tiff + at, big);
        return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}
