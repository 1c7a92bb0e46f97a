/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of all benchmarks. Cases run in rounds (A B C, A B C, ...), so that a disturbance of
 * the machine affects all of them. The warm-up round also checks results; the rounds after it are
 * measured. METHOD.md defines every column of the output.
 */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include "base/error.h"

#include <jansson.h>

#define MR_ENGINE_MAX_CASES 128
#define MR_ENGINE_MAX_REPEATS 100

/* One run of a case. The engine sets check; the case sets the other fields. */
struct mr_run {
    bool check; /* this is the warm-up: also compare results */
    /* Wall clock of the measured part, without the case's preparations. */
    double seconds;
    uint64_t n_items;
    uint64_t n_wrong;
    double value; /* for cases that measure no time, see mr_engine_bound_value() */
};

/* A failure ends the benchmark; a wrong result is counted instead. */
typedef mr_status (*mr_case_fn)(void *user, struct mr_run *run, mr_error *error);

struct mr_engine;

/* error is optional everywhere. item is the table's word for one item: "image". */
mr_status mr_engine_create(const char *program, const char *item, struct mr_engine **engine_out,
                           mr_error *error);
void mr_engine_destroy(struct mr_engine *engine);

/* Add a fact to the head of table and JSON; texts are copied. */
void mr_engine_fact(struct mr_engine *engine, const char *name, const char *text);
void mr_engine_fact_int(struct mr_engine *engine, const char *name, int64_t value);

/* Add a case. name must live as long as the engine. */
void mr_engine_add(struct mr_engine *engine, const char *name, mr_case_fn run, void *user);

/* Run every case in turn, once to warm up and n_repeats times measured. */
mr_status mr_engine_rounds(struct mr_engine *engine, uint32_t n_repeats, mr_error *error);

enum mr_aim { MR_AIM_NONE, MR_AIM_AT_LEAST, MR_AIM_BELOW };

/*
 * Add the throughput of case a over that of case b, round by round; the median is compared with the
 * aim.
 */
void mr_engine_ratio(struct mr_engine *engine, const char *name, const char *a, const char *b,
                     enum mr_aim aim, double bound);
/* Add the seconds of case a over those of case b, round by round. */
void mr_engine_time_ratio(struct mr_engine *engine, const char *name, const char *a, const char *b,
                          enum mr_aim aim, double bound);
/* Add the value of a case's runs. */
void mr_engine_bound_value(struct mr_engine *engine, const char *name, const char *a,
                           const char *unit, enum mr_aim aim, double bound);

/* Print the tables; json_path NULL writes no file. Returns MR_OK, or MR_ERR_IO for the file. */
mr_status mr_engine_report(struct mr_engine *engine, const char *json_path, mr_error *error);

/* 0; 1 if a result was wrong or, with strict, an aim was missed. */
int mr_engine_exit_code(const struct mr_engine *engine, bool strict);

#endif
