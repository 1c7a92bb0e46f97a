/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that examples/llmc.diff adds to llm.c: its DataLoader gives the same inputs and targets
 * as llm.c's, dataloader_reset() goes back to the start, and a saved position continues. Its
 * EvalLoader gives the rows of each example once. Every token of the files is a different number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include MR_TEST_DIFF_FILE

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"

enum {
    HEADER_SIZE = 256,
    B = 3,
    T = 5,
    N_SHARDS = 2,
    N_WINDOWS = 24,
    N_TOKENS = N_WINDOWS * T + 1,
    STEPS = N_SHARDS * N_WINDOWS / B
};

static char *folder;
static char pattern[5000];

static int make_shards(void **state)
{
    static const char *const names[N_SHARDS] = {"train 0, 10%.bin", "train 1?.bin"};
    static struct {
        int32_t header[HEADER_SIZE];
        uint16_t tokens[N_TOKENS];
    } file = {.header = {20240520, 1, N_TOKENS}};

    (void)state;
    folder = mr_test_folder_create();
    for (int i = 0; i < N_SHARDS; i++) {
        for (int t = 0; t < N_TOKENS; t++)
            file.tokens[t] = (uint16_t)(1000 * i + t);
        mr_test_folder_write(folder, names[i], &file, sizeof file.header + sizeof file.tokens);
    }
    snprintf(pattern, sizeof pattern, "%s/train*.bin", folder);
    return 0;
}

/* Take a step. windows: the numbers of its rows' windows, counted over both shards. */
static void take_step(DataLoader *loader, int *windows)
{
    dataloader_next_batch(loader);
    for (int row = 0; row < B; row++) {
        const int *inputs = loader->inputs + row * T, *targets = loader->targets + row * T;
        for (int t = 0; t < T; t++) {
            assert_int_equal(inputs[t], inputs[0] + t);
            assert_int_equal(targets[t], inputs[0] + t + 1);
        }
        windows[row] = inputs[0] / 1000 * N_WINDOWS + inputs[0] % 1000 / T;
    }
}

static void in_order_a_reset_goes_to_the_first_window(void **state)
{
    DataLoader loader;
    int windows[B];

    (void)state;
    dataloader_init(&loader, pattern, B, T, 0, 1, 0);
    assert_int_equal(loader.num_tokens, N_SHARDS * N_WINDOWS * T);
    /* as llm.c validates: 5 batches from the start each time */
    for (int pass = 0; pass < 3; pass++) {
        dataloader_reset(&loader);
        for (int step = 0; step < 5; step++) {
            take_step(&loader, windows);
            for (int row = 0; row < B; row++)
                assert_int_equal(windows[row], step * B + row);
        }
    }
    dataloader_free(&loader);
}

static void shuffled_each_epoch_has_each_window_once_in_another_order(void **state)
{
    int order[3][STEPS][B];
    DataLoader loader;

    (void)state;
    dataloader_init(&loader, pattern, B, T, 0, 1, 1);
    for (int epoch = 0; epoch < 3; epoch++) {
        bool seen[N_SHARDS * N_WINDOWS] = {false};
        if (epoch == 2) { /* in the middle of an epoch, which is abandoned */
            take_step(&loader, order[2][0]);
            dataloader_reset(&loader);
        }
        for (int step = 0; step < STEPS; step++) {
            take_step(&loader, order[epoch][step]);
            for (int row = 0; row < B; row++) {
                assert_false(seen[order[epoch][step][row]]);
                seen[order[epoch][step][row]] = true;
            }
        }
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]); /* with this seed */
    assert_memory_not_equal(order[1], order[2], sizeof order[0]);
    dataloader_free(&loader);
}

/* Step k of W ranks has the windows kWB to (k + 1)WB - 1, and each rank B in a row, as in llm.c. */
static void in_order_ranks_share_the_windows_of_a_step(void **state)
{
    DataLoader loaders[2];
    int windows[B];

    (void)state;
    for (int rank = 0; rank < 2; rank++)
        dataloader_init(&loaders[rank], pattern, B, T, rank, 2, 0);
    for (int i = 0; i < STEPS; i++) {
        take_step(&loaders[i % 2], windows);
        for (int row = 0; row < B; row++)
            assert_int_equal(windows[row], i * B + row);
    }
    dataloader_free(&loaders[0]);
    dataloader_free(&loaders[1]);
}

static void shuffled_ranks_see_no_window_twice(void **state)
{
    bool seen[N_SHARDS * N_WINDOWS] = {false};
    DataLoader loaders[2];
    int windows[B];

    (void)state;
    for (int rank = 0; rank < 2; rank++)
        dataloader_init(&loaders[rank], pattern, B, T, rank, 2, 1);
    for (int step = 0; step < STEPS; step++) {
        take_step(&loaders[step % 2], windows);
        for (int row = 0; row < B; row++) {
            assert_false(seen[windows[row]]);
            seen[windows[row]] = true;
        }
    }
    dataloader_free(&loaders[0]);
    dataloader_free(&loaders[1]);
}

/* One rank saves in its second epoch; two go on. */
static void a_saved_position_continues_on_other_ranks(void **state)
{
    DataLoader one, loaders[2];
    int expected[B], windows[B];
    FILE *file = tmpfile();

    (void)state;
    assert_non_null(file);
    dataloader_init(&one, pattern, B, T, 0, 1, 1);
    for (int step = 0; step < STEPS + 4; step++)
        take_step(&one, windows);
    dataloader_save(&one, file);
    for (int rank = 0; rank < 2; rank++) {
        rewind(file);
        dataloader_init(&loaders[rank], pattern, B, T, rank, 2, 1);
        dataloader_load(&loaders[rank], file);
    }
    for (int i = 4; i < STEPS; i++) { /* to the end of the epoch */
        take_step(&one, expected);
        take_step(&loaders[i % 2], windows);
        assert_memory_equal(windows, expected, sizeof windows);
    }
    fclose(file);
    dataloader_free(&one);
    dataloader_free(&loaders[0]);
    dataloader_free(&loaders[1]);
}

/* ---- HellaSwag ---- */

enum { EVAL_T = 12, N_EXAMPLES = 11, EVAL_BATCH = 8 };

static int context_of(int example)
{
    return 1 + example % 5;
}

static int length_of(int example, int completion)
{
    return 1 + (example + 2 * completion) % 6;
}

static int token_of(int example, int row, int i)
{
    return 1000 * (example + 1) + (i < context_of(example) ? 0 : 100 * (row + 1)) + i;
}

static size_t write_example(uint16_t *words, int example)
{
    size_t n = 6;

    for (int i = 0; i < context_of(example); i++)
        words[n++] = (uint16_t)token_of(example, 0, i);
    for (int row = 0; row < EVAL_COMPLETIONS; row++) {
        words[n++] = (uint16_t)length_of(example, row);
        for (int i = 0; i < length_of(example, row); i++)
            words[n++] = (uint16_t)token_of(example, row, context_of(example) + i);
    }
    const uint16_t head[] = {65535,
                             (uint16_t)(2 * n),
                             (uint16_t)example,
                             (uint16_t)(example % 4),
                             EVAL_COMPLETIONS,
                             (uint16_t)context_of(example)};
    memcpy(words, head, sizeof head);
    return n;
}

static const char *write_examples(void)
{
    static struct {
        int32_t header[HEADER_SIZE];
        uint16_t words[2000];
    } file = {.header = {20240522, 1, N_EXAMPLES, 100}};
    static char path[5000];
    size_t n = 0;

    for (int i = 0; i < N_EXAMPLES; i++)
        n += write_example(file.words + n, i);
    mr_test_folder_write(folder, "hellaswag.bin", &file, sizeof file.header + 2 * n);
    snprintf(path, sizeof path, "%s/hellaswag.bin", folder);
    return path;
}

/* Check the rows of an example of the batch. Returns the example, or -1: there is none. */
static int check_example(const EvalLoader *loader, int place)
{
    const int first = place * EVAL_COMPLETIONS * EVAL_T;
    int n_masked = 0, example = loader->inputs[first] / 1000 - 1;

    for (int i = 0; i < EVAL_COMPLETIONS * EVAL_T; i++)
        n_masked += loader->mask[first + i];
    if (n_masked == 0)
        return -1;
    assert_in_range(example, 0, N_EXAMPLES - 1);
    assert_int_equal(loader->label[place], example % 4);
    for (int row = 0; row < EVAL_COMPLETIONS; row++) {
        int at = first + row * EVAL_T, begin = context_of(example),
            end = begin + length_of(example, row);
        for (int i = 0; i < EVAL_T; i++) {
            if (i < end)
                assert_int_equal(loader->inputs[at + i], token_of(example, row, i));
            assert_int_equal(loader->mask[at + i], i >= begin - 1 && i < end - 1);
            if (loader->mask[at + i])
                assert_int_equal(loader->targets[at + i], token_of(example, row, i + 1));
        }
    }
    return example;
}

/* All batches of all ranks, twice: each example once, and the right completion is found. */
static void each_example_is_evaluated_once(void **state)
{
    static float losses[EVAL_BATCH * EVAL_T];
    const char *path = write_examples();

    (void)state;
    for (int n_ranks = 1; n_ranks <= 7; n_ranks++) {
        int n_seen[2][N_EXAMPLES] = {{0}}, correct = 0;
        for (int rank = 0; rank < n_ranks; rank++) {
            EvalLoader loader;
            evalloader_init(&loader, path, EVAL_BATCH, EVAL_T, rank, n_ranks);
            assert_int_equal(loader.num_batches, (N_EXAMPLES + 2 * n_ranks - 1) / (2 * n_ranks));
            for (int i = 0; i < 2 * loader.num_batches; i++) {
                if (i % loader.num_batches == 0)
                    evalloader_reset(&loader);
                evalloader_next_batch(&loader);
                for (int place = 0; place < EVAL_BATCH / EVAL_COMPLETIONS; place++) {
                    int example = check_example(&loader, place);
                    if (example >= 0)
                        n_seen[i / loader.num_batches][example]++;
                }
                /* of the examples below 4 the right one has less loss, of the others more */
                for (int t = 0; t < EVAL_BATCH * EVAL_T; t++) {
                    int place = t / EVAL_T / 4, is_right = t / EVAL_T % 4 == loader.label[place],
                        is_low = loader.inputs[place * 4 * EVAL_T] < 5000;
                    losses[t] = is_right == is_low ? 0.5f : 1.0f;
                }
                correct += evalloader_stat_losses(&loader, losses);
            }
            evalloader_free(&loader);
        }
        for (int i = 0; i < 2 * N_EXAMPLES; i++)
            assert_int_equal(n_seen[i / N_EXAMPLES][i % N_EXAMPLES], 1);
        assert_int_equal(correct, 2 * 4);
    }
}

/* Change a word of an example; its rows must be refused. */
static void expect_refusal(EvalLoader *loader, size_t word, uint16_t value, const char *words)
{
    mr_sample sample = MR_SAMPLE_INIT;
    uint16_t *at = loader->words + loader->starts[3] + word, before = *at;

    *at = value;
    assert_int_equal(evalloader_get(loader, 3, &sample), -1);
    assert_words(sample.error, words);
    evalloader_release(loader, &sample);
    *at = before;
}

static void lengths_beyond_an_example_are_refused(void **state)
{
    const size_t first = 6 + (size_t)context_of(3); /* the length of the first completion */
    EvalLoader loader;

    (void)state;
    evalloader_init(&loader, write_examples(), EVAL_BATCH, EVAL_T, 0, 1);
    expect_refusal(&loader, 3, 4, "not an example with 4 completions, one of them right");
    expect_refusal(&loader, 4, 3, "not an example with 4 completions, one of them right");
    expect_refusal(&loader, 5, 0, "the context is empty or longer than the example");
    expect_refusal(&loader, 5, 60000, "the context is empty or longer than the example");
    expect_refusal(&loader, first, 0,
                   "a completion is empty, or longer than the example or than T");
    expect_refusal(&loader, first, 9999,
                   "a completion is empty, or longer than the example or than T");
    evalloader_free(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_a_reset_goes_to_the_first_window),
        cmocka_unit_test(shuffled_each_epoch_has_each_window_once_in_another_order),
        cmocka_unit_test(in_order_ranks_share_the_windows_of_a_step),
        cmocka_unit_test(shuffled_ranks_see_no_window_twice),
        cmocka_unit_test(a_saved_position_continues_on_other_ranks),
        cmocka_unit_test(each_example_is_evaluated_once),
        cmocka_unit_test(lengths_beyond_an_example_are_refused),
    };
    return cmocka_run_group_tests(tests, make_shards, NULL);
}
