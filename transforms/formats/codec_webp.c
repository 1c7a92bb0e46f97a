/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes WebP with libwebp, lossy and lossless, as Pillow's convert("RGB") gives it. Alpha is not
 * read. Of an animation the first frame is decoded; the canvas around it is black.
 *
 * A box is decoded with libwebp's cropping, which also decodes what prediction and loop filter need
 * around the box. Only the upsampling of colours lacks its neighbours at the edges of a cropped
 * lossy image, so the box gets a margin.
 */
#include "transforms/formats/codec_webp.h"

#include "base/exif.h"
#include "base/image_format.h"
#include "transforms/formats/box_rows.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#define CHANNELS 3
#define CHUNK_HEADER 8
/*
 * Pixels around a box of a lossy image. Two pixels share a colour, and upsampling also looks at the
 * next pair.
 */
#define MARGIN 2
/*
 * Generous room for what libwebp takes for a lossy image in addition to its rows, and for the list
 * of a file's chunks.
 */
#define LOSSY_BYTES ((uint64_t)4 << 20)
#define BYTES_PER_FILE_BYTE 4
/*
 * A lossless image is decoded as a whole, with up to five smaller ones for its transforms. Each
 * group of its codes has five tables of at least 256 entries, covers at least 16 pixels and takes
 * at least 20 bits of the file.
 */
#define LOSSLESS_PIXEL_BYTES 5
#define MAX_GROUPS 65536
#define GROUP_BYTES 5760

struct webp {
    struct mr_codec_limits limits;
    WebPDemuxer *demuxer; /* of the open file */
    WebPDecoderConfig config;
    const uint8_t *frame; /* the chunk of its pixels */
    size_t frame_len;
    bool lossless;
    uint64_t need_bytes;               /* of libwebp; 0 until it is called */
    uint32_t left, top, width, height; /* of the frame on the canvas */
    struct mr_box_rows rows;
};

static mr_status webp_create(const struct mr_codec_limits *limits, void **state_out,
                             mr_error *error)
{
    struct webp *webp = calloc(1, sizeof *webp);
    if (!webp)
        return mr_error_memory(error, sizeof *webp);
    webp->limits = *limits;
    *state_out = webp;
    return MR_OK;
}

static void webp_destroy(void *state)
{
    struct webp *webp = state;
    mr_box_rows_fini(&webp->rows);
    free(webp);
}

static uint32_t webp_close(void *state)
{
    struct webp *webp = state;
    WebPDemuxDelete(webp->demuxer);
    webp->demuxer = NULL;
    mr_box_rows_clear(&webp->rows);
    return 0;
}

static mr_status refuse_status(VP8StatusCode code, mr_error *error)
{
    static const char *const words[] = {[VP8_STATUS_INVALID_PARAM] = "libwebp cannot crop it",
                                        [VP8_STATUS_BITSTREAM_ERROR] = "its bitstream is invalid",
                                        [VP8_STATUS_UNSUPPORTED_FEATURE] =
                                            "it has an unknown feature",
                                        [VP8_STATUS_SUSPENDED] = "its data end early",
                                        [VP8_STATUS_NOT_ENOUGH_DATA] = "its data end early"};
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "no memory for libwebp");
    const char *why = (size_t)code < sizeof words / sizeof *words ? words[code] : NULL;
    return mr_error_set(error, MR_ERR_DAMAGED, "WebP: %s", why ? why : "libwebp refuses it");
}

static uint32_t read_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static mr_status start_demuxer(struct webp *webp, const uint8_t *bytes, size_t len, mr_error *error)
{
    uint64_t riff_len = (uint64_t)read_le32(bytes + 4) + CHUNK_HEADER;
    uint64_t need = LOSSY_BYTES + (uint64_t)len * BYTES_PER_FILE_BYTE;
    webp->need_bytes = 0;
    if (riff_len > len)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "WebP: the file has %zu of its %" PRIu64 " bytes", len, riff_len);
    mr_status status = mr_codec_limits_check_memory(&webp->limits, need, error);
    if (status != MR_OK)
        return status;
    webp->need_bytes = need;
    webp->demuxer = WebPDemux(&(WebPData){bytes, len});
    return webp->demuxer
               ? MR_OK
               : mr_error_set(error, MR_ERR_DAMAGED, "WebP: its chunks are wrong or incomplete");
}

/* An image may have alpha and unknown chunks before its pixels. */
static mr_status find_pixels(struct webp *webp, const WebPData *fragment, mr_error *error)
{
    size_t at = 0;
    while (fragment->size - at > CHUNK_HEADER) {
        const uint8_t *chunk = fragment->bytes + at;
        if (memcmp(chunk, "VP8 ", 4) == 0 || memcmp(chunk, "VP8L", 4) == 0) {
            webp->frame = chunk;
            webp->frame_len = fragment->size - at;
            webp->lossless = chunk[3] == 'L';
            return MR_OK;
        }
        uint64_t step = CHUNK_HEADER + ((uint64_t)read_le32(chunk + 4) + 1) / 2 * 2;
        if (step > fragment->size - at)
            break;
        at += step;
    }
    return mr_error_set(error, MR_ERR_DAMAGED, "WebP: no pixels");
}

/* The demuxer takes the frame's size from its image. */
static mr_status read_frame(struct webp *webp, mr_error *error)
{
    WebPIterator first;
    if (!WebPDemuxGetFrame(webp->demuxer, 1, &first))
        return mr_error_set(error, MR_ERR_DAMAGED, "WebP: no frame");
    webp->left = (uint32_t)first.x_offset;
    webp->top = (uint32_t)first.y_offset;
    webp->width = (uint32_t)first.width;
    webp->height = (uint32_t)first.height;
    mr_status status = find_pixels(webp, &first.fragment, error);
    WebPDemuxReleaseIterator(&first);
    return status;
}

static uint64_t decoder_bytes(const struct webp *webp)
{
    uint64_t n_pixels = (uint64_t)webp->width * webp->height, n_groups = n_pixels / 16;
    if (!webp->lossless)
        return LOSSY_BYTES;
    if (n_groups > webp->frame_len * 2 / 5)
        n_groups = webp->frame_len * 2 / 5;
    if (n_groups > MAX_GROUPS)
        n_groups = MAX_GROUPS;
    return n_pixels * LOSSLESS_PIXEL_BYTES + n_groups * GROUP_BYTES;
}

static uint32_t read_orientation(const WebPDemuxer *demuxer)
{
    WebPChunkIterator chunk;
    uint32_t orientation = 1;
    if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) {
        const uint8_t *exif = chunk.chunk.bytes;
        size_t len = chunk.chunk.size;
        for (; len >= 6 && memcmp(exif, "Exif\0\0", 6) == 0; len -= 6)
            exif += 6;
        orientation = mr_exif_orientation(exif, len);
    }
    WebPDemuxReleaseChunkIterator(&chunk);
    return orientation;
}

static mr_status webp_open(void *state, const uint8_t *bytes, size_t len,
                           struct mr_image_head *head_out, mr_error *error)
{
    struct webp *webp = state;
    mr_status status = start_demuxer(webp, bytes, len, error);
    if (status != MR_OK)
        return status;
    uint32_t width = WebPDemuxGetI(webp->demuxer, WEBP_FF_CANVAS_WIDTH);
    uint32_t height = WebPDemuxGetI(webp->demuxer, WEBP_FF_CANVAS_HEIGHT);
    status = mr_codec_limits_check_pixels(&webp->limits, width, height, error);
    if (status == MR_OK)
        status = read_frame(webp, error);
    /* The part of an animation's frame that is in a box is decoded into separate memory. */
    uint32_t pixel_bytes = webp->width < width || webp->height < height ? 2 * CHANNELS : CHANNELS;
    if (status == MR_OK)
        status = mr_codec_limits_check_image(&webp->limits, width, height, pixel_bytes,
                                             decoder_bytes(webp), error);
    if (status != MR_OK) {
        webp_close(webp);
        return status;
    }
    webp->need_bytes += decoder_bytes(webp);
    *head_out = (struct mr_image_head){width, height, read_orientation(webp->demuxer)};
    return MR_OK;
}

static uint64_t webp_need(const void *state)
{
    const struct webp *webp = state;
    return webp->need_bytes;
}

/* Columns or lines, from begin to end - 1. */
struct span {
    uint32_t begin;
    uint32_t end;
};

/* The part of a box's columns or lines that is in the frame, on the canvas; (0, 0) if empty. */
static struct span cut_span(uint32_t begin, uint32_t len, uint32_t frame_begin, uint32_t frame_len)
{
    struct span span = {begin, begin + len};
    if (span.begin < frame_begin)
        span.begin = frame_begin;
    if (span.end > frame_begin + frame_len)
        span.end = frame_begin + frame_len;
    return span.begin < span.end ? span : (struct span){0, 0};
}

/*
 * Convert to places in the frame and add the margin. The result begins at an even pixel, because
 * pairs of pixels share a colour.
 */
static struct span widen_span(struct span span, uint32_t frame_begin, uint32_t frame_len,
                              uint32_t margin)
{
    span.begin -= frame_begin;
    span.end -= frame_begin;
    span.begin = span.begin > margin ? (span.begin - margin) / 2 * 2 : 0;
    span.end = frame_len - span.end > margin ? span.end + margin : frame_len;
    return span;
}

/* What is decoded for a box. */
struct part {
    struct span columns; /* of the frame, with the margin */
    struct span lines;
    size_t stride;
    size_t n_bytes;
    size_t first; /* the offset of the box's first pixel in them */
};

static struct part find_part(const struct webp *webp, struct span columns, struct span lines)
{
    uint32_t margin = webp->lossless ? 0 : MARGIN;
    struct part part = {.columns = widen_span(columns, webp->left, webp->width, margin),
                        .lines = widen_span(lines, webp->top, webp->height, margin)};
    part.stride = (size_t)(part.columns.end - part.columns.begin) * CHANNELS;
    part.n_bytes = (part.lines.end - part.lines.begin) * part.stride;
    part.first = (lines.begin - webp->top - part.lines.begin) * part.stride +
                 (size_t)(columns.begin - webp->left - part.columns.begin) * CHANNELS;
    return part;
}

static mr_status decode_part(struct webp *webp, const struct part *part, mr_error *error)
{
    WebPDecoderConfig *config = &webp->config;
    if (!WebPInitDecoderConfig(config))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "libwebp's version differs from its headers'");
    config->options.use_cropping = 1;
    config->options.crop_left = (int)part->columns.begin;
    config->options.crop_top = (int)part->lines.begin;
    config->options.crop_width = (int)(part->columns.end - part->columns.begin);
    config->options.crop_height = (int)(part->lines.end - part->lines.begin);
    config->output.colorspace = MODE_RGB;
    config->output.is_external_memory = 1;
    config->output.u.RGBA.rgba = webp->rows.bytes;
    config->output.u.RGBA.stride = (int)part->stride;
    config->output.u.RGBA.size = part->n_bytes;
    VP8StatusCode code = WebPDecode(webp->frame, webp->frame_len, config);
    return code == VP8_STATUS_OK ? MR_OK : refuse_status(code, error);
}

static mr_status webp_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                            mr_error *error)
{
    struct webp *webp = state;
    struct span columns = cut_span(x, width, webp->left, webp->width);
    struct span lines = cut_span(y, height, webp->top, webp->height);
    bool empty = columns.end == 0 || lines.end == 0;
    bool covered = columns.end - columns.begin == width && lines.end - lines.begin == height;
    struct part part = empty ? (struct part){0} : find_part(webp, columns, lines);
    size_t stride = (size_t)width * CHANNELS, n_box = covered ? 0 : height * stride;
    mr_status status = mr_box_rows_reserve(&webp->rows, part.n_bytes + n_box, error);
    if (status == MR_OK && !empty)
        status = decode_part(webp, &part, error);
    if (status != MR_OK)
        return status;
    if (covered) {
        mr_box_rows_place(&webp->rows, part.first, part.stride, height);
        return MR_OK;
    }
    uint8_t *box = webp->rows.bytes + part.n_bytes;
    memset(box, 0, n_box);
    for (uint32_t line = lines.begin; !empty && line < lines.end; line++)
        memcpy(box + (line - y) * stride + (size_t)(columns.begin - x) * CHANNELS,
               webp->rows.bytes + part.first + (line - lines.begin) * part.stride,
               (size_t)(columns.end - columns.begin) * CHANNELS);
    mr_box_rows_place(&webp->rows, part.n_bytes, stride, height);
    return MR_OK;
}

static mr_status webp_rows(void *state, const uint8_t **rows_out, uint32_t max_rows,
                           uint32_t *n_out, mr_error *error)
{
    struct webp *webp = state;
    return mr_box_rows_give(&webp->rows, rows_out, max_rows, n_out, error);
}

const struct mr_codec_ops mr_codec_webp = {
    .name = MR_IMAGE_FORMAT_WEBP,
    .create = webp_create,
    .destroy = webp_destroy,
    .open = webp_open,
    .begin = webp_begin,
    .rows = webp_rows,
    .close = webp_close,
    .need = webp_need,
};
