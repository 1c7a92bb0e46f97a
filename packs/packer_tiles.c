/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads rows of tiles.
 *
 * Invariant: the sizes of a row's tiles precede the tiles and are filled in later. They are found
 * by offset, because growing the bytes moves them.
 */
#include "packs/packer_tiles.h"

#include <inttypes.h>
#include <string.h>

#define SIZE_BYTES 2

void mr_packer_tiles_fini(struct mr_packer_tiles *tiles)
{
    mr_bytes_fini(&tiles->bytes);
    mr_scratch_fini(&tiles->table);
}

mr_status mr_packer_tiles_begin(struct mr_packer_tiles *tiles, const struct mr_packed_image *image,
                                mr_error *error)
{
    mr_packed_layout(image, &tiles->layout);
    if (!tiles->kernels)
        tiles->kernels = mr_kernels_best();
    tiles->row = tiles->column = tiles->n_held = 0;
    mr_bytes_clear(&tiles->bytes, MR_SCRATCH_KEEP_BYTES);
    mr_status status = mr_scratch_reserve(&tiles->table, 2 * (size_t)tiles->layout.n_rows + 1,
                                          sizeof *tiles->rows, error);
    if (status < 0)
        return status;
    tiles->rows = tiles->table.memory;
    tiles->sums = tiles->rows + tiles->layout.n_rows + 1;
    return MR_OK;
}

/* Leave room for the sizes of the row's tiles, and write its offset to the row table. */
static mr_status begin_row(struct mr_packer_tiles *tiles, mr_error *error)
{
    size_t sizes = (size_t)tiles->layout.n_tiles * SIZE_BYTES;
    mr_status status = mr_bytes_reserve(&tiles->bytes, sizes, error);
    if (status != MR_OK)
        return status;
    tiles->rows[tiles->row] = (uint32_t)tiles->bytes.len;
    tiles->bytes.len += sizes;
    return MR_OK;
}

static mr_status write_tile(struct mr_packer_tiles *tiles, uint32_t n_mcus,
                            const int16_t (*blocks)[64], mr_error *error)
{
    struct mr_bytes *bytes = &tiles->bytes;
    uint32_t n_blocks = n_mcus * tiles->layout.n_blocks;
    mr_status status = tiles->column == 0 ? begin_row(tiles, error) : MR_OK;
    if (status == MR_OK)
        status = mr_bytes_reserve(bytes, MR_TILE_MAX_BYTES + MR_TILE_SLACK, error);
    if (status != MR_OK)
        return status;
    uint8_t *at = bytes->data + bytes->len;
    size_t len = tiles->kernels->encode_dct(blocks, n_blocks, at);
    uint8_t *size = bytes->data + tiles->rows[tiles->row] +
                    (size_t)(tiles->column / MR_PACKED_TILE_MCUS) * SIZE_BYTES;
    size[0] = (uint8_t)len;
    size[1] = (uint8_t)(len >> 8);
    bytes->len += len;
    if (bytes->len > UINT32_MAX)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "its coefficients take more than 4 GiB");
    return MR_OK;
}

mr_status mr_packer_tiles_add(struct mr_packer_tiles *tiles, uint32_t n_mcus,
                              const int16_t (*blocks)[64], mr_error *error)
{
    mr_status status = write_tile(tiles, n_mcus, blocks, error);
    if (status != MR_OK)
        return status;
    tiles->column += n_mcus;
    if (tiles->column == tiles->layout.n_columns) {
        tiles->column = 0;
        tiles->row++;
    }
    return MR_OK;
}

mr_status mr_packer_tiles_commit(struct mr_packer_tiles *tiles, mr_error *error)
{
    const int16_t(*blocks)[64] = (const int16_t(*)[64])tiles->blocks;
    uint32_t n = ++tiles->n_held;
    if (n < MR_PACKED_TILE_MCUS && tiles->column + n < tiles->layout.n_columns)
        return MR_OK;
    tiles->n_held = 0;
    return mr_packer_tiles_add(tiles, n, blocks, error);
}

void mr_packer_tiles_end(struct mr_packer_tiles *tiles, struct mr_packed_image *image)
{
    struct mr_bytes *bytes = &tiles->bytes;
    memset(bytes->data + bytes->len, 0, MR_TILE_SLACK);
    tiles->rows[tiles->layout.n_rows] = (uint32_t)bytes->len;
    for (uint32_t row = 0; row < tiles->layout.n_rows; row++)
        tiles->sums[row] = (uint32_t)tiles->kernels->xxh3(bytes->data + tiles->rows[row],
                                                          tiles->rows[row + 1] - tiles->rows[row]);
    image->rows = tiles->rows;
    image->sums = tiles->sums;
    image->n_rows = tiles->layout.n_rows;
    image->len = bytes->len;
}

/* Reading. */

void mr_packer_tiles_read_begin(struct mr_packer_reading *reading,
                                const struct mr_packed_image *image, const uint8_t *bytes,
                                int16_t (*blocks)[64])
{
    *reading = (struct mr_packer_reading){
        .image = image, .kernels = mr_kernels_best(), .bytes = bytes, .blocks = blocks};
    mr_packed_layout(image, &reading->layout);
}

/* True if [at, at + len) is inside the row. */
static bool inside_row(const struct mr_packer_reading *reading, size_t len)
{
    size_t end = reading->image->rows[reading->row + 1];
    return reading->at <= end && len <= end - reading->at;
}

static bool read_tile(struct mr_packer_reading *reading, uint32_t n_mcus)
{
    const struct mr_packed_layout *layout = &reading->layout;
    size_t start = reading->image->rows[reading->row];
    if (reading->tile == 0) {
        reading->at = start;
        if (!inside_row(reading, (size_t)layout->n_tiles * SIZE_BYTES))
            return false;
        reading->at += (size_t)layout->n_tiles * SIZE_BYTES;
    }
    const uint8_t *size = reading->bytes + start + (size_t)reading->tile * SIZE_BYTES;
    size_t len = (size_t)size[0] | (size_t)size[1] << 8;
    if (!inside_row(reading, len))
        return false;
    const uint8_t *tile = reading->bytes + reading->at;
    uint32_t n_blocks = n_mcus * layout->n_blocks;
    reading->at += len;
    return reading->kernels->expand_dct(tile, len, n_blocks, 0, n_blocks, reading->blocks);
}

mr_status mr_packer_tiles_read_next(struct mr_packer_reading *reading, uint32_t *n_mcus_out,
                                    mr_error *error)
{
    const struct mr_packed_layout *layout = &reading->layout;
    *n_mcus_out = 0;
    if (reading->row == layout->n_rows)
        return MR_OK;
    uint32_t left = layout->n_columns - reading->tile * MR_PACKED_TILE_MCUS;
    uint32_t n_mcus = left < MR_PACKED_TILE_MCUS ? left : MR_PACKED_TILE_MCUS;
    if (!read_tile(reading, n_mcus))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "row %" PRIu32 " of the pack's sample is damaged", reading->row);
    if (++reading->tile == layout->n_tiles) {
        reading->tile = 0;
        reading->row++;
    }
    *n_mcus_out = n_mcus;
    return MR_OK;
}
