/* SPDX-License-Identifier: Apache-2.0 */
/* The scan of a file that libjpeg has opened. */
#ifndef TRANSFORMS_JPEG_SCAN_FILE_H
#define TRANSFORMS_JPEG_SCAN_FILE_H

#include "transforms/jpeg/jpeg_scan.h"

#include <stdio.h>

#include <jpeglib.h>

/*
 * After jpeg_start_decompress(): give our decoder the codes and the MCU of the scan. False: our
 * decoder does not support the file. It supports baseline files of one scan with 8 bits per sample
 * and components in the header's order.
 */
bool mr_scan_file_set(struct mr_jpeg_scan_codes *codes, const struct jpeg_decompress_struct *cinfo);

/*
 * The same, and start our decoder at libjpeg's position. libjpeg must have read nothing of the
 * scan.
 */
bool mr_scan_file_start(struct mr_jpeg_scan *scan, struct mr_jpeg_scan_codes *codes,
                        const struct jpeg_decompress_struct *cinfo,
                        const struct mr_kernel_ops *kernels);

#endif
