/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What docs/plug-in.md says about trainers like llm.c, for examples/plug_llmc.c. Without shuffling
 * one rank gets the tokens that llm.c's own loader would read, several ranks share each step's
 * tokens, and two ranks learn together. Every token of these files is a different number, so the
 * first token identifies a window.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int mr_test_plug_main(int argc, char **argv);
#define main mr_test_plug_main
#include "examples/plug_llmc.c"
#undef main

#include "tests/support/folder.h"
#include "tests/support/assert_words.h"

enum { B = 3, T = 5, N_SHARDS = 3, MAX_TOKENS = 4000, HEADER_SIZE = 256, MAGIC = 20240520 };

/* The shards have 24, 30 and 8 windows; some tokens are left over. */
static const int n_tokens[N_SHARDS] = {24 * T + 1, 30 * T + 4, 8 * T + 2};

static char *folder;
static char pattern[5000];

/*
 * Write a token file as llm.c's scripts do. Tokens count up from first, or follow a rule and are
 * below 61.
 */
static void write_shard(const char *name, int n, int first, bool rule)
{
    static struct {
        int32_t header[HEADER_SIZE];
        uint16_t tokens[MAX_TOKENS];
    } file;
    uint32_t token = 1;

    assert_in_range(n, 1, MAX_TOKENS);
    memset(&file, 0, sizeof file);
    file.header[0] = MAGIC;
    file.header[1] = 1;
    file.header[2] = n;
    for (int i = 0; i < n; i++) {
        token = (token * 3 + 1) % 61;
        file.tokens[i] = (uint16_t)(rule ? token : (uint32_t)(first + i));
    }
    mr_test_folder_write(folder, name, &file, sizeof file.header + (uint64_t)n * sizeof(uint16_t));
}

static int make_shards(void **state)
{
    static const char *const names[N_SHARDS] = {"train 0, 10%.bin", "train 1?.bin", "train 2.bin"};

    (void)state;
    folder = mr_test_folder_create();
    for (int i = 0; i < N_SHARDS; i++)
        write_shard(names[i], n_tokens[i], 1000 * i, false);
    snprintf(pattern, sizeof pattern, "%s/train*.bin", folder);
    return 0;
}

static int windows_of(int shard)
{
    return (n_tokens[shard] - 1) / T;
}

/*
 * Check one row of inputs and targets. Returns the number of its window, counted over all shards.
 */
static int check_row(const DataLoader *loader, int row)
{
    const int *inputs = loader->inputs + row * T, *targets = loader->targets + row * T;
    int shard = inputs[0] / 1000, window = inputs[0] % 1000 / T;

    assert_in_range(shard, 0, N_SHARDS - 1);
    assert_int_equal(inputs[0] % 1000 % T, 0);
    assert_in_range(window, 0, windows_of(shard) - 1);
    for (int t = 0; t < T; t++) {
        assert_int_equal(inputs[t], inputs[0] + t);
        assert_int_equal(targets[t], inputs[0] + t + 1);
    }
    for (int i = 0; i < shard; i++)
        window += windows_of(i);
    return window;
}

/* The first two shards have multiples of B windows, so llm.c would leave out nothing of them. */
static void unshuffled_one_rank_gets_what_llmc_reads(void **state)
{
    DataLoader loader;
    int n = 0;

    (void)state;
    dataloader_init(&loader, pattern, B, T, 0, 1, 0);
    for (int step = 0; step < (24 + 30 + 8) / B; step++) {
        dataloader_next_batch(&loader);
        for (int row = 0; row < B; row++)
            assert_int_equal(check_row(&loader, row), n++);
    }
    dataloader_next_batch(&loader); /* continues with the next epoch */
    assert_int_equal(check_row(&loader, 0), 0);
    dataloader_free(&loader);
}

static void unshuffled_ranks_share_the_tokens_of_a_step(void **state)
{
    enum { N_RANKS = 2 };
    DataLoader loaders[N_RANKS];

    (void)state;
    for (int rank = 0; rank < N_RANKS; rank++)
        dataloader_init(&loaders[rank], pattern, B, T, rank, N_RANKS, 0);
    for (int step = 0; step < (24 + 30 + 8) / (B * N_RANKS); step++) {
        for (int rank = 0; rank < N_RANKS; rank++) {
            dataloader_next_batch(&loaders[rank]);
            for (int row = 0; row < B; row++)
                assert_int_equal(check_row(&loaders[rank], row), (step * N_RANKS + rank) * B + row);
        }
    }
    for (int rank = 0; rank < N_RANKS; rank++)
        dataloader_free(&loaders[rank]);
}

static void shuffled_ranks_see_no_window_twice(void **state)
{
    enum { N_RANKS = 3, STEPS = (24 + 30 + 8) / N_RANKS / B };
    int first_of_epoch[2] = {-1, -1};
    DataLoader loaders[N_RANKS];

    (void)state;
    for (int rank = 0; rank < N_RANKS; rank++)
        dataloader_init(&loaders[rank], pattern, B, T, rank, N_RANKS, 1);
    for (int epoch = 0; epoch < 2; epoch++) {
        bool seen[24 + 30 + 8] = {false};
        for (int i = 0; i < STEPS * N_RANKS; i++) {
            dataloader_next_batch(&loaders[i % N_RANKS]);
            for (int row = 0; row < B; row++) {
                int window = check_row(&loaders[i % N_RANKS], row);
                assert_false(seen[window]);
                seen[window] = true;
                first_of_epoch[epoch] = i + row == 0 ? window : first_of_epoch[epoch];
            }
        }
    }
    assert_int_not_equal(first_of_epoch[0], first_of_epoch[1]); /* with this seed */
    for (int rank = 0; rank < N_RANKS; rank++)
        dataloader_free(&loaders[rank]);
}

/* ---- the program ---- */

/* Run body() in a child. text gets what it prints; returns its status. */
static int run_child(void (*body)(char *const *argv), char *const *argv, char *text, size_t size)
{
    int ends[2], status;
    ssize_t got;
    size_t len = 0;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0 ||
            close(ends[0]) < 0)
            _exit(125);
        body(argv);
        _exit(126);
    }
    close(ends[1]);
    while (len < size - 1 && (got = read(ends[0], text + len, size - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_alone(char *const *argv)
{
    execv(argv[0], argv);
}

static void run_two_ranks(char *const *argv)
{
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    mr_error error;

    options.nproc = 2;
    options.no_prefix = true;
    if (mr_launch(&options, argv, &result, &error) == MR_OK)
        _exit(result.exit_status);
}

static void learns_with(void (*body)(char *const *argv))
{
    char text[4000], plug[] = MR_TEST_PLUG, steps[] = "41";
    char *argv[] = {plug, pattern, steps, NULL};
    double first = 0, last = 0;
    const char *line;

    write_shard("rule.bin", MAX_TOKENS, 0, true);
    snprintf(pattern, sizeof pattern, "%s/rule.bin", folder);
    assert_int_equal(run_child(body, argv, text, sizeof text), 0);
    line = strstr(text, "step 0: ");
    if (line == NULL || sscanf(line, "step 0: train loss %lf", &first) != 1)
        fail_msg("it prints \"%s\"", text);
    line = strstr(text, "step 40: ");
    if (line == NULL || sscanf(line, "step 40: train loss %lf", &last) != 1)
        fail_msg("it prints \"%s\"", text);
    assert_float_equal(first, 5.545, 0.001); /* log 256 */
    assert_true(last < 0.1);
}

static void the_trainer_learns(void **state)
{
    (void)state;
    learns_with(run_alone);
}

static void two_ranks_learn_together(void **state)
{
    (void)state;
    if (!MR_TEST_GLOO) {
        print_message("no gloo\n");
        skip();
    }
    learns_with(run_two_ranks);
}

static void a_file_that_is_not_a_shard_is_named(void **state)
{
    static const char words[] = "no tokens";
    char text[4000], plug[] = MR_TEST_PLUG;
    char *argv[] = {plug, pattern, NULL};

    (void)state;
    mr_test_folder_write(folder, "train 1a.bin", words, sizeof words);
    assert_int_equal(run_child(run_alone, argv, text, sizeof text), 1);
    assert_words(text,
                 "train 1a.bin has no header, and no .idx is beside it: it needs dtype=, such "
                 "as dtype=u16\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(unshuffled_one_rank_gets_what_llmc_reads, make_shards),
        cmocka_unit_test_setup(unshuffled_ranks_share_the_tokens_of_a_step, make_shards),
        cmocka_unit_test_setup(shuffled_ranks_see_no_window_twice, make_shards),
        cmocka_unit_test_setup(the_trainer_learns, make_shards),
        cmocka_unit_test_setup(two_ranks_learn_together, make_shards),
        cmocka_unit_test_setup(a_file_that_is_not_a_shard_is_named, make_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
