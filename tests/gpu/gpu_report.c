/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the lines and flushes each one, so that a program killed by its time limit has reported
 * what it knew.
 */
#include "tests/gpu/gpu_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_NOTES = 8, MAX_VALUES = 256 };

bool gpu_report_begin(struct gpu_report *report, const char *name)
{
    if (report->only && !strstr(name, report->only))
        return false;
    report->name = name;
    report->n_notes = 0;
    report->failed = false;
    report->skipped = false;
    report->n_cases++;
    return true;
}

void gpu_report_end(struct gpu_report *report)
{
    if (report->failed)
        report->n_failed++;
    if (report->failed || !report->skipped)
        printf("%s | %s\n", report->failed ? "fail" : "pass", report->name);
    fflush(stdout);
    report->name = NULL;
}

/* Print one line, without characters that separate fields. */
static void print_words(const char *format, va_list words)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, words);
    for (char *c = text; *c; c++)
        if (*c == '|' || *c == '\n')
            *c = '/';
    printf("%s\n", text);
    fflush(stdout);
}

bool gpu_report_expect(struct gpu_report *report, bool ok, const char *format, ...)
{
    if (ok)
        return true;
    report->failed = true;
    if (report->n_notes++ < MAX_NOTES) {
        va_list words;
        va_start(words, format);
        printf("note | %s: ", report->name ? report->name : "set-up");
        print_words(format, words);
        va_end(words);
    }
    return false;
}

void gpu_report_skip(struct gpu_report *report, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    printf("skip | %s | ", report->name);
    print_words(format, words);
    va_end(words);
    report->skipped = true;
}

void gpu_report_die(struct gpu_report *report, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    printf("note | ");
    print_words(format, words);
    va_end(words);
    printf("fail | %s\n", report->name ? report->name : "set-up");
    fflush(stdout);
    if (report->clean_up)
        report->clean_up(report->user);
    exit(1);
}

void gpu_report_fact(const char *name, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    printf("fact | %s | ", name);
    print_words(format, words);
    va_end(words);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpu_report_median(const double *values, uint32_t n)
{
    double sorted[MAX_VALUES];
    if (n == 0 || n > MAX_VALUES)
        return 0;
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void gpu_report_figure(const char *name, double *values, uint32_t n, bool above, double bound)
{
    if (n == 0)
        return;
    double median = gpu_report_median(values, n);
    qsort(values, n, sizeof *values, compare_doubles);
    printf("figure | %s | %.4g | %.4g | %.4g | ", name, median, values[0], values[n - 1]);
    if (bound == 0)
        printf("- | -\n");
    else
        printf("%s %.4g | %s\n", above ? ">=" : "<=", bound,
               (above ? median >= bound : median <= bound) ? "met" : "missed");
    fflush(stdout);
}

int gpu_report_exit(const struct gpu_report *report)
{
    if (report->n_cases == 0)
        printf("note | no case ran\n");
    return report->n_cases == 0 || report->n_failed > 0;
}

int64_t gpu_report_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
