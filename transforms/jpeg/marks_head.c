/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a header's segments. Of the application segments libjpeg uses only JFIF's and Adobe's, and
 * of these only the bytes that are copied here.
 */
#include "transforms/jpeg/marks_head.h"

#include <stdbool.h>
#include <string.h>

#define MARKER 0xff
#define SOI 0xd8
#define SOF0 0xc0
#define SOF1 0xc1
#define DHT 0xc4
#define SOS 0xda
#define DQT 0xdb
#define DRI 0xdd
#define APP0 0xe0
#define APP14 0xee
#define APP15 0xef
#define COM 0xfe
#define JFIF_BYTES 16 /* with their length; the last two are the sides of a thumbnail */
#define ADOBE_BYTES 14

struct copy {
    uint8_t *to; /* or NULL */
    size_t len;
};

static void put_bytes(struct copy *copy, const uint8_t *bytes, size_t n)
{
    if (copy->to)
        memcpy(copy->to + copy->len, bytes, n);
    copy->len += n;
}

/* segment: len bytes, from its length field on. */
static void put_segment(struct copy *copy, uint8_t marker, const uint8_t *segment, size_t len)
{
    put_bytes(copy, (const uint8_t[]){MARKER, marker}, 2);
    put_bytes(copy, segment, len);
}

/* Put the first n bytes, at most 16, as a segment. */
static void put_start(struct copy *copy, uint8_t marker, const uint8_t *segment, size_t n)
{
    uint8_t start[JFIF_BYTES] = {0, (uint8_t)n};
    memcpy(start + 2, segment + 2, n - 2);
    if (marker == APP0)
        memset(start + JFIF_BYTES - 2, 0, 2);
    put_segment(copy, marker, start, n);
}

/* False if no baseline file's header has this segment. */
static bool copy_segment(struct copy *copy, uint8_t marker, const uint8_t *segment, size_t len)
{
    switch (marker) {
    case SOF0:
    case SOF1:
    case DHT:
    case DQT:
    case DRI:
    case SOS: put_segment(copy, marker, segment, len); return true;
    case APP0:
        if (len >= JFIF_BYTES && memcmp(segment + 2, "JFIF", 5) == 0)
            put_start(copy, marker, segment, JFIF_BYTES);
        return true;
    case APP14:
        if (len >= ADOBE_BYTES && memcmp(segment + 2, "Adobe", 5) == 0)
            put_start(copy, marker, segment, ADOBE_BYTES);
        return true;
    default: return marker == COM || (marker > APP0 && marker <= APP15);
    }
}

size_t mr_marks_head_copy(const uint8_t *file, size_t len, uint8_t *to)
{
    struct copy copy = {.to = to};
    if (len < 2 || file[0] != MARKER || file[1] != SOI)
        return 0;
    put_bytes(&copy, file, 2);
    for (size_t at = 2; at < len;) {
        bool begins = file[at] == MARKER;
        while (at < len && file[at] == MARKER) /* any number of fill bytes */
            at++;
        if (!begins || len - at < 3)
            return 0;
        uint8_t marker = file[at++];
        size_t segment_len = (size_t)file[at] << 8 | file[at + 1];
        if (segment_len < 2 || segment_len > len - at ||
            !copy_segment(&copy, marker, file + at, segment_len))
            return 0;
        at += segment_len;
        if (marker == SOS)
            return at == len ? copy.len : 0;
    }
    return 0;
}
