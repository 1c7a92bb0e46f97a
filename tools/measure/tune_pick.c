/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the choice of `millrace tune`. Ratios are taken within a round, where the machine was the same, and their
 * median counts.
 * Invariant: the reason why more workers are no better is read from the row with the most workers, not from the row
 * that was picked.
 */
#include "tools/measure/tune_pick.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/measure/numbers.h"

/* Of the best: enough. */
#define BOUND 0.97
/* Of the best of any one round: worth another look. */
#define CLOSE 0.80
/* A consumer that waits less is never kept waiting by the loader. */
#define CONSUMER_WAITS 0.10
/* A machine of which workers want more is full. */
#define FULL 0.90

size_t mr_tune_pick_counts(uint32_t most, uint32_t *counts_out, size_t n)
{
    size_t count = 1;

    counts_out[0] = 0;
    for (uint32_t workers = 1; workers < most && count + 1 < n; count++) {
        uint32_t power = 1;
        while (power * 2 <= workers)
            power *= 2;
        counts_out[count] = workers;
        workers += power > 1 ? power / 2 : 1;
    }
    if (most > 0)
        counts_out[count++] = most;
    return count;
}

void mr_tune_pick_add(struct mr_tune_count *count, const struct mr_bench_row *row)
{
    if (count->n_rounds == MR_TUNE_MAX_ROUNDS)
        return;
    count->img_s[count->n_rounds++] = row->img_s;
    count->shares.cpu += row->shares.cpu;
    count->shares.queue += row->shares.queue;
    count->shares.slot += row->shares.slot;
    count->shares.read += row->shares.read;
    count->shares.consumer += row->shares.consumer;
    count->read_mb_s += row->read_mb_s;
}

static double median_img_s(const struct mr_tune_count *count)
{
    double sorted[MR_TUNE_MAX_ROUNDS];

    memcpy(sorted, count->img_s, sizeof sorted);
    mr_numbers_sort(sorted, count->n_rounds);
    return mr_numbers_median(sorted, count->n_rounds);
}

size_t mr_tune_pick_close(struct mr_tune_count *counts, size_t n)
{
    size_t n_close = 0;

    for (size_t i = 0; i < n; i++)
        counts[i].close = false;
    for (uint32_t r = 0; r < counts[0].n_rounds; r++) {
        double best = 0;
        for (size_t i = 0; i < n; i++)
            best = counts[i].img_s[r] > best ? counts[i].img_s[r] : best;
        for (size_t i = 0; i < n; i++)
            counts[i].close = counts[i].close || counts[i].img_s[r] >= CLOSE * best;
    }
    for (size_t i = 0; i < n; i++)
        n_close += counts[i].close;
    return n_close;
}

static void set_ratios(struct mr_tune_count *count, const struct mr_tune_count *best)
{
    double ratios[MR_TUNE_MAX_ROUNDS];

    for (uint32_t r = 0; r < count->n_rounds; r++)
        ratios[r] = best->img_s[r] > 0 ? count->img_s[r] / best->img_s[r] : 1;
    mr_numbers_sort(ratios, count->n_rounds);
    count->ratio = mr_numbers_median(ratios, count->n_rounds);
    count->lowest = ratios[0];
    count->highest = ratios[count->n_rounds - 1];
}

bool mr_tune_pick_choose(struct mr_tune_count *counts, size_t n, struct mr_tune_answer *answer_out)
{
    bool sure = true;
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (counts[i].close && (!counts[best].close || median_img_s(&counts[i]) > median_img_s(&counts[best])))
            best = i;
    size_t pick = best;
    for (size_t i = best + 1; i-- > 0;) {
        if (!counts[i].close)
            continue;
        set_ratios(&counts[i], &counts[best]);
        if (counts[i].ratio >= BOUND)
            pick = i;
        sure = sure && (counts[i].lowest >= BOUND || counts[i].highest < BOUND);
    }
    for (size_t i = best + 1; i < n; i++)
        if (counts[i].close)
            set_ratios(&counts[i], &counts[best]);
    *answer_out = (struct mr_tune_answer){
        .counts = counts, .n = n, .pick = pick, .best = best, .img_s = median_img_s(&counts[pick])};
    return sure;
}

const char *mr_tune_pick_name(enum mr_tune_reason reason)
{
    static const char *const names[] = {
        [MR_TUNE_DECODE] = "decode-bound", [MR_TUNE_READ] = "read-bound", [MR_TUNE_CONSUMER] = "consumer-bound"};

    return names[reason];
}

/* The last number was picked, and neither the CPUs nor the consumer say that it is the end. */
static bool may_grow(const struct mr_tune_answer *answer, double wanted, uint32_t n_cpus)
{
    const struct mr_tune_count *last = &answer->counts[answer->n - 1];

    if (answer->pick != answer->n - 1 || answer->reason == MR_TUNE_CONSUMER || last->workers == MR_MAX_WORKERS)
        return false;
    return answer->reason == MR_TUNE_READ || wanted * (last->workers > 0 ? last->workers : 1) < FULL * n_cpus;
}

void mr_tune_pick_explain(struct mr_tune_answer *answer, uint32_t n_cpus)
{
    const struct mr_tune_count *last = &answer->counts[answer->n - 1];
    double per_cent = 100.0 / last->n_rounds;
    double wanted = (last->shares.cpu + last->shares.queue) / last->n_rounds;
    char who[32] = "this process";
    char *why = answer->why;

    if (last->workers > 0)
        snprintf(who, sizeof who, "%" PRIu32 " worker%s", last->workers, last->workers == 1 ? "" : "s");
    if (last->shares.consumer / last->n_rounds < CONSUMER_WAITS) {
        answer->reason = MR_TUNE_CONSUMER;
        snprintf(why, MR_TUNE_WHY, "the consumer waits for %s %.0f %% of the time", who,
                 last->shares.consumer * per_cent);
        return;
    }
    answer->reason = last->shares.read / last->n_rounds > wanted ? MR_TUNE_READ : MR_TUNE_DECODE;
    const char *more = may_grow(answer, wanted, n_cpus) ? "; more workers may be faster: --max-workers" : "";
    if (answer->reason == MR_TUNE_READ)
        snprintf(why, MR_TUNE_WHY, "%s wait for bytes %.0f %% of the time, at %.1f MB/s%s", who,
                 last->shares.read * per_cent, last->read_mb_s / last->n_rounds, more);
    else
        snprintf(why, MR_TUNE_WHY, "%s work %.0f %% of the time and wait %.0f %% for a CPU%s", who,
                 last->shares.cpu * per_cent, last->shares.queue * per_cent, more);
}
