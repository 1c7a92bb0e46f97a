/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage: expanding the tiles of packed photographs that the boxes touch, but only the MCUs in the
 * boxes. Coefficients are read and encoded before the clock starts, so the tiles are in the cache,
 * as after a read.
 */
#include "bench/stages.h"

#include "base/clock.h"
#include "transforms/simd/kernels.h"
#include "transforms/tile.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

/*
 * At most this many photographs, because reading their coefficients takes many times longer than
 * the measured part. MARGIN is in pixels.
 */
enum { MOST_PHOTOS = 100, MARGIN = 2 };

typedef int16_t block[64];

/* A tile, and which of its MCUs are wanted. */
struct tile {
    size_t at;
    size_t len;
    uint32_t row;
    uint32_t column; /* of its first MCU */
    uint32_t n_blocks;
    uint32_t first;
    uint32_t last;
};

struct expanding {
    const struct mr_kernel_ops *kernels;

    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    jvirt_barray_ptr *arrays;
    uint32_t n_columns; /* MCUs */
    uint32_t n_blocks;  /* of one MCU */
    uint32_t h[MAX_COMPONENTS];
    uint32_t v[MAX_COMPONENTS];

    struct tile *tiles;
    uint32_t n_tiles;
    uint8_t *bytes;
    size_t bytes_len;
    block *out; /* blocks of a tile */
};

static void on_error(j_common_ptr cinfo)
{
    struct expanding *e = cinfo->client_data;
    longjmp(e->escape, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level;
}

static void read_coefficients(struct expanding *e, const struct mr_photo *photo)
{
    jpeg_create_decompress(&e->cinfo);
    jpeg_mem_src(&e->cinfo, photo->bytes, photo->len);
    jpeg_read_header(&e->cinfo, TRUE);
    e->arrays = jpeg_read_coefficients(&e->cinfo);
    e->n_blocks = 0;
    for (int c = 0; c < e->cinfo.num_components; c++) {
        e->h[c] = e->cinfo.num_components == 1 ? 1 : (uint32_t)e->cinfo.comp_info[c].h_samp_factor;
        e->v[c] = e->cinfo.num_components == 1 ? 1 : (uint32_t)e->cinfo.comp_info[c].v_samp_factor;
        e->n_blocks += e->h[c] * e->v[c];
    }
}

/* Gather the blocks of a tile's MCUs, each MCU's in scan order; returns their number. */
static uint32_t gather_blocks(struct expanding *e, uint32_t row, uint32_t column, block *blocks)
{
    j_common_ptr common = (j_common_ptr)&e->cinfo;
    block *out = blocks;
    for (uint32_t m = column; m < column + MR_PACKED_TILE_MCUS && m < e->n_columns; m++)
        for (int c = 0; c < e->cinfo.num_components; c++)
            for (uint32_t y = 0; y < e->v[c]; y++) {
                JBLOCKARRAY from = e->cinfo.mem->access_virt_barray(common, e->arrays[c],
                                                                    row * e->v[c] + y, 1, FALSE);
                for (uint32_t x = 0; x < e->h[c]; x++)
                    memcpy(out++, from[0][m * e->h[c] + x], sizeof(block));
            }
    return (uint32_t)(out - blocks);
}

static uint32_t clamp_u32(uint32_t low, uint32_t value, uint32_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void add_tile(struct expanding *e, uint32_t row, uint32_t column, uint32_t first,
                     uint32_t last)
{
    block blocks[MR_TILE_MAX_BLOCKS];
    struct tile *tile = &e->tiles[e->n_tiles++];
    *tile = (struct tile){.at = e->bytes_len, .row = row, .column = column};
    tile->n_blocks = gather_blocks(e, row, column, blocks);
    tile->first = (clamp_u32(column, first, column + MR_PACKED_TILE_MCUS) - column) * e->n_blocks;
    tile->last = (clamp_u32(column, last, column + MR_PACKED_TILE_MCUS) - column) * e->n_blocks;
    tile->len = mr_tile_encode_dct((const block *)blocks, tile->n_blocks, e->bytes + e->bytes_len);
    e->bytes_len += tile->len;
}

/* False: out of memory. */
static bool add_tiles(struct expanding *e, const struct mr_photo *photo)
{
    const struct jpeg_decompress_struct *cinfo = &e->cinfo;
    const struct mr_box *box = &photo->stage.need;
    int64_t width = 8 * (cinfo->num_components == 1 ? 1 : cinfo->max_h_samp_factor);
    int64_t height = 8 * (cinfo->num_components == 1 ? 1 : cinfo->max_v_samp_factor);
    int64_t right = box->x + box->width + MARGIN, bottom = box->y + box->height + MARGIN;
    uint32_t first = (uint32_t)((box->x > MARGIN ? box->x - MARGIN : 0) / width);
    uint32_t top = (uint32_t)((box->y > MARGIN ? box->y - MARGIN : 0) / height);
    uint32_t last = (uint32_t)(((right < photo->width ? right : photo->width) + width - 1) / width);
    uint32_t end =
        (uint32_t)(((bottom < photo->height ? bottom : photo->height) + height - 1) / height);
    uint32_t start = first / MR_PACKED_TILE_MCUS * MR_PACKED_TILE_MCUS;
    size_t n =
        (size_t)(end - top) * ((last - start + MR_PACKED_TILE_MCUS - 1) / MR_PACKED_TILE_MCUS);
    e->n_columns = (uint32_t)((photo->width + width - 1) / width);
    e->tiles = malloc(n * sizeof *e->tiles);
    e->bytes = malloc(n * MR_TILE_MAX_BYTES + MR_TILE_SLACK);
    if (!e->tiles || !e->bytes)
        return false;
    for (uint32_t row = top; row < end; row++)
        for (uint32_t column = start; column < last; column += MR_PACKED_TILE_MCUS)
            add_tile(e, row, column, first, last);
    return true;
}

static bool expand_tile(const struct expanding *e, const struct tile *t)
{
    return e->kernels->expand_dct(e->bytes + t->at, t->len, t->n_blocks, t->first, t->last, e->out);
}

static bool equals_coefficients(struct expanding *e, const struct tile *tile)
{
    block blocks[MR_TILE_MAX_BLOCKS];
    gather_blocks(e, tile->row, tile->column, blocks);
    return expand_tile(e, tile) &&
           memcmp(e->out, blocks + tile->first, (tile->last - tile->first) * sizeof(block)) == 0;
}

/* The part between create and destroy of the decompressor; an error of libjpeg ends it. */
static bool run_guarded(struct expanding *e, const struct mr_photo *photo, bool check,
                        uint64_t *total_ns)
{
    if (setjmp(e->escape) != 0)
        return false;
    read_coefficients(e, photo);
    if (!add_tiles(e, photo))
        return false;
    bool right = true;
    uint64_t start = mr_clock_now_ns();
    for (uint32_t i = 0; i < e->n_tiles; i++)
        right &= expand_tile(e, &e->tiles[i]);
    *total_ns += mr_clock_now_ns() - start;
    for (uint32_t i = 0; check && right && i < e->n_tiles; i++)
        right = equals_coefficients(e, &e->tiles[i]);
    return right;
}

static bool run_photo(struct expanding *e, const struct mr_photo *photo, bool check,
                      uint64_t *total_ns)
{
    memset(&e->cinfo, 0, sizeof e->cinfo);
    e->cinfo.err = jpeg_std_error(&e->errors);
    e->cinfo.client_data = e;
    e->errors.error_exit = on_error;
    e->errors.emit_message = on_message;
    e->tiles = NULL;
    e->bytes = NULL;
    e->n_tiles = 0;
    e->bytes_len = 0;
    bool right = run_guarded(e, photo, check, total_ns);
    jpeg_destroy_decompress(&e->cinfo);
    free(e->tiles);
    free(e->bytes);
    return right;
}

static mr_status run_set(struct mr_photos *photos, const struct mr_kernel_ops *kernels,
                         struct mr_run *run, mr_error *error)
{
    struct expanding e = {.kernels = kernels};
    uint64_t total_ns = 0, n = photos->n < MOST_PHOTOS ? photos->n : MOST_PHOTOS;
    e.out = aligned_alloc(64, MR_TILE_MAX_BLOCKS * sizeof *e.out);
    if (!e.out)
        return mr_error_memory(error, MR_TILE_MAX_BLOCKS * sizeof *e.out);
    for (uint64_t i = 0; i < n; i++)
        run->n_wrong += !run_photo(&e, &photos->photo[i], run->check, &total_ns);
    run->seconds = (double)total_ns / 1e9;
    run->n_items = n;
    free(e.out);
    return MR_OK;
}

static mr_status run_dct_c(void *user, struct mr_run *run, mr_error *error)
{
    return run_set(user, &mr_kernels_c, run, error);
}

static mr_status run_dct_avx2(void *user, struct mr_run *run, mr_error *error)
{
    return run_set(user, mr_kernels_find(MR_CPU_AVX2), run, error);
}

static mr_status run_dct_avx512(void *user, struct mr_run *run, mr_error *error)
{
    return run_set(user, mr_kernels_find(MR_CPU_AVX512), run, error);
}

/* Add a case for each set of loops that this machine has. */
void mr_stage_expand_add(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_engine_add(engine, "expand dct, c", run_dct_c, photos);
    if (mr_kernels_find(MR_CPU_AVX2)) {
        mr_engine_add(engine, "expand dct, avx2", run_dct_avx2, photos);
    }
    if (mr_kernels_find(MR_CPU_AVX512)) {
        mr_engine_add(engine, "expand dct, avx512", run_dct_avx512, photos);
    }
}
