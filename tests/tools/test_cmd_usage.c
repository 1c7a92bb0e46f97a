/* SPDX-License-Identifier: Apache-2.0 */
/* What every subcommand has in common: help, version, exit statuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <millrace/status.h>

#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

static const char *const commands[] = {"order",     "list", "export", "bench",  "tune",  "preview",
                                       "transform", "pack", "check",  "unpack", "cache", "launch"};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static bool preview_is_missing(void)
{
    struct mr_run run = {0};

    mr_run_command(&run, "preview", "--help", NULL);
    bool missing = strstr(run.err, "no libgd") != NULL;
    mr_run_free(&run);
    return missing;
}

static void every_command_has_help_with_an_example(void **state)
{
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i], "preview") == 0 && preview_is_missing())
            continue;
        char line[64];
        mr_run_command(&run, commands[i], "--help", NULL);
        assert_int_equal(run.status, 0);
        snprintf(line, sizeof line, "Usage: millrace %s ", commands[i]);
        assert_words(run.out, line);
        assert_words(run.out, "Example");
        snprintf(line, sizeof line, "\n  millrace %s ", commands[i]);
        assert_words(run.out, line);
        assert_string_equal(run.err, "");
    }
    mr_run_free(&run);
}

/* The manual has every "--option" of a help text as "*--option*". */
static void check_manual(const char *manual, const char *help)
{
    for (const char *at = help; (at = strstr(at, "      --")) != NULL;) {
        char entry[64];
        at += strlen("      ");
        snprintf(entry, sizeof entry, "*%.*s*", (int)strcspn(at, "= \n,"), at);
        assert_words(manual, entry);
    }
}

static void manual_names_every_option(void **state)
{
    if (!mr_run_exists(MR_TEST_MANUAL)) /* no awk */
        skip();
    char *manual = mr_run_read_file(MR_TEST_MANUAL, NULL);
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < N_COMMANDS; i++) {
        mr_run_command(&run, commands[i], "--help", NULL);
        check_manual(manual, run.out);
    }
    mr_run_free(&run);
    free(manual);
}

static void manual_names_every_key_of_a_spec(void **state)
{
    static const char *const keys[] = {
        "?split=", "?label=",  "?bytes=",     "*header*",      "*stride*",      "*dtype*",
        "*shape*", "*layout*", "*label_off*", "*label_bytes*", "*label_dtype*", "*label_shape*"};
    (void)state;
    if (!mr_run_exists(MR_TEST_MANUAL))
        skip();
    char *manual = mr_run_read_file(MR_TEST_MANUAL, NULL);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_words(manual, keys[i]);
    free(manual);
}

/* Each option with a value names its default, except these, which have none. */
static void help_states_defaults(void **state)
{
    static const char *const without[] = {
        "--explain=", "--repeat=", "--soft-labels=", "--weights="};
    struct mr_run run = {0};
    unsigned n_stated = 0;

    (void)state;
    mr_run_command(&run, "export", "--help", NULL);
    for (const char *at = run.out; (at = strstr(at, "\n      --")) != NULL;) {
        bool stated = false;
        at += strlen("\n      ");
        const char *end = strstr(at, "\n      --"); /* the next option */
        size_t len = end != NULL ? (size_t)(end - at) : strlen(at);
        for (size_t i = 0; i < sizeof without / sizeof *without; i++)
            stated = stated || strncmp(at, without[i], strlen(without[i])) == 0;
        if (at[strcspn(at, "= \n")] != '=' || stated)
            continue;
        if (memmem(at, len, "(default", 8) == NULL && memmem(at, len, "(required", 9) == NULL &&
            memmem(at, len, "required)", 9) == NULL)
            fail_msg("no default: %.*s", (int)len, at);
        n_stated++;
    }
    assert_true(n_stated > 25);
    mr_run_free(&run);
}

static void help_command_is_the_same_as_the_option(void **state)
{
    struct mr_run by_option = {0}, by_command = {0};

    (void)state;
    mr_run_command(&by_option, "--help", NULL);
    mr_run_command(&by_command, "help", NULL);
    assert_int_equal(by_option.status, 0);
    assert_int_equal(by_command.status, 0);
    assert_string_equal(by_option.out, by_command.out);
    for (int i = 0; i < N_COMMANDS; i++)
        assert_words(by_option.out, commands[i]);
    mr_run_command(&by_option, "order", "--help", NULL);
    mr_run_command(&by_command, "help", "order", NULL);
    assert_string_equal(by_option.out, by_command.out);
    mr_run_free(&by_option);
    mr_run_free(&by_command);
}

static void help_comes_by_every_name(void **state)
{
    static const char *const ways[][4] = {
        {"-h"}, {"help", "--help"}, {"help", "-h"}, {"list", "-h"}, {"help", "list", "--help"}};
    struct mr_run run = {0};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        mr_run_command(&run, ways[i][0], ways[i][1], ways[i][2], NULL);
        if (run.status != 0)
            fail_msg("way %zu ends with %d: %s", i, run.status, run.err);
        assert_words(run.out, i < 3 ? "] COMMAND [OPTION...]" : "Usage: millrace list ");
    }
    mr_run_free(&run);
}

/* A directory, a SPEC, or the folder of a pack, which may have any name. */
static void a_dataset_needs_no_option(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("plain", 2, 2);
    mr_run_command(&run, "list", "plain", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "4 samples, 2 classes");
    mr_run_command(&run, "bench", "imagefolder:plain", "--workers", "0", "--seconds", "0.1", NULL);
    assert_int_equal(run.status, 0);
    mr_run_command(&run, "pack", "plain", "a pack?", NULL);
    assert_int_equal(run.status, 0);
    mr_run_command(&run, "list", "a pack?", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "4 samples, 2 classes");
    mr_run_command(&run, "export", "--workers", "0", "a pack?", "--out", "plain.npy", NULL);
    assert_int_equal(run.status, 0);
    mr_run_command(&run, "list", "plain/class_0", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "?label=none");
    mr_run_command(&run, "list", "plain/class_0?label=none", NULL);
    assert_int_equal(run.status, 0);
    mr_run_free(&run);
}

static void version_names_version_and_features(void **state)
{
    static const char *const ways[] = {"--version", "version"};
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        mr_run_command(&run, ways[i], NULL);
        assert_int_equal(run.status, 0);
        assert_words(run.out, "millrace " MR_VERSION "\n");
        assert_words(run.out, "jpeg");
    }
    mr_run_free(&run);
}

static void wrong_calls_exit_2_and_name_what_is_wrong(void **state)
{
    static const struct {
        const char *args[10];
        const char *words;
    } cases[] = {
        {{NULL}, "a command is missing"},
        {{"polish"}, "'polish' is not a command"},
        {{"help", "polish"}, "'polish' is not a command"},
        {{"bnech", "photos"}, "'bnech' is not a command; did you mean 'bench'?"},
        {{"bench", "--bacth-size", "8", "x"},
         "--bacth-size is not an option; did you mean --batch-size?"},
        {{"launch", "--npro=2", "--node-ramk=1", "x"},
         "--node-ramk is not an option; did you mean --node-rank?"},
        {{"bench", "empty", "more"}, "unexpected argument 'more'"},
        {{"list", "--data", "empty", "more"}, "unexpected argument 'more'"},
        {{"list", "records:x?bites=3"}, "did you mean 'bytes'?"},
        {{"cache"}, "stat or clear is missing"},
        {{"cache", "sat", "empty"}, "'sat' is neither stat nor clear"},
        {{"order"}, "--samples is missing"},
        {{"order", "--samples", "10x"}, "--samples: '10x' is not a number from 0 to 1099511627776"},
        {{"order", "--samples", "-1"}, "--samples: '-1' is not a number"},
        {{"order", "--samples", "10", "--world-size", "0"},
         "--world-size: '0' is not a number from 1"},
        {{"order", "--samples", "10", "--rank", "1"}, "rank 1"},
        {{"order", "--samples", "10", "--tail", "round"},
         "--tail: 'round' is none of pad, drop, exact"},
        {{"order", "--samples", "10", "--seed", "18446744073709551616"},
         "--seed: '18446744073709551616'"},
        {{"order", "--samples", "10", "left"}, "'left' is not an option"},
        {{"order", "--polish"}, "--polish"},
        {{"export", "--out", "x.npy"}, "--data is missing"},
        {{"export", "--data", "x"}, "--out is missing"},
        {{"export", "--data", "x", "--out", "x.png"},
         "--out: 'x.png' is not a file name ending in .npy"},
        {{"export", "--data", "x", "--out", "x.npy", "--workers", "x"},
         "--workers: 'x' is not a number from 0 to 1024"},
        {{"export", "--data", "x", "--out", "x.npy", "--workers", "1,2"}, "--workers: '1,2'"},
        {{"export", "--data", "x", "--out", "x.npy", "--batch-size", "70000"}, "70000"},
        {{"export", "--data", "x", "--out", "x.npy", "--dtype", "u9"}, "--dtype: 'u9'"},
        {{"export", "--data", "x", "--out", "x.npy", "--mean", "0.5"},
         "--mean and --std must be given together"},
        {{"export", "--data", "x", "--out", "x.npy", "--std", "0.5,0,0.5"}, "--std: '0.5,0,0.5'"},
        {{"export", "--data", "x", "--out", "x.npy", "--mean", "nan"}, "--mean: 'nan'"},
        {{"export", "--data", "empty", "--out", "x.npy", "--transform", "melt:3"}, "melt"},
        {{"preview", "--data", "x", "--out", "x.jpg"},
         "--out: 'x.jpg' is not a file name ending in .png"},
        {{"bench", "--data", "x", "--plot", "x.svg"},
         "--plot: 'x.svg' is not a file name ending in .png"},
        {{"list", "--data", "list:x?labels=u8"}, "list has no key 'labels'"},
        {{"list", "--data", "records:x?bytes=ten"}, "bytes 'ten'"},
        {{"export", "--data", "empty", "--out", "x.npy", "--affinity", "1023"},
         "affinity_cpus[0] 1023 is not among this process's CPUs"},
        {{"bench"}, "--data is missing"},
        {{"bench", "--data", "x", "--workers", "1,,2"}, "--workers: '1,,2'"},
        {{"bench", "--data", "x", "--seconds", "0"}, "--seconds: '0'"},
        {{"list"}, "--data is missing"},
        {{"list", "--data", "cifar10:x?split=half"}, "half"},
        {{"pack"}, "SRC is missing"},
        {{"pack", "empty"}, "OUT is missing"},
        {{"pack", "empty", "out", "more"}, "unexpected argument 'more'"},
        {{"pack", "empty", "out", "--encoding", "gif"},
         "--encoding: 'gif' is none of dct, jpeg, raw"},
        {{"pack", "empty", "out", "--shard-size", "1X"},
         "--shard-size: '1X' is not a number of bytes"},
        {{"pack", "empty", "out", "--shard-size", "1023K"}, "--shard-size: '1023K'"},
        {{"pack", "empty", "out", "--shard-size", "99999999T"}, "--shard-size: '99999999T'"},
        {{"pack", "empty", "out", "--jpeg", "own"}, "--jpeg: 'own' is none of auto, stock"},
        {{"check", "empty", "--jpeg", "own"}, "--jpeg: 'own' is none of auto, stock"},
        {{"pack", "empty", "out", "--quality", "101"},
         "--quality: '101' is not a number from 1 to 100"},
        {{"pack", "empty", "out", "--seed", "1"}, "--seed needs --arrange shuffle"},
        {{"pack", "empty", "out", "--max-side", "9", "--resize", "9"},
         "max_side and resize exclude each other"},
        {{"check"}, "PATH is missing"},
        {{"check", "a", "b"}, "unexpected argument 'b'"},
        {{"unpack", "a"}, "DIR is missing"},
        {{"unpack", "empty", "out"},
         "empty is not a pack: it has no index written by millrace pack"},
        {{"unpack", "empty/class_0/0.jpg", "out"}, "empty/class_0/0.jpg is not a pack"},
        {{"unpack", "imagefolder:empty", "out"}, "/empty is not a pack"},
    };
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("empty", 1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_run_command_to(&run, ".stdout", 0, cases[i].args);
        if (run.status != 2)
            fail_msg("case %zu exits with %d: %s", i, run.status, run.err);
        assert_words(run.err, cases[i].words);
    }
    assert_false(mr_run_exists("x.npy"));
    assert_false(mr_run_exists("out"));
    mr_run_free(&run);
}

static void what_is_not_there_exits_1_and_is_named(void **state)
{
    static const char *const specs[] = {"imagefolder:nowhere", "nowhere",
                                        "imagefoldr:nowhere",  "cifar10:nowhere",
                                        "list:nowhere",        "records:nowhere?bytes=4"};
    struct mr_run run = {0};

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        mr_run_command(&run, "list", "--data", specs[i], NULL);
        if (run.status != 1)
            fail_msg("%s exits with %d: %s", specs[i], run.status, run.err);
        assert_words(run.err, "nowhere");
    }
    mr_run_free(&run);
}

/* An error in files or folders is not an error in the call. */
static void bad_data_exit_1_and_are_named(void **state)
{
    static const char *const specs[] = {"hollow", "hollow/class", "list:bad.list",
                                        "list:empty.list", "records:bad.list?bytes=1000"};
    struct mr_run run = {0};

    (void)state;
    assert_int_equal(mkdir("hollow", 0777), 0);
    assert_int_equal(mkdir("hollow/class", 0777), 0);
    mr_run_write_file("bad.list", "no tab\n", 7);
    mr_run_write_file("empty.list", "", 0);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        mr_run_command(&run, "list", "--data", specs[i], NULL);
        if (run.status != 1)
            fail_msg("%s exits with %d: %s", specs[i], run.status, run.err);
        assert_words(run.err, strncmp(specs[i], "hollow", 6) == 0 ? specs[i]
                              : i == 3                            ? "empty.list"
                                                                  : "bad.list");
    }
    mr_run_command(&run, "export", "--data", "hollow", "--allow-empty-classes", "--out",
                   "hollow.npy", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "hollow has no samples");
    mr_run_command(&run, "list", "--data", "hollow", "--allow-empty-classes", "--save",
                   "hollow.list", NULL);
    assert_int_equal(run.status, 1);
    assert_false(mr_run_exists("hollow.list"));
    mr_run_free(&run);
}

static void output_that_cannot_be_written_exits_1(void **state)
{
    const char *const order[] = {"order", "--samples", "100000", NULL};
    const char *const version[] = {"version", NULL};
    struct mr_run run = {0};

    (void)state;
    mr_run_command_to(&run, "/dev/full", 0, order);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "stdout");
    mr_run_command_to(&run, "/dev/full", 0, version);
    assert_int_equal(run.status, 1);
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_help_with_an_example),
        cmocka_unit_test(manual_names_every_option),
        cmocka_unit_test(manual_names_every_key_of_a_spec),
        cmocka_unit_test(help_states_defaults),
        cmocka_unit_test(help_command_is_the_same_as_the_option),
        cmocka_unit_test(help_comes_by_every_name),
        cmocka_unit_test(a_dataset_needs_no_option),
        cmocka_unit_test(version_names_version_and_features),
        cmocka_unit_test(wrong_calls_exit_2_and_name_what_is_wrong),
        cmocka_unit_test(what_is_not_there_exits_1_and_is_named),
        cmocka_unit_test(bad_data_exit_1_and_are_named),
        cmocka_unit_test(output_that_cannot_be_written_exits_1),
    };

    return cmocka_run_group_tests(tests, mr_run_enter_folder, mr_run_leave_folder);
}
