/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives marks to an invented pack. This is done by hand, not by the writer, so that writer and
 * reader cannot agree on the same error. A failure here ends the test.
 */
#ifndef TESTS_DATASET_INVENTED_MARKS_H
#define TESTS_DATASET_INVENTED_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INVENTED_MAX_MARKS 200
#define INVENTED_MARKED_ROWS 3

/* True if the sample gets marks: those that the pack stores as files. */
bool is_marked(uint64_t i);
/* Writes the marks of sample i and returns their length. They are not marks of a real image. */
size_t invented_marks(uint64_t i, uint8_t out[INVENTED_MAX_MARKS]);
/* Entry r of the row table of a marked sample of len bytes. */
uint32_t invented_marked_row(uint64_t len, uint32_t r);

/* The index of the same pack with marks. Ownership: free(). */
uint8_t *mark_index(const uint8_t *bytes, size_t len, size_t *len_out);
/* Give the pack in dir an index with marks, and a file of marks. */
void mark_pack(const char *dir);

#endif
