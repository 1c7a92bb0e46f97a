/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Image folders as a kind of dataset. The choice and the order of files are those of torchvision.
 */
#ifndef DATASET_IMAGEFOLDER_H
#define DATASET_IMAGEFOLDER_H

#include "dataset/kind.h"

mr_kind_open_fn mr_imagefolder_open;

/*
 * Compare two names as Python compares its str of them: by code points, where each byte that is not
 * valid UTF-8 counts as U+DC00 plus its value. For valid UTF-8 this is the order of the bytes.
 */
int mr_imagefolder_compare(const char *a, const char *b);

/* True if the name ends with one of torchvision's extensions, in any case. */
bool mr_imagefolder_is_image(const char *name);

#endif
