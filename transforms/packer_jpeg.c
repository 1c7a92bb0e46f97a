/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual JPEG has one scan of Huffman codes. Decoding its codes takes most of the time, so it is done once: libjpeg
 * makes the pixels, and a function in front of its decode_mcu hands each MCU's blocks to the tiles as well. All others
 * are read by jpeg_read_coefficients().
 *
 * Easy to get wrong: blocks beyond the image's edge, which fill up the last MCUs, change no pixel, but restoring the
 * file byte for byte needs them; so they are taken as they are.
 */
#include "transforms/packer_jpeg.h"

#include "transforms/codec_packed.h"
#include "transforms/exif.h"
#include "transforms/jpeg_box.h"
#include "transforms/packer_tiles.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>

/* The start of libjpeg's private struct jpeg_entropy_decoder; mr_codec_packed_works() has tried it. */
struct entropy_decoder {
    void (*start_pass)(j_decompress_ptr cinfo);
    boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *mcu);
};

struct mr_packer_jpeg {
    struct mr_jpeg_box box; /* first, so that a box is also a packer's */
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct mr_codec_limits limits;
    uint32_t orientation;
    bool in_header;
    bool ran_out; /* libjpeg was given an end-of-image marker that is not in the data */
    bool streams; /* one pass */
    boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *mcu);
    jvirt_barray_ptr *arrays;      /* where it is not */
    struct mr_packer_tiles *tiles; /* of run() */
};

static struct mr_packer_jpeg *jpeg_of(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

static struct mr_packer_jpeg *of_box(struct mr_jpeg_box *box)
{
    return (struct mr_packer_jpeg *)box;
}

/* Warnings and limits. */

static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        mr_jpeg_box_fail(cinfo);
}

static void on_progress(j_common_ptr common)
{
    struct mr_packer_jpeg *jpeg = jpeg_of(common);
    struct mr_jpeg_box *box = &jpeg->box;
    if ((uint32_t)box->cinfo.input_scan_number <= jpeg->limits.max_scans)
        return;
    snprintf(box->words, sizeof box->words, "%d scans are above the limit of %" PRIu32, box->cinfo.input_scan_number,
             jpeg->limits.max_scans);
    mr_jpeg_box_escape(box, MR_ERR_DAMAGED);
}

/* The source: the whole file in memory. */

static const JOCTET end_of_image[2] = {0xff, JPEG_EOI};

static void source_nothing(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

/* An arithmetic decoder goes on with zeros where data end, and does not say so. */
static boolean source_fill(j_decompress_ptr cinfo)
{
    struct mr_packer_jpeg *jpeg = jpeg_of((j_common_ptr)cinfo);
    if (jpeg->in_header)
        ERREXIT(cinfo, JERR_INPUT_EOF);
    if (cinfo->arith_code)
        ERREXIT(cinfo, JWRN_JPEG_EOF);
    jpeg->ran_out = true;
    cinfo->src->next_input_byte = end_of_image;
    cinfo->src->bytes_in_buffer = sizeof end_of_image;
    return TRUE;
}

static void source_skip(j_decompress_ptr cinfo, long n_bytes)
{
    struct jpeg_source_mgr *source = cinfo->src;
    size_t n = n_bytes <= 0 ? 0 : (size_t)n_bytes;
    if (n > source->bytes_in_buffer)
        n = source->bytes_in_buffer;
    source->next_input_byte += n;
    source->bytes_in_buffer -= n;
}

static boolean read_app1(j_decompress_ptr cinfo)
{
    struct mr_packer_jpeg *jpeg = jpeg_of((j_common_ptr)cinfo);
    const JOCTET *at = cinfo->src->next_input_byte;
    size_t left = cinfo->src->bytes_in_buffer;
    size_t len = left < 2 ? left : (size_t)at[0] << 8 | at[1];
    if (left >= 2 && len < 2)
        ERREXIT(cinfo, JERR_BAD_LENGTH);
    if (len <= left && len >= 8 && memcmp(at + 2, "Exif\0\0", 6) == 0 && jpeg->orientation == 0)
        jpeg->orientation = mr_exif_orientation(at + 8, len - 8);
    source_skip(cinfo, (long)len);
    return TRUE;
}

/* Create, destroy. */

mr_status mr_packer_jpeg_create(const struct mr_codec_limits *limits, struct mr_packer_jpeg **jpeg_out, mr_error *error)
{
    struct mr_packer_jpeg *jpeg = calloc(1, sizeof *jpeg);
    *jpeg_out = jpeg;
    if (!jpeg)
        return mr_error_memory(error, sizeof *jpeg);
    jpeg->limits = mr_codec_resolve_limits(limits);
    mr_jpeg_box_init(&jpeg->box);
    jpeg->box.errors.emit_message = on_message;
    jpeg->progress.progress_monitor = on_progress;
    jpeg->source.init_source = source_nothing;
    jpeg->source.fill_input_buffer = source_fill;
    jpeg->source.skip_input_data = source_skip;
    jpeg->source.resync_to_restart = jpeg_resync_to_restart;
    jpeg->source.term_source = source_nothing;
    return MR_OK;
}

void mr_packer_jpeg_destroy(struct mr_packer_jpeg *jpeg)
{
    if (!jpeg)
        return;
    mr_jpeg_box_fini(&jpeg->box);
    free(jpeg);
}

void mr_packer_jpeg_close(struct mr_packer_jpeg *jpeg)
{
    jpeg_destroy_decompress(&jpeg->box.cinfo);
}

/* Open. */

static void read_header(struct mr_jpeg_box *box)
{
    struct mr_packer_jpeg *jpeg = of_box(box);
    j_decompress_ptr cinfo = &box->cinfo;
    jpeg_create_decompress(cinfo);
    cinfo->src = &jpeg->source;
    cinfo->progress = &jpeg->progress;
    jpeg_set_marker_processor(cinfo, JPEG_APP0 + 1, read_app1);
    jpeg_read_header(cinfo, TRUE);
}

/* One scan, with its components in the order of the header? */
static bool can_stream(const struct jpeg_decompress_struct *cinfo)
{
    bool streams = !cinfo->progressive_mode && !cinfo->arith_code && cinfo->comps_in_scan == cinfo->num_components;
    for (int i = 0; streams && i < cinfo->num_components; i++)
        streams = cinfo->cur_comp_info[i] == &cinfo->comp_info[i];
    return streams;
}

mr_status mr_packer_jpeg_open(struct mr_packer_jpeg *jpeg, const uint8_t *bytes, size_t len, bool in_one_pass,
                              struct mr_image_head *head_out, mr_error *error)
{
    struct mr_jpeg_box *box = &jpeg->box;
    jpeg->orientation = 0;
    jpeg->in_header = true;
    jpeg->ran_out = false;
    jpeg->source.next_input_byte = bytes;
    jpeg->source.bytes_in_buffer = len;
    mr_status status = mr_jpeg_box_guard(box, read_header, error);
    jpeg->streams = status == MR_OK && in_one_pass && can_stream(&box->cinfo);
    if (status == MR_OK)
        status = mr_jpeg_box_check(box, &jpeg->limits, !jpeg->streams, error);
    if (status != MR_OK) {
        mr_packer_jpeg_close(jpeg);
        return status;
    }
    jpeg->in_header = false;
    head_out->width = box->cinfo.image_width;
    head_out->height = box->cinfo.image_height;
    head_out->orientation = jpeg->orientation == 0 ? 1 : jpeg->orientation;
    return MR_OK;
}

/* Start. */

static boolean record_mcu(j_decompress_ptr cinfo, JBLOCKROW *mcu)
{
    struct mr_packer_jpeg *jpeg = jpeg_of((j_common_ptr)cinfo);
    struct mr_jpeg_box *box = &jpeg->box;
    mr_error error;
    if (!jpeg->decode_mcu(cinfo, mcu))
        return FALSE;
    int16_t(*blocks)[64] = mr_packer_tiles_next(jpeg->tiles);
    for (int i = 0; i < cinfo->blocks_in_MCU; i++)
        memcpy(blocks[i], mcu[i][0], sizeof blocks[i]);
    mr_status status = mr_packer_tiles_commit(jpeg->tiles, &error);
    if (status == MR_OK)
        return TRUE;
    snprintf(box->words, sizeof box->words, "%.*s", (int)sizeof box->words - 1, error.text);
    mr_jpeg_box_escape(box, status);
}

static void start_stream(struct mr_jpeg_box *box)
{
    struct mr_packer_jpeg *jpeg = of_box(box);
    j_decompress_ptr cinfo = &box->cinfo;
    box->x = box->y = 0;
    box->width = cinfo->image_width;
    box->height = box->rows_left = cinfo->image_height;
    box->whole_rows = true;
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo);
    mr_jpeg_box_crop(box);
    struct entropy_decoder *entropy = (struct entropy_decoder *)(void *)cinfo->entropy;
    jpeg->decode_mcu = entropy->decode_mcu;
    entropy->decode_mcu = record_mcu;
}

/*
 * Components without a scan are missing data, as are bits that did not come before the file ended. A progressive file
 * may also end properly with bits missing; libjpeg then smooths between blocks, which a pack's decoder does not.
 */
static void read_scans(struct mr_jpeg_box *box)
{
    struct mr_packer_jpeg *jpeg = of_box(box);
    j_decompress_ptr cinfo = &box->cinfo;
    bool every_component = true, every_bit = true;
    jpeg->arrays = jpeg_read_coefficients(cinfo);
    for (int i = 0; i < cinfo->num_components; i++) {
        every_component &= cinfo->comp_info[i].quant_table != NULL;
        for (int k = 0; cinfo->coef_bits && k < DCTSIZE2; k++)
            every_bit &= cinfo->coef_bits[i][k] == 0;
    }
    if (!every_component || (!every_bit && jpeg->ran_out))
        ERREXIT(cinfo, JWRN_JPEG_EOF);
    if (every_bit)
        return;
    snprintf(box->words, sizeof box->words, "the last scans of the progressive JPEG are missing");
    mr_jpeg_box_escape(box, MR_ERR_UNSUPPORTED);
}

static uint8_t colour_of(J_COLOR_SPACE space)
{
    switch (space) {
    case JCS_GRAYSCALE: return MR_PACKED_GREY;
    case JCS_RGB: return MR_PACKED_RGB;
    case JCS_YCbCr: return MR_PACKED_YCC;
    case JCS_CMYK: return MR_PACKED_CMYK;
    case JCS_YCCK: return MR_PACKED_YCCK;
    default: return 0;
    }
}

static mr_status describe(const struct mr_packer_jpeg *jpeg, struct mr_packed_template *template, mr_error *error)
{
    const struct jpeg_decompress_struct *cinfo = &jpeg->box.cinfo;
    uint32_t n = (uint32_t)cinfo->num_components, n_blocks = 0;
    *template = (struct mr_packed_template){.n_components = (uint8_t)n, .colour = colour_of(cinfo->jpeg_color_space)};
    for (uint32_t i = 0; i < n; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        if (!component->quant_table) /* a lossless JPEG, which libjpeg-turbo 3 decodes */
            return mr_error_set(error, MR_ERR_UNSUPPORTED, "it has no quantised coefficients");
        template->h[i] = n == 1 ? 1 : (uint8_t)component->h_samp_factor;
        template->v[i] = n == 1 ? 1 : (uint8_t)component->v_samp_factor;
        n_blocks += (uint32_t) template->h[i] * template->v[i];
        for (int k = 0; k < DCTSIZE2; k++)
            template->quant[i][k] = component->quant_table->quantval[k];
    }
    if (template->colour == 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "its colour space %d is not one of a pack",
                            (int)cinfo->jpeg_color_space);
    if (n_blocks > MR_PACKED_MAX_MCU_BLOCKS)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "its sampling factors make %" PRIu32 " blocks; packs take %d",
                            n_blocks, MR_PACKED_MAX_MCU_BLOCKS);
    return MR_OK;
}

mr_status mr_packer_jpeg_start(struct mr_packer_jpeg *jpeg, struct mr_packed_template *template_out,
                               bool *gives_pixels_out, mr_error *error)
{
    mr_status status = mr_jpeg_box_guard(&jpeg->box, jpeg->streams ? start_stream : read_scans, error);
    *gives_pixels_out = jpeg->streams;
    return status == MR_OK ? describe(jpeg, template_out, error) : status;
}

/* Run. */

static mr_status run_stream(struct mr_packer_jpeg *jpeg, uint8_t *pixels, mr_error *error)
{
    struct mr_jpeg_box *box = &jpeg->box;
    const uint8_t *rows[MR_CODEC_ROWS];
    size_t stride = (size_t)box->width * 3;
    while (box->rows_left > 0) {
        uint32_t n = 0;
        mr_status status = mr_jpeg_box_rows(box, rows, MR_CODEC_ROWS, &n, error);
        if (status != MR_OK)
            return status;
        for (uint32_t i = 0; i < n; i++, pixels += stride)
            memcpy(pixels, rows[i], stride);
    }
    if (jpeg->tiles->row == jpeg->tiles->layout.n_rows)
        return MR_OK;
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "libjpeg gave %" PRIu32 " of %" PRIu32 " rows of its blocks",
                        jpeg->tiles->row, jpeg->tiles->layout.n_rows);
}

/* One row of MCUs out of libjpeg's arrays. */
static void pass_row(struct mr_packer_jpeg *jpeg, uint32_t row)
{
    j_decompress_ptr cinfo = &jpeg->box.cinfo;
    struct mr_packer_tiles *tiles = jpeg->tiles;
    JBLOCKARRAY rows[MR_PACKED_MAX_COMPONENTS];
    uint32_t n = (uint32_t)cinfo->num_components, h[MR_PACKED_MAX_COMPONENTS], v[MR_PACKED_MAX_COMPONENTS];
    mr_error error;
    for (uint32_t c = 0; c < n; c++) {
        h[c] = n == 1 ? 1 : (uint32_t)cinfo->comp_info[c].h_samp_factor;
        v[c] = n == 1 ? 1 : (uint32_t)cinfo->comp_info[c].v_samp_factor;
        rows[c] = cinfo->mem->access_virt_barray((j_common_ptr)cinfo, jpeg->arrays[c], row * v[c], v[c], FALSE);
    }
    for (uint32_t column = 0; column < tiles->layout.n_columns; column++) {
        int16_t(*block)[64] = mr_packer_tiles_next(tiles);
        for (uint32_t c = 0; c < n; c++)
            for (uint32_t y = 0; y < v[c]; y++, block += h[c])
                memcpy(block, rows[c][y] + (size_t)column * h[c], h[c] * sizeof *block);
        mr_status status = mr_packer_tiles_commit(tiles, &error);
        if (status == MR_OK)
            continue;
        snprintf(jpeg->box.words, sizeof jpeg->box.words, "%.*s", (int)sizeof jpeg->box.words - 1, error.text);
        mr_jpeg_box_escape(&jpeg->box, status);
    }
}

static void pass_arrays(struct mr_jpeg_box *box)
{
    struct mr_packer_jpeg *jpeg = of_box(box);
    for (uint32_t row = 0; row < jpeg->tiles->layout.n_rows; row++)
        pass_row(jpeg, row);
}

mr_status mr_packer_jpeg_run(struct mr_packer_jpeg *jpeg, struct mr_packer_tiles *tiles, uint8_t *pixels,
                             mr_error *error)
{
    jpeg->tiles = tiles;
    if (jpeg->streams)
        return run_stream(jpeg, pixels, error);
    return mr_jpeg_box_guard(&jpeg->box, pass_arrays, error);
}
