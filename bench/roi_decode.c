/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain ROI decoding. With a margin of two pixels a crop equals a full decode; the library uses the
 * same margin.
 */
#include "bench/roi_decode.h"

#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

enum {
    MARGIN = 2,
    NARROWEST = 16,
    ROWS = 4,
    READABLE_AFTER = 64,
    WARM_UP = 64,
    KEEP_BYTES = 1 << 25
};

struct mr_roi_decode {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    uint8_t *rows;
    size_t rows_bytes;
};

static void on_error(j_common_ptr cinfo)
{
    struct mr_roi_decode *decode = cinfo->client_data;
    longjmp(decode->escape, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level;
}

static bool create_decompressor(struct mr_roi_decode *decode)
{
    if (setjmp(decode->escape) != 0)
        return false;
    jpeg_create_decompress(&decode->cinfo);
    return true;
}

struct mr_roi_decode *mr_roi_decode_create(void)
{
    struct mr_roi_decode *decode = calloc(1, sizeof *decode);
    if (!decode)
        return NULL;
    decode->cinfo.err = jpeg_std_error(&decode->errors);
    decode->cinfo.client_data = decode;
    decode->errors.error_exit = on_error;
    decode->errors.emit_message = on_message;
    if (create_decompressor(decode))
        return decode;
    free(decode);
    return NULL;
}

void mr_roi_decode_destroy(struct mr_roi_decode *decode)
{
    if (!decode)
        return;
    jpeg_destroy_decompress(&decode->cinfo);
    free(decode->rows);
    free(decode);
}

uint64_t mr_roi_decode_sum(uint64_t sum, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return sum;
}

static bool grow_buffer(uint8_t **bytes, size_t *have, size_t need)
{
    if (need <= *have)
        return true;
    free(*bytes);
    *bytes = malloc(need);
    *have = *bytes ? need : 0;
    return *bytes != NULL;
}

/* Crop the columns; returns where the box begins in a row, in bytes. */
static size_t cut_columns(j_decompress_ptr cinfo, struct mr_box box)
{
    int64_t left = box.x > MARGIN ? box.x - MARGIN : 0, right = box.x + box.width + MARGIN;
    if (right > cinfo->output_width)
        right = cinfo->output_width;
    if (right - left < NARROWEST)
        left = right > NARROWEST ? right - NARROWEST : 0;
    JDIMENSION first = (JDIMENSION)left, width = (JDIMENSION)(right - left);
    if (width < cinfo->output_width)
        jpeg_crop_scanline(cinfo, &first, &width);
    else
        first = 0;
    return (size_t)(box.x - first) * 3;
}

static bool read_box(struct mr_roi_decode *decode, struct mr_box box, uint64_t *sum_out)
{
    j_decompress_ptr cinfo = &decode->cinfo;
    size_t offset = cut_columns(cinfo, box), stride = (size_t)cinfo->output_width * 3;
    if (!grow_buffer(&decode->rows, &decode->rows_bytes, stride * ROWS))
        return false;
    JSAMPROW starts[ROWS];
    for (int i = 0; i < ROWS; i++)
        starts[i] = decode->rows + (size_t)i * stride;
    if (box.y > MARGIN)
        jpeg_skip_scanlines(cinfo, (JDIMENSION)(box.y - MARGIN));
    JDIMENSION top = (JDIMENSION)box.y, end = (JDIMENSION)(box.y + box.height);
    while (cinfo->output_scanline < end) {
        JDIMENSION row = cinfo->output_scanline, want = end - row < ROWS ? end - row : ROWS;
        JDIMENSION n = jpeg_read_scanlines(cinfo, starts, want);
        for (JDIMENSION i = 0; sum_out && i < n; i++)
            if (row + i >= top)
                *sum_out = mr_roi_decode_sum(*sum_out, starts[i] + offset, (size_t)box.width * 3);
    }
    return true;
}

bool mr_roi_decode_run(struct mr_roi_decode *decode, const uint8_t *bytes, size_t len,
                       struct mr_box box, uint64_t *sum_out)
{
    j_decompress_ptr cinfo = &decode->cinfo;
    volatile bool right = false;
    if (setjmp(decode->escape) == 0) {
        jpeg_mem_src(cinfo, bytes, len);
        jpeg_read_header(cinfo, TRUE);
        cinfo->out_color_space = JCS_RGB;
        jpeg_start_decompress(cinfo);
        right = read_box(decode, box, sum_out);
    }
    jpeg_abort_decompress(cinfo);
    return right;
}

struct mr_roi_file {
    struct mr_roi_decode *decode;
    int root; /* directory of the files' paths */
    uint8_t *bytes;
    size_t allocated;
};

size_t mr_roi_file_read(struct mr_roi_file *file, const char *path, const uint8_t **bytes_out)
{
    int fd = openat(file->root, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct stat about;
    size_t len = 0, want = 0;
    if (fstat(fd, &about) == 0 && about.st_size > 0 &&
        grow_buffer(&file->bytes, &file->allocated, (size_t)about.st_size + READABLE_AFTER))
        want = (size_t)about.st_size;
    while (len < want) {
        ssize_t n = read(fd, file->bytes + len, want - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    close(fd);
    *bytes_out = file->bytes;
    return len == want ? len : 0;
}

struct mr_roi_file *mr_roi_file_create(const struct mr_photos *photos)
{
    struct mr_roi_file *file = calloc(1, sizeof *file);
    if (file)
        file->root = mr_catalog_root(mr_dataset_catalog(photos->dataset));
    return file;
}

static bool job_run(void *state, const void *user, uint64_t item)
{
    struct mr_roi_file *file = state;
    const struct mr_roi_job *job = user;
    const struct mr_photo *photo = &job->photos->photo[item % job->photos->n];
    struct mr_rng rng;
    struct mr_geometry geometry;
    const uint8_t *bytes;
    size_t len = mr_roi_file_read(file, photo->path, &bytes);
    mr_rng_init(&rng, 0, job->first_epoch + item / job->photos->n, (uint64_t)photo->index);
    return len == photo->len &&
           mr_geometry_make(&job->photos->plan, photo->width, photo->height, &rng, &geometry,
                            NULL) == MR_OK &&
           mr_roi_decode_run(file->decode, bytes, len, geometry.stages[0].need, NULL);
}

/*
 * Avoids costs that would only slow the bound down. A new process copies its parent's pages when it
 * first writes to them, so some images are decoded before the clock starts. malloc would give large
 * blocks back to the kernel after every image, so it is told not to.
 */
static void *job_begin(const void *user)
{
    mallopt(M_MMAP_THRESHOLD, KEEP_BYTES);
    mallopt(M_TRIM_THRESHOLD, 8 * KEEP_BYTES);
    const struct mr_roi_job *job = user;
    struct mr_roi_file *file = mr_roi_file_create(job->photos);
    if (file)
        file->decode = mr_roi_decode_create();
    if (!file || !file->decode)
        return NULL; /* the process ends now, which frees its memory */
    for (uint64_t i = 0; i < WARM_UP; i++)
        job_run(file, user, i);
    return file;
}

struct mr_forked_job mr_roi_decode_job(const struct mr_roi_job *job)
{
    return (struct mr_forked_job){.begin = job_begin, .run = job_run, .user = job};
}
