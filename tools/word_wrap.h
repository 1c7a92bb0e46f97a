/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks a list of calls into lines: "resized_crop 90x80+2+1, hflip, rotate -13.5". ASCII only. */
#ifndef TOOLS_WORD_WRAP_H
#define TOOLS_WORD_WRAP_H

#include <stddef.h>

/*
 * Find the next line, of at most `columns` characters: as many whole calls as fit or, if the first
 * call is longer, as many of its words. *text moves to the end of the line. Returns the line's
 * length, without the blanks between lines; 0 at the end of the text.
 */
size_t mr_word_wrap_next(const char **text, size_t columns);
/* The number of lines of the whole text. */
size_t mr_word_wrap_count(const char *text, size_t columns);

#endif
