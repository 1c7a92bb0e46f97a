/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks a list of calls into lines, between calls if possible. */
#include "tools/word_wrap.h"

#include <string.h>

/*
 * The number of characters, at most columns, up to and including the last `mark` before a blank or
 * the end of the text.
 */
static size_t find_break(const char *text, size_t columns, char mark)
{
    size_t found = 0;

    for (size_t i = 0; i < columns && text[i] != '\0'; i++)
        if (text[i] == mark && (text[i + 1] == ' ' || text[i + 1] == '\0'))
            found = i + 1;
    return found;
}

/* The number of characters, at most columns, before the last blank. */
static size_t find_blank(const char *text, size_t columns)
{
    size_t found = 0;

    for (size_t i = 1; i <= columns && text[i] != '\0'; i++)
        if (text[i] == ' ')
            found = i;
    return found;
}

size_t mr_word_wrap_next(const char **text, size_t columns)
{
    const char *at = *text + strspn(*text, " ");
    size_t len = strlen(at);

    if (len > columns) {
        len = find_break(at, columns, ',');
        if (len == 0)
            len = find_blank(at, columns);
        if (len == 0)
            len = columns > 0 ? columns : 1;
    }
    while (len > 0 && at[len - 1] == ' ')
        len--;
    *text = at + len;
    return len;
}

size_t mr_word_wrap_count(const char *text, size_t columns)
{
    size_t n = 0;

    while (mr_word_wrap_next(&text, columns) > 0)
        n++;
    return n;
}
