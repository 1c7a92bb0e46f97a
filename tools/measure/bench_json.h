/* SPDX-License-Identifier: Apache-2.0 */
/* The option --json of bench and tune. Without jansson, bench_json_none.c is built instead. */
#ifndef TOOLS_BENCH_JSON_H
#define TOOLS_BENCH_JSON_H

#include "tools/measure/bench_report.h"
#include "tools/outlet.h"
#include "tools/measure/tune_pick.h"

/* True if this build can write JSON; otherwise prints a message. */
bool mr_bench_json_check(void);
/* Write everything as one object. False after a message. */
bool mr_bench_json_store(struct mr_outlet *outlet, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n,
                         const struct mr_tune_answer *answer);

#endif
