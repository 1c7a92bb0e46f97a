/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that examples/llmc.diff adds to llm.c: its DataLoader gives the same inputs and targets
 * as llm.c's, and dataloader_reset() goes back to the start. Every token of the files is a
 * different number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include MR_TEST_DIFF_FILE

#include "tests/support/folder.h"

enum {
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
    assert_int_equal(loader.num_tokens, N_SHARDS * N_TOKENS);
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

static void ranks_share_the_windows(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_a_reset_goes_to_the_first_window),
        cmocka_unit_test(shuffled_each_epoch_has_each_window_once_in_another_order),
        cmocka_unit_test(ranks_share_the_windows),
    };
    return cmocka_run_group_tests(tests, make_shards, NULL);
}
