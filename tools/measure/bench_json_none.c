/* SPDX-License-Identifier: Apache-2.0 */
/* The option --json in a build without jansson: the command fails before anything is measured. */
#include "tools/measure/bench_json.h"

#include "tools/say.h"

bool mr_bench_json_check(void)
{
    mr_say_error("--json: this build has no JSON (Debian package libjansson-dev)");
    return false;
}

bool mr_bench_json_store(struct mr_outlet *outlet, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n,
                         const struct mr_tune_answer *answer)
{
    (void)outlet;
    (void)meta;
    (void)rows;
    (void)n;
    (void)answer;
    return mr_bench_json_check();
}
