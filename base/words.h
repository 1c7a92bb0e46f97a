/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares words in any case, without the program's locale. strcasecmp() uses the locale, and in a
 * Turkish locale "I" and "i" are different letters: dtypes, keys and file extensions would not
 * match.
 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stdbool.h>

static inline unsigned char mr_word_lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Are the words equal, ignoring the case of A to Z? */
static inline bool mr_word_is(const char *a, const char *b)
{
    while (*a && mr_word_lower(*a) == mr_word_lower(*b))
        a++, b++;
    return mr_word_lower(*a) == mr_word_lower(*b);
}

/* Does text begin with word, ignoring the case of A to Z? */
static inline bool mr_word_begins(const char *text, const char *word)
{
    while (*word && mr_word_lower(*text) == mr_word_lower(*word))
        text++, word++;
    return *word == '\0';
}

#endif
