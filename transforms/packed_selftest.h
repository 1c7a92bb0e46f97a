/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can this machine's libjpeg be fed with the coefficients of packed JPEGs? Tried once per process: a small picture is
 * decoded as a JPEG and out of tiles, and the pixels must be the same.
 */
#ifndef TRANSFORMS_PACKED_SELFTEST_H
#define TRANSFORMS_PACKED_SELFTEST_H

#include "base/error.h"

#include <stdbool.h>

/*
 * False: packed JPEGs cannot be decoded here. Decided once per process, by the version of libjpeg that this was
 * compiled for and by a run with the library that is there. why_not (or NULL): one line.
 */
bool mr_packed_selftest_passes(const char **why_not);

/* Where it passes: is the kernels' inverse DCT used, where they have one? False: theirs differs from libjpeg's. */
bool mr_packed_selftest_own_idct(void);

/*
 * One run, with libjpeg's inverse DCT or the kernels'. MR_ERR_UNSUPPORTED where pixels differ, MR_ERR_NO_MEMORY. Takes
 * about half a millisecond.
 */
mr_status mr_packed_selftest_run(bool libjpeg_idct, mr_error *error);

#endif
