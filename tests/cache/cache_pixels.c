/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cache/cache_pixels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/file.h"
#include "dataset/reader/file_cache.h"
#include "tests/support/assert_words.h"
#include "transforms/plan_runner.h"
#include "transforms/plan_compile.h"

static struct mr_plan make_plan(const struct cache_rig *rig)
{
    struct mr_plan plan;
    mr_error error;
    assert_ok(mr_plan_compile(NULL, mr_catalog_kind(rig->catalog), MR_U8, MR_NHWC, &plan, &error),
              &error);
    return plan;
}

/* Read a file; len 0: from offset to its end. */
static uint8_t *read_file(const struct cache_rig *rig, int64_t index, uint64_t offset,
                          uint64_t *len)
{
    uint64_t all;
    size_t n;
    int fd = mr_file_cache_open(rig->catalog, (uint64_t)index, &all);
    assert_true(fd >= 0);
    if (*len == 0)
        *len = all - offset;
    uint8_t *bytes = calloc(1, *len + 64);
    assert_int_equal(mr_file_read_at(fd, offset, bytes, *len, &n), 0);
    assert_int_equal(n, *len);
    close(fd);
    return bytes;
}

static void decode_file(const struct cache_rig *rig, struct mr_plan_runner *runner, int64_t index,
                        struct mr_rng rng, uint8_t *out)
{
    struct mr_plan_runner_report report;
    uint64_t len = 0;
    uint8_t *bytes = read_file(rig, index, 0, &len);
    assert_int_equal(mr_plan_runner_run(runner, bytes, len, true, &rng, out, &report, NULL), MR_OK);
    free(bytes);
}

static void decode_entry(struct cache_run *run, struct mr_plan_runner *runner, int64_t index,
                         struct mr_rng rng, uint8_t *out)
{
    struct mr_plan_runner_report report;
    struct mr_cache_hit hit;
    mr_error error;
    uint64_t offset, len;
    uint8_t *bytes, *marks = NULL;
    assert_true(cache_run_find(run, index, &hit));
    assert_ok(mr_plan_runner_range(runner, &hit.image, &rng, &offset, &len, &error), &error);
    if (hit.image.encoding == MR_PACKED_MARKED) {
        assert_true(len > 0);
        bytes = read_file(run->rig, index, offset, &len);
        assert_true(mr_cache_use_is_current(run->use, index, &hit));
        hit.image.marks = marks = cache_run_read(run, &hit, 0, hit.entry.len);
        assert_non_null(marks);
    } else {
        bytes = cache_run_read(run, &hit, offset, len);
    }
    assert_non_null(bytes);
    assert_ok(mr_plan_runner_run_packed(runner, &hit.image, bytes, len, offset, &rng, out, &report,
                                        &error),
              &error);
    free(marks);
    free(bytes);
}

void cache_pixels_compare(struct cache_run *run)
{
    struct mr_plan plan = make_plan(run->rig);
    struct mr_plan_runner *runner;
    uint8_t *a = malloc(plan.out_bytes), *b = malloc(plan.out_bytes);
    assert_int_equal(mr_plan_runner_create(&plan, &run->region->limits, false, &runner, NULL),
                     MR_OK);
    for (int64_t i = 0; i < run->rig->n; i++)
        for (uint64_t seed = 0; seed < 3 && cache_rig_fits(run->rig, i); seed++) {
            struct mr_rng rng;
            mr_rng_init(&rng, seed, 0, (uint64_t)i);
            decode_file(run->rig, runner, i, rng, a);
            decode_entry(run, runner, i, rng, b);
            assert_memory_equal(a, b, plan.out_bytes);
        }
    mr_plan_runner_destroy(runner);
    free(a);
    free(b);
}
