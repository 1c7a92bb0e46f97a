/* SPDX-License-Identifier: Apache-2.0 */
/* LZW, deflate (by zlib) and PackBits, as libtiff writes and reads them. */
#include "transforms/formats/tiff_unpack.h"

#include "transforms/formats/tiff_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#define LZW_CODES 4096
#define LZW_CLEAR 256
#define LZW_END 257
#define LZW_FIRST 258
#define NO_CODE UINT32_MAX

struct mr_tiff_unpack {
    z_stream stream;
    /* A code stands for what prefix stands for, and one byte more. */
    uint16_t prefix[LZW_CODES];
    uint16_t length[LZW_CODES]; /* in bytes; at most LZW_CODES */
    uint8_t first[LZW_CODES];
    uint8_t last[LZW_CODES];
};

static const char no_memory[] = "no memory for zlib";

mr_status mr_tiff_unpack_create(struct mr_tiff_unpack **unpack_out, mr_error *error)
{
    struct mr_tiff_unpack *unpack = calloc(1, sizeof *unpack);
    if (!unpack)
        return mr_error_memory(error, sizeof *unpack);
    for (int i = 0; i < LZW_CLEAR; i++) {
        unpack->length[i] = 1;
        unpack->first[i] = unpack->last[i] = (uint8_t)i;
    }
    if (inflateInit(&unpack->stream) != Z_OK) {
        free(unpack);
        return mr_error_set(error, MR_ERR_NO_MEMORY, "%s", no_memory);
    }
    *unpack_out = unpack;
    return MR_OK;
}

void mr_tiff_unpack_destroy(struct mr_tiff_unpack *unpack)
{
    if (unpack)
        inflateEnd(&unpack->stream);
    free(unpack);
}

static const char *unpack_deflate(struct mr_tiff_unpack *unpack, const uint8_t *bytes, size_t len, uint8_t *out,
                                  size_t n_out, bool whole)
{
    z_stream *stream = &unpack->stream;
    if (inflateReset(stream) != Z_OK)
        return "zlib cannot start";
    stream->next_in = (Bytef *)bytes;
    stream->next_out = out;
    int code = Z_OK;
    while (n_out > 0 && code == Z_OK) {
        stream->avail_in = len < UINT_MAX ? (uInt)len : UINT_MAX;
        stream->avail_out = n_out < UINT_MAX ? (uInt)n_out : UINT_MAX;
        size_t in_before = stream->avail_in, out_before = stream->avail_out;
        code = inflate(stream, Z_NO_FLUSH);
        len -= in_before - stream->avail_in;
        n_out -= out_before - stream->avail_out;
    }
    if (code == Z_MEM_ERROR)
        return no_memory;
    if (n_out > 0)
        return code == Z_STREAM_END || code == Z_BUF_ERROR ? "a strip or tile ends early" : "deflated bytes are wrong";
    uint8_t more;
    stream->avail_in = len < UINT_MAX ? (uInt)len : UINT_MAX;
    stream->next_out = &more;
    stream->avail_out = 0;
    return whole && code == Z_OK && inflate(stream, Z_NO_FLUSH) == Z_DATA_ERROR ? "deflated bytes are wrong" : NULL;
}

static const char *unpack_bits(const uint8_t *bytes, size_t len, uint8_t *out, size_t n_out)
{
    size_t at = 0;
    while (n_out > 0 && at < len) {
        uint8_t head = bytes[at++];
        if (head == 128)
            continue;
        size_t n = head < 128 ? head + 1u : 257u - head;
        size_t n_put = n < n_out ? n : n_out;
        if (len - at < (head < 128 ? n_put : 1))
            break;
        if (head < 128)
            memcpy(out, bytes + at, n_put);
        else
            memset(out, bytes[at], n_put);
        at += head < 128 ? n_put : 1;
        out += n_put;
        n_out -= n_put;
    }
    return n_out > 0 ? "a strip or tile ends early" : NULL;
}

/* Backwards from its last byte, as far as there is room. Returns the bytes of it that were put. */
static size_t put_code(const struct mr_tiff_unpack *unpack, uint32_t code, uint8_t *out, size_t n_out)
{
    size_t n = unpack->length[code];
    for (size_t i = n; i > n_out; i--)
        code = unpack->prefix[code];
    if (n > n_out)
        n = n_out;
    for (size_t i = n; i > 0; i--, code = unpack->prefix[code])
        out[i - 1] = unpack->last[code];
    return n;
}

static const char *unpack_lzw(struct mr_tiff_unpack *unpack, const uint8_t *bytes, size_t len, uint8_t *out,
                              size_t n_out)
{
    uint32_t next = LZW_FIRST, width = 9, previous = NO_CODE, word = 0, n_bits = 0;
    for (size_t at = 0; n_out > 0;) {
        while (n_bits < width && at < len) {
            word = word << 8 | bytes[at++];
            n_bits += 8;
        }
        if (n_bits < width)
            return "a strip or tile ends early";
        n_bits -= width;
        uint32_t code = word >> n_bits & ((1u << width) - 1);
        if (code == LZW_END)
            return "a strip or tile ends early";
        if (code == LZW_CLEAR) {
            next = LZW_FIRST;
            width = 9;
            previous = NO_CODE;
            continue;
        }
        if (previous == NO_CODE ? code > LZW_CLEAR : code > next || next == LZW_CODES)
            return "LZW codes are wrong";
        if (previous != NO_CODE) {
            unpack->prefix[next] = (uint16_t)previous;
            unpack->length[next] = (uint16_t)(unpack->length[previous] + 1);
            unpack->first[next] = unpack->first[previous];
            unpack->last[next] = unpack->first[code == next ? previous : code];
            next++;
            if (next == (1u << width) - 1 && width < 12)
                width++;
        }
        size_t n = put_code(unpack, code, out, n_out);
        out += n;
        n_out -= n;
        previous = code;
    }
    return NULL;
}

mr_status mr_tiff_unpack_run(struct mr_tiff_unpack *unpack, uint32_t compression, const uint8_t *bytes, size_t len,
                             uint8_t *out, size_t n_out, bool whole, mr_error *error)
{
    const char *wrong;
    if (compression == MR_TIFF_LZW)
        wrong = unpack_lzw(unpack, bytes, len, out, n_out);
    else if (compression == MR_TIFF_PACKBITS)
        wrong = unpack_bits(bytes, len, out, n_out);
    else
        wrong = unpack_deflate(unpack, bytes, len, out, n_out, whole);
    if (!wrong)
        return MR_OK;
    return mr_error_set(error, wrong == no_memory ? MR_ERR_NO_MEMORY : MR_ERR_DAMAGED, "TIFF: %s", wrong);
}
