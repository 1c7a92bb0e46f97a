/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace bench --json`; bench_json_none.c takes its place where jansson is missing. */
#ifndef TOOLS_BENCH_JSON_H
#define TOOLS_BENCH_JSON_H

#include "tools/measure/bench_report.h"
#include "tools/outlet.h"
#include "tools/measure/tune_pick.h"

/* Whether this build can write JSON; prints a message when not. */
bool mr_bench_json_check(void);
/* Write everything as one object. False after a message. */
bool mr_bench_json_store(struct mr_outlet *outlet, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n,
                         const struct mr_tune_answer *answer);

#endif
