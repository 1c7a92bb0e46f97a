/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures in whole epochs: their rows are those of the sources, in the same order for any number
 * of workers, and runs that stop, change their number of ranks or lose workers continue it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/scale.h"

enum { N_IMAGES = 12, MORE = 20, WINDOW = 8, SPEC = 2048, GLOBAL = 12, N_RUN = 1800 };

static char *first, *second, *files;

static int set_up(void **state)
{
    (void)state;
    first = mr_test_folder_filled(2, N_IMAGES);
    second = mr_test_folder_filled(2, MORE);
    files = mr_test_folder_create();
    for (int f = 0; f < 2; f++) {
        uint16_t tokens[500];
        for (uint16_t i = 0; i < 500; i++)
            tokens[i] = (uint16_t)(1000 * f + i);
        mr_test_folder_write(files, f ? "b.bin" : "a.bin", tokens, f ? 1000 : 200);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_folder_remove(first);
    mr_test_folder_remove(second);
    mr_test_folder_remove(files);
    return 0;
}

static mr_loader_options plain(uint32_t num_workers)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = GLOBAL;
    options.num_workers = num_workers;
    options.seed = 3;
    return options;
}

/* The digest of image and label of each sample of a folder, by index. */
static struct mr_test_epoch run_alone(const char *folder)
{
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_loader_options options = plain(MR_NO_WORKERS);
    options.no_shuffle = true;
    mr_loader *loader = mr_test_loader(dataset, "eval:32:24", &options);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return epoch;
}

/* Two epochs; their digests. Each row is compared with the row of its source. */
static uint64_t check_images(uint32_t num_workers, const char *spec,
                             const struct mr_test_epoch *alone)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options options = plain(num_workers);
    options.mix_samples = 250;
    mr_loader *loader = mr_test_loader(dataset, "eval:32:24", &options);
    uint64_t digest = 0, n_first = 0, n = 0;
    assert_true(mr_loader_resolved(loader)->rank_slices);
    for (uint64_t e = 0; e < 2; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        assert_int_equal(epoch.status, MR_END);
        assert_int_equal(epoch.n_samples, 250);
        for (uint64_t i = 0; i < epoch.n_samples; i++) {
            int64_t index = epoch.indices[i];
            bool is_first = index < 2 * N_IMAGES;
            uint64_t want =
                is_first ? alone[0].row_digests[index] : alone[1].row_digests[index - 2 * N_IMAGES];
            assert_true(epoch.row_digests[i] == want);
            n_first += is_first;
            assert_true(fabs(0.7 * (double)++n - (double)n_first) < 1);
        }
        digest = digest * 31 + epoch.digest;
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return digest;
}

static void rows_are_those_of_the_sources_for_any_number_of_workers(void **state)
{
    (void)state;
    char spec[SPEC];
    struct mr_test_epoch alone[2] = {run_alone(first), run_alone(second)};
    snprintf(spec, sizeof spec, "mix:0.7*(%s)|0.3*(imagefolder:%s)", first, second);
    uint64_t digest = check_images(MR_NO_WORKERS, spec, alone);
    assert_true(check_images(1, spec, alone) == digest);
    assert_true(check_images(8, spec, alone) == digest);
    mr_test_epoch_free(&alone[0]);
    mr_test_epoch_free(&alone[1]);
}

/* The column says where a row came from, also that of a damaged sample. */
static void a_batch_has_a_column_of_sources(void **state)
{
    (void)state;
    char spec[SPEC];
    char *damaged = mr_test_folder_filled(2, 3);
    mr_test_folder_write(damaged, "class_0/000.jpg", "x", 1);
    snprintf(spec, sizeof spec, "mix:1*(%s)|1*(mix:1*(%s)|1*(%s))", first, damaged, second);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options options = plain(1);
    mr_batch *batch;
    options.mix_stop = MR_MIX_STOP_ALL;
    options.on_error = MR_ON_ERROR_ZERO;
    mr_loader *loader = mr_test_loader(dataset, "train:16", &options);
    int n_holes = 0;
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        const mr_array *array = mr_batch_array(batch, "source");
        const int64_t *index = mr_batch_data(batch, "index");
        const uint8_t *mask = mr_batch_data(batch, "mask");
        assert_non_null(array);
        assert_int_equal(array->dtype, MR_I32);
        assert_int_equal(array->ndim, 1);
        for (int64_t i = 0; i < mr_batch_size(batch); i++) {
            int32_t want = (index[i] >= 2 * N_IMAGES) + (index[i] >= 2 * N_IMAGES + 6);
            assert_int_equal(((const int32_t *)array->data)[i], want);
            assert_int_equal(mask[i], index[i] != 2 * N_IMAGES);
            n_holes += !mask[i];
        }
        mr_batch_release(batch);
    }
    assert_true(n_holes > 1);
    mr_error error;
    assert_int_equal(mr_loader_damaged(loader, 0, &error), MR_OK);
    assert_words(error.text, "class_0/000.jpg (index 24)");
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    mr_test_folder_remove(damaged);
}

static void name_tokens(char spec[SPEC], const char *weight)
{
    snprintf(spec, SPEC,
             "mix:%s*(tokens:%s/a.bin?dtype=u16&window=%d&stride=3)|0.6*(tokens:%s/b.bin?"
             "dtype=u16&window=%d)",
             weight, files, WINDOW, files, WINDOW);
}

enum { ROWS_A = 1 + (100 - WINDOW - 1) / 3, ROWS_B = (500 - 1) / WINDOW };

/* What a row of a batch shows. */
struct row {
    int64_t index, token, source;
};

static mr_batch *take_batch(mr_loader *loader)
{
    mr_batch *batch;
    mr_status status;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_END)
        status = mr_loader_set_epoch(loader, mr_loader_epoch(loader) + 1);
    if (status != MR_OK) {
        print_error("%s\n", mr_loader_error(loader)->text);
        exit(1);
    }
    return batch;
}

static void write_rows(const mr_batch *batch, struct row *rows_out)
{
    const mr_array *tokens = mr_batch_array(batch, "tokens");
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        const void *row = (const char *)tokens->data + i * tokens->strides[0];
        rows_out[i] = (struct row){.index = ((const int64_t *)mr_batch_data(batch, "index"))[i],
                                   .token = tokens->dtype == MR_I64 ? *(const int64_t *)row
                                                                    : *(const int32_t *)row,
                                   .source = ((const int32_t *)mr_batch_data(batch, "source"))[i]};
    }
}

/* Compare rows with those of the sources, and write their indices. */
static void check_rows(const struct row *rows, uint64_t n, int64_t *indices_out)
{
    for (uint64_t i = 0; i < n; i++) {
        bool is_a = rows[i].index < ROWS_A;
        assert_int_equal(rows[i].source, !is_a);
        assert_int_equal(rows[i].token,
                         is_a ? 3 * rows[i].index : 1000 + WINDOW * (rows[i].index - ROWS_A));
        indices_out[i] = rows[i].index;
    }
}

/* Take whole batches, check their rows, and write the indices. */
static void take(mr_loader *loader, uint64_t n, int64_t *indices_out)
{
    struct row rows[GLOBAL];
    for (; n > 0; n--, indices_out += GLOBAL) {
        mr_batch *batch = take_batch(loader);
        write_rows(batch, rows);
        check_rows(rows, GLOBAL, indices_out);
        mr_batch_release(batch);
    }
}

/* Each sample comes once in each pass of its source. */
static void check_passes(const int64_t *indices, uint64_t n)
{
    uint64_t uses[ROWS_A + ROWS_B] = {0}, draws[2] = {0};
    for (uint64_t p = 0; p < n; p++) {
        bool is_a = indices[p] < ROWS_A;
        assert_int_equal(uses[indices[p]]++, draws[!is_a]++ / (is_a ? ROWS_A : ROWS_B));
    }
}

enum { RANKS = 3, STEPS = 20 };

struct position {
    uint8_t bytes[MR_LOADER_STATE_MAX];
    size_t len;
};

/* What the processes of a run share. */
struct run {
    const char *spec;
    mr_loader_options options;
    uint64_t n_steps;
    uint32_t victim;                  /* this rank dies */
    uint64_t death;                   /* in this step; n_steps: none dies */
    uint64_t worker_deaths[RANKS];    /* the step before which a rank kills one of its workers */
    _Atomic uint64_t n_done[RANKS];   /* steps of each rank */
    struct position after[STEPS + 1]; /* [0]: where the run begins; rank 0 saves the others */
    struct row rows[STEPS * GLOBAL];
};

static void kill_a_worker(const mr_loader *loader)
{
    int64_t pids[4];
    if (mr_loader_worker_pids(loader, pids, 4) > 0)
        kill((pid_t)pids[0], SIGKILL);
}

/* A rank. It ends the process; its position is saved at each step, as a checkpoint would be. */
static void run_rank(struct run *run, uint32_t rank)
{
    mr_loader_options options = run->options;
    options.rank = rank;
    mr_dataset *dataset = mr_test_dataset(run->spec);
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    mr_status status = MR_OK;
    if (run->after[0].len > 0)
        status = mr_loader_restore(loader, run->after[0].bytes, run->after[0].len);
    for (uint64_t step = 0; status == MR_OK && step < run->n_steps; step++) {
        if (run->worker_deaths[rank] == step)
            kill_a_worker(loader);
        mr_batch *batch = take_batch(loader);
        struct position *after = &run->after[step + 1];
        write_rows(batch, &run->rows[step * GLOBAL + rank * options.batch_size]);
        if (rank == run->victim && step == run->death)
            raise(SIGKILL);
        if (rank == 0)
            status = mr_loader_save(loader, after->bytes, sizeof after->bytes, &after->len);
        mr_batch_release(batch);
        run->n_done[rank] = step + 1;
    }
    if (status != MR_OK)
        print_error("%s\n", mr_loader_error(loader)->text);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    _exit(status != MR_OK);
}

/* Run the ranks at once. If one dies, the others are killed. Returns the steps that all have. */
static uint64_t run_ranks(struct run *run)
{
    uint32_t world = run->options.world_size, n_failed = 0;
    bool dies = run->death < run->n_steps;
    uint64_t steps = run->death;
    pid_t pids[RANKS];
    for (uint32_t rank = 0; rank < world; rank++) {
        run->n_done[rank] = 0;
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0)
            run_rank(run, rank);
    }
    for (uint32_t i = 0; i < world; i++) {
        uint32_t rank = (run->victim + i) % world;
        int how;
        if (dies && i > 0)
            kill(pids[rank], SIGKILL);
        assert_int_equal(waitpid(pids[rank], &how, 0), pids[rank]);
        bool is_killed = WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
        n_failed += dies && i == 0 ? !is_killed : how != 0 && !(dies && is_killed);
        steps = run->n_done[rank] < steps ? run->n_done[rank] : steps;
    }
    assert_int_equal(n_failed, 0);
    return steps;
}

/* Draw how a run ends: 2 of 5 lose a rank, and 1 of 3 ranks a worker. */
static void draw_deaths(struct run *run)
{
    run->victim = (uint32_t)rand() % run->options.world_size;
    run->death = rand() % 5 < 2 ? (uint64_t)rand() % run->n_steps : run->n_steps;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        run->worker_deaths[rank] = rand() % 3 == 0 ? (uint64_t)rand() % run->n_steps : run->n_steps;
}

/* Ranks are processes that go on from what the last run has saved, also when a rank was killed. */
static void stop_and_go_on(mr_loader_options options, const char *spec, int n_stops)
{
    static const uint32_t worlds[] = {1, 3, 2};
    int64_t whole[N_RUN + STEPS * GLOBAL], got[STEPS * GLOBAL];
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    take(loader, N_RUN / GLOBAL + STEPS, whole);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    check_passes(whole, N_RUN);
    struct run *run =
        mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(run != MAP_FAILED);
    run->spec = spec;
    run->options = options;
    uint64_t at = 0;
    for (int stop = 0; stop < n_stops; stop++) {
        run->n_steps = 1 + (uint64_t)rand() % (STEPS - 1);
        run->options.world_size = worlds[stop % 3];
        run->options.batch_size = GLOBAL / worlds[stop % 3];
        run->options.num_workers = rand() % 3 == 0 ? MR_NO_WORKERS : 1 + (uint32_t)rand() % 2;
        draw_deaths(run);
        uint64_t steps = run_ranks(run);
        check_rows(run->rows, steps * GLOBAL, got);
        assert_memory_equal(got, whole + at, steps * GLOBAL * sizeof *got);
        run->after[0] = run->after[steps];
        at += steps * GLOBAL;
        if (at >= N_RUN)
            at = run->after[0].len = 0;
    }
    munmap(run, sizeof *run);
}

static void a_hundred_stops_with_other_ranks_and_kills_change_nothing(void **state)
{
    (void)state;
    int n_stops = (int)mr_test_scale(34);
    char spec[SPEC];
    name_tokens(spec, "0.4");
    srand(33);
    mr_loader_options options = plain(MR_NO_WORKERS);
    options.mix_samples = 10 * GLOBAL;
    stop_and_go_on(options, spec, n_stops);
    options.mix_samples = 0;
    options.mix_order = MR_MIX_ORDER_MEGATRON;
    stop_and_go_on(options, spec, n_stops);
    options.mix_order = MR_MIX_ORDER_EVEN;
    options.order = MR_ORDER_KEYED;
    stop_and_go_on(options, spec, n_stops);
}

/* The loader that restores has batches of the old sequence decoded ahead: they must not come. */
static void weights_may_change_at_a_checkpoint(void **state)
{
    (void)state;
    char spec[SPEC];
    int64_t got[20 * GLOBAL];
    double n_a = 0;
    struct position position;
    mr_loader_options options = plain(2);
    name_tokens(spec, "0.4");
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    take(loader, 20, got);
    assert_int_equal(mr_loader_save(loader, position.bytes, sizeof position.bytes, &position.len),
                     MR_OK);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    name_tokens(spec, "5.4");
    dataset = mr_test_dataset(spec);
    loader = mr_test_loader(dataset, NULL, &options);
    assert_int_equal(mr_loader_restore(loader, position.bytes, position.len), MR_OK);
    take(loader, 20, got);
    for (int i = 0; i < 20 * GLOBAL; i++) {
        n_a += got[i] < ROWS_A;
        assert_true(fabs(0.9 * (i + 1) - n_a) < 1);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void expect_refused(const char *spec, const mr_loader_options *options, const char *words)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader;
    mr_error error;
    mr_status status = mr_loader_create(dataset, NULL, options, &loader, &error);
    if (status >= 0)
        fail_msg("'%s' was not refused", words);
    assert_words(error.text, words);
    mr_dataset_destroy(dataset);
}

static void options_that_do_not_fit_are_named(void **state)
{
    (void)state;
    static const double weights[100];
    char spec[SPEC];
    mr_loader_options options;
    snprintf(spec, sizeof spec, "mix:0.7*(%s)|0.3*(%s)", first, second);
#define REFUSED(data, field, value, words)                                                         \
    options = plain(MR_NO_WORKERS);                                                                \
    options.field = value;                                                                         \
    expect_refused(data, &options, words)
    REFUSED(first, mix_stop, MR_MIX_STOP_ALL, "mix_stop needs a mixture");
    REFUSED(first, mix_samples, 5, "mix_samples needs a mixture");
    REFUSED(first, mix_order, MR_MIX_ORDER_MEGATRON, "mix_order needs a mixture");
    REFUSED(spec, repeat, 2, "a mixture and repeat exclude each other");
    REFUSED(spec, weight_values, weights, "a mixture and weights");
    REFUSED(spec, aspect_ratio_groups, 3, "a mixture and aspect_ratio_groups");
    REFUSED(spec, cache, files, "a mixture and a cache");
    REFUSED(spec, mix_order, 2, "mix_order 2 is none of");
    REFUSED(spec, epoch, 1, "has no end, and no epoch 1");
    options.epoch = 0;
    options.mix_samples = 7;
    options.mix_stop = MR_MIX_STOP_FIRST;
    expect_refused(spec, &options, "mix_stop and mix_samples exclude each other");
#undef REFUSED
    mr_error error;
    mr_dataset *dataset = mr_test_dataset(spec);
    assert_error(mr_dataset_pack(dataset, files, NULL, NULL, &error), MR_ERR_UNSUPPORTED, &error,
                 "a mixture is not packed");
    mr_dataset_destroy(dataset);
}

static uint64_t fingerprint_of(const char *spec, uint32_t mix_order)
{
    mr_loader_options options = plain(MR_NO_WORKERS);
    options.mix_order = mix_order;
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    uint64_t fingerprint = mr_loader_fingerprint(loader);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return fingerprint;
}

static void weights_and_order_are_in_the_fingerprint(void **state)
{
    (void)state;
    char spec[SPEC], other[SPEC];
    name_tokens(spec, "0.4");
    name_tokens(other, "0.5");
    assert_true(fingerprint_of(spec, 0) == fingerprint_of(spec, 0));
    assert_true(fingerprint_of(spec, 0) != fingerprint_of(spec, MR_MIX_ORDER_MEGATRON));
    assert_true(fingerprint_of(spec, 0) != fingerprint_of(other, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_sources_for_any_number_of_workers),
        cmocka_unit_test(a_batch_has_a_column_of_sources),
        cmocka_unit_test(a_hundred_stops_with_other_ranks_and_kills_change_nothing),
        cmocka_unit_test(weights_may_change_at_a_checkpoint),
        cmocka_unit_test(options_that_do_not_fit_are_named),
        cmocka_unit_test(weights_and_order_are_in_the_fingerprint),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
