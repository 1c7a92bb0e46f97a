/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The speed of light: libjpeg-turbo alone, decoding the box of each photograph and nothing else. It
 * shares no code with the library's codec, so that a slow library cannot look fast.
 */
#ifndef BENCH_ROI_DECODE_H
#define BENCH_ROI_DECODE_H

#include "bench/forked.h"
#include "bench/photos.h"

struct mr_roi_decode;

struct mr_roi_decode *mr_roi_decode_create(void);
void mr_roi_decode_destroy(struct mr_roi_decode *decode);

/*
 * Decode the box with a margin of two pixels. If sum_out is not NULL it gets a hash of the box's
 * RGB bytes. Returns false if libjpeg fails.
 */
bool mr_roi_decode_run(struct mr_roi_decode *decode, const uint8_t *bytes, size_t len,
                       struct mr_box box, uint64_t *sum_out);

/* The hash of mr_roi_decode_run(). */
uint64_t mr_roi_decode_sum(uint64_t sum, const uint8_t *bytes, size_t len);

/*
 * Reads a file by open, fstat, read, close, as a loader must; paths are those of struct mr_photo.
 * For a forked process: never freed.
 */
struct mr_roi_file;
struct mr_roi_file *mr_roi_file_create(const struct mr_photos *photos);
/*
 * Returns the length, 0 on failure. The bytes are valid until the next read, and 64 bytes after
 * them may be read.
 */
size_t mr_roi_file_read(struct mr_roi_file *file, const char *path, const uint8_t **bytes_out);

/* Item i is photograph i % n with its box in epoch first_epoch + i / n. */
struct mr_roi_job {
    const struct mr_photos *photos;
    uint64_t first_epoch;
};

/* Processes that read each file and decode its box. job must outlive the result. */
struct mr_forked_job mr_roi_decode_job(const struct mr_roi_job *job);

#endif
