/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thousand groups one after the other, in the same processes, at the same address: nothing is
 * left. test_cycles [BACKEND]: over another engine than gloo and mpi, which MR_MODULE_PATH
 * contains.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fault/rank_program.h"
#include "tests/support/folder.h"
#include "tests/support/scale.h"

enum { LIMIT_MS = 280000, MAX_RANKS = 2 };

static const char *other_backend;

static void add_cycles(struct mr_rank_words *argv, const char *backend)
{
    mr_rank_words_add(argv, "%s", MR_TEST_CYCLES_RANK);
    mr_rank_words_add(argv, "%s", backend);
    mr_rank_words_add(argv, "%u", mr_test_scale(100));
}

static void finish(struct mr_rank_program *programs, uint32_t n)
{
    uint32_t n_good = 0;
    for (uint32_t i = 0; i < n; i++)
        n_good += mr_rank_program_wait(&programs[i], LIMIT_MS) && programs[i].end == 0;
    for (uint32_t i = 0; i < n; i++) {
        char *said = mr_rank_program_said(&programs[i]);
        print_message("%s", said);
        free(said);
        mr_rank_program_free(&programs[i]);
    }
    assert_int_equal(n_good, n);
    assert_int_equal(mr_rank_program_leftovers(5000), 0);
}

/* No temporary file is left. */
static char *make_temporary_folder(void)
{
    char *folder = mr_test_folder_create();
    setenv("TMPDIR", folder, 1);
    return folder;
}

static void expect_empty(char *folder)
{
    uint32_t n = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.') {
            print_message("%s is left\n", entry->d_name);
            n++;
        }
    closedir(directory);
    unsetenv("TMPDIR");
    mr_test_folder_remove(folder);
    assert_int_equal(n, 0);
}

static void run_by_hand(const char *backend)
{
    struct mr_rank_program programs[MAX_RANKS];
    char *folder = make_temporary_folder();
    uint16_t port = mr_rank_program_port();
    for (uint32_t r = 0; r < MAX_RANKS; r++) {
        struct mr_rank_words argv = {0}, settings = {0};
        mr_rank_words_add(&settings, "RANK=%u", r);
        mr_rank_words_add(&settings, "LOCAL_RANK=%u", r);
        mr_rank_words_add(&settings, "WORLD_SIZE=%d", MAX_RANKS);
        mr_rank_words_add(&settings, "MASTER_ADDR=127.0.0.1");
        mr_rank_words_add(&settings, "MASTER_PORT=%u", port);
        add_cycles(&argv, backend);
        mr_rank_program_start(&programs[r], &argv, &settings, -1);
    }
    finish(programs, MAX_RANKS);
    assert_true(mr_rank_program_is_free(port));
    expect_empty(folder);
}

static void groups_of_gloo_leave_nothing(void **state)
{
    (void)state;
#ifdef MR_TEST_GLOO_FOLDER
    setenv("MR_MODULE_PATH", MR_TEST_GLOO_FOLDER, 1);
    run_by_hand("gloo");
#else
    print_message("this build has no gloo\n");
    skip();
#endif
}

#ifdef MR_TEST_MPIRUN
/* MPI keeps its allocations until the process ends. */
static void run_under_mpirun(int n_ranks)
{
    struct mr_rank_program program;
    struct mr_rank_words argv = {0}, settings = {0};
    char *folder = make_temporary_folder();
    mr_rank_words_add(&settings, "ASAN_OPTIONS=detect_leaks=0");
    setenv("MR_MODULE_PATH", MR_TEST_MPI_FOLDER, 1);
    mr_rank_words_add(&argv, "%s", MR_TEST_MPIRUN);
    mr_rank_words_add(&argv, "-n");
    mr_rank_words_add(&argv, "%d", n_ranks);
    add_cycles(&argv, "mpi");
    mr_rank_program_start(&program, &argv, &settings, -1);
    finish(&program, 1);
    expect_empty(folder);
}
#endif

/* MPI is initialised once per process and finalised at its end. */
static void groups_of_mpi_leave_nothing(void **state)
{
    (void)state;
#ifdef MR_TEST_MPIRUN
    run_under_mpirun(MAX_RANKS);
#else
    print_message("this build has no MPI\n");
    skip();
#endif
}

static void groups_of_the_named_engine_leave_nothing(void **state)
{
    (void)state;
    run_by_hand(other_backend);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_gloo_leave_nothing),
        cmocka_unit_test(groups_of_mpi_leave_nothing),
    };
    const struct CMUnitTest named[] = {
        cmocka_unit_test(groups_of_the_named_engine_leave_nothing),
    };
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1); /* Open MPI 5 */
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 1);
    unsetenv("MR_TOKEN");
    mr_rank_program_init();
    if (argc == 2) {
        other_backend = argv[1];
        return cmocka_run_group_tests(named, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
