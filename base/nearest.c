/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the name closest to a misspelled word. The distance counts letters that are wrong, missing,
 * too many, or swapped with the next one (optimal string alignment).
 */
#include <string.h>

#include <millrace/status.h>

#include "base/words.h"

enum { MAX_LETTERS = 31 };

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static bool is_same_letter(char a, char b)
{
    return mr_word_lower(a) == mr_word_lower(b);
}

/* Both have at most MAX_LETTERS letters. */
static size_t count_edits(const char *a, const char *b)
{
    size_t n_a = strlen(a), n_b = strlen(b);
    size_t rows[MAX_LETTERS + 1][MAX_LETTERS + 1]; /* edits from the first i letters of a to the
                                                      first k of b */
    for (size_t i = 0; i <= n_a; i++)
        rows[i][0] = i;
    for (size_t k = 0; k <= n_b; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= n_a; i++) {
        for (size_t k = 1; k <= n_b; k++) {
            rows[i][k] = smallest(rows[i - 1][k] + 1, rows[i][k - 1] + 1,
                                  rows[i - 1][k - 1] + !is_same_letter(a[i - 1], b[k - 1]));
            if (i > 1 && k > 1 && is_same_letter(a[i - 1], b[k - 2]) &&
                is_same_letter(a[i - 2], b[k - 1]) && rows[i - 2][k - 2] + 1 < rows[i][k])
                rows[i][k] = rows[i - 2][k - 2] + 1;
        }
    }
    return rows[n_a][n_b];
}

const char *mr_nearest_name(const char *word, const char *const *names, size_t n)
{
    /* least starts at one more than the largest accepted number of edits */
    size_t len = word ? strlen(word) : 0, least = (len + 2) / 3 + 1;
    const char *nearest = NULL;
    if (len < 2 || len > MAX_LETTERS)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t name_len = strlen(names[i]);
        size_t edits =
            name_len > 2 && name_len <= MAX_LETTERS ? count_edits(word, names[i]) : least;
        if (edits < least) {
            least = edits;
            nearest = names[i];
        }
    }
    return nearest;
}
