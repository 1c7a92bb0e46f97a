/* SPDX-License-Identifier: Apache-2.0 */
/* Order and choice of files as Python and torchvision have them; mr_imagefolder_open() is in kinds.h. */
#ifndef DATASET_IMAGEFOLDER_H
#define DATASET_IMAGEFOLDER_H

#include <stdbool.h>

/*
 * Compare names as Python compares the str that it makes of them: by code points, where a byte that is no part of valid
 * UTF-8 is U+DC00 plus its value. For valid UTF-8 that is the order of the bytes.
 */
int mr_imagefolder_compare(const char *a, const char *b);

/* One of torchvision's extensions, in any case. */
bool mr_imagefolder_is_image(const char *name);

#endif
