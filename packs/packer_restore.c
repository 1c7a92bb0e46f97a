/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes JPEG files from coefficients.
 *
 * Invariant: the bytes beside a sample come from a file, so their header may be anybody's. It is used only if its
 * components are the sample's; then whatever tables it names, the worst result is a useless file.
 */
#include "packs/packer_restore.h"

#include "packs/packer_jpeg_write.h"
#include "packs/packer_tiles.h"

#include <string.h>

#define VERSION 1
#define PREFIX_BYTES 8
/* More than all markers of restore_same() take. */
#define HEADER_ROOM 4096

enum { SOF0 = 0xc0, SOF1 = 0xc1, DHT = 0xc4, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DQT = 0xdb, APP0 = 0xe0 };

/* ---- Byte for byte ---- */

mr_status mr_packer_restore_keep(const uint8_t *file, size_t len, const struct mr_packer_head *head, uint32_t flags,
                                 struct mr_packer_bytes *beside, mr_error *error)
{
    mr_packer_bytes_clear(beside);
    if (!head->sequential || head->len > UINT32_MAX)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "its encoding cannot be restored exactly");
    uint32_t n = (uint32_t)head->len;
    const uint8_t prefix[PREFIX_BYTES] = {
        VERSION, (uint8_t)flags, 0, 0, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
    size_t end = mr_packer_head_scan_end(file, len, head->len);
    mr_status status = mr_packer_bytes_add(beside, prefix, sizeof prefix, error);
    if (status == MR_OK)
        status = mr_packer_bytes_add(beside, file, head->len, error);
    if (status == MR_OK)
        status = mr_packer_bytes_add(beside, file + end, len - end, error);
    return status;
}

static mr_status damaged_beside(mr_error *error)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "what the pack keeps beside the sample is damaged");
}

/* Is the header one of such a sample? */
static bool header_belongs(const struct mr_packer_head *head, size_t head_len,
                           const struct mr_packed_template *template)
{
    uint32_t n = template->n_components;
    if (!head->sequential || head->len != head_len || head->n_components != n)
        return false;
    for (uint32_t c = 0; n > 1 && c < n; c++)
        if (head->h[c] != template->h[c] || head->v[c] != template->v[c])
            return false;
    return true;
}

/* All tiles of the sample through write or count. */
static mr_status walk_tiles(const struct mr_packed_image *image, const uint8_t *bytes, int16_t (*blocks)[64],
                            struct mr_packer_entropy *entropy,
                            mr_status (*step)(struct mr_packer_entropy *entropy, const int16_t (*blocks)[64],
                                              uint32_t n_mcus, mr_error *error),
                            mr_error *error)
{
    struct mr_packer_reading reading;
    mr_packer_tiles_read_begin(&reading, image, bytes, blocks);
    for (;;) {
        uint32_t n_mcus = 0;
        mr_status status = mr_packer_tiles_read_next(&reading, &n_mcus, error);
        if (status == MR_OK && n_mcus > 0)
            status = step(entropy, (const int16_t(*)[64])blocks, n_mcus, error);
        if (status != MR_OK || n_mcus == 0)
            return status;
    }
}

static void set_components(struct mr_packer_entropy *entropy, const struct mr_packed_template *template)
{
    entropy->n_components = template->n_components;
    for (uint32_t c = 0; c < entropy->n_components; c++)
        entropy->n_blocks[c] = (uint32_t) template->h[c] * template->v[c];
}

mr_status mr_packer_restore_exact(const struct mr_packed_image *image, const uint8_t *bytes, const uint8_t *beside,
                                  size_t beside_len, int16_t (*blocks)[64], struct mr_packer_bytes *out,
                                  mr_error *error)
{
    struct mr_packer_head head;
    struct mr_huffman_codes dc[MR_PACKED_MAX_COMPONENTS], ac[MR_PACKED_MAX_COMPONENTS];
    mr_packer_bytes_clear(out);
    if (beside_len < PREFIX_BYTES || beside[0] != VERSION || beside[1] > MR_BESIDE_ZEROS || beside[2] || beside[3])
        return damaged_beside(error);
    size_t head_len = (size_t)beside[4] | (size_t)beside[5] << 8 | (size_t)beside[6] << 16 | (size_t)beside[7] << 24;
    const uint8_t *file = beside + PREFIX_BYTES;
    size_t left = beside_len - PREFIX_BYTES;
    if (head_len > left)
        return damaged_beside(error);
    mr_packer_head_read(file, head_len, &head);
    if (!header_belongs(&head, head_len, image->template))
        return damaged_beside(error);
    struct mr_packer_entropy entropy = {
        .restart_interval = head.restart_interval, .pads_with_zeros = beside[1] & MR_BESIDE_ZEROS, .out = out};
    set_components(&entropy, image->template);
    for (uint32_t c = 0; c < entropy.n_components; c++) {
        if (!mr_packer_entropy_derive(&head.dc_tables[head.dc[c]], &dc[c]) ||
            !mr_packer_entropy_derive(&head.ac_tables[head.ac[c]], &ac[c]))
            return damaged_beside(error);
        entropy.dc[c] = &dc[c];
        entropy.ac[c] = &ac[c];
    }
    mr_status status = mr_packer_bytes_add(out, file, head_len, error);
    if (status == MR_OK)
        status = walk_tiles(image, bytes, blocks, &entropy, mr_packer_entropy_write, error);
    if (status == MR_OK)
        status = mr_packer_entropy_end(&entropy, error);
    if (status == MR_OK)
        status = mr_packer_bytes_add(out, file + head_len, left - head_len, error);
    return status;
}

/* ---- A file of the same pixels ---- */

/* Tables by number; each component's number. */
struct tables {
    uint8_t of_component[MR_PACKED_MAX_COMPONENTS];
    uint32_t n;
    struct mr_huffman_uses dc_uses[2], ac_uses[2];
    struct mr_huffman_spec dc_specs[2], ac_specs[2];
    struct mr_huffman_codes dc_codes[2], ac_codes[2];
};

static void put_byte(struct mr_packer_bytes *out, uint32_t byte)
{
    out->at[out->len++] = (uint8_t)byte;
}

static void put_u16(struct mr_packer_bytes *out, uint32_t value)
{
    put_byte(out, value >> 8);
    put_byte(out, value);
}

/* A marker and the length of what follows it, which counts itself. */
static void put_marker(struct mr_packer_bytes *out, uint32_t marker, uint32_t len)
{
    put_byte(out, 0xff);
    put_byte(out, marker);
    put_u16(out, len + 2);
}

static void put_bytes(struct mr_packer_bytes *out, const void *from, size_t n)
{
    memcpy(out->at + out->len, from, n);
    out->len += n;
}

/* What says to any decoder which colours the components are. */
static void put_colour(struct mr_packer_bytes *out, uint32_t colour)
{
    static const uint8_t jfif[14] = {'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};
    static const uint8_t adobe[11] = {'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0};
    if (colour == MR_PACKED_GREY || colour == MR_PACKED_YCC) {
        put_marker(out, APP0, sizeof jfif);
        put_bytes(out, jfif, sizeof jfif);
    } else {
        put_marker(out, APP0 + 14, sizeof adobe + 1);
        put_bytes(out, adobe, sizeof adobe);
        put_byte(out, colour == MR_PACKED_YCCK ? 2 : 0); /* the transform: YCCK, or none */
    }
}

static void put_exif(struct mr_packer_bytes *out, uint32_t orientation)
{
    uint8_t exif[MR_PACKER_EXIF_BYTES];
    if (orientation < 2)
        return;
    mr_packer_jpeg_write_exif(orientation, exif);
    put_marker(out, APP0 + 1, sizeof exif);
    put_bytes(out, exif, sizeof exif);
}

/* Quantisation tables, each but once, and the number of each component's. Returns: are they all of 8 bits? */
static bool put_quantisation(struct mr_packer_bytes *out, const struct mr_packed_template *template,
                             uint8_t number_out[MR_PACKED_MAX_COMPONENTS])
{
    bool narrow = true;
    for (uint32_t c = 0; c < template->n_components; c++) {
        const uint16_t *quant = template->quant[c];
        bool wide = false;
        uint32_t same = 0;
        while (memcmp(template->quant[same], quant, sizeof template->quant[c]) != 0)
            same++;
        number_out[c] = (uint8_t)same;
        for (uint32_t k = 0; k < 64; k++)
            wide |= quant[k] > 255;
        narrow &= !wide;
        if (same < c)
            continue;
        put_marker(out, DQT, 1 + (wide ? 128 : 64));
        put_byte(out, (uint32_t)wide << 4 | c);
        for (uint32_t k = 0; k < 64; k++) {
            uint32_t value = quant[mr_packer_entropy_natural[k]];
            if (wide)
                put_byte(out, value >> 8);
            put_byte(out, value);
        }
    }
    return narrow;
}

static uint8_t component_id(uint32_t colour, uint32_t c)
{
    return colour == MR_PACKED_RGB ? (uint8_t) "RGB"[c] : (uint8_t)(c + 1);
}

static void put_frame(struct mr_packer_bytes *out, const struct mr_packed_image *image, bool baseline,
                      const uint8_t quant[MR_PACKED_MAX_COMPONENTS])
{
    const struct mr_packed_template *template = image->template;
    uint32_t n = template->n_components;
    put_marker(out, baseline ? SOF0 : SOF1, 6 + 3 * n);
    put_byte(out, 8);
    put_u16(out, image->height);
    put_u16(out, image->width);
    put_byte(out, n);
    for (uint32_t c = 0; c < n; c++) {
        put_byte(out, component_id(template->colour, c));
        put_byte(out, (uint32_t) template->h[c] << 4 | template->v[c]);
        put_byte(out, quant[c]);
    }
}

static void put_codes(struct mr_packer_bytes *out, const struct mr_huffman_spec *spec, uint32_t class_and_number)
{
    uint32_t n = 0;
    for (uint32_t len = 1; len <= 16; len++)
        n += spec->counts[len];
    put_marker(out, DHT, 17 + n);
    put_byte(out, class_and_number);
    put_bytes(out, spec->counts + 1, 16);
    put_bytes(out, spec->symbols, n);
}

static void put_scan(struct mr_packer_bytes *out, const struct mr_packed_template *template,
                     const struct tables *tables)
{
    uint32_t n = template->n_components;
    for (uint32_t i = 0; i < tables->n; i++) {
        put_codes(out, &tables->dc_specs[i], i);
        put_codes(out, &tables->ac_specs[i], 0x10 | i);
    }
    put_marker(out, SOS, 4 + 2 * n);
    put_byte(out, n);
    for (uint32_t c = 0; c < n; c++) {
        put_byte(out, component_id(template->colour, c));
        put_byte(out, tables->of_component[c] * 0x11u);
    }
    put_byte(out, 0);
    put_byte(out, 63);
    put_byte(out, 0);
}

/* Brightness has tables of its own, and colour. */
static void share_tables(struct tables *tables, struct mr_packer_entropy *entropy, uint32_t colour)
{
    bool two = colour == MR_PACKED_YCC || colour == MR_PACKED_YCCK;
    memset(tables, 0, sizeof *tables);
    tables->n = two ? 2 : 1;
    for (uint32_t c = 0; c < entropy->n_components; c++) {
        uint8_t i = two && (c == 1 || c == 2);
        tables->of_component[c] = i;
        entropy->dc[c] = &tables->dc_codes[i];
        entropy->ac[c] = &tables->ac_codes[i];
        entropy->dc_uses[c] = &tables->dc_uses[i];
        entropy->ac_uses[c] = &tables->ac_uses[i];
    }
}

static mr_status make_tables(struct tables *tables, mr_error *error)
{
    for (uint32_t i = 0; i < tables->n; i++) {
        mr_packer_entropy_optimise(&tables->dc_uses[i], &tables->dc_specs[i]);
        mr_packer_entropy_optimise(&tables->ac_uses[i], &tables->ac_specs[i]);
        if (!mr_packer_entropy_derive(&tables->dc_specs[i], &tables->dc_codes[i]) ||
            !mr_packer_entropy_derive(&tables->ac_specs[i], &tables->ac_codes[i]))
            return mr_error_set(error, MR_ERR_DAMAGED, "the coefficients have no Huffman codes");
    }
    return MR_OK;
}

static mr_status put_header(const struct mr_packed_image *image, const struct tables *tables,
                            struct mr_packer_bytes *out, mr_error *error)
{
    uint8_t quant[MR_PACKED_MAX_COMPONENTS];
    mr_status status = mr_packer_bytes_reserve(out, HEADER_ROOM, error);
    if (status != MR_OK)
        return status;
    put_byte(out, 0xff);
    put_byte(out, SOI);
    put_colour(out, image->template->colour);
    put_exif(out, image->orientation);
    bool baseline = put_quantisation(out, image->template, quant);
    put_frame(out, image, baseline, quant);
    put_scan(out, image->template, tables);
    return MR_OK;
}

mr_status mr_packer_restore_same(const struct mr_packed_image *image, const uint8_t *bytes, int16_t (*blocks)[64],
                                 struct mr_packer_bytes *out, mr_error *error)
{
    static const uint8_t end[2] = {0xff, EOI};
    struct tables tables;
    struct mr_packer_entropy counting = {0};
    mr_packer_bytes_clear(out);
    set_components(&counting, image->template);
    share_tables(&tables, &counting, image->template->colour);
    struct mr_packer_entropy writing = counting;
    writing.out = out;
    mr_status status = walk_tiles(image, bytes, blocks, &counting, mr_packer_entropy_count, error);
    if (status == MR_OK)
        status = make_tables(&tables, error);
    if (status == MR_OK)
        status = put_header(image, &tables, out, error);
    if (status == MR_OK)
        status = walk_tiles(image, bytes, blocks, &writing, mr_packer_entropy_write, error);
    if (status == MR_OK)
        status = mr_packer_entropy_end(&writing, error);
    if (status == MR_OK)
        status = mr_packer_bytes_add(out, end, sizeof end, error);
    return status;
}
