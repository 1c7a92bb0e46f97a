/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the choice of `millrace tune`. Ratios are computed within a round, where the machine was
 * the same, and the median over the rounds is used. The best number is the one with the highest
 * median, so the printed ratios and the choice cannot contradict each other.
 * Invariant: the reason why more workers are not better is taken from the largest number of
 * workers, not from the picked one.
 */
#include "tools/measure/tune_pick.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/measure/numbers.h"

/* A number of workers with at least this share of the best rate is sufficient. */
#define BOUND 0.97
/* A number of workers with at least this share of a round's best rate is measured again. */
#define CLOSE 0.80
/* A consumer that waits for less than this share of the time is the bottleneck. */
#define CONSUMER_WAITS 0.10
/* If the workers want more than this share of the CPUs, the machine is full. */
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
    count->is_remote = strcmp(row->reader, "http") == 0;
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

/* The mean img_s of the close numbers in one round; 0 if there are none. */
static double compute_round_mean(const struct mr_tune_count *counts, size_t n, uint32_t round)
{
    double sum = 0;
    size_t n_close = 0;

    for (size_t i = 0; i < n; i++) {
        sum += counts[i].close ? counts[i].img_s[round] : 0;
        n_close += counts[i].close;
    }
    return n_close > 0 ? sum / (double)n_close : 0;
}

static void set_ratios(struct mr_tune_count *count, const double *means)
{
    double ratios[MR_TUNE_MAX_ROUNDS];

    for (uint32_t r = 0; r < count->n_rounds; r++)
        ratios[r] = means[r] > 0 ? count->img_s[r] / means[r] : 1;
    mr_numbers_sort(ratios, count->n_rounds);
    count->ratio = mr_numbers_median(ratios, count->n_rounds);
    count->lowest = ratios[0];
    count->highest = ratios[count->n_rounds - 1];
}

/*
 * Set the ratios of the close numbers, as shares of the highest one. Returns the index of the best.
 */
static size_t rank_counts(struct mr_tune_count *counts, size_t n)
{
    double means[MR_TUNE_MAX_ROUNDS];
    size_t best = n;

    for (uint32_t r = 0; r < MR_TUNE_MAX_ROUNDS; r++)
        means[r] = compute_round_mean(counts, n, r);
    for (size_t i = 0; i < n; i++) {
        if (!counts[i].close)
            continue;
        set_ratios(&counts[i], means);
        if (best == n || counts[i].ratio > counts[best].ratio)
            best = i;
    }
    best = best < n ? best : 0;
    double unit = counts[best].ratio > 0 ? counts[best].ratio : 1;
    double lowest = counts[best].lowest / unit;
    for (size_t i = 0; i < n; i++) {
        struct mr_tune_count *count = &counts[i];
        count->ratio /= unit;
        count->lowest /= unit;
        count->highest /= unit;
        count->in_noise = count->close && i != best && count->highest >= lowest;
    }
    return best;
}

bool mr_tune_pick_choose(struct mr_tune_count *counts, size_t n, struct mr_tune_answer *answer_out)
{
    size_t best = rank_counts(counts, n), pick = 0;
    bool sure = true;

    while (pick < best && (!counts[pick].close || counts[pick].ratio < BOUND))
        pick++;
    for (size_t i = 0; i < n; i++) {
        bool splits = i <= pick && counts[i].lowest < BOUND && counts[i].highest >= BOUND;
        if (counts[i].close && (splits || counts[i].highest > 1 / BOUND))
            sure = false;
    }
    *answer_out = (struct mr_tune_answer){
        .counts = counts, .n = n, .pick = pick, .best = best, .img_s = median_img_s(&counts[pick])};
    return sure;
}

void mr_tune_pick_row(const struct mr_tune_count *count, char *text_out, size_t size)
{
    snprintf(text_out, size, "%7" PRIu32 " %10.1f %% %7.3f %8.3f %7" PRIu32 "%s", count->workers,
             100 * count->ratio, count->lowest, count->highest, count->n_rounds,
             count->in_noise ? "  within the noise" : "");
}

void mr_tune_pick_line(const struct mr_tune_answer *answer, char *text_out, size_t size)
{
    const struct mr_tune_count *pick = &answer->counts[answer->pick],
                               *best = &answer->counts[answer->best];
    char rank[96] = "the best";
    bool others = false;

    for (size_t i = 0; i < answer->n; i++)
        others = others || answer->counts[i].in_noise;
    if (pick != best)
        snprintf(rank, sizeof rank, "%.1f %% of the best (%" PRIu32 " worker%s)%s",
                 100 * pick->ratio, best->workers, best->workers == 1 ? "" : "s",
                 pick->in_noise ? ", within the noise" : "");
    else if (others)
        snprintf(rank, sizeof rank, "the best, but others are within the noise");
    snprintf(text_out, size, "workers %" PRIu32 ": %.1f img/s, %s; %s: %s", pick->workers,
             answer->img_s, rank, mr_tune_pick_name(answer->reason), answer->why);
}

const char *mr_tune_pick_name(enum mr_tune_reason reason)
{
    static const char *const names[] = {[MR_TUNE_DECODE] = "decode-bound",
                                        [MR_TUNE_READ] = "read-bound",
                                        [MR_TUNE_NETWORK] = "network-bound",
                                        [MR_TUNE_CONSUMER] = "consumer-bound"};

    return names[reason];
}

/*
 * True if more workers may be faster: the largest number was picked, and neither the CPUs nor the
 * consumer are the limit.
 */
static bool may_grow(const struct mr_tune_answer *answer, double wanted, uint32_t n_cpus)
{
    const struct mr_tune_count *last = &answer->counts[answer->n - 1];

    if (answer->pick != answer->n - 1 || answer->reason == MR_TUNE_CONSUMER ||
        last->workers == MR_MAX_WORKERS)
        return false;
    return answer->reason != MR_TUNE_DECODE ||
           wanted * (last->workers > 0 ? last->workers : 1) < FULL * n_cpus;
}

void mr_tune_pick_explain(struct mr_tune_answer *answer, uint32_t n_cpus)
{
    const struct mr_tune_count *last = &answer->counts[answer->n - 1];
    double per_cent = 100.0 / last->n_rounds;
    double wanted = (last->shares.cpu + last->shares.queue) / last->n_rounds;
    char subject[32] = "this process";
    char *why = answer->why;

    if (last->workers > 0)
        snprintf(subject, sizeof subject, "%" PRIu32 " worker%s", last->workers,
                 last->workers == 1 ? "" : "s");
    if (last->shares.consumer / last->n_rounds < CONSUMER_WAITS) {
        answer->reason = MR_TUNE_CONSUMER;
        snprintf(why, MR_TUNE_WHY, "the consumer waits for %s %.0f %% of the time", subject,
                 last->shares.consumer * per_cent);
        return;
    }
    answer->reason = last->shares.read / last->n_rounds <= wanted ? MR_TUNE_DECODE
                     : last->is_remote                            ? MR_TUNE_NETWORK
                                                                  : MR_TUNE_READ;
    const char *more =
        !may_grow(answer, wanted, n_cpus) ? ""
        : answer->reason == MR_TUNE_NETWORK
            ? "; more workers or connections may be faster: --max-workers, --connections"
            : "; more workers may be faster: --max-workers";
    if (answer->reason != MR_TUNE_DECODE)
        snprintf(why, MR_TUNE_WHY, "%s wait for bytes %.0f %% of the time, at %.1f MB/s%s", subject,
                 last->shares.read * per_cent, last->read_mb_s / last->n_rounds, more);
    else
        snprintf(why, MR_TUNE_WHY, "%s work %.0f %% of the time and wait %.0f %% for a CPU%s",
                 subject, last->shares.cpu * per_cent, last->shares.queue * per_cent, more);
}
