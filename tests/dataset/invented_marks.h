/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An invented pack, made one of version 2 by hand and not by the writer, so that writer and reader
 * cannot agree on a wrong one. A failure here ends the test.
 */
#ifndef TESTS_DATASET_INVENTED_MARKS_H
#define TESTS_DATASET_INVENTED_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INVENTED_MAX_MARKS 200
#define INVENTED_MARKED_ROWS 3

/* Those samples of an invented pack that are files as they are get marks. */
bool is_marked(uint64_t i);
/* Returns their length. They are no marks of any image. */
size_t invented_marks(uint64_t i, uint8_t out[INVENTED_MAX_MARKS]);
/* Entry r of the row table of a marked sample of len bytes. */
uint32_t invented_marked_row(uint64_t len, uint32_t r);

/* The index of the same pack with marks. Ownership: free(). */
uint8_t *mark_index(const uint8_t *bytes, size_t len, size_t *len_out);
/* Index and marks of the pack in dir. */
void mark_pack(const char *dir);

#endif
