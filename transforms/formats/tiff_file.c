/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs libtiff over a file in memory, with separate handlers for each file: nothing is printed, and
 * the first error of a call becomes the message. An error is damage even if libtiff continues, and
 * so is a warning about pixels.
 */
#include "transforms/formats/tiff_file.h"

#include "transforms/formats/tiff_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tiffio.h>

#define MAX_SAMPLES 6
/* Each piece takes some microseconds to start. */
#define MAX_PIECES 262144
/* How often a byte may be part of a strip or tile, on average. */
#define MAX_USES 16
/* Memory that libtiff uses for a byte of tags, besides the file: an offset of 1 byte becomes 8. */
#define BYTES_PER_TAG_BYTE 9
/* For the columns at which the colour changes in two rows of fax. */
#define FAX_BYTES_PER_COLUMN 16
#define COREL_ALPHA 999

static mr_status refuse(mr_error *error, const char *what)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %s", what);
}

static mr_status refuse_value(mr_error *error, const char *what, uint32_t value)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %s %" PRIu32 " is not supported", what,
                        value);
}

/* Functions that libtiff calls. */

static tmsize_t read_bytes(thandle_t handle, void *out, tmsize_t n)
{
    struct mr_tiff_file *file = handle;
    size_t left = file->at < file->len ? file->len - file->at : 0;
    size_t n_read = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
    if (n_read > 0)
        memcpy(out, file->bytes + file->at, n_read);
    file->at += n_read;
    return (tmsize_t)n_read;
}

static tmsize_t write_nothing(thandle_t handle, void *bytes, tmsize_t n)
{
    (void)handle;
    (void)bytes;
    (void)n;
    return 0;
}

static toff_t seek_bytes(thandle_t handle, toff_t offset, int whence)
{
    struct mr_tiff_file *file = handle;
    if (whence == SEEK_CUR)
        offset += file->at;
    else if (whence == SEEK_END)
        offset += file->len;
    file->at = offset;
    return offset;
}

static int close_nothing(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t tell_size(thandle_t handle)
{
    const struct mr_tiff_file *file = handle;
    return file->len;
}

static int map_bytes(thandle_t handle, void **base_out, toff_t *len_out)
{
    const struct mr_tiff_file *file = handle;
    *base_out = (void *)(uintptr_t)file->bytes; /* read only */
    *len_out = file->len;
    return 1;
}

static void unmap_nothing(thandle_t handle, void *base, toff_t len)
{
    (void)handle;
    (void)base;
    (void)len;
}

static bool is_about_memory(const char *text)
{
    static const char *const words[] = {
        "ut of memory",           "o space for",        "annot allocate",   "o allocate",
        "emory allocation error", "nsufficient memory", "not enough memory"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(text, words[i]))
            return true;
    }
    return false;
}

/* Returns 1, so libtiff calls no other handler. */
static int keep_error(TIFF *tiff, void *user, const char *module, const char *format,
                      va_list values)
{
    (void)tiff;
    (void)module;
    struct mr_tiff_file *file = user;
    char text[sizeof file->text];
    vsnprintf(text, sizeof text, format, values);
    file->no_memory |= is_about_memory(text);
    if (file->has_error)
        return 1;
    file->has_error = true;
    for (char *p = text; *p; p++)
        *p = (uint8_t)*p < ' ' || *p == 127 ? ' ' : *p;
    memcpy(file->text, text, sizeof text);
    return 1;
}

/* After these warnings the JPEG and fax decoders continue with made-up pixels. */
static int keep_warning(TIFF *tiff, void *user, const char *module, const char *format,
                        va_list values)
{
    bool wrong = module && (strcmp(module, "JPEGLib") == 0 || strcmp(module, "LibJpeg") == 0 ||
                            strncmp(module, "Fax", 3) == 0);
    return wrong ? keep_error(tiff, user, module, format, values) : 1;
}

static void begin_call(struct mr_tiff_file *file)
{
    file->has_error = false;
    file->no_memory = false;
    file->text[0] = 0;
}

static mr_status report_error(const struct mr_tiff_file *file, mr_error *error)
{
    const char *text = file->text[0] ? file->text : "libtiff refuses it";
    return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %s", text);
}

static mr_status open_handle(struct mr_tiff_file *file, uint64_t max_bytes, mr_error *error)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "no memory for libtiff");
    TIFFOpenOptionsSetErrorHandlerExtR(options, keep_error, file);
    TIFFOpenOptionsSetWarningHandlerExtR(options, keep_warning, file);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options,
                                        max_bytes < INTPTR_MAX ? (tmsize_t)max_bytes : INTPTR_MAX);
    begin_call(file);
    file->handle = TIFFClientOpenExt("TIFF", "r", file, read_bytes, write_nothing, seek_bytes,
                                     close_nothing, tell_size, map_bytes, unmap_nothing, options);
    TIFFOpenOptionsFree(options);
    if (file->handle && !file->no_memory)
        return MR_OK;
    mr_tiff_file_close(file); /* it may have continued without a tag */
    return report_error(file, error);
}

/* What the image's pixels are. */

static uint16_t get_word(const struct mr_tiff_file *file, uint32_t tag, uint16_t otherwise)
{
    uint16_t value;
    return TIFFGetFieldDefaulted(file->handle, tag, &value) ? value : otherwise;
}

static uint32_t get_number(const struct mr_tiff_file *file, uint32_t tag, uint32_t otherwise)
{
    uint32_t value;
    return TIFFGetFieldDefaulted(file->handle, tag, &value) ? value : otherwise;
}

static bool is_known_compression(uint16_t compression)
{
    static const uint16_t known[] = {
        COMPRESSION_NONE,      COMPRESSION_CCITTRLE,      COMPRESSION_CCITTFAX3,
        COMPRESSION_CCITTFAX4, COMPRESSION_LZW,           COMPRESSION_OJPEG,
        COMPRESSION_JPEG,      COMPRESSION_ADOBE_DEFLATE, COMPRESSION_CCITTRLEW,
        COMPRESSION_PACKBITS,  COMPRESSION_DEFLATE,       COMPRESSION_LZMA,
        COMPRESSION_ZSTD};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i] == compression)
            return true;
    }
    return false;
}

/* Is this a grey of one sample that Pillow knows? */
static bool is_known_grey(const struct mr_tiff_file *file, bool big_endian)
{
    bool white = file->colours == MR_TIFF_WHITE_0, reversed = file->reversed;
    switch (file->number) {
    case MR_TIFF_UNSIGNED:
        if (file->bits < 8)
            return true;
        if (file->bits == 8)
            return !white || !reversed || file->compression != COMPRESSION_NONE;
        if (file->bits == 12 || file->bits == 32)
            return !white && !big_endian && !reversed;
        return white ? !big_endian && !reversed : !big_endian || !reversed;
    case MR_TIFF_SIGNED: return !white && !reversed && file->bits >= 8 && file->bits != 12;
    default: return file->bits == 32 && !reversed;
    }
}

/*
 * Does Pillow know these colours, bits and extra samples together? It ignores extra planes without
 * a meaning if they are compressed.
 */
static bool is_known(const struct mr_tiff_file *file, const struct mr_tiff_check *check)
{
    uint32_t n_extra = check->n_extra, n = file->n_samples,
             extra = n_extra > 0 ? check->first_extra : 0;
    bool plain = file->compression == COMPRESSION_NONE, wide = file->bits == 16,
         reversed = file->reversed;
    if (n_extra >= n || (n_extra > 1 && !check->others_zero))
        return false;
    if (file->planar && !plain && extra == 0) {
        n -= n_extra;
        n_extra = 0;
    }
    if (n == 1 && (file->colours == MR_TIFF_WHITE_0 || file->colours == MR_TIFF_BLACK_0))
        return is_known_grey(file, check->big_endian);
    if (file->number != MR_TIFF_UNSIGNED || (reversed && file->bits > 8))
        return false;
    if (n == 1)
        return file->colours == MR_TIFF_PALETTE && file->bits <= 8;
    if ((file->bits != 8 && !wide) || (file->planar && wide && plain))
        return false;
    switch (file->colours) {
    case MR_TIFF_BLACK_0:
    case MR_TIFF_PALETTE:
        return !wide && !reversed && n == 2 && n_extra == 1 &&
               (extra == 0 || extra == EXTRASAMPLE_UNASSALPHA);
    case MR_TIFF_RGB:
        if (reversed || n_extra == 0)
            return n == 3 || (n == 4 && !reversed);
        return n == 3 + n_extra && n_extra <= (wide ? 1 : 3) &&
               (extra <= EXTRASAMPLE_UNASSALPHA || (extra == COREL_ALPHA && n_extra == 1 && !wide));
    case MR_TIFF_CMYK:
        return !reversed && n == 4 + n_extra && extra == 0 && n_extra <= (wide ? 0 : 2);
    case MR_TIFF_YCC: return !wide && !reversed && n == 3 && n_extra == 0;
    default: return false;
    }
}

/* Is alpha premultiplied? The first extra sample says so; without one libtiff has to guess. */
static bool is_premultiplied(const struct mr_tiff_file *file, const struct mr_tiff_check *check)
{
    if (file->colours != MR_TIFF_RGB)
        return false;
    if (check->n_extra > 0)
        return check->first_extra == EXTRASAMPLE_ASSOCALPHA;
    return file->n_samples == 4 && file->planar && file->compression != COMPRESSION_NONE;
}

/* Choose how the image is decoded. YCbCr is decoded in Pillow's ways. */
static mr_status choose_way(struct mr_tiff_file *file, mr_error *error)
{
    bool ycc = file->colours == MR_TIFF_YCC;
    uint16_t across = 1, down = 1;
    if (file->compression == COMPRESSION_JPEG) {
        if ((file->planar && ycc) || file->bits != 8 || file->number != MR_TIFF_UNSIGNED)
            return refuse(error, "a JPEG of these samples is not supported");
        if (ycc && !TIFFSetField(file->handle, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB))
            return report_error(file, error);
        file->colours = ycc ? MR_TIFF_RGB : file->colours;
    } else if (ycc && file->compression == COMPRESSION_NONE) {
        TIFFGetFieldDefaulted(file->handle, TIFFTAG_YCBCRSUBSAMPLING, &across, &down);
        if (across != 1 || down != 1 || file->planar)
            return refuse(error,
                          "uncompressed YCbCr with fewer colours than pixels is not supported");
    } else {
        file->by_libtiff = ycc;
    }
    /*
     * libdeflate takes only whole strips, and accepts a strip that is longer than its rows without
     * unpacking it.
     */
    if (file->compression == COMPRESSION_DEFLATE || file->compression == COMPRESSION_ADOBE_DEFLATE)
        TIFFSetField(file->handle, TIFFTAG_DEFLATE_SUBCODEC, DEFLATE_SUBCODEC_ZLIB);
    if (file->compression == COMPRESSION_OJPEG && !file->by_libtiff)
        return refuse(error, "an old JPEG that is not YCbCr is not supported");
    return MR_OK;
}

static mr_status read_palette(struct mr_tiff_file *file, mr_error *error)
{
    uint16_t *palette[3];
    if (!TIFFGetField(file->handle, TIFFTAG_COLORMAP, &palette[0], &palette[1], &palette[2]))
        return refuse(error, "the palette is incomplete");
    for (int i = 0; i < 3; i++)
        file->palette[i] = palette[i];
    return MR_OK;
}

static mr_status read_pixels(struct mr_tiff_file *file, const struct mr_tiff_check *check,
                             mr_error *error)
{
    file->compression = get_word(file, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    if (!is_known_compression(file->compression))
        return refuse_value(error, "compression", file->compression);
    if (!TIFFIsCODECConfigured(file->compression))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "TIFF: compression %d, but this build has no libtiff for it",
                            file->compression);
    file->colours = file->compression == COMPRESSION_OJPEG
                        ? get_word(file, TIFFTAG_PHOTOMETRIC, MR_TIFF_WHITE_0)
                        : check->colours;
    if (file->colours > MR_TIFF_YCC || file->colours == 4)
        return refuse_value(error, "colour space", file->colours);
    file->number = get_word(file, TIFFTAG_SAMPLEFORMAT, MR_TIFF_UNSIGNED);
    if (file->number < MR_TIFF_UNSIGNED || file->number > MR_TIFF_FLOAT)
        return refuse_value(error, "sample format", file->number);
    file->bits = get_word(file, TIFFTAG_BITSPERSAMPLE, 1);
    if (file->bits > 32 || file->bits == 0 ||
        ((file->bits & (file->bits - 1)) != 0 && file->bits != 12))
        return refuse_value(error, "a depth of bits", file->bits);
    file->n_samples = get_word(file, TIFFTAG_SAMPLESPERPIXEL, 1);
    if (file->n_samples < 1 || file->n_samples > MAX_SAMPLES)
        return refuse_value(error, "a number of samples", file->n_samples);
    file->planar =
        file->n_samples > 1 && get_word(file, TIFFTAG_PLANARCONFIG, 1) == PLANARCONFIG_SEPARATE;
    file->reversed = get_word(file, TIFFTAG_FILLORDER, FILLORDER_MSB2LSB) != FILLORDER_MSB2LSB;
    if (!is_known(file, check))
        return mr_error_set(
            error, MR_ERR_DAMAGED,
            "TIFF: %d samples of %d bits in colour space %d are not supported in this arrangement",
            file->n_samples, file->bits, file->colours);
    file->premultiplied = is_premultiplied(file, check);
    /* libtiff accepts only 1 to 8 */
    file->orientation = get_word(file, TIFFTAG_ORIENTATION, 1);
    mr_status status = choose_way(file, error);
    return status == MR_OK && file->colours == MR_TIFF_PALETTE ? read_palette(file, error) : status;
}

/* The pieces that hold the pixels. */

/*
 * A few strips may be the same bytes. Many long ones would take time that grows with the square of
 * the file's size. Plain bytes are exempt, because only what is needed is read.
 */
static bool overlaps_much(const struct mr_tiff_file *file, uint32_t n)
{
    uint64_t sum = 0, most = (uint64_t)file->len * MAX_USES;
    if (file->compression == COMPRESSION_NONE && !file->reversed)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t len = TIFFGetStrileByteCount(file->handle, i);
        sum += len < file->len ? len : file->len;
    }
    return sum > most;
}

static mr_status read_pieces(struct mr_tiff_file *file, mr_error *error)
{
    file->tiled = TIFFIsTiled(file->handle);
    file->piece_width = file->tiled ? get_number(file, TIFFTAG_TILEWIDTH, 0) : file->width;
    file->piece_height = file->tiled ? get_number(file, TIFFTAG_TILELENGTH, 0)
                                     : get_number(file, TIFFTAG_ROWSPERSTRIP, UINT32_MAX);
    if (!file->tiled && file->piece_height > file->height)
        file->piece_height = file->height;
    if (file->piece_width == 0 || file->piece_height == 0)
        return refuse(error, "its strips or tiles have no size");
    file->across = (file->width - 1) / file->piece_width + 1;
    file->down = (file->height - 1) / file->piece_height + 1;
    uint64_t need = (uint64_t)file->across * file->down * (file->planar ? file->n_samples : 1);
    if (need > MAX_PIECES)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "TIFF: %" PRIu64 " strips or tiles are above the limit of %d", need,
                            MAX_PIECES);
    uint32_t n_there =
        file->tiled ? TIFFNumberOfTiles(file->handle) : TIFFNumberOfStrips(file->handle);
    if (n_there < need)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "TIFF: %" PRIu32 " of %" PRIu64 " strips or tiles are there", n_there,
                            need);
    if (overlaps_much(file, (uint32_t)need))
        return refuse(error, "its strips or tiles overlap too much");
    if (file->by_libtiff)
        return MR_OK;
    uint64_t n_bits =
        (uint64_t)file->piece_width * (file->planar ? 1 : file->n_samples) * file->bits;
    tmsize_t row_bytes =
        file->tiled ? TIFFTileRowSize(file->handle) : TIFFScanlineSize(file->handle);
    if (row_bytes <= 0)
        return report_error(file, error);
    file->row_bytes = (size_t)row_bytes;
    if (file->row_bytes != (n_bits + 7) / 8)
        return refuse(error, "its rows have another length than their samples");
    return MR_OK;
}

static uint64_t find_library_bytes(const struct mr_tiff_file *file)
{
    uint64_t n = (uint64_t)file->piece_width * file->piece_height, bytes = file->library_bytes;
    switch (file->compression) {
    case COMPRESSION_CCITTRLE:
    case COMPRESSION_CCITTRLEW:
    case COMPRESSION_CCITTFAX3:
    case COMPRESSION_CCITTFAX4: bytes += (uint64_t)file->piece_width * FAX_BYTES_PER_COLUMN; break;
    case COMPRESSION_LZMA:
    case COMPRESSION_ZSTD: bytes += MR_TIFF_MAX_WINDOW_BYTES; break;
    default: break;
    }
    return file->by_libtiff ? bytes + n * (4 + file->n_samples) : bytes;
}

mr_status mr_tiff_file_open(struct mr_tiff_file *file, const struct mr_codec_limits *limits,
                            const uint8_t *bytes, size_t len, mr_error *error)
{
    struct mr_tiff_check check;
    *file = (struct mr_tiff_file){.bytes = bytes, .len = len};
    mr_status status = mr_tiff_check_directory(&check, bytes, len, error);
    if (status != MR_OK)
        return status;
    file->called = true;
    file->library_bytes = check.tag_bytes * BYTES_PER_TAG_BYTE;
    status = open_handle(file, limits->max_decoder_bytes, error);
    if (status != MR_OK)
        return status;
    begin_call(file);
    file->width = get_number(file, TIFFTAG_IMAGEWIDTH, 0);
    file->height = get_number(file, TIFFTAG_IMAGELENGTH, 0);
    if (file->width == 0 || file->height == 0)
        status = refuse(error, "a side of 0 pixels");
    else
        status = mr_codec_limits_check_pixels(limits, file->width, file->height, error);
    if (status == MR_OK)
        status = read_pixels(file, &check, error);
    if (status == MR_OK)
        status = read_pieces(file, error);
    if (status == MR_OK)
        file->library_bytes = find_library_bytes(file);
    else
        mr_tiff_file_close(file);
    return status;
}

void mr_tiff_file_close(struct mr_tiff_file *file)
{
    if (file->handle)
        TIFFClose(file->handle);
    file->handle = NULL;
}

/* Refuse a piece on which libtiff would spend much time or memory. */
static mr_status check_piece(const struct mr_tiff_file *file, uint32_t i, mr_error *error)
{
    if (file->compression != COMPRESSION_JPEG && file->compression != COMPRESSION_LZMA)
        return MR_OK;
    uint64_t at = TIFFGetStrileOffset(file->handle, i),
             len = TIFFGetStrileByteCount(file->handle, i);
    if (at > file->len || len > file->len - at)
        return refuse(error, "a strip or tile is beyond the end of the file");
    if (file->compression == COMPRESSION_JPEG)
        return mr_tiff_check_jpeg(file->bytes + at, len)
                   ? MR_OK
                   : refuse(error, "a JPEG of several scans or of wrong markers is not supported");
    return mr_tiff_check_xz(file->bytes + at, len, file->reversed)
               ? MR_OK
               : refuse(error, "LZMA with a dictionary above 128 MiB is not supported");
}

mr_status mr_tiff_file_read_piece(struct mr_tiff_file *file, uint32_t i, uint32_t n_rows,
                                  uint8_t *out, mr_error *error)
{
    tmsize_t need = (tmsize_t)(file->row_bytes * n_rows);
    mr_status status = check_piece(file, i, error);
    if (status != MR_OK)
        return status;
    if (file->compression != COMPRESSION_NONE)
        memset(out, 0, (size_t)need); /* some decoders leave pixels unwritten */
    begin_call(file);
    tmsize_t got = file->tiled ? TIFFReadEncodedTile(file->handle, i, out, need)
                               : TIFFReadEncodedStrip(file->handle, i, out, need);
    if (got < 0 || file->has_error)
        return report_error(file, error);
    return got < need ? refuse(error, "a strip or tile ends early") : MR_OK;
}

mr_status mr_tiff_file_read_colours(struct mr_tiff_file *file, uint32_t line, uint32_t n_rows,
                                    uint8_t *out, mr_error *error)
{
    TIFFRGBAImage image;
    char why[1024] = "";
    size_t n_bytes = (size_t)file->width * n_rows * sizeof(uint32_t);
    for (uint32_t plane = 0; plane < (file->planar ? file->n_samples : 1u); plane++) {
        for (uint32_t column = 0; column < file->across; column++) {
            uint32_t i = (plane * file->down + line / file->piece_height) * file->across + column;
            mr_status status = check_piece(file, i, error);
            if (status != MR_OK)
                return status;
        }
    }
    memset(out, 0, n_bytes);
    begin_call(file);
    float *levels;
    /* libtiff relies on it */
    if (!TIFFGetFieldDefaulted(file->handle, TIFFTAG_REFERENCEBLACKWHITE, &levels))
        return refuse(error, "its levels of black and white are missing");
    if (!TIFFRGBAImageOK(file->handle, why) || !TIFFRGBAImageBegin(&image, file->handle, 1, why)) {
        snprintf(file->text, sizeof file->text, "%.*s", (int)sizeof file->text - 1, why);
        return report_error(file, error);
    }
    image.orientation = image.req_orientation = ORIENTATION_TOPLEFT; /* as stored */
    image.row_offset = (int)line;
    int good = TIFFRGBAImageGet(&image, (uint32_t *)(void *)out, file->width, n_rows);
    TIFFRGBAImageEnd(&image);
    if (!good || file->has_error)
        return report_error(file, error);
    for (size_t i = 0; i < n_bytes; i += sizeof(uint32_t)) {
        uint32_t pixel;
        memcpy(&pixel, out + i, sizeof pixel);
        uint8_t parts[4] = {TIFFGetR(pixel), TIFFGetG(pixel), TIFFGetB(pixel), TIFFGetA(pixel)};
        memcpy(out + i, parts, sizeof parts);
    }
    return MR_OK;
}
