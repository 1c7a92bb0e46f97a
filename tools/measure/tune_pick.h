/* SPDX-License-Identifier: Apache-2.0 */
/* Which number of workers is enough, and why more would not help. Arithmetic only. */
#ifndef TOOLS_TUNE_PICK_H
#define TOOLS_TUNE_PICK_H

#include "tools/measure/bench_row.h"

enum { MR_TUNE_MAX_ROUNDS = 7, MR_TUNE_WHY = 192 };

/* One number of workers over the rounds. */
struct mr_tune_count {
    uint32_t workers;                 /* 0: this process decodes */
    double img_s[MR_TUNE_MAX_ROUNDS]; /* of the first n_rounds */
    uint32_t n_rounds;
    struct mr_bench_shares shares; /* sums over the rounds */
    double read_mb_s;              /* sum over the rounds */
    double ratio;                  /* median of the rounds' ratios to the best; 0 where it was not repeated */
    double lowest, highest;        /* of these ratios */
    bool close;                    /* near enough to the best to be measured again */
};

enum mr_tune_reason { MR_TUNE_DECODE, MR_TUNE_READ, MR_TUNE_CONSUMER };

struct mr_tune_answer {
    const struct mr_tune_count *counts; /* by workers, rising */
    size_t n;
    size_t pick;
    size_t best;
    double img_s; /* of the pick: the median */
    enum mr_tune_reason reason;
    char why[MR_TUNE_WHY];
};

/* 0, 1, 2, 3, 4, 6, 8, 12, 16, ... up to most, which is among them. Returns how many; n is room for at least 2. */
size_t mr_tune_pick_counts(uint32_t most, uint32_t *counts_out, size_t n);
void mr_tune_pick_add(struct mr_tune_count *count, const struct mr_bench_row *row);
/* After rounds over all numbers: which are close. Returns how many. */
size_t mr_tune_pick_close(struct mr_tune_count *counts, size_t n);
/*
 * Find the smallest close number that is within 3 % of the best. False while another round might change it: the ratios
 * of a smaller one lie on both sides of the bound.
 */
bool mr_tune_pick_choose(struct mr_tune_count *counts, size_t n, struct mr_tune_answer *answer_out);
/* Why no more would help, as a clause. n_cpus: that this process may use. */
void mr_tune_pick_explain(struct mr_tune_answer *answer, uint32_t n_cpus);
const char *mr_tune_pick_name(enum mr_tune_reason reason);

#endif
