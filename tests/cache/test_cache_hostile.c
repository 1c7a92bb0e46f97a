/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries whose checksums are right and whose content is nonsense: descriptions, tables of rows, templates and tiles
 * that somebody made up. They cost the entry, never the worker. AddressSanitizer sees the most of this.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/file.h"
#include "dataset/file_cache.h"
#include "cache/cache_folder.h"
#include "cache/cache_key.h"
#include "loader/workers/worker_cache.h"
#include "tests/cache/cache_rig.h"
#include "packs/packer.h"
#include "transforms/plan_compile.h"

enum { N = 8, N_ROUNDS = 60, MAX_BYTES = 1 << 20 };

struct hostile {
    struct cache_rig rig;
    struct mr_packer *packer;
    uint32_t seed;
    uint8_t *bytes; /* of the entry that is made up */
    uint32_t rows[MR_CACHE_MAX_ROWS + 1];
    struct mr_packed_template template;
};

static uint32_t next(struct hostile *hostile)
{
    hostile->seed = hostile->seed * 1664525 + 1013904223;
    return hostile->seed >> 8;
}

static int set_up(void **state)
{
    struct hostile *hostile = calloc(1, sizeof *hostile);
    struct mr_packer_options options = {.encoding = MR_PACKED_DCT};
    cache_rig_set_up(&hostile->rig, N);
    assert_int_equal(mr_packer_create(&options, &hostile->packer, NULL), MR_OK);
    hostile->bytes = malloc(MAX_BYTES);
    hostile->seed = (uint32_t)time(NULL);
    print_message("seed %u\n", hostile->seed);
    *state = hostile;
    return 0;
}

static int tear_down(void **state)
{
    struct hostile *hostile = *state;
    mr_packer_destroy(hostile->packer);
    cache_rig_tear_down(&hostile->rig);
    free(hostile->bytes);
    free(hostile);
    return 0;
}

/* The entry that a worker would write. */
static struct mr_cache_entry pack(struct hostile *hostile, int64_t index)
{
    struct mr_cache_entry entry = {.sample = {.recipe = MR_CACHE_RECIPE(MR_PACKED_DCT)}};
    struct mr_packed_sample packed;
    struct mr_cache_version version;
    size_t n;
    int fd = mr_file_cache_open(hostile->rig.catalog, (uint64_t)index, NULL);
    assert_true(fd >= 0);
    assert_int_equal(mr_cache_key_look_at(fd, &version), 0);
    uint8_t *file = malloc(version.file_bytes);
    assert_int_equal(mr_file_read_at(fd, 0, file, version.file_bytes, &n), 0);
    close(fd);
    assert_int_equal(mr_packer_pack(hostile->packer, file, n, &packed, NULL), MR_OK);
    assert_int_equal(packed.image.encoding, MR_PACKED_DCT);
    assert_true(packed.image.len <= MAX_BYTES);
    assert_true(mr_cache_key_hash(hostile->rig.catalog, index, &entry.sample.path_hash));
    entry.sample.file_bytes = version.file_bytes;
    entry.sample.mtime_ns = version.mtime_ns;
    entry.sample.encoding = MR_PACKED_DCT;
    entry.sample.width = packed.image.width;
    entry.sample.height = packed.image.height;
    entry.sample.orientation = (uint8_t)packed.image.orientation;
    entry.sample.n_rows = packed.image.n_rows;
    entry.sample.len = packed.image.len;
    memcpy(hostile->bytes, packed.bytes, packed.image.len);
    memcpy(hostile->rows, packed.image.rows, (packed.image.n_rows + 1) * sizeof *packed.image.rows);
    hostile->template = *packed.image.template;
    entry.bytes = hostile->bytes;
    entry.rows = hostile->rows;
    entry.template = &hostile->template;
    free(file);
    return entry;
}

static uint32_t odd_number(struct hostile *hostile)
{
    static const uint32_t odd[] = {0, 1, 7, 8, 255, 65535, 65536, 0x7fffffff, 0xffffffff};
    return next(hostile) % 2 ? odd[next(hostile) % (sizeof odd / sizeof *odd)] : next(hostile) % 300;
}

/* One thing about it that is wrong, or a few. */
static void make_up(struct hostile *hostile, struct mr_cache_entry *entry)
{
    struct mr_cache_sample *sample = &entry->sample;
    for (uint32_t i = 1 + next(hostile) % 3; i > 0; i--)
        switch (next(hostile) % 8) {
        case 0: sample->width = odd_number(hostile); break;
        case 1: sample->height = odd_number(hostile); break;
        case 2: sample->n_rows = 1 + odd_number(hostile) % MR_CACHE_MAX_ROWS; break;
        case 3: sample->len = 1 + odd_number(hostile) % MAX_BYTES; break;
        case 4: hostile->rows[next(hostile) % (sample->n_rows + 1)] = odd_number(hostile); break;
        case 5: ((uint8_t *)&hostile->template)[next(hostile) % 16] = (uint8_t)odd_number(hostile); break;
        case 6: sample->orientation = (uint8_t)odd_number(hostile); break;
        default:
            for (uint32_t k = 0; k < 20; k++)
                hostile->bytes[next(hostile) % sample->len] = (uint8_t)next(hostile);
        }
    if (next(hostile) % 8 == 0)
        sample->encoding = MR_PACKED_DCT8;
}

static void add_made_up(struct hostile *hostile, struct mr_cache_append *append)
{
    struct mr_cache_place place;
    for (int64_t i = 0; i < N; i++) {
        struct mr_cache_entry entry = pack(hostile, i);
        make_up(hostile, &entry);
        assert_int_equal(mr_cache_append_add(append, &entry, &place), 0);
    }
}

/* Every sample as a worker would take it; those that cannot be decoded are dropped. Returns how many were pixels. */
static unsigned use_all(struct cache_run *run, struct mr_pixels *pixels, const struct mr_plan *plan, uint64_t epoch)
{
    struct mr_worker_cache *cached = mr_worker_cache_create(run->region, run->rig->catalog, pixels);
    struct mr_sample_source source = {.catalog = run->rig->catalog, .pixels = pixels};
    uint8_t *out = malloc(plan->out_bytes);
    unsigned n = 0;
    assert_non_null(cached);
    for (int64_t i = 0; i < N; i++) {
        struct mr_fetched material;
        struct mr_pixels_report report;
        struct mr_sample_job job = {.index = i};
        uint64_t offset, len;
        int64_t label;
        mr_error error;
        mr_rng_init(&job.draws, 1, epoch, (uint64_t)i);
        mr_worker_cache_prefetch(cached, &job, &offset, &len);
        if (!mr_worker_cache_take(cached, &job, NULL, &label, &material))
            continue;
        if (mr_sample_fetch_run(&source, &job, &material, out, &report, &error) == MR_OK)
            n++;
        else
            mr_worker_cache_drop(cached, i);
    }
    mr_worker_cache_destroy(cached);
    free(out);
    return n;
}

static void made_up_entries_cost_no_more_than_themselves(void **state)
{
    struct hostile *hostile = *state;
    struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    struct mr_pixels *pixels;
    struct mr_plan plan;
    unsigned n_used = 0;
    assert_int_equal(mr_plan_compile(NULL, mr_catalog_kind(hostile->rig.catalog), MR_U8, MR_NHWC, &plan, NULL), MR_OK);
    assert_int_equal(mr_pixels_create(&plan, &limits, false, &pixels, NULL), MR_OK);
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        struct cache_run run;
        int folder;
        assert_int_equal(mr_cache_folder_open(hostile->rig.dir, true, &folder, NULL), MR_OK);
        struct mr_cache_append *append = mr_cache_append_create(folder);
        add_made_up(hostile, append);
        mr_cache_append_destroy(append);
        close(folder);
        cache_run_begin(&run, &hostile->rig, NULL);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            n_used += use_all(&run, pixels, &plan, epoch);
        cache_run_end(&run);
    }
    print_message("%u of %u made pixels\n", n_used, 3 * N * N_ROUNDS);
    assert_true(n_used < 3 * N * N_ROUNDS);
    mr_pixels_destroy(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_up_entries_cost_no_more_than_themselves, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
