/* SPDX-License-Identifier: Apache-2.0 */
/* Makes samples from blocks, in place of libjpeg's own functions. */
#include "transforms/jpeg/jpeg_feed.h"

#include <assert.h>
#include <string.h>

/* Versions with the internals below. Later versions may differ. */
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2000000 &&            \
    LIBJPEG_TURBO_VERSION_NUMBER < 4000000
#define KNOWN_VERSION true
#else
#define KNOWN_VERSION false
#endif

#define GREY 128 /* samples that are never used */

/* The starts of libjpeg's private structs of these names (jpegint.h). */
struct entropy_decoder {
    void (*start_pass)(j_decompress_ptr cinfo);
    boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *blocks);
};

struct d_coef_controller {
    void (*start_input_pass)(j_decompress_ptr cinfo);
    int (*consume_data)(j_decompress_ptr cinfo);
    void (*start_output_pass)(j_decompress_ptr cinfo);
    int (*decompress_data)(j_decompress_ptr cinfo, JSAMPIMAGE planes);
};

struct inverse_dct {
    void (*start_pass)(j_decompress_ptr cinfo);
    void (*inverse_dct[MAX_COMPONENTS])(j_decompress_ptr cinfo, jpeg_component_info *component,
                                        JCOEFPTR block, JSAMPARRAY rows, JDIMENSION column);
};

bool mr_jpeg_feed_knows_libjpeg(void)
{
    return KNOWN_VERSION;
}

/* Apply the inverse DCT to a row of blocks. Their samples go to rows, from column `at` on. */
static void transform_blocks(struct mr_jpeg_feed *feed, int c, int16_t *const *blocks, uint32_t n,
                             JSAMPARRAY rows, JDIMENSION at)
{
    j_decompress_ptr cinfo = &feed->box->cinfo;
    const struct inverse_dct *idct = (const struct inverse_dct *)cinfo->idct;
    jpeg_component_info *component = &cinfo->comp_info[c];
    uint32_t i = 0;
    if (feed->idct_blocks)
        i = feed->idct_blocks(blocks, n, component->quant_table->quantval, rows, at);
    for (; i < n; i++)
        idct->inverse_dct[c](cinfo, component, blocks[i], rows, at + i * DCTSIZE);
}

/*
 * Make samples of one component of n MCUs; its first block in an MCU has the number `first`. Blocks
 * outside the image are left out, because libjpeg has no room for those on the right.
 */
static void transform_component(struct mr_jpeg_feed *feed, int c, uint32_t first, uint32_t row,
                                uint32_t column, uint32_t n, JSAMPARRAY plane)
{
    const jpeg_component_info *component = &feed->box->cinfo.comp_info[c];
    const uint32_t h = feed->h[c], v = feed->v[c];
    const uint32_t wide = component->width_in_blocks - column * h,
                   high = component->height_in_blocks - row * v;
    const JDIMENSION at = (column - feed->first_column) * h * DCTSIZE;
    for (uint32_t y = 0; y < v && y < high; y++) {
        int16_t *blocks[MR_PACKED_TILE_MCUS * 4];
        uint32_t n_blocks = 0;
        for (uint32_t m = 0; m < n; m++)
            for (uint32_t x = 0; x < h; x++)
                blocks[n_blocks++] = feed->blocks[m * feed->n_blocks + first + y * h + x];
        transform_blocks(feed, c, blocks, n_blocks < wide ? n_blocks : wide, plane + y * DCTSIZE,
                         at);
    }
}

static void transform_row(struct mr_jpeg_feed *feed, uint32_t row, JSAMPIMAGE planes)
{
    void *state = feed->box->cinfo.client_data;
    for (uint32_t column = feed->first_column, n; column <= feed->last_column; column += n) {
        n = feed->source->take(state, row, column);
        for (int c = 0, first = 0; c < feed->box->cinfo.num_components; c++) {
            transform_component(feed, c, (uint32_t)first, row, column, n, planes[c]);
            first += feed->h[c] * feed->v[c];
        }
    }
}

/*
 * Fill a row that the box does not need. libjpeg makes pixels from it, but none within the box,
 * because of the margin.
 */
static void fill_row(const struct mr_jpeg_feed *feed, uint32_t row, JSAMPIMAGE planes)
{
    for (int c = 0; c < feed->box->cinfo.num_components; c++) {
        const jpeg_component_info *component = &feed->box->cinfo.comp_info[c];
        uint32_t wide = component->width_in_blocks - feed->first_column * feed->h[c];
        uint32_t most = (feed->last_column - feed->first_column + 1) * feed->h[c];
        uint32_t high = component->height_in_blocks - row * feed->v[c];
        high = high < feed->v[c] ? high : feed->v[c];
        for (uint32_t y = 0; y < high * DCTSIZE; y++)
            memset(planes[c][y], GREY, (size_t)(wide < most ? wide : most) * DCTSIZE);
    }
}

/*
 * Replaces libjpeg's function: makes a row of MCUs into samples of each component, from the first
 * wanted column on.
 */
static int feed_row(j_decompress_ptr cinfo, JSAMPIMAGE planes)
{
    struct mr_jpeg_feed *feed = ((struct mr_jpeg_box *)cinfo->client_data)->feed;
    uint32_t row = cinfo->input_iMCU_row;
    if (row >= feed->first_row && row <= feed->last_row)
        transform_row(feed, row, planes);
    else
        fill_row(feed, row, planes);
    if (feed->source->end_row)
        feed->source->end_row(cinfo->client_data, row);
    cinfo->output_iMCU_row++;
    cinfo->input_iMCU_row++;
    return cinfo->input_iMCU_row < cinfo->total_iMCU_rows ? JPEG_ROW_COMPLETED
                                                          : JPEG_SCAN_COMPLETED;
}

/*
 * Replaces the entropy decoder, which is only called to skip rows. The next row's number says how
 * many are skipped.
 */
static boolean skip_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks)
{
    (void)cinfo;
    (void)blocks;
    return TRUE;
}

static void lay_out(struct mr_jpeg_feed *feed, const struct jpeg_decompress_struct *cinfo)
{
    const bool one = cinfo->num_components == 1; /* its sampling factors do not matter */
    feed->n_blocks = 0;
    for (int c = 0; c < cinfo->num_components; c++) {
        feed->h[c] = one ? 1 : (uint8_t)cinfo->comp_info[c].h_samp_factor;
        feed->v[c] = one ? 1 : (uint8_t)cinfo->comp_info[c].v_samp_factor;
        feed->n_blocks += (uint32_t)feed->h[c] * feed->v[c];
    }
    feed->mcu_width = one ? DCTSIZE : (uint32_t)cinfo->max_h_samp_factor * DCTSIZE;
    feed->mcu_height = one ? DCTSIZE : (uint32_t)cinfo->max_v_samp_factor * DCTSIZE;
    feed->n_columns = cinfo->MCUs_per_row;
    feed->n_rows = cinfo->total_iMCU_rows;
    assert(feed->n_blocks <= MR_PACKED_MAX_MCU_BLOCKS &&
           (uint32_t)cinfo->blocks_in_MCU == feed->n_blocks);
    assert(cinfo->MCU_rows_in_scan == cinfo->total_iMCU_rows);
}

/* Find the rows of MCUs that contain a box and its margin. */
static void find_rows(struct mr_jpeg_feed *feed, const struct mr_jpeg_box *box)
{
    uint32_t top = box->y > MR_CODEC_JPEG_MARGIN ? box->y - MR_CODEC_JPEG_MARGIN : 0;
    uint32_t last = (box->y + box->height - 1 + MR_CODEC_JPEG_MARGIN) / feed->mcu_height;
    feed->first_row = top / feed->mcu_height;
    feed->last_row = last < feed->n_rows ? last : feed->n_rows - 1;
}

void mr_jpeg_feed_start(struct mr_jpeg_feed *feed, struct mr_jpeg_box *box)
{
    j_decompress_ptr cinfo = &box->cinfo;
    feed->box = box;
    box->feed = feed;
    lay_out(feed, cinfo);
    find_rows(feed, box);
    feed->first_column = box->left / feed->mcu_width;
    feed->last_column = (box->right - 1) / feed->mcu_width;
    ((struct entropy_decoder *)cinfo->entropy)->decode_mcu = skip_mcu;
    ((struct d_coef_controller *)cinfo->coef)->decompress_data = feed_row;
}
