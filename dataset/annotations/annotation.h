/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one sample's annotation, and errors about them. */
#ifndef DATASET_ANNOTATIONS_ANNOTATION_H
#define DATASET_ANNOTATIONS_ANNOTATION_H

#include "dataset/catalog.h"

struct mr_annotation {
    const struct mr_catalog *catalog;
    int64_t index;
    const uint8_t *bytes;
    size_t len;
};

/* MR_ERR_DAMAGED: "FILE (index 7), line 3: what". line 0: no line is named. */
mr_status mr_annotation_fail(const struct mr_annotation *annotation, uint64_t line, mr_error *error,
                             const char *what, ...) MR_PRINTF(4, 5);

#endif
