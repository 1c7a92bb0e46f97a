/* SPDX-License-Identifier: Apache-2.0 */
/* Text for collectives and times in messages. */
#include "dist/group/collective_words.h"

#include <stdio.h>

static const char *get_kind_name(uint32_t kind)
{
    static const char *const names[] = {"barrier",    "all_reduce",     "reduce", "broadcast",
                                        "all_gather", "reduce_scatter", "send",   "recv"};
    return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

void mr_collective_words_describe(const struct mr_collective *c, bool with_number,
                                  char words_out[MR_COLLECTIVE_WORDS])
{
    static const char *const ops[] = {"sum", "mean", "min", "max"};
    const char *op = c->op < 4 ? ops[c->op] : "?";
    char number[24] = "";
    char tail[64] = "";
    if (with_number)
        snprintf(number, sizeof number, " %llu", (unsigned long long)c->number);
    switch (c->kind) {
    case MR_COLLECTIVE_ALL_REDUCE:
    case MR_COLLECTIVE_REDUCE_SCATTER: snprintf(tail, sizeof tail, ", %s", op); break;
    case MR_COLLECTIVE_REDUCE: snprintf(tail, sizeof tail, ", %s, root %u", op, c->root); break;
    case MR_COLLECTIVE_BROADCAST: snprintf(tail, sizeof tail, ", root %u", c->root); break;
    case MR_COLLECTIVE_SEND: snprintf(tail, sizeof tail, ", to rank %u", c->root); break;
    case MR_COLLECTIVE_RECV: snprintf(tail, sizeof tail, ", from rank %u", c->root); break;
    }
    if (c->kind == MR_COLLECTIVE_BARRIER)
        snprintf(words_out, MR_COLLECTIVE_WORDS, "barrier%s", number);
    else
        snprintf(words_out, MR_COLLECTIVE_WORDS, "%s%s (%llu %s%s)", get_kind_name(c->kind), number,
                 (unsigned long long)c->count, mr_dtype_name((mr_dtype)c->dtype), tail);
}

void mr_collective_words_time(uint32_t ms, char words_out[MR_COLLECTIVE_WORDS])
{
    if (ms % 1000 == 0)
        snprintf(words_out, MR_COLLECTIVE_WORDS, "%u s", ms / 1000);
    else
        snprintf(words_out, MR_COLLECTIVE_WORDS, "%u ms", ms);
}
