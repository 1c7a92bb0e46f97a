/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Image folders as a kind of dataset; order and choice of files are those of Python and
 * torchvision.
 */
#ifndef DATASET_IMAGEFOLDER_H
#define DATASET_IMAGEFOLDER_H

#include "dataset/kind.h"

mr_kind_open_fn mr_imagefolder_open;

/*
 * Compare names as Python compares the str that it makes of them: by code points, where a byte that
 * is no part of valid UTF-8 is U+DC00 plus its value. For valid UTF-8 that is the order of the
 * bytes.
 */
int mr_imagefolder_compare(const char *a, const char *b);

/* One of torchvision's extensions, in any case. */
bool mr_imagefolder_is_image(const char *name);

#endif
