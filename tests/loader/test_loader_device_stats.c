/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics of copies: buffers, bytes, time, and whether the device found its batches ready;
 * also the rows of the trace. Steps and copies take virtual time here, so ready_share can reach 0
 * and 1.
 */
#include "tests/loader/stream_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/folder.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

enum { N_BATCHES = 13 };

static mr_loader_stats stats_of(mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    return stats;
}

/*
 * The bytes of the slots' small block: labels, indices, mask, geometry, each aligned to 64 bytes.
 */
static uint64_t small_bytes(uint64_t batch_size)
{
    static const uint64_t each[] = {8, 8, 1, 32};
    uint64_t end = 0;
    for (unsigned i = 0; i < 4; i++)
        end = (end + 63) / 64 * 64 + each[i] * batch_size;
    return end;
}

static void a_loader_on_the_host_has_no_copies(void **state)
{
    mr_loader_options wanted = stage_options("host");
    mr_loader *loader = rig_loader(*state, &wanted);
    stage_release(rig_next(loader), MR_OK);
    mr_loader_stats s = stats_of(loader);
    assert_true(s.n_buffers == 0 && s.n_copying == 0 && s.h2d_bytes == 0 && s.h2d_ns == 0 &&
                s.n_steps == 0);
    assert_true(s.copying_mean == 0 && s.ready_share == 0);
    mr_loader_destroy(loader);
}

static void copies_are_counted_to_the_byte(void **state)
{
    struct double_options options = {.n_devices = 2};
    for (unsigned p = 0; stage_policy(p, &options); p++)
        for (unsigned parts = 1; parts <= 2; parts++) {
            stage_open(&options);
            static const char *const names[] = {"cuda:0", "cuda:1"};
            mr_loader_options wanted = stage_options(parts == 1 ? "cuda:0" : NULL);
            wanted.devices = parts == 1 ? NULL : names;
            wanted.n_devices = parts == 1 ? 0 : parts;
            wanted.n_epochs = 1;
            wanted.n_buffers = 4;
            mr_loader *loader = rig_loader(*state, &wanted);
            mr_batch *batch;
            while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK)
                stage_release(batch, MR_OK);
            mr_loader_stats s = stats_of(loader);
            assert_int_equal(s.n_buffers, 4);
            assert_int_equal(s.n_copying, 0);
            assert_true(s.copying_mean >= 1 && s.copying_mean <= 4);
            assert_int_equal(s.h2d_bytes, 100 * RIG_BYTES + N_BATCHES * parts * small_bytes(8));
            assert_int_equal(s.h2d_bytes, double_count(DOUBLE_ALL_THREADS).bytes_h2d);
            assert_true(s.h2d_ns > 0);
            /* each batch that the host got was ready, or was waited for */
            assert_int_equal(s.n_steps, N_BATCHES);
            assert_true(s.n_steps_ready <= s.n_steps);
            assert_true(s.ready_share == (double)s.n_steps_ready / N_BATCHES);
            mr_loader_destroy(loader);
            stage_close();
        }
}

/* The statistics once the copying thread has seen all its copies end. */
static mr_loader_stats settled_stats(mr_loader *loader)
{
    mr_loader_stats s;
    while ((s = stats_of(loader)).n_copying > 0)
        mr_test_sleep_ms(1);
    return s;
}

/* Run steps of step_ns each on the consumer's stream. */
static mr_loader_stats run_steps(struct rig *rig, const struct double_options *machine,
                                 uint64_t step_ns)
{
    stage_open(machine);
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    mr_loader_options wanted = stage_options("cuda:0");
    wanted.n_epochs = 1;
    mr_loader *loader = rig_loader(rig, &wanted);
    mr_batch *batch;
    while (mr_loader_next_on(loader, MR_FOREVER, stream, &batch) == MR_OK) {
        assert_int_equal(double_launch_spin(stream, step_ns), cudaSuccess);
        stage_release_on(batch, stream, MR_OK);
    }
    stage_sync(stream);
    mr_loader_stats s = settled_stats(loader);
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_close();
    /*
     * Readiness is known once the next batch in the same buffer has been copied: for all batches
     * but the last of each buffer.
     */
    assert_true(s.n_steps >= N_BATCHES - 3 && s.n_steps < N_BATCHES);
    return s;
}

static void slow_steps_find_their_batches_ready(void **state)
{
    mr_loader_stats s =
        run_steps(*state, &(struct double_options){.policy = DOUBLE_EARLY}, 50000000);
    /* all but the first, which had no batch before it */
    assert_true(s.n_steps_ready >= s.n_steps - 1);
    assert_true(s.ready_share > 0.85 && s.ready_share <= 1);
}

/* 1 MB/s: 1.3 ms for each batch. */
static void slow_copies_are_found_not_ready(void **state)
{
    mr_loader_stats s = run_steps(
        *state, &(struct double_options){.policy = DOUBLE_EARLY, .h2d_mb_per_s = 1}, 1000);
    assert_int_equal(s.n_steps_ready, 0);
    assert_true(s.ready_share == 0);
    assert_true(s.h2d_ns > s.h2d_bytes * 900); /* about a microsecond for each byte */
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t len = fread(text, 1, (1 << 20) - 1, file);
    assert_true(len > 0);
    fclose(file);
    return text;
}

static void the_trace_has_rows_for_the_copier_and_each_device(void **state)
{
    static const char *const names[] = {"cuda:0", "cuda:1"};
    char *folder = mr_test_folder_create(), path[600];
    snprintf(path, sizeof path, "%s/trace.json", folder);
    stage_open(&(struct double_options){.n_devices = 2, .policy = DOUBLE_RANDOM, .seed = 2});
    mr_loader_options wanted = stage_options(NULL);
    wanted.devices = names;
    wanted.n_devices = 2;
    assert_int_equal(setenv("MR_TRACE", path, 1), 0);
    mr_loader *loader = rig_loader(*state, &wanted);
    unsetenv("MR_TRACE");
    for (unsigned k = 0; k < N_BATCHES; k++)
        stage_release_on(stage_next_on(loader, NULL), NULL, MR_OK);
    mr_loader_destroy(loader);
    stage_close();
    char *text = read_all(path);
    static const char *const rows[] = {"\"consumer\"",       "\"copier\"", "\"cuda:0\"",
                                       "\"cuda:1\"",         "\"issue\"",  "\"await\"",
                                       "\"copy and finish\""};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_words(text, rows[i]);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_loader_on_the_host_has_no_copies),
        RIG_TEST(copies_are_counted_to_the_byte),
        RIG_TEST(slow_steps_find_their_batches_ready),
        RIG_TEST(slow_copies_are_found_not_ready),
        RIG_TEST(the_trace_has_rows_for_the_copier_and_each_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
