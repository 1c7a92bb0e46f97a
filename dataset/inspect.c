/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes an image by the first bytes of its file, or by the index of its pack. It reads headers
 * only, and malformed content is not an error: a JPEG without a frame header is a "jpeg" of unknown
 * size.
 *
 * Invariant: every length comes from the file and may be wrong, so the walk over segments or chunks
 * has a limit on its steps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exif.h"
#include "base/image_format.h"
#include "base/public_struct.h"
#include "base/packed_image.h"
#include "base/ppm_header.h"
#include "dataset/dataset.h"
#include "dataset/file.h"
#include "dataset/remote/object.h"

/* A request takes as long as reading many bytes, and the header of most photographs is shorter. */
#define REMOTE_HEAD_BYTES ((size_t)64 << 10)
enum { HEAD_BYTES = 4096, MAX_SEGMENTS = 512, MAX_CHUNKS = 512, EXIF_BYTES = 65536 };

static uint32_t read_be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t read_be32(const uint8_t *p)
{
    return read_be16(p) << 16 | read_be16(p + 2);
}

static uint32_t read_le24(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

static uint32_t read_le32(const uint8_t *p)
{
    return read_le24(p) | (uint32_t)p[3] << 24;
}

static void set_format(mr_sample_info *info, const char *format)
{
    memset(info->format, 0, sizeof info->format);
    memcpy(info->format, format, strnlen(format, sizeof info->format - 1));
}

static bool is_frame_header(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* The range of a file that holds the image: all of it, or a part of a shard. */
struct view {
    int fd;
    struct mr_object *object; /* NULL: the file is that of fd */
    mr_error *error;          /* of a read of the object that has failed */
    uint8_t *head;            /* the first bytes of an object's image */
    size_t head_len;
    uint64_t start;
    uint64_t len;
};

/* Read up to len bytes, fewer at the end. Returns 0 or a negative errno. */
static int read_up_to(const struct view *view, uint64_t at, void *out, size_t len, size_t *n_out)
{
    uint64_t rest = at < view->len ? view->len - at : 0;
    *n_out = rest < len ? (size_t)rest : len;
    if (at < view->head_len && *n_out <= view->head_len - at) {
        memcpy(out, view->head + at, *n_out);
        return 0;
    }
    if (view->object)
        return mr_object_read(view->object, view->start + at, out, *n_out, view->error) < 0 ? -EIO
                                                                                            : 0;
    return mr_file_read_at(view->fd, view->start + at, out, *n_out, n_out);
}

/*
 * Read an EXIF block of len bytes that begins with its TIFF header. Only the first block counts, as
 * in the codecs.
 */
static void read_orientation(const struct view *view, uint64_t at, uint64_t len,
                             mr_sample_info *info)
{
    size_t n = 0;
    uint8_t *block = len <= EXIF_BYTES && info->orientation == 0 ? malloc(EXIF_BYTES) : NULL;
    if (block && read_up_to(view, at, block, (size_t)len, &n) == 0 && n == len)
        info->orientation = mr_exif_orientation(block, n);
    free(block);
}

static void inspect_application(const struct view *view, uint64_t at, uint64_t len,
                                mr_sample_info *info)
{
    uint8_t head[6];
    size_t n;
    if (len >= 8 && read_up_to(view, at + 4, head, sizeof head, &n) == 0 && n == sizeof head &&
        memcmp(head, "Exif\0\0", sizeof head) == 0)
        read_orientation(view, at + 10, len - 8, info);
}

static bool has_no_length(uint8_t marker)
{
    return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
}

/*
 * Find the frame header. A photograph may have hundreds of kilobytes of profiles and previews
 * before it.
 */
static void inspect_jpeg(const struct view *view, mr_sample_info *info)
{
    uint64_t at = 2;
    for (int i = 0; i < MAX_SEGMENTS; i++) {
        uint8_t head[10];
        size_t n;
        if (read_up_to(view, at, head, sizeof head, &n) < 0 || n < 4 || head[0] != 0xff)
            return;
        if (head[1] == 0xff) { /* a fill byte */
            at++;
            continue;
        }
        if (is_frame_header(head[1]) && n == sizeof head && info->channels == 0) {
            info->height = read_be16(head + 5);
            info->width = read_be16(head + 7);
            info->channels = head[9];
        }
        if (head[1] == 0xda || head[1] == 0xd9) /* start of scan, or end of image */
            return;
        if (head[1] == 0xe1)
            inspect_application(view, at, read_be16(head + 2), info);
        at += has_no_length(head[1]) ? 2 : 2 + (uint64_t)read_be16(head + 2);
    }
}

/* Find the chunk eXIf. It counts only before the pixels. */
static void inspect_chunks(const struct view *view, mr_sample_info *info)
{
    uint64_t at = 8;
    for (int i = 0; i < MAX_CHUNKS && info->orientation == 0; i++) {
        uint8_t head[8];
        size_t n;
        if (read_up_to(view, at, head, sizeof head, &n) < 0 || n < sizeof head ||
            memcmp(head + 4, "IDAT", 4) == 0)
            return;
        if (memcmp(head + 4, "eXIf", 4) == 0)
            read_orientation(view, at + 8, read_be32(head), info);
        at += 12 + (uint64_t)read_be32(head);
    }
}

static void inspect_png(const struct view *view, const uint8_t *head, size_t n,
                        mr_sample_info *info)
{
    static const uint8_t channels[] = {1, 0, 3, 3, 2, 0, 4};
    if (n < 26 || memcmp(head + 12, "IHDR", 4) != 0)
        return;
    info->width = read_be32(head + 16);
    info->height = read_be32(head + 20);
    info->channels = head[25] < sizeof channels ? channels[head[25]] : 0;
    inspect_chunks(view, info);
}

/* Find the chunk EXIF, which follows the pixels. Pillow accepts it with a JPEG's prefix too. */
static void inspect_webp_chunks(const struct view *view, mr_sample_info *info)
{
    uint64_t at = 12;
    for (int i = 0; i < MAX_CHUNKS && info->orientation == 0; i++) {
        uint8_t head[14];
        size_t n;
        if (read_up_to(view, at, head, sizeof head, &n) < 0 || n < sizeof head)
            return;
        uint64_t len = read_le32(head + 4), prefix = memcmp(head + 8, "Exif\0\0", 6) == 0 ? 6 : 0;
        if (memcmp(head, "EXIF", 4) == 0 && len >= prefix)
            read_orientation(view, at + 8 + prefix, len - prefix, info);
        at += 8 + (len + 1) / 2 * 2;
    }
}

static void inspect_webp(const struct view *view, const uint8_t *head, size_t n,
                         mr_sample_info *info)
{
    if (n < 30)
        return;
    bool alpha = false;
    if (memcmp(head + 12, "VP8X", 4) == 0) {
        info->width = read_le24(head + 24) + 1;
        info->height = read_le24(head + 27) + 1;
        alpha = head[20] & 0x10;
        if (head[20] & 0x08)
            inspect_webp_chunks(view, info);
    } else if (memcmp(head + 12, "VP8L", 4) == 0 && head[20] == 0x2f) {
        uint32_t bits = read_le32(head + 21);
        info->width = (bits & 0x3fff) + 1;
        info->height = (bits >> 14 & 0x3fff) + 1;
        alpha = bits >> 28 & 1;
    } else if (memcmp(head + 12, "VP8 ", 4) == 0 && memcmp(head + 23, "\x9d\x01\x2a", 3) == 0) {
        info->width = read_le24(head + 26) & 0x3fff;
        info->height = (read_le24(head + 27) >> 8) & 0x3fff;
    } else {
        return;
    }
    info->channels = alpha ? 4 : 3;
}

static uint64_t read_by_order(const uint8_t *p, uint32_t n, bool big)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < n; i++)
        value |= (uint64_t)p[i] << 8 * (big ? n - 1 - i : i);
    return value;
}

/*
 * Read the first directory. The codec rotates the image by its orientation, as Pillow does, so the
 * size here is that of the rotated image.
 */
static void inspect_tiff(const struct view *view, const uint8_t *head, size_t n,
                         mr_sample_info *info)
{
    bool big = head[0] == 'M', wide = head[big ? 3 : 2] == 43; /* BigTIFF: words of eight bytes */
    uint32_t width = 0, height = 0, n_samples = 1, orientation = 1;
    uint32_t word = wide ? 8 : 4, count = wide ? 8 : 2, entry_bytes = 4 + 2 * word;
    uint8_t entry[20];
    if (n < 2 * word)
        return;
    uint64_t at = read_by_order(head + word, word, big);
    if (read_up_to(view, at, entry, count, &n) < 0 || n < count)
        return;
    uint64_t n_entries = read_by_order(entry, count, big);
    at += count;
    for (uint32_t i = 0; i < n_entries && i < MAX_CHUNKS; i++, at += entry_bytes) {
        if (read_up_to(view, at, entry, entry_bytes, &n) < 0 || n < entry_bytes)
            return;
        uint32_t value = (uint32_t)read_by_order(
            entry + 4 + word, read_by_order(entry + 2, 2, big) == 3 ? 2 : 4, big);
        switch (read_by_order(entry, 2, big)) {
        case 256: width = value; break;
        case 257: height = value; break;
        case 274: orientation = value; break;
        case 277: n_samples = value; break;
        default: break;
        }
    }
    bool rotated = orientation >= 5 && orientation <= 8;
    info->width = rotated ? height : width;
    info->height = rotated ? width : height;
    info->channels = n_samples;
}

static void inspect_bmp(const uint8_t *head, size_t n, mr_sample_info *info)
{
    bool old = n >= 26 && read_le32(head + 14) == 12; /* OS/2's header */
    if (n < 26 || (!old && read_le32(head + 14) < 40))
        return;
    uint32_t height = old ? read_le24(head + 20) & 0xffff : read_le32(head + 22);
    info->width = old ? read_le24(head + 18) & 0xffff : read_le32(head + 18);
    info->height = !old && height >> 24 == 0xff ? 0u - height : height;
    info->channels = 3;
}

static void inspect_ppm(const uint8_t *head, size_t n, mr_sample_info *info)
{
    struct mr_ppm_header header;
    if (mr_ppm_header_read(head, n, &header))
        return;
    info->width = header.width;
    info->height = header.height;
    info->channels = header.channels;
}

static int inspect_bytes(const struct view *view, mr_sample_info *info)
{
    uint8_t head[HEAD_BYTES];
    size_t n;
    int rc = read_up_to(view, 0, head, sizeof head, &n);
    if (rc < 0)
        return rc;
    set_format(info, mr_image_format_sniff(head, n));
    if (strcmp(info->format, MR_IMAGE_FORMAT_JPEG) == 0)
        inspect_jpeg(view, info);
    else if (strcmp(info->format, MR_IMAGE_FORMAT_PNG) == 0)
        inspect_png(view, head, n, info);
    else if (strcmp(info->format, MR_IMAGE_FORMAT_WEBP) == 0)
        inspect_webp(view, head, n, info);
    else if (strcmp(info->format, MR_IMAGE_FORMAT_TIFF) == 0)
        inspect_tiff(view, head, n, info);
    else if (strcmp(info->format, MR_IMAGE_FORMAT_BMP) == 0)
        inspect_bmp(head, n, info);
    else if (strcmp(info->format, MR_IMAGE_FORMAT_PPM) == 0)
        inspect_ppm(head, n, info);
    if (info->orientation == 0)
        info->orientation = 1;
    return 0;
}

/* Read the first bytes of an image at a URL. */
static mr_status read_head(const struct mr_extent *image, struct view *view, mr_error *error)
{
    if (image->len == MR_LEN_UNKNOWN)
        view->len = mr_object_version(view->object)->size;
    size_t len = view->len < REMOTE_HEAD_BYTES ? (size_t)view->len : REMOTE_HEAD_BYTES;
    view->head = malloc(len + 1);
    if (!view->head)
        return mr_error_memory(error, len + 1);
    view->head_len = len;
    return len > 0 ? mr_object_read(view->object, view->start, view->head, len, error) : MR_OK;
}

static mr_status open_local(const struct mr_catalog *catalog, int64_t index,
                            const struct mr_extent *image, struct view *view, mr_error *error)
{
    struct stat st;
    mr_status status = mr_file_open_sample(catalog, index, image->file, &view->fd, error);
    if (status != MR_OK || image->len != MR_LEN_UNKNOWN)
        return status;
    if (fstat(view->fd, &st) != 0)
        return mr_file_error(catalog, index, errno, error);
    view->len = (uint64_t)st.st_size;
    return MR_OK;
}

/* Describe an image by its first bytes. */
static mr_status inspect_file(const struct mr_catalog *catalog, int64_t index, mr_sample_info *info,
                              mr_error *error)
{
    struct mr_extent image = mr_catalog_image(catalog, index);
    mr_error why = {0};
    struct view view = {.fd = -1, .error = &why, .start = image.offset, .len = image.len};
    mr_status status = mr_dataset_open_object(catalog, image.file, &view.object, error);
    if (status == MR_OK)
        status = read_head(&image, &view, error);
    else if (status == MR_PENDING)
        status = open_local(catalog, index, &image, &view, error);
    int rc = status == MR_OK ? inspect_bytes(&view, info) : 0;
    if (why.status < 0 && error)
        *error = why;
    info->len_bytes = view.len;
    free(view.head);
    mr_object_close(view.object);
    if (view.fd >= 0)
        close(view.fd);
    if (why.status < 0)
        return why.status;
    return rc < 0 ? mr_file_error(catalog, index, -rc, error) : status;
}

static mr_status inspect_packed(const struct mr_catalog *catalog, int64_t index,
                                mr_sample_info *info, mr_error *error)
{
    static const char *const formats[] = {[MR_PACKED_RAW] = "raw",
                                          [MR_PACKED_DCT] = "dct",
                                          [MR_PACKED_MARKED] = MR_IMAGE_FORMAT_JPEG};
    struct mr_packed_image image;
    mr_status status = mr_catalog_packed(catalog, index, &image, error);
    if (status < 0)
        return status;
    if (image.encoding == MR_PACKED_JPEG)
        return inspect_file(catalog, index, info, error);
    bool known = image.encoding < sizeof formats / sizeof *formats && formats[image.encoding];
    set_format(info, known ? formats[image.encoding] : "unknown");
    info->width = image.width;
    info->height = image.height;
    info->len_bytes = image.len;
    info->orientation = image.orientation >= 1 && image.orientation <= 8 ? image.orientation : 1;
    if (known)
        info->channels = image.encoding == MR_PACKED_RAW ? 3 : image.template->n_components;
    return MR_OK;
}

static void inspect_raw(const struct mr_sample_kind *kind, mr_sample_info *info)
{
    set_format(info, "raw");
    info->len_bytes = kind->data_bytes;
    if (!kind->picture)
        return;
    bool chw = kind->layout == MR_NCHW;
    info->channels = (uint32_t)kind->shape[chw ? 0 : 2];
    int64_t height = kind->shape[chw ? 1 : 0], width = kind->shape[chw ? 2 : 1];
    info->height = height <= UINT32_MAX ? (uint32_t)height : 0;
    info->width = width <= UINT32_MAX ? (uint32_t)width : 0;
}

mr_status mr_dataset_inspect(const mr_dataset *dataset, int64_t index, mr_sample_info *info_out,
                             mr_error *error)
{
    if (!dataset || !info_out || index < 0 || index >= mr_dataset_n_samples(dataset))
        return mr_error_set(error, MR_ERR_INVALID,
                            "index %lld is out of range, or an argument is NULL", (long long)index);
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    if (!catalog)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "samples of callbacks cannot be inspected");
    mr_sample_info info = {0};
    mr_status status = mr_out_struct_check(info_out, sizeof info, "mr_sample_info", error);
    if (status != MR_OK)
        return status;
    if (mr_catalog_is_described(catalog))
        status = inspect_packed(catalog, index, &info, error);
    else if (mr_catalog_kind(catalog)->encoded)
        status = inspect_file(catalog, index, &info, error);
    else
        inspect_raw(mr_catalog_kind(catalog), &info);
    if (mr_catalog_kind(catalog)->token_columns & MR_TOKENS_LENGTH ||
        mr_catalog_kind(catalog)->pack != MR_PACK_NONE)
        info.len_bytes = mr_catalog_image(catalog, index).len;
    if (status == MR_OK)
        mr_out_struct_write(info_out, &info, sizeof info);
    return status;
}
