/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of a worker: calls the format that an image's first bytes name.
 *
 * Invariant: close() is called on a format only after an open() that succeeded. An open() that
 * failed has already ended the image.
 *
 * libwebp and libtiff report a sound file as damaged if an allocation failed. Their damage counts
 * only if it occurs again while memory is available (confirm_damage).
 */
#include "transforms/codec.h"

#include "base/image_format.h"
#include "base/packed_image.h"
#include "transforms/codec_ops.h"
#include "transforms/formats/codec_bmp.h"
#include "transforms/codec_jpeg.h"
#include "transforms/codec_marked.h"
#include "transforms/codec_packed.h"
#include "transforms/codec_png.h"
#include "transforms/formats/codec_ppm.h"
#include "transforms/formats/codec_tiff.h"
#include "transforms/formats/codec_webp.h"
#include "transforms/jpeg/mark_maker.h"
#include "transforms/packed_selftest.h"
#include "transforms/simd/kernels.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { JPEG, PNG, WEBP, TIFF, BMP, PPM, N_CODECS };

static const struct mr_codec_ops *const codecs[N_CODECS] = {
    [JPEG] = &mr_codec_jpeg, [PNG] = &mr_codec_png, [WEBP] = &mr_codec_webp,
    [TIFF] = &mr_codec_tiff, [BMP] = &mr_codec_bmp, [PPM] = &mr_codec_ppm};

struct mr_codec {
    struct mr_codec_limits limits;
    void *states[N_CODECS];
    void *packed;                   /* the state of mr_codec_packed, which no first bytes name */
    void *marked;                   /* the state of mr_codec_marked */
    struct mr_mark_maker *marker;   /* NULL until marks are made */
    bool idct_chosen;               /* for packed samples */
    bool decoder_chosen;            /* for JPEGs */
    bool reads_marks;               /* known once decoder_chosen */
    bool stock_jpeg;                /* decode JPEGs with libjpeg alone */
    const struct mr_codec_ops *ops; /* of the open image; NULL if none is open */
    void *state;                    /* its state; NULL if open() failed again in confirm_damage() */
    const uint8_t *bytes;           /* its file, for formats that open it again */
    size_t len;
    struct mr_image_head head;
    bool begun;
};

static mr_status refuse_bytes(const char *sniffed, const uint8_t *bytes, size_t len,
                              mr_error *error)
{
    if (len == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "the file is empty");
    static const char *const unsupported[][2] = {
        {"gif", "GIF"}, {"avif", "AVIF"}, {"heif", "HEIF"}};
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (strcmp(sniffed, unsupported[i][0]) == 0)
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "%s is not supported; JPEG, PNG, WebP, TIFF, BMP and PPM are",
                                unsupported[i][1]);
    char hex[4 * 3 + 1];
    for (size_t i = 0; i < 4 && i < len; i++)
        snprintf(hex + 3 * i, 4, " %02x", bytes[i]);
    return mr_error_set(error, MR_ERR_DAMAGED, "not an image: the first bytes are%s", hex);
}

mr_status mr_codec_create(const struct mr_codec_limits *limits, struct mr_codec **codec_out,
                          mr_error *error)
{
    *codec_out = NULL;
    struct mr_codec *codec = calloc(1, sizeof *codec);
    if (!codec)
        return mr_error_memory(error, sizeof *codec);
    codec->limits = mr_codec_limits_resolve(limits);
    for (int i = 0; i < N_CODECS; i++) {
        mr_status status = codecs[i]->create(&codec->limits, &codec->states[i], error);
        if (status != MR_OK) {
            mr_codec_destroy(codec);
            return status;
        }
    }
    mr_status status = mr_codec_packed.create(&codec->limits, &codec->packed, error);
    if (status == MR_OK)
        status = mr_codec_marked.create(&codec->limits, &codec->marked, error);
    if (status != MR_OK) {
        mr_codec_destroy(codec);
        return status;
    }
    *codec_out = codec;
    return MR_OK;
}

void mr_codec_destroy(struct mr_codec *codec)
{
    if (!codec)
        return;
    if (codec->ops)
        mr_codec_close(codec);
    for (int i = 0; i < N_CODECS; i++) {
        if (codec->states[i])
            codecs[i]->destroy(codec->states[i]);
    }
    if (codec->packed)
        mr_codec_packed.destroy(codec->packed);
    if (codec->marked)
        mr_codec_marked.destroy(codec->marked);
    mr_mark_maker_destroy(codec->marker);
    free(codec);
}

void mr_codec_use_stock_jpeg(struct mr_codec *codec)
{
    codec->stock_jpeg = true;
    codec->decoder_chosen = false;
}

bool mr_codec_stock_jpeg_asked(void)
{
    const char *asked = getenv("MR_JPEG");
    return asked && strcmp(asked, "stock") == 0;
}

static enum mr_codec_jpeg_decoder find_decoder(const struct mr_codec *codec)
{
    bool stock = codec->stock_jpeg || mr_codec_stock_jpeg_asked();
    return stock ? MR_CODEC_JPEG_STOCK : mr_packed_selftest_decoder();
}

/*
 * Runs once, at the first JPEG that is decoded. The selftest takes half a millisecond, which
 * headers and other formats do not need.
 */
static void choose_decoder(struct mr_codec *codec)
{
    enum mr_codec_jpeg_decoder decoder = find_decoder(codec);
    mr_codec_jpeg_use(codec->states[JPEG], decoder, mr_kernels_best());
    mr_codec_marked_use(codec->marked, mr_kernels_best(), decoder != MR_CODEC_JPEG_OWN);
    mr_status marks = mr_packed_selftest_check_marks(NULL);
    codec->reads_marks = decoder != MR_CODEC_JPEG_STOCK && marks == MR_OK;
    /* otherwise libjpeg decodes this one, and the next JPEG tries again */
    codec->decoder_chosen = marks != MR_ERR_NO_MEMORY;
}

bool mr_codec_reads_marks(const struct mr_codec *codec)
{
    if (codec->decoder_chosen)
        return codec->reads_marks;
    return find_decoder(codec) != MR_CODEC_JPEG_STOCK &&
           mr_packed_selftest_check_marks(NULL) == MR_OK;
}

static void set_open(struct mr_codec *codec, const struct mr_codec_ops *ops, void *state,
                     struct mr_image_head *head_out)
{
    codec->ops = ops;
    codec->state = state;
    codec->begun = false;
    *head_out = codec->head;
}

/*
 * Is as much memory available as a library may have asked for? This uses mmap(): its pages are
 * never touched, and after a block of this size malloc() would retain blocks of up to 32 MiB.
 */
static mr_status check_memory(const struct mr_codec *codec, uint64_t need, mr_error *error)
{
    if (need > codec->limits.max_decoder_bytes)
        need = codec->limits.max_decoder_bytes;
    void *memory = mmap(NULL, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return mr_error_memory(error, need);
    munmap(memory, need);
    return MR_OK;
}

/* second: the file's second failure. error: its first; NULL if the caller wants no message. */
static mr_status compare_failures(mr_status status, const mr_error *second, mr_error *error)
{
    if (status == MR_ERR_DAMAGED && (!error || strcmp(second->text, error->text) == 0))
        return status;
    return mr_error_set(error, MR_ERR_NO_MEMORY, "memory ran out while decoding: %s", second->text);
}

/*
 * Decode the file once more. box: x, y, width and height if begin() failed; NULL if open() failed.
 */
static mr_status confirm_damage(struct mr_codec *codec, const struct mr_codec_ops *ops, void *state,
                                const uint32_t box[4], mr_error *error)
{
    mr_error second = {0};
    uint64_t need = ops->need ? ops->need(state) : 0;
    if (need == 0)
        return MR_ERR_DAMAGED;
    mr_status status = check_memory(codec, need, error);
    if (status != MR_OK)
        return status;
    if (box)
        ops->close(state);
    status = ops->open(state, codec->bytes, codec->len, &codec->head, &second);
    if (status != MR_OK)
        codec->state = NULL;
    else if (box)
        status = ops->begin(state, box[0], box[1], box[2], box[3], &second);
    return status == MR_OK ? status : compare_failures(status, &second, error);
}

mr_status mr_codec_open(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                        struct mr_image_head *head_out, mr_error *error)
{
    assert(!codec->ops);
    codec->bytes = bytes;
    codec->len = len;
    const char *sniffed = mr_image_format_sniff(bytes, len);
    for (int i = 0; i < N_CODECS; i++) {
        if (strcmp(codecs[i]->name, sniffed) != 0)
            continue;
        mr_status status = codecs[i]->open(codec->states[i], bytes, len, &codec->head, error);
        if (status == MR_ERR_DAMAGED)
            status = confirm_damage(codec, codecs[i], codec->states[i], NULL, error);
        if (status == MR_OK)
            set_open(codec, codecs[i], codec->states[i], head_out);
        return status;
    }
    return refuse_bytes(sniffed, bytes, len, error);
}

/*
 * Runs once, at the first sample of coefficients. The selftest takes half a millisecond, which
 * plain files do not need.
 */
static mr_status choose_idct(struct mr_codec *codec, mr_error *error)
{
    mr_status status = mr_packed_selftest_check(error);
    if (status != MR_OK)
        return status;
    mr_codec_packed_use_libjpeg_idct(codec->packed, !mr_packed_selftest_own_idct());
    codec->idct_chosen = true;
    return MR_OK;
}

/* Open an image by its marks if they are usable; otherwise as a file, which must be complete. */
static mr_status open_marked(struct mr_codec *codec, const struct mr_packed_image *image,
                             const uint8_t *bytes, size_t len, uint64_t offset,
                             struct mr_image_head *head_out, mr_error *error)
{
    if (!codec->decoder_chosen)
        choose_decoder(codec);
    if (image->marks && codec->reads_marks) {
        mr_status status =
            mr_codec_marked_open(codec->marked, image, bytes, len, offset, &codec->head, error);
        if (status == MR_OK)
            set_open(codec, &mr_codec_marked, codec->marked, head_out);
        return status;
    }
    if (offset != 0 || len < image->len)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the JPEG was not read completely and has no index");
    return mr_codec_open(codec, bytes, len, head_out, error);
}

mr_status mr_codec_open_packed(struct mr_codec *codec, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error)
{
    assert(!codec->ops && image->encoding != MR_PACKED_RAW);
    if (image->encoding == MR_PACKED_JPEG)
        return mr_codec_open(codec, bytes, len, head_out, error);
    if (image->encoding == MR_PACKED_MARKED)
        return open_marked(codec, image, bytes, len, offset, head_out, error);
    mr_status status = codec->idct_chosen ? MR_OK : choose_idct(codec, error);
    if (status == MR_OK)
        status =
            mr_codec_packed_open(codec->packed, image, bytes, len, offset, &codec->head, error);
    if (status == MR_OK)
        set_open(codec, &mr_codec_packed, codec->packed, head_out);
    return status;
}

mr_status mr_codec_mark(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                        struct mr_packed_image *image_out, mr_error *error)
{
    assert(!codec->ops);
    if (!mr_codec_reads_marks(codec))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "no index: JPEGs are decoded by libjpeg alone");
    if (strcmp(mr_image_format_sniff(bytes, len), MR_IMAGE_FORMAT_JPEG) != 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "no index: the file is not a JPEG");
    mr_status status =
        codec->marker ? MR_OK : mr_mark_maker_create(&codec->limits, &codec->marker, error);
    return status == MR_OK ? mr_mark_maker_run(codec->marker, bytes, len, image_out, error)
                           : status;
}

mr_status mr_codec_begin(struct mr_codec *codec, uint32_t x, uint32_t y, uint32_t width,
                         uint32_t height, mr_error *error)
{
    assert(codec->ops && !codec->begun);
    assert(width > 0 && x < codec->head.width && width <= codec->head.width - x);
    assert(height > 0 && y < codec->head.height && height <= codec->head.height - y);
    codec->begun = true;
    if (codec->ops == &mr_codec_jpeg && !codec->decoder_chosen)
        choose_decoder(codec);
    mr_status status = codec->ops->begin(codec->state, x, y, width, height, error);
    if (status == MR_ERR_DAMAGED)
        status = confirm_damage(codec, codec->ops, codec->state, (uint32_t[]){x, y, width, height},
                                error);
    return status;
}

mr_status mr_codec_rows(struct mr_codec *codec, const uint8_t **rows_out, uint32_t max_rows,
                        uint32_t *n_out, mr_error *error)
{
    assert(codec->ops && codec->begun && max_rows > 0);
    return codec->ops->rows(codec->state, rows_out,
                            max_rows < MR_CODEC_ROWS ? max_rows : MR_CODEC_ROWS, n_out, error);
}

uint32_t mr_codec_close(struct mr_codec *codec)
{
    assert(codec->ops);
    uint32_t n_warnings = codec->state ? codec->ops->close(codec->state) : 0;
    codec->ops = NULL;
    codec->state = NULL;
    return n_warnings;
}
