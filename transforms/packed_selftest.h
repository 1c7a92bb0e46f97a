/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can this machine's libjpeg be fed with coefficients, those of packed JPEGs and those of our
 * decoder of scans, with and without marks? Tried once per process: a small picture is decoded by
 * libjpeg alone and in each of these ways, and the pixels must be the same. A lack of memory
 * decides nothing: then it is tried again when it is asked for again. A failure is tried again
 * where its words are wanted.
 */
#ifndef TRANSFORMS_PACKED_SELFTEST_H
#define TRANSFORMS_PACKED_SELFTEST_H

#include "base/error.h"
#include "transforms/codec_jpeg.h"

#include <stdbool.h>

/*
 * MR_ERR_UNSUPPORTED: packed JPEGs cannot be decoded here, by the version of libjpeg that this was
 * compiled for, or by a run with the library that is there. MR_ERR_NO_MEMORY: not known yet.
 */
mr_status mr_packed_selftest_check(mr_error *error);

/*
 * Where it passes: is the kernels' inverse DCT used, where they have one? False: theirs differs
 * from libjpeg's.
 */
bool mr_packed_selftest_own_idct(void);

/* The fastest decoder of JPEG files that gives libjpeg's pixels here, as far as is known. */
enum mr_codec_jpeg_decoder mr_packed_selftest_decoder(void);
/*
 * Does it give them by marks too? MR_ERR_UNSUPPORTED, also where it is MR_CODEC_JPEG_STOCK;
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_packed_selftest_check_marks(mr_error *error);

/*
 * One run, with libjpeg's inverse DCT or the kernels'. MR_ERR_UNSUPPORTED where pixels differ,
 * MR_ERR_NO_MEMORY. Takes about half a millisecond.
 */
mr_status mr_packed_selftest_run(bool libjpeg_idct, mr_error *error);

/* The same for our decoder of scans, and by marks. */
mr_status mr_packed_selftest_run_scan(bool libjpeg_idct, mr_error *error);
mr_status mr_packed_selftest_run_marks(bool libjpeg_idct, mr_error *error);

#endif
