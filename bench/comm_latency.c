/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the ways in turns, round by round, so that a disturbance of the machine affects all of them.
 * Times are compared only within a round; the results are the medians of these comparisons and
 * their intervals.
 *
 * With more ranks than cores, the times also measure the scheduler. The first way of a round finds
 * the caches as the last one left them, so each round begins with another way.
 */
#include "bench/comm_latency.h"

#include "base/clock.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROUNDS 1001
#define MAX_COUNT 1000000
#define AIM_US 2.0
#define AIM_RATIO 1.05

struct bench {
    const struct mr_latency *latency;
    uint32_t n_rounds;
    double *buffer;
    FILE *json;
    uint64_t n_wrong;
    uint64_t n_missed;
    double us[MR_LATENCY_WAYS][MAX_ROUNDS]; /* of one call */
};

/* The median, and the interval that contains it in 95 of 100 cases. */
struct estimate {
    double low;
    double median;
    double high;
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct mr_latency *latency = state->input;
    char *end;
    switch (key) {
    case 'r':
        latency->n_rounds = (uint32_t)strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || latency->n_rounds < 7 ||
            latency->n_rounds > MAX_ROUNDS)
            argp_error(state, "%s is not a number from 7 to %d", text, MAX_ROUNDS);
        break;
    case 'j': latency->json = text; break;
    case 's': latency->strict = true; break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void mr_latency_parse(int argc, char **argv, const char *doc, struct mr_latency *latency)
{
    static const struct argp_option options[] = {
        {"rounds", 'r', "N", 0, "measured rounds (101)", 0},
        {"json", 'j', "FILE", 0, "also write the figures to FILE", 0},
        {"strict", 's', NULL, 0, "exit with 1 if an aim is missed", 0},
        {0},
    };
    const struct argp argp = {.options = options, .parser = parse_option, .doc = doc};
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, latency) != 0)
        exit(2);
}

static void fill_buffer(double *buffer, int count, double value)
{
    for (int i = 0; i < count; i++)
        buffer[i] = value;
}

/*
 * Microseconds of one call. The first call is not counted: its result is checked, and it brings the
 * ranks together.
 */
static double measure_call(struct bench *bench, const struct mr_latency_way *way, int count,
                           uint32_t n_calls)
{
    fill_buffer(bench->buffer, count, 1);
    bool ok = way->reduce(way->user, bench->buffer, count);
    for (int i = 0; i < count; i++)
        bench->n_wrong += bench->buffer[i] != bench->latency->world_size;
    fill_buffer(bench->buffer, count, 0); /* zeros, so that sums do not grow */
    ok = way->reduce(way->user, bench->buffer, count) && ok;
    uint64_t start_ns = mr_clock_now_ns();
    for (uint32_t i = 0; i < n_calls && ok; i++)
        ok = way->reduce(way->user, bench->buffer, count);
    double us = (double)(mr_clock_now_ns() - start_ns) / 1e3 / n_calls;
    bench->n_wrong += !ok;
    return us;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * The interval between two order statistics, which does not depend on the distribution of the n
 * values. Sorts them.
 */
static struct estimate estimate_median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
    int low = (int)floor(n / 2.0 - 0.98 * sqrt(n));
    low = low < 1 ? 1 : low;
    return (struct estimate){values[low - 1], values[n / 2], values[n - (uint32_t)low]};
}

static double median_us(const struct bench *bench, uint32_t way)
{
    double values[MAX_ROUNDS];
    memcpy(values, bench->us[way], bench->n_rounds * sizeof *values);
    return estimate_median(values, bench->n_rounds).median;
}

static void report_way(struct bench *bench, int count, uint32_t n_calls, uint32_t way)
{
    const struct mr_latency *latency = bench->latency;
    double values[MAX_ROUNDS];
    for (uint32_t i = 0; i < bench->n_rounds; i++)
        values[i] = bench->us[0][i] - bench->us[way][i];
    struct estimate added = estimate_median(values, bench->n_rounds);
    for (uint32_t i = 0; i < bench->n_rounds; i++)
        values[i] = bench->us[0][i] / bench->us[way][i];
    struct estimate ratio = estimate_median(values, bench->n_rounds);
    bool is_met = added.median < AIM_US || ratio.median < AIM_RATIO;
    bench->n_missed += !is_met;
    printf("| %s | %u | %d | %s | %.2f | %.2f | %.2f (%.2f to %.2f) | %.3f (%.3f to %.3f) | %s |\n",
           latency->engine, latency->world_size, count, latency->ways[way].name,
           median_us(bench, 0), median_us(bench, way), added.median, added.low, added.high,
           ratio.median, ratio.low, ratio.high, is_met ? "yes" : "no");
    if (!bench->json)
        return;
    fprintf(bench->json,
            "%s\n    {\"doubles\": %d, \"calls\": %u, \"bare\": \"%s\", \"group_us\": %.3f, "
            "\"bare_us\": %.3f, "
            "\"added_us\": [%.3f, %.3f, %.3f], \"ratio\": [%.4f, %.4f, %.4f], \"met\": %s}",
            count == 2 && way == 1 ? "" : ",", count, n_calls, latency->ways[way].name,
            median_us(bench, 0), median_us(bench, way), added.low, added.median, added.high,
            ratio.low, ratio.median, ratio.high, is_met ? "true" : "false");
}

static void measure_count(struct bench *bench, int count)
{
    const struct mr_latency *latency = bench->latency;
    uint32_t n_calls = count < 1000 ? 200 : 3;
    for (uint32_t round = 0; round <= bench->n_rounds; round++)
        for (uint32_t turn = 0; turn < latency->n_ways; turn++) {
            uint32_t way = (round + turn) % latency->n_ways;
            double us = measure_call(bench, &latency->ways[way], count, n_calls);
            /* The warm-up's slot is overwritten by the last round. */
            bench->us[way][round % bench->n_rounds] = us;
        }
    for (uint32_t way = 1; way < latency->n_ways && latency->rank == 0; way++)
        report_way(bench, count, n_calls, way);
    fflush(stdout);
}

static void measure_all(struct bench *bench)
{
    static const int counts[] = {2, 64, MAX_COUNT};
    const struct mr_latency *latency = bench->latency;
    if (bench->json)
        fprintf(
            bench->json,
            "{\"engine\": \"%s\", \"version\": \"%s\", \"ranks\": %u, \"rounds\": %u, \"rows\": [",
            latency->engine, latency->version, latency->world_size, bench->n_rounds);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        measure_count(bench, counts[i]);
    if (bench->json)
        fprintf(bench->json, "\n  ], \"wrong\": %llu}\n", (unsigned long long)bench->n_wrong);
}

static bool open_json(struct bench *bench)
{
    if (!bench->latency->json || bench->latency->rank != 0)
        return true;
    bench->json = fopen(bench->latency->json, "w");
    if (!bench->json)
        perror(bench->latency->json);
    return bench->json;
}

static bool close_json(struct bench *bench)
{
    if (!bench->json)
        return true;
    bool ok = !ferror(bench->json);
    ok = fclose(bench->json) == 0 && ok;
    if (!ok)
        fprintf(stderr, "cannot write %s\n", bench->latency->json);
    return ok;
}

int mr_latency_run(const struct mr_latency *latency)
{
    struct bench *bench = calloc(1, sizeof *bench);
    int result = 2;
    if (bench) {
        bench->latency = latency;
        bench->n_rounds = latency->n_rounds ? latency->n_rounds : 101;
        bench->buffer = malloc(MAX_COUNT * sizeof(double));
    }
    if (bench && bench->buffer && open_json(bench)) {
        measure_all(bench);
        if (bench->n_wrong > 0)
            fprintf(stderr, "rank %u: %llu results were wrong\n", latency->rank,
                    (unsigned long long)bench->n_wrong);
        result = bench->n_wrong > 0 || (latency->strict && bench->n_missed > 0);
        if (!close_json(bench))
            result = 2;
    }
    if (bench)
        free(bench->buffer);
    free(bench);
    return result;
}
