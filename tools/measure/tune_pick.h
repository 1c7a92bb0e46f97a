/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes which number of workers is sufficient, and why more would not help. No measuring here.
 */
#ifndef TOOLS_TUNE_PICK_H
#define TOOLS_TUNE_PICK_H

#include "tools/measure/bench_row.h"

enum { MR_TUNE_MAX_ROUNDS = 7, MR_TUNE_WHY = 192, MR_TUNE_LINE = 384 };

/* One number of workers over the rounds. */
struct mr_tune_count {
    uint32_t workers;                 /* 0: this process decodes */
    double img_s[MR_TUNE_MAX_ROUNDS]; /* for the first n_rounds */
    uint32_t n_rounds;
    struct mr_bench_shares shares; /* sums over the rounds */
    double read_mb_s;              /* sum over the rounds */
    bool is_remote;                /* the bytes come from servers */
    double
        ratio; /* median over the rounds, as a share of the best; the best has 1; 0 if not close */
    double lowest, highest; /* over the rounds, in the same unit */
    bool close;             /* close enough to the best to be measured again */
    bool in_noise;          /* not the best, but its highest ratio is not below the best's lowest */
};

enum mr_tune_reason { MR_TUNE_DECODE, MR_TUNE_READ, MR_TUNE_NETWORK, MR_TUNE_CONSUMER };

struct mr_tune_answer {
    const struct mr_tune_count *counts; /* in rising order of workers */
    size_t n;
    size_t pick;
    size_t best;
    double img_s; /* the pick's median */
    enum mr_tune_reason reason;
    char why[MR_TUNE_WHY];
};

/*
 * Write 0, 1, 2, 3, 4, 6, 8, 12, 16, ... up to most, which is always included. Returns how many; n,
 * the room, is at least 2.
 */
size_t mr_tune_pick_counts(uint32_t most, uint32_t *counts_out, size_t n);
void mr_tune_pick_add(struct mr_tune_count *count, const struct mr_bench_row *row);
/* After rounds over all numbers: set `close` of each. Returns how many are close. */
size_t mr_tune_pick_close(struct mr_tune_count *counts, size_t n);
/*
 * Compare the close numbers round by round, and find the smallest one within 3 % of the best.
 * Returns false if another round might change the answer: the ratios of the answer or of a smaller
 * number are on both sides of the bound, or some number was more than 3 % above the best's median
 * in some round.
 */
bool mr_tune_pick_choose(struct mr_tune_count *counts, size_t n, struct mr_tune_answer *answer_out);
/* Set reason and why: why more workers would not help. n_cpus: CPUs that this process may use. */
void mr_tune_pick_explain(struct mr_tune_answer *answer, uint32_t n_cpus);
const char *mr_tune_pick_name(enum mr_tune_reason reason);
/* Format a row of the table of ratios, and the last line; at most MR_TUNE_LINE bytes. */
void mr_tune_pick_row(const struct mr_tune_count *count, char *text_out, size_t size);
void mr_tune_pick_line(const struct mr_tune_answer *answer, char *text_out, size_t size);

#endif
