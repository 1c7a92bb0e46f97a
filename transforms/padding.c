/* SPDX-License-Identifier: Apache-2.0 */
/* A reflected image repeats without end; each copy mirrors the one beside it. */
#include "transforms/padding.h"

/* i modulo n, never negative. */
static int64_t wrap_place(int64_t i, int64_t n)
{
    int64_t rest = i % n;
    return rest < 0 ? rest + n : rest;
}

int64_t mr_padding_place(enum mr_padding_mode mode, int64_t n, int64_t i)
{
    if (i >= 0 && i < n)
        return i;
    if (mode == MR_PADDING_CONSTANT)
        return -1;
    if (mode == MR_PADDING_EDGE || n == 1)
        return i < 0 ? 0 : n - 1;
    int64_t again = mode == MR_PADDING_SYMMETRIC; /* 1: a mirror image repeats the edge */
    int64_t place = wrap_place(i, 2 * (n - 1 + again));
    return place < n ? place : 2 * (n - 1) + again - place;
}

void mr_padding_span(enum mr_padding_mode mode, int64_t n, int64_t at, int64_t len,
                     int64_t *first_out, int64_t *end_out)
{
    *first_out = n;
    *end_out = 0;
    for (int64_t i = at; i < at + len; i++) {
        int64_t place = mr_padding_place(mode, n, i);
        if (place >= 0 && place < *first_out)
            *first_out = place;
        if (place >= *end_out)
            *end_out = place + 1;
    }
    if (*end_out == 0)
        *first_out = 0;
}
