/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can this machine's libjpeg be fed with coefficients, those of packed JPEGs and those of our decoder of scans, with
 * and without marks? Tried once per process: a small picture is decoded by libjpeg alone and in each of these ways, and
 * the pixels must be the same.
 */
#ifndef TRANSFORMS_PACKED_SELFTEST_H
#define TRANSFORMS_PACKED_SELFTEST_H

#include "base/error.h"
#include "transforms/codec_jpeg.h"

#include <stdbool.h>

/*
 * False: packed JPEGs cannot be decoded here. Decided once per process, by the version of libjpeg that this was
 * compiled for and by a run with the library that is there. why_not (or NULL): one line.
 */
bool mr_packed_selftest_passes(const char **why_not);

/* Where it passes: is the kernels' inverse DCT used, where they have one? False: theirs differs from libjpeg's. */
bool mr_packed_selftest_own_idct(void);

/* The fastest decoder of JPEG files that gives libjpeg's pixels here. */
enum mr_codec_jpeg_decoder mr_packed_selftest_decoder(void);
/* Where this is not MR_CODEC_JPEG_STOCK: does it give them by marks too? */
bool mr_packed_selftest_marks(void);

/*
 * One run, with libjpeg's inverse DCT or the kernels'. MR_ERR_UNSUPPORTED where pixels differ, MR_ERR_NO_MEMORY. Takes
 * about half a millisecond.
 */
mr_status mr_packed_selftest_run(bool libjpeg_idct, mr_error *error);

/* The same for our decoder of scans, and by marks. */
mr_status mr_packed_selftest_run_scan(bool libjpeg_idct, mr_error *error);
mr_status mr_packed_selftest_run_marks(bool libjpeg_idct, mr_error *error);

#endif
