/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a JPEG whose marks are made and used; or, by the first byte, as marks (even) or as
 * the scan (odd) of a fixed file. Marks get the checksum that they need.
 */
#ifndef TESTS_FUZZ_FUZZ_MARKS_H
#define TESTS_FUZZ_FUZZ_MARKS_H

#include "tests/transforms/packed_sample.h"

#define FUZZ_MARKS_FILES 4

/* The fixed files. */
const struct packed_sample *fuzz_marks_file(uint32_t number);

struct fuzz_marks_counts {
    uint32_t n_files;  /* tried JPEGs */
    uint32_t n_marked; /* of them with marks */
    uint32_t n_hostile,
        n_hostile_good; /* boxes by altered marks or scans, and those that gave pixels */
};
struct fuzz_marks_counts fuzz_marks_count(void);

#endif
