/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries with right checksums and invalid content: forged descriptions, tables of rows, templates,
 * tiles and marks. They cost the entry, never the worker. AddressSanitizer finds most of this.
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

#include "base/xxh3.h"
#include "dataset/file.h"
#include "dataset/reader/file_cache.h"
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
    struct mr_codec *codec;
    uint32_t seed;
    uint8_t *bytes; /* bytes of the forged entry */
    uint32_t rows[MR_CACHE_MAX_ROWS + 1];
    struct mr_packed_template template;
};

static uint32_t next(struct hostile *hostile)
{
    hostile->seed = hostile->seed * 1664525 + 1013904223;
    return hostile->seed >> 8;
}

static uint32_t encoding = MR_PACKED_DCT;

static int set_up(void **state)
{
    struct hostile *hostile = calloc(1, sizeof *hostile);
    struct mr_packer_options options = {.encoding = MR_PACKED_DCT};
    cache_rig_set_up(&hostile->rig, N);
    hostile->rig.encoding = encoding;
    assert_int_equal(mr_packer_create(&options, &hostile->packer, NULL), MR_OK);
    assert_int_equal(mr_codec_create(&options.limits, &hostile->codec, NULL), MR_OK);
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
    mr_codec_destroy(hostile->codec);
    cache_rig_tear_down(&hostile->rig);
    free(hostile->bytes);
    free(hostile);
    return 0;
}

static uint8_t *read_file(const struct hostile *hostile, int64_t index,
                          struct mr_cache_version *version_out)
{
    size_t n;
    int fd = mr_file_cache_open(hostile->rig.catalog, (uint64_t)index, NULL);
    assert_true(fd >= 0);
    assert_int_equal(mr_cache_key_fstat(fd, version_out), 0);
    uint8_t *file = malloc(version_out->file_bytes);
    assert_int_equal(mr_file_read_at(fd, 0, file, version_out->file_bytes, &n), 0);
    assert_int_equal(n, version_out->file_bytes);
    close(fd);
    return file;
}

/* The entry that a worker would write for a file. */
static struct mr_cache_entry make_entry(struct hostile *hostile, int64_t index)
{
    struct mr_cache_entry entry = {
        .sample = {.recipe = MR_CACHE_RECIPE(encoding), .encoding = (uint16_t)encoding}};
    struct mr_packed_sample packed;
    struct mr_packed_image image;
    struct mr_cache_version version;
    const uint8_t *bytes;
    uint8_t *file = read_file(hostile, index, &version);
    if (encoding == MR_PACKED_MARKED) {
        assert_int_equal(mr_codec_mark(hostile->codec, file, version.file_bytes, &image, NULL),
                         MR_OK);
        bytes = image.marks;
        entry.sample.len = image.marks_len;
    } else {
        assert_int_equal(mr_packer_pack(hostile->packer, file, version.file_bytes, &packed, NULL),
                         MR_OK);
        assert_int_equal(packed.image.encoding, MR_PACKED_DCT);
        image = packed.image;
        bytes = packed.bytes;
        entry.sample.len = image.len;
    }
    assert_true(entry.sample.len <= MAX_BYTES);
    assert_true(mr_cache_key_hash(hostile->rig.catalog, index, &entry.sample.path_hash));
    entry.sample.file_bytes = version.file_bytes;
    entry.sample.mtime_ns = version.mtime_ns;
    entry.sample.width = image.width;
    entry.sample.height = image.height;
    entry.sample.orientation = (uint8_t)image.orientation;
    entry.sample.n_rows = image.n_rows;
    memcpy(hostile->bytes, bytes, entry.sample.len);
    memcpy(hostile->rows, image.rows, (image.n_rows + 1) * sizeof *image.rows);
    hostile->template = *image.template;
    entry.bytes = hostile->bytes;
    entry.rows = hostile->rows;
    entry.template = &hostile->template;
    free(file);
    return entry;
}

static uint32_t odd_number(struct hostile *hostile)
{
    static const uint32_t odd[] = {0, 1, 7, 8, 255, 65535, 65536, 0x7fffffff, 0xffffffff};
    return next(hostile) % 2 ? odd[next(hostile) % (sizeof odd / sizeof *odd)]
                             : next(hostile) % 300;
}

/* Change one field of the entry, or a few. */
static void forge_entry(struct hostile *hostile, struct mr_cache_entry *entry)
{
    struct mr_cache_sample *sample = &entry->sample;
    for (uint32_t i = 1 + next(hostile) % 3; i > 0; i--)
        switch (next(hostile) % 8) {
        case 0: sample->width = odd_number(hostile); break;
        case 1: sample->height = odd_number(hostile); break;
        case 2: sample->n_rows = 1 + odd_number(hostile) % MR_CACHE_MAX_ROWS; break;
        case 3: sample->len = 1 + odd_number(hostile) % MAX_BYTES; break;
        case 4: hostile->rows[next(hostile) % (sample->n_rows + 1)] = odd_number(hostile); break;
        case 5:
            ((uint8_t *)&hostile->template)[next(hostile) % 16] = (uint8_t)odd_number(hostile);
            break;
        case 6: sample->orientation = (uint8_t)odd_number(hostile); break;
        default:
            for (uint32_t k = 0; k < 20; k++)
                hostile->bytes[next(hostile) % sample->len] = (uint8_t)next(hostile);
        }
    if (next(hostile) % 8 == 0)
        sample->encoding = 4;
    if (encoding == MR_PACKED_MARKED && sample->len > 8 && next(hostile) % 4 > 0) {
        /* marks begin with this checksum */
        uint64_t checksum = mr_xxh3(hostile->bytes + 8, sample->len - 8);
        memcpy(hostile->bytes, &checksum, sizeof checksum);
    }
}

static void add_forged(struct hostile *hostile, struct mr_cache_append *append)
{
    struct mr_cache_place place;
    for (int64_t i = 0; i < N; i++) {
        if (!cache_rig_fits(&hostile->rig, i))
            continue;
        struct mr_cache_entry entry = make_entry(hostile, i);
        forge_entry(hostile, &entry);
        assert_int_equal(mr_cache_append_add(append, &entry, &place), 0);
    }
}

/*
 * Use every sample as a worker does, and drop those that cannot be decoded. Returns the number of
 * decoded samples.
 */
static unsigned use_all(struct cache_run *run, struct mr_plan_runner *runner,
                        const struct mr_plan *plan, uint64_t epoch)
{
    struct mr_sample_source source = {
        .catalog = run->rig->catalog, .runner = runner, .max_bytes = 1 << 30};
    struct mr_worker_cache *cached = mr_worker_cache_create(run->region, MR_N_TAGS, &source);
    struct mr_reader_options options = {
        .kind = MR_READER_PREAD, .depth = 1, .other_files = mr_worker_cache_files(cached)};
    struct mr_reader *reader;
    uint8_t *out = malloc(plan->out_bytes);
    unsigned n = 0;
    assert_non_null(cached);
    assert_int_equal(mr_reader_create(run->rig->catalog, &options, &reader, NULL), MR_OK);
    for (int64_t i = 0; i < N; i++) {
        struct mr_fetched material;
        struct mr_plan_runner_report report;
        struct mr_sample_job job = {.index = i};
        struct mr_part_list list;
        int64_t label;
        mr_error error;
        mr_rng_init(&job.draws, 1, epoch, (uint64_t)i);
        struct mr_read read;
        if (!mr_worker_cache_list(cached, &job, &list))
            continue;
        mr_reader_submit(reader, 0, i, &list);
        assert_true(mr_reader_reap(reader, true, &read));
        if (mr_worker_cache_check(cached, &job, &read)) {
            if (mr_sample_fetch_take(&source, &job, &read, &label, &material, &error) == MR_OK &&
                mr_sample_fetch_run(&source, &job, &material, out, &report, &error) == MR_OK)
                n++;
            else
                mr_worker_cache_drop(cached, i);
        }
        mr_reader_recycle(reader, &read);
    }
    mr_reader_destroy(reader);
    mr_worker_cache_destroy(cached);
    free(out);
    return n;
}

static void forged_entries_cost_only_themselves(void **state)
{
    struct hostile *hostile = *state;
    struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    struct mr_plan_runner *runner;
    struct mr_plan plan;
    unsigned n_used = 0;
    assert_int_equal(
        mr_plan_compile(NULL, mr_catalog_kind(hostile->rig.catalog), MR_U8, MR_NHWC, &plan, NULL),
        MR_OK);
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        struct cache_run run;
        int folder;
        assert_int_equal(mr_cache_folder_open(hostile->rig.dir, true, &folder, NULL), MR_OK);
        struct mr_cache_append *append = mr_cache_append_create(folder);
        add_forged(hostile, append);
        mr_cache_append_destroy(append);
        close(folder);
        cache_run_begin(&run, &hostile->rig, NULL);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            n_used += use_all(&run, runner, &plan, epoch);
        cache_run_end(&run);
    }
    print_message("%u of %u made pixels\n", n_used, 3 * N * N_ROUNDS);
    assert_true(n_used < 3 * N * N_ROUNDS);
    mr_plan_runner_destroy(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forged_entries_cost_only_themselves, set_up, tear_down),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    encoding = MR_PACKED_MARKED;
    return n_failed + cmocka_run_group_tests(tests, NULL, NULL);
}
