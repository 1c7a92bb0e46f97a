/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that the programs of tests/gpu/ print, for people and for script/gpu-check:
 *
 *   pass | CASE                fail | CASE             skip | CASE | REASON
 *   note | WORDS               fact | NAME | VALUE     figure | NAME | MEDIAN | LOWEST | HIGHEST |
 *                              AIM | met or missed
 *
 * They use no test library, because they run on machines where nothing can be installed.
 */
#ifndef TESTS_GPU_GPU_REPORT_H
#define TESTS_GPU_GPU_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct gpu_report {
    void (*clean_up)(void *user); /* called before gpu_report_die() ends the program; may be NULL */
    void *user;
    const char *only; /* NULL, or a word that a case's name must contain */
    const char *name; /* of the running case; NULL between cases */
    uint32_t n_notes; /* of this case */
    uint32_t n_cases;
    uint32_t n_failed;
    bool failed;
    bool skipped;
};

/* Begin a case; true if it is wanted. gpu_report_end() must follow. */
bool gpu_report_begin(struct gpu_report *report, const char *name);
void gpu_report_end(struct gpu_report *report);

/*
 * Returns ok. If ok is false the case has failed, and the words say why; the first few of a case
 * are printed.
 */
__attribute__((format(printf, 3, 4))) bool gpu_report_expect(struct gpu_report *report, bool ok,
                                                             const char *format, ...);
/* Skip the case: it cannot run here. */
__attribute__((format(printf, 2, 3))) void gpu_report_skip(struct gpu_report *report,
                                                           const char *format, ...);
/* Fail the case and end the program, because nothing can follow. */
__attribute__((noreturn, format(printf, 2, 3))) void gpu_report_die(struct gpu_report *report,
                                                                    const char *format, ...);

__attribute__((format(printf, 2, 3))) void gpu_report_fact(const char *name, const char *format,
                                                           ...);

/* Sorts values. above: the aim is a lower bound; bound 0: no aim. */
void gpu_report_figure(const char *name, double *values, uint32_t n, bool above, double bound);
/* The median of values, sorted or not; 0 for none. */
double gpu_report_median(const double *values, uint32_t n);

/* 0 if every case passed, else 1; also 1 if no case ran. */
int gpu_report_exit(const struct gpu_report *report);

/* Monotonic time. */
int64_t gpu_report_now_ns(void);

#endif
