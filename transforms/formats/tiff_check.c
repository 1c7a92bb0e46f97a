/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a TIFF's first directory, and the JPEGs and xz streams in it. */
#include "transforms/formats/tiff_check.h"

#include <inttypes.h>

/*
 * libtiff needs some 20 microseconds for each unknown tag. Photographs by cameras have about 100
 * tags.
 */
#define MAX_TAGS 512
#define PHOTOMETRIC 262
#define EXTRA_SAMPLES 338
/* (2 | bits % 2) << (bits / 2 + 11) bytes: MR_TIFF_MAX_WINDOW_BYTES. */
#define MAX_DICTIONARY 30
#define MAX_EXTRA 16 /* more count as none: no kind of pixels has so many */

struct reader {
    const uint8_t *bytes;
    size_t len;
    bool big_endian;
};

static uint64_t read_number(const struct reader *reader, size_t at, uint32_t n_bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < n_bytes; i++)
        value |= (uint64_t)reader->bytes[at + i] << 8 * (reader->big_endian ? n_bytes - 1 - i : i);
    return value;
}

static mr_status refuse(mr_error *error, const char *what)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %s", what);
}

static mr_status refuse_tag(mr_error *error, uint64_t tag, const char *what)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: tag %" PRIu64 " %s", tag, what);
}

static uint64_t value_bytes(uint64_t type)
{
    static const uint8_t bytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

static bool is_needed(uint64_t tag)
{
    static const uint16_t needed[] = {256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279,
                                      284, 317, 320, 322, 323, 324, 325, 338, 339, 347, 530};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (needed[i] == tag)
            return true;
    }
    return false;
}

/*
 * Values beyond the end of the file are ignored if libtiff does not need them: it cannot read them.
 */
static mr_status check_entry(struct mr_tiff_check *check, const struct reader *reader, size_t at,
                             uint32_t word, mr_error *error)
{
    uint64_t tag = read_number(reader, at, 2), type = read_number(reader, at + 2, 2),
             place = at + 4 + word;
    uint64_t n = read_number(reader, at + 4, word), each = value_bytes(type);
    if (each == 0)
        return is_needed(tag) ? refuse_tag(error, tag, "has no known type") : MR_OK;
    bool fits = n <= reader->len / each;
    if (fits && n * each > word) {
        place = read_number(reader, place, word);
        fits = place <= reader->len && n * each <= reader->len - place;
        check->tag_bytes += fits ? n * each : 0;
    }
    if (!fits)
        return is_needed(tag) ? refuse_tag(error, tag, "is beyond the end of the file") : MR_OK;
    if (tag == PHOTOMETRIC && n > 0)
        check->colours = (uint16_t)read_number(reader, place, (uint32_t)each);
    if (tag == EXTRA_SAMPLES && n > 0 && n <= MAX_EXTRA) {
        check->n_extra = (uint32_t)n;
        check->first_extra = (uint16_t)read_number(reader, place, (uint32_t)each);
        check->others_zero = true;
        for (uint64_t i = 1; i < n; i++)
            check->others_zero &= read_number(reader, place + i * each, (uint32_t)each) == 0;
    }
    return MR_OK;
}

mr_status mr_tiff_check_directory(struct mr_tiff_check *check, const uint8_t *bytes, size_t len,
                                  mr_error *error)
{
    struct reader reader = {bytes, len, bytes[0] == 'M'};
    *check = (struct mr_tiff_check){.big_endian = reader.big_endian};
    bool wide = bytes[reader.big_endian ? 3 : 2] == 43; /* BigTIFF: words of eight bytes */
    uint32_t word = wide ? 8 : 4, count = wide ? 8 : 2, entry = 4 + 2 * word;
    if (len < 2 * word)
        return refuse(error, "the file ends in its header");
    uint64_t at = read_number(&reader, word, word);
    if (at > len || len - at < count)
        return refuse(error, "the directory is beyond the end of the file");
    uint64_t n = read_number(&reader, at, count);
    if ((len - at - count) / entry < n)
        return refuse(error, "the directory is beyond the end of the file");
    if (n > MAX_TAGS)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "TIFF: %" PRIu64 " tags are above the limit of %d", n, MAX_TAGS);
    mr_status status = MR_OK;
    for (at += count; status == MR_OK && n > 0; n--, at += entry)
        status = check_entry(check, &reader, at, word, error);
    if (status == MR_OK && check->tag_bytes > len)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "TIFF: its tags have %" PRIu64 " bytes, the file only %zu",
                            check->tag_bytes, len);
    return status;
}

bool mr_tiff_check_jpeg(const uint8_t *bytes, size_t len)
{
    uint32_t n_components = 0;
    for (size_t at = 2; len >= 4 && at <= len - 4 && bytes[at] == 0xff;) {
        uint32_t marker = bytes[at + 1], n = (uint32_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (marker < 0xc0 || marker == 0xff || (marker >= 0xd0 && marker <= 0xd9) ||
            n > len - at - 2)
            return false;
        if (marker == 0xda) /* the scan */
            return n >= 3 && n_components > 0 && n_components == bytes[at + 4];
        if (marker == 0xc0 || marker == 0xc1) /* a frame of one scan or of several */
            n_components = n >= 8 ? bytes[at + 9] : 0;
        at += 2 + n;
    }
    return false;
}

/* The bytes as libtiff unpacks them; 0 after the end. */
struct xz {
    const uint8_t *bytes;
    size_t len;
    bool reversed;
};

static uint32_t read_xz(const struct xz *xz, size_t at)
{
    uint32_t byte = at < xz->len ? xz->bytes[at] : 0;
    if (!xz->reversed)
        return byte;
    byte = (byte & 0x55) << 1 | (byte >> 1 & 0x55);
    byte = (byte & 0x33) << 2 | (byte >> 2 & 0x33);
    return (byte & 0x0f) << 4 | byte >> 4;
}

/* Check the header of a block. liblzma knows no filter with a number of several bytes. */
static bool is_small_block(const struct xz *xz, size_t at, size_t end)
{
    uint32_t flags = read_xz(xz, at + 1);
    at += 2;
    for (uint32_t n_sizes = (flags >> 6 & 1) + (flags >> 7); n_sizes > 0 && at < end; at++)
        n_sizes -= read_xz(xz, at) < 128;
    for (uint32_t n = (flags & 3) + 1; n > 0; n--) {
        uint32_t filter = read_xz(xz, at), n_bytes = read_xz(xz, at + 1);
        if (filter >= 128 || n_bytes >= 128 ||
            (filter == 0x21 && read_xz(xz, at + 2) > MAX_DICTIONARY))
            return false;
        at += 2 + n_bytes;
    }
    return at <= end;
}

bool mr_tiff_check_xz(const uint8_t *bytes, size_t len, bool reversed)
{
    static const uint8_t check_bytes[16] = {0,  4,  4,  4,  8,  8,  8,  16,
                                            16, 16, 32, 32, 32, 64, 64, 64};
    struct xz xz = {bytes, len, reversed};
    uint32_t n_words, kind;
    for (size_t at = 12; (n_words = read_xz(&xz, at)) != 0;) { /* 0: the index */
        size_t end = at + (n_words + 1) * 4;
        if (!is_small_block(&xz, at, end))
            return false;
        for (at = end; (kind = read_xz(&xz, at)) != 0;) { /* chunks: plain ones, packed ones */
            if (kind > 2 && kind < 0x80)
                return false;
            size_t size_at = at + (kind > 2 ? 3 : 1);
            at = size_at + 2 + (kind >= 0xc0) + 1 +
                 (read_xz(&xz, size_at) << 8 | read_xz(&xz, size_at + 1));
        }
        at = (at + 1 + 3) / 4 * 4 + check_bytes[read_xz(&xz, 7) & 15];
    }
    return true;
}
