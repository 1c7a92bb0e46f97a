/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes samples of packs from JPEGs. libjpeg stores blocks by component, padded to whole MCUs; a
 * tile has them MCU by MCU.
 */
#include "tests/transforms/packed_sample.h"

#include "transforms/jpeg/mark_maker.h"
#include "transforms/packed_selftest.h"
#include "transforms/packed.h"
#include "transforms/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static void *checked_alloc(size_t len)
{
    void *memory = calloc(1, len);
    if (!memory)
        abort();
    return memory;
}

static uint8_t find_colour(J_COLOR_SPACE space)
{
    switch (space) {
    case JCS_GRAYSCALE: return MR_PACKED_GREY;
    case JCS_RGB: return MR_PACKED_RGB;
    case JCS_YCbCr: return MR_PACKED_YCC;
    case JCS_CMYK: return MR_PACKED_CMYK;
    case JCS_YCCK: return MR_PACKED_YCCK;
    default: abort();
    }
}

static bool make_template(const struct jpeg_decompress_struct *cinfo,
                          struct mr_packed_template *template)
{
    uint32_t n_blocks = 0;
    memset(template, 0, sizeof *template);
    template->n_components = (uint8_t)cinfo->num_components;
    template->colour = find_colour(cinfo->jpeg_color_space);
    for (int c = 0; c < cinfo->num_components; c++) {
        const jpeg_component_info *component = &cinfo->comp_info[c];
        bool alone = cinfo->num_components == 1;
        template->h[c] = (uint8_t)(alone ? 1 : component->h_samp_factor);
        template->v[c] = (uint8_t)(alone ? 1 : component->v_samp_factor);
        memcpy(template->quant[c], component->quant_table->quantval, sizeof template->quant[c]);
        n_blocks += template->h[c] * template->v[c];
    }
    return n_blocks <= MR_PACKED_MAX_MCU_BLOCKS;
}

/* The blocks of one MCU. */
static void gather_blocks(struct jpeg_decompress_struct *cinfo, jvirt_barray_ptr *arrays,
                          const struct mr_packed_template *template, uint32_t row, uint32_t column,
                          int16_t (*out)[64])
{
    for (int c = 0; c < cinfo->num_components; c++)
        for (uint32_t y = 0; y < template->v[c]; y++) {
            JBLOCKARRAY blocks = cinfo->mem->access_virt_barray((j_common_ptr)cinfo, arrays[c],
                                                                row * template->v[c] + y, 1, FALSE);
            for (uint32_t x = 0; x < template->h[c]; x++, out++)
                memcpy(*out, blocks[0][column * template->h[c] + x], sizeof *out);
        }
}

static void encode_rows(struct jpeg_decompress_struct *cinfo, jvirt_barray_ptr *arrays,
                        struct packed_sample *sample)
{
    struct mr_packed_layout layout;
    int16_t blocks[MR_TILE_MAX_BLOCKS][64];
    mr_packed_layout(&sample->image, &layout);
    size_t most = (size_t)layout.n_rows * layout.n_tiles * (2 + MR_TILE_MAX_BYTES);
    uint8_t *at = sample->bytes = checked_alloc(most + MR_TILE_SLACK);
    sample->rows = checked_alloc((layout.n_rows + 1) * sizeof *sample->rows);
    for (uint32_t row = 0; row < layout.n_rows; row++) {
        uint8_t *size = at;
        at += 2 * (size_t)layout.n_tiles;
        for (uint32_t first = 0; first < layout.n_columns;
             first += MR_PACKED_TILE_MCUS, size += 2) {
            uint32_t n = 0;
            for (; n < MR_PACKED_TILE_MCUS && first + n < layout.n_columns; n++)
                gather_blocks(cinfo, arrays, &sample->template, row, first + n,
                              blocks + n * layout.n_blocks);
            n *= layout.n_blocks;
            const int16_t(*in)[64] = (const int16_t(*)[64])blocks;
            size_t len = mr_tile_encode_dct(in, n, at);
            size[0] = (uint8_t)len;
            size[1] = (uint8_t)(len >> 8);
            at += len;
        }
        sample->rows[row + 1] = (uint32_t)(at - sample->bytes);
    }
    sample->image.rows = sample->rows;
    sample->image.n_rows = layout.n_rows;
    sample->image.len = (uint64_t)(at - sample->bytes);
    memset(at, 0xff, MR_TILE_SLACK);
}

static jvirt_barray_ptr *read_coefficients(struct jpeg_decompress_struct *cinfo,
                                           struct jpeg_error_mgr *errors,
                                           const struct mr_test_image *jpeg)
{
    cinfo->err = jpeg_std_error(errors);
    jpeg_create_decompress(cinfo);
    jpeg_mem_src(cinfo, jpeg->bytes, jpeg->len);
    jpeg_read_header(cinfo, TRUE);
    return jpeg_read_coefficients(cinfo);
}

bool packed_sample_make(const struct mr_test_image *jpeg, enum mr_packed_encoding encoding,
                        struct packed_sample *sample_out)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    jvirt_barray_ptr *arrays = read_coefficients(&cinfo, &errors, jpeg);
    memset(sample_out, 0, sizeof *sample_out);
    sample_out->image = (struct mr_packed_image){.encoding = encoding,
                                                 .width = cinfo.image_width,
                                                 .height = cinfo.image_height,
                                                 .orientation = 1,
                                                 .template = &sample_out->template};
    bool fits = make_template(&cinfo, &sample_out->template);
    if (fits)
        encode_rows(&cinfo, arrays, sample_out);
    jpeg_destroy_decompress(&cinfo);
    return fits;
}

static void copy_bytes(const void *bytes, size_t len, struct packed_sample *sample)
{
    sample->bytes = checked_alloc(len + MR_TILE_SLACK);
    memcpy(sample->bytes, bytes, len);
    memset(sample->bytes + len, 0xff, MR_TILE_SLACK);
    sample->image.len = len;
}

void packed_sample_raw(const uint8_t *pixels, uint32_t width, uint32_t height,
                       struct packed_sample *sample_out)
{
    memset(sample_out, 0, sizeof *sample_out);
    sample_out->image = (struct mr_packed_image){
        .encoding = MR_PACKED_RAW, .width = width, .height = height, .orientation = 1};
    copy_bytes(pixels, (size_t)width * height * 3, sample_out);
}

void packed_sample_file(const struct mr_test_image *file, struct packed_sample *sample_out)
{
    memset(sample_out, 0, sizeof *sample_out);
    sample_out->image = (struct mr_packed_image){.encoding = MR_PACKED_JPEG, .orientation = 1};
    copy_bytes(file->bytes, file->len, sample_out);
}

static void *copy_memory(const void *bytes, size_t len)
{
    void *copy = checked_alloc(len);
    memcpy(copy, bytes, len);
    return copy;
}

bool packed_sample_marked(const struct mr_test_image *file, struct packed_sample *sample_out)
{
    const struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    struct mr_mark_maker *maker;
    memset(sample_out, 0, sizeof *sample_out);
    if (mr_mark_maker_create(&limits, &maker, NULL) != MR_OK)
        abort();
    struct mr_packed_image image;
    bool made = mr_mark_maker_run(maker, file->bytes, file->len, &image, NULL) == MR_OK;
    if (made) {
        sample_out->image = image;
        copy_bytes(file->bytes, file->len, sample_out);
        sample_out->template = *image.template;
        sample_out->rows = copy_memory(image.rows, (image.n_rows + (size_t)1) * sizeof *image.rows);
        sample_out->marks = copy_memory(image.marks, image.marks_len);
        sample_out->image.template = &sample_out->template;
        sample_out->image.rows = sample_out->rows;
        sample_out->image.marks = sample_out->marks;
    }
    mr_mark_maker_destroy(maker);
    return made;
}

void packed_sample_free(struct packed_sample *sample)
{
    free(sample->rows);
    free(sample->marks);
    free(sample->bytes);
}

static uint64_t draw_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/*
 * One of eight coefficients becomes any value, with all sizes equally likely. A DC gets 14 bits,
 * because its difference from another one must fit into 15.
 */
static void disturb_blocks(struct jpeg_decompress_struct *cinfo, jvirt_barray_ptr *arrays,
                           uint64_t *random)
{
    for (int c = 0; c < cinfo->num_components; c++) {
        const jpeg_component_info *component = &cinfo->comp_info[c];
        for (JDIMENSION y = 0; y < component->height_in_blocks; y++) {
            JBLOCKARRAY blocks =
                cinfo->mem->access_virt_barray((j_common_ptr)cinfo, arrays[c], y, 1, TRUE);
            for (size_t i = 0; i < (size_t)component->width_in_blocks * DCTSIZE2; i++) {
                int value = (int)(draw_number(random) & 0x7fff) >> draw_number(random) % 15;
                if (i % DCTSIZE2 == 0)
                    value /= 2;
                if (draw_number(random) % 8 == 0)
                    blocks[0][i / DCTSIZE2][i % DCTSIZE2] =
                        (JCOEF)(draw_number(random) % 2 ? -value : value);
            }
        }
    }
}

struct mr_test_image packed_sample_extreme(const struct mr_test_image *jpeg, uint64_t seed)
{
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long len = 0;
    jvirt_barray_ptr *arrays = read_coefficients(&in, &errors, jpeg);
    disturb_blocks(&in, arrays, &seed);
    out.err = &errors;
    jpeg_create_compress(&out);
    jpeg_mem_dest(&out, &bytes, &len);
    jpeg_copy_critical_parameters(&in, &out);
    for (int t = 0; t < NUM_QUANT_TBLS; t++)
        for (int i = 0; out.quant_tbl_ptrs[t] && i < DCTSIZE2; i++)
            out.quant_tbl_ptrs[t]->quantval[i] =
                (UINT16)(1 + (draw_number(&seed) % 0xffff >> draw_number(&seed) % 16));
    out.arith_code = TRUE;
    jpeg_write_coefficients(&out, arrays);
    jpeg_finish_compress(&out);
    jpeg_destroy_compress(&out);
    jpeg_destroy_decompress(&in);
    return (struct mr_test_image){bytes, len};
}

int packed_sample_cannot_run(void)
{
    mr_error why_not;
    if (mr_packed_selftest_check(&why_not) == MR_OK)
        return 0;
    printf("%s\n", why_not.text);
    return LIBJPEG_TURBO_VERSION_NUMBER >= 2000000 && LIBJPEG_TURBO_VERSION_NUMBER < 4000000 ? 1
                                                                                             : 77;
}
