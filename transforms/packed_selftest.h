/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can this machine's libjpeg be fed with coefficients: those of packed JPEGs, and those of our
 * decoder of scans, with and without marks? This is tried once per process. A small picture is
 * decoded with libjpeg alone and in each of these ways, and the pixels must be equal. A lack of
 * memory decides nothing; the next call tries again. A failure is tried again if its message is
 * wanted.
 */
#ifndef TRANSFORMS_PACKED_SELFTEST_H
#define TRANSFORMS_PACKED_SELFTEST_H

#include "base/error.h"
#include "transforms/codec_jpeg.h"

#include <stdbool.h>

/*
 * MR_ERR_UNSUPPORTED: packed JPEGs cannot be decoded here, because of the version of libjpeg that
 * this was compiled for, or because a run failed with the library that is loaded. MR_ERR_NO_MEMORY:
 * not known yet.
 */
mr_status mr_packed_selftest_check(mr_error *error);

/*
 * If the check passes: is the kernels' inverse DCT used, if they have one? False: it differs from
 * libjpeg's.
 */
bool mr_packed_selftest_own_idct(void);

/* The fastest decoder of JPEG files that gives libjpeg's pixels here, as far as is known. */
enum mr_codec_jpeg_decoder mr_packed_selftest_decoder(void);
/*
 * Does decoding by marks give them too? MR_ERR_UNSUPPORTED, also if the decoder is
 * MR_CODEC_JPEG_STOCK; MR_ERR_NO_MEMORY.
 */
mr_status mr_packed_selftest_check_marks(mr_error *error);

/*
 * One run, with libjpeg's inverse DCT or the kernels'. MR_ERR_UNSUPPORTED if pixels differ;
 * MR_ERR_NO_MEMORY. Takes about half a millisecond.
 */
mr_status mr_packed_selftest_run(bool libjpeg_idct, mr_error *error);

/* The same for our decoder of scans, and for decoding by marks. */
mr_status mr_packed_selftest_run_scan(bool libjpeg_idct, mr_error *error);
mr_status mr_packed_selftest_run_marks(bool libjpeg_idct, mr_error *error);

#endif
