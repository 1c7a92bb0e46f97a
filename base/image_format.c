/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the first bytes with the signatures of image formats. The codecs and `millrace list`
 * both use it, so they agree on a file's format.
 */
#include "base/image_format.h"

#include <stdbool.h>
#include <string.h>

enum { TEXT_BYTES = 4096 };

/* A file that ends within the signature still matches if it has at least `least` bytes. */
struct signature {
    const char *format;
    size_t len;
    size_t least;
    const char *bytes;
};

static const struct signature signatures[] = {
    {MR_IMAGE_FORMAT_JPEG, 2, 2, "\xff\xd8"},
    {MR_IMAGE_FORMAT_PNG, 8, 4, "\x89PNG\r\n\x1a\n"},
    {"gif", 6, 6, "GIF87a"},
    {"gif", 6, 6, "GIF89a"},
    {MR_IMAGE_FORMAT_TIFF, 4, 4, "II*\0"},
    {MR_IMAGE_FORMAT_TIFF, 4, 4, "MM\0*"},
    {MR_IMAGE_FORMAT_TIFF, 4, 4, "II+\0"}, /* BigTIFF */
    {MR_IMAGE_FORMAT_TIFF, 4, 4, "MM\0+"},
};

static bool has_signature(const struct signature *signature, const uint8_t *bytes, size_t len)
{
    size_t n = len < signature->len ? len : signature->len;
    return n >= signature->least && memcmp(bytes, signature->bytes, n) == 0;
}

static bool looks_like_webp(const uint8_t *bytes, size_t len)
{
    return len >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

/* The format of an ISO media file by its brand; NULL for other files. */
static const char *find_media_format(const uint8_t *bytes, size_t len)
{
    static const char brands[][5] = {"avif", "avis", "heic", "heix", "hevc", "mif1"};
    if (len < 12 || memcmp(bytes + 4, "ftyp", 4) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++)
        if (memcmp(bytes + 8, brands[i], 4) == 0)
            return i < 2 ? "avif" : "heif";
    return NULL;
}

/*
 * "BM" alone could begin a text. A BMP also has zeros in the reserved bytes. Some writers use
 * those; then the upper bytes of the second header's length, which is below 256, are zeros.
 */
static bool looks_like_bmp(const uint8_t *bytes, size_t len)
{
    if (len < 14 || memcmp(bytes, "BM", 2) != 0)
        return false;
    return memcmp(bytes + 6, "\0\0\0\0", 4) == 0 ||
           (len >= 18 && memcmp(bytes + 15, "\0\0\0", 3) == 0);
}

/* "P" and the number are followed by white space or a comment. */
static bool looks_like_ppm(const uint8_t *bytes, size_t len)
{
    return len >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           memchr(" \t\n\v\f\r#", bytes[2], 7) != NULL;
}

/* No control characters except white space and escape, and no bytes that UTF-8 cannot have. */
static bool looks_like_text(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len && i < TEXT_BYTES; i++) {
        bool control =
            bytes[i] == 0x7f ||
            (bytes[i] < 0x20 && (bytes[i] < 0x09 || bytes[i] > 0x0d) && bytes[i] != 0x1b);
        if (control || bytes[i] == 0xc0 || bytes[i] == 0xc1 || bytes[i] >= 0xf5)
            return false;
    }
    return true;
}

const char *mr_image_format_sniff(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return "empty";
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (has_signature(&signatures[i], bytes, len))
            return signatures[i].format;
    if (looks_like_webp(bytes, len))
        return MR_IMAGE_FORMAT_WEBP;
    if (looks_like_bmp(bytes, len))
        return MR_IMAGE_FORMAT_BMP;
    if (looks_like_ppm(bytes, len))
        return MR_IMAGE_FORMAT_PPM;
    const char *media = find_media_format(bytes, len);
    if (media)
        return media;
    return looks_like_text(bytes, len) ? "text" : "unknown";
}
