/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a JPEG's header from marker to marker, up to the first scan. Any number of 0xff may precede a marker, and stray
 * bytes may lie between two.
 *
 * Invariant: a value of a segment is read only after it is known to lie inside the segment.
 */
#include "packs/packer_head.h"

#include <string.h>

enum { SOF0 = 0xc0, SOF1 = 0xc1, DHT = 0xc4, RST0 = 0xd0, RST7 = 0xd7, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DRI = 0xdd };
#define TEM 0x01

struct reader {
    const uint8_t *bytes;
    size_t len;
    size_t at;
    struct mr_packer_head *head;
    uint8_t ids[MR_PACKED_MAX_COMPONENTS];
    bool has_frame;
    bool fits; /* nothing was met that is not sequential or not in order */
};

static uint32_t read_u16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

/* The next marker's second byte, 0 where there is none. */
static uint8_t next_marker(struct reader *r)
{
    while (r->at < r->len) {
        const uint8_t *found = memchr(r->bytes + r->at, 0xff, r->len - r->at);
        if (!found)
            return 0;
        r->at = (size_t)(found - r->bytes);
        while (r->at < r->len && r->bytes[r->at] == 0xff)
            r->at++;
        if (r->at < r->len && r->bytes[r->at] != 0)
            return r->bytes[r->at++];
    }
    return 0;
}

/* SOFn: precision, height, width, components. */
static void read_frame(struct reader *r, uint8_t marker, const uint8_t *segment, size_t len)
{
    struct mr_packer_head *head = r->head;
    r->fits &= (marker == SOF0 || marker == SOF1) && !r->has_frame && len >= 6;
    r->has_frame = true;
    if (!r->fits)
        return;
    head->n_components = segment[5];
    r->fits = head->n_components >= 1 && head->n_components <= MR_PACKED_MAX_COMPONENTS &&
              len == 6 + 3 * (size_t)head->n_components;
    for (uint32_t c = 0; r->fits && c < head->n_components; c++) {
        const uint8_t *component = segment + 6 + 3 * (size_t)c;
        r->ids[c] = component[0];
        head->h[c] = component[1] >> 4;
        head->v[c] = component[1] & 15;
    }
}

static void read_tables(struct reader *r, const uint8_t *segment, size_t len)
{
    struct mr_packer_head *head = r->head;
    while (len > 0) {
        uint32_t class = segment[0] >> 4, number = segment[0] & 15, n = 0;
        for (uint32_t i = 1; len >= 17 && i <= 16; i++)
            n += segment[i];
        if (len < 17 || n > 256 || len - 17 < n || class > 1 || number >= MR_HUFFMAN_TABLES) {
            r->fits = false;
            return;
        }
        struct mr_huffman_spec *spec = class ? &head->ac_tables[number] : &head->dc_tables[number];
        (class ? head->has_ac : head->has_dc)[number] = true;
        memset(spec, 0, sizeof *spec);
        memcpy(spec->counts, segment, 17);
        spec->counts[0] = 0;
        memcpy(spec->symbols, segment + 17, n);
        segment += 17 + n;
        len -= 17 + n;
    }
}

/* SOS: components with their tables, then the spectrum, which is all of it in a sequential scan. */
static void read_scan(struct reader *r, const uint8_t *segment, size_t len)
{
    struct mr_packer_head *head = r->head;
    uint32_t n = head->n_components;
    r->fits &= r->has_frame && n > 0 && len == 4 + 2 * (size_t)n && segment[0] == n;
    for (uint32_t c = 0; r->fits && c < n; c++) {
        const uint8_t *component = segment + 1 + 2 * (size_t)c;
        head->dc[c] = component[1] >> 4;
        head->ac[c] = component[1] & 15;
        r->fits = component[0] == r->ids[c] && head->dc[c] < MR_HUFFMAN_TABLES && head->ac[c] < MR_HUFFMAN_TABLES &&
                  head->has_dc[head->dc[c]] && head->has_ac[head->ac[c]];
    }
    head->sequential = r->fits;
}

/* One segment, its length word included; false where the walk ends. */
static bool read_segment(struct reader *r, uint8_t marker)
{
    if (marker == TEM || (marker >= RST0 && marker <= SOI))
        return true;
    if (marker == EOI || r->len - r->at < 2)
        return false;
    size_t len = read_u16(r->bytes + r->at);
    if (len < 2 || len > r->len - r->at)
        return false;
    const uint8_t *segment = r->bytes + r->at + 2;
    r->at += len;
    len -= 2;
    if (marker == DHT)
        read_tables(r, segment, len);
    else if (marker == DRI && len == 2)
        r->head->restart_interval = read_u16(segment);
    else if (marker == SOS)
        read_scan(r, segment, len);
    else if ((marker & 0xf0) == SOF0 && marker != 0xc8 && marker != 0xcc)
        read_frame(r, marker, segment, len);
    return marker != SOS;
}

void mr_packer_head_read(const uint8_t *bytes, size_t len, struct mr_packer_head *head_out)
{
    struct reader reader = {.bytes = bytes, .len = len, .head = head_out, .fits = true};
    memset(head_out, 0, sizeof *head_out);
    uint8_t marker;
    do {
        marker = next_marker(&reader);
        if (marker == 0)
            return;
    } while (read_segment(&reader, marker));
    if (marker == SOS)
        head_out->len = reader.at;
}

size_t mr_packer_head_scan_end(const uint8_t *bytes, size_t len, size_t from)
{
    for (size_t at = from; at < len;) {
        const uint8_t *found = memchr(bytes + at, 0xff, len - at);
        if (!found)
            return len;
        at = (size_t)(found - bytes);
        uint8_t next = at + 1 < len ? bytes[at + 1] : 0xff;
        if (next != 0 && (next < RST0 || next > RST7))
            return at;
        at += 2;
    }
    return len;
}
