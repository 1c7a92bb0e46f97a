/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the header that libjpeg reads for a packed JPEG: baseline, one scan of all components.
 * From a header libjpeg can only guess the colour space, by markers and component names. So it is
 * set afterwards, from the template.
 */
#include "transforms/packed_header.h"

#include <inttypes.h>
#include <string.h>

#include <jerror.h>

/* The source: nothing follows the header. */

static void source_nothing(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

static boolean source_fill(j_decompress_ptr cinfo)
{
    ERREXIT(cinfo, JERR_INPUT_EOF);
    return FALSE;
}

static void source_skip(j_decompress_ptr cinfo, long n_bytes)
{
    (void)n_bytes;
    ERREXIT(cinfo, JERR_INPUT_EOF);
}

/* Component c uses table c. */
static size_t make_header(const struct mr_packed_image *image,
                          uint8_t header[MR_PACKED_HEADER_BYTES])
{
    const struct mr_packed_template *template = image->template;
    uint8_t n = template->n_components, *at = header;
    const uint8_t frame[] = {0xff,
                             0xd8,
                             0xff,
                             0xc0,
                             0,
                             (uint8_t)(8 + 3 * n),
                             8,
                             (uint8_t)(image->height >> 8),
                             (uint8_t)image->height,
                             (uint8_t)(image->width >> 8),
                             (uint8_t)image->width,
                             n};
    memcpy(at, frame, sizeof frame);
    at += sizeof frame;
    for (uint8_t c = 0; c < n; c++) {
        *at++ = (uint8_t)(c + 1);
        *at++ = (uint8_t)(template->h[c] << 4 | template->v[c]);
        *at++ = c;
    }
    const uint8_t scan[] = {0xff, 0xda, 0, (uint8_t)(6 + 2 * n), n};
    memcpy(at, scan, sizeof scan);
    at += sizeof scan;
    for (uint8_t c = 0; c < n; c++) {
        *at++ = (uint8_t)(c + 1);
        *at++ = 0;
    }
    const uint8_t end[] = {0, 63, 0};
    memcpy(at, end, sizeof end);
    return (size_t)(at + sizeof end - header);
}

static J_COLOR_SPACE find_colour(const struct mr_packed_template *template)
{
    switch (template->colour) {
    case MR_PACKED_GREY: return JCS_GRAYSCALE;
    case MR_PACKED_RGB: return JCS_RGB;
    case MR_PACKED_CMYK: return JCS_CMYK;
    case MR_PACKED_YCCK: return JCS_YCCK;
    default: return JCS_YCbCr;
    }
}

/* libjpeg requires Huffman tables at the start, so it gets the smallest: one symbol. */
static JHUFF_TBL *make_symbol(j_decompress_ptr cinfo)
{
    JHUFF_TBL *table = jpeg_alloc_huff_table((j_common_ptr)cinfo);
    memset(table->bits, 0, sizeof table->bits);
    memset(table->huffval, 0, sizeof table->huffval);
    table->bits[1] = 1;
    return table;
}

void mr_packed_header_init(struct mr_packed_header *header)
{
    header->source.init_source = source_nothing;
    header->source.fill_input_buffer = source_fill;
    header->source.skip_input_data = source_skip;
    header->source.resync_to_restart = jpeg_resync_to_restart;
    header->source.term_source = source_nothing;
}

void mr_packed_header_read(struct mr_packed_header *header, j_decompress_ptr cinfo,
                           const struct mr_packed_image *image)
{
    const struct mr_packed_template *template = image->template;
    header->source.next_input_byte = header->bytes;
    header->source.bytes_in_buffer = make_header(image, header->bytes);
    cinfo->src = &header->source;
    jpeg_read_header(cinfo, TRUE);
    for (int c = 0; c < template->n_components; c++) {
        cinfo->quant_tbl_ptrs[c] = jpeg_alloc_quant_table((j_common_ptr)cinfo);
        memcpy(cinfo->quant_tbl_ptrs[c]->quantval, template->quant[c], sizeof template->quant[c]);
    }
    cinfo->dc_huff_tbl_ptrs[0] = make_symbol(cinfo);
    cinfo->ac_huff_tbl_ptrs[0] = make_symbol(cinfo);
    cinfo->jpeg_color_space = find_colour(template);
    cinfo->out_color_space = template->n_components == 4 ? JCS_CMYK : JCS_RGB;
}

/* The other direction. */

static uint8_t number_colour(J_COLOR_SPACE space)
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

mr_status mr_packed_header_describe(const struct jpeg_decompress_struct *cinfo,
                                    struct mr_packed_template *template, mr_error *error)
{
    uint32_t n = (uint32_t)cinfo->num_components, n_blocks = 0;
    *template = (struct mr_packed_template){.n_components = (uint8_t)n,
                                            .colour = number_colour(cinfo->jpeg_color_space)};
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
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "a pack cannot hold its colour space %d",
                            (int)cinfo->jpeg_color_space);
    if (n_blocks > MR_PACKED_MAX_MCU_BLOCKS)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "its sampling factors make %" PRIu32 " blocks; packs take %d", n_blocks,
                            MR_PACKED_MAX_MCU_BLOCKS);
    return MR_OK;
}
