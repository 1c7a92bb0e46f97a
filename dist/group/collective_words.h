/* SPDX-License-Identifier: Apache-2.0 */
/* Text for collectives and times in messages, and its size for all of the group. */
#ifndef DIST_GROUP_COLLECTIVE_WORDS_H
#define DIST_GROUP_COLLECTIVE_WORDS_H

#include "dist/group/engine_table.h"

#define MR_COLLECTIVE_WORDS 160 /* bytes, including the zero */

/* "all_reduce 17 (1000 f32, sum)", or without the number. */
void mr_collective_words_describe(const struct mr_collective *collective, bool with_number,
                                  char words_out[MR_COLLECTIVE_WORDS]);
/* "600 s", "1500 ms" */
void mr_collective_words_time(uint32_t ms, char words_out[MR_COLLECTIVE_WORDS]);

#endif
