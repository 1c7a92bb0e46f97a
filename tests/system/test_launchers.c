/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training example, unchanged, under every known launcher: two ranks get the same losses, digit
 * by digit. If a launcher is not installed, the test sets its variables. A launcher's variables are
 * removed from this test's environment, because the ranks of another launcher would read them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fault/rank_pictures.h"
#include "tests/fault/rank_program.h"
#include "tests/support/folder.h"

#ifdef MR_TEST_TRAIN

enum { LIMIT_MS = 60000, N_RANKS = 2 };

static char *folder;
static char *expected; /* the lines of the first run */

/* ---- results ---- */

/* log.tsv of folder/out-NAME without its last column, the time. Ownership: the caller's. */
static char *read_losses(const char *name)
{
    char path[512], line[512];
    char *text = calloc(1, 4096);
    snprintf(path, sizeof path, "%s/out-%s/log.tsv", folder, name);
    FILE *file = fopen(path, "r");
    if (!file || !text)
        fail_msg("%s does not exist", path);
    while (fgets(line, sizeof line, file)) {
        char *tab = strrchr(line, '\t');
        assert_non_null(tab);
        *tab = '\0';
        assert_true(strlen(text) + strlen(line) + 2 < 4096);
        strcat(strcat(text, line), "\n");
    }
    fclose(file);
    return text;
}

static void expect_losses(const char *name)
{
    double first, loss = 0;
    char *losses = read_losses(name);
    const char *end = strchr(losses, '\n');
    assert_non_null(end);
    assert_int_equal(sscanf(losses, "%*d %lf", &first), 1);
    assert_int_equal(sscanf(end + 1, "%*d %lf", &loss), 1); /* two epochs */
    assert_true(loss > 0 && loss < first);
    if (!expected) {
        expected = losses;
        print_message("%s", expected);
        return;
    }
    assert_string_equal(losses, expected);
    free(losses);
}

/* ---- starting ---- */

static void add_training(struct mr_rank_words *argv, const char *name)
{
    mr_rank_words_add(argv, "%s", MR_TEST_TRAIN);
    mr_rank_words_add(argv, "--data=%s", folder);
    mr_rank_words_add(argv, "--out=%s/out-%s", folder, name);
    mr_rank_words_add(argv, "--epochs=2");
    mr_rank_words_add(argv, "--batch-size=16");
    mr_rank_words_add(argv, "--workers=1");
}

/* All ended with 0, rank 0 has printed its world, and nothing is left. */
static void expect_end(struct mr_rank_program *programs, uint32_t n, const char *name,
                       const char *backend)
{
    char words[64];
    uint32_t n_good = 0;
    bool is_told = false;
    snprintf(words, sizeof words, "world size %d (%s)", N_RANKS, backend);
    for (uint32_t i = 0; i < n; i++)
        n_good += mr_rank_program_wait(&programs[i], LIMIT_MS) && programs[i].end == 0;
    for (uint32_t i = 0; i < n; i++) {
        char *said = mr_rank_program_said(&programs[i]);
        is_told |= strstr(said, words) != NULL;
        if (n_good < n || (i + 1 == n && !is_told))
            print_message("%s, process %u, status %d:\n%s", name, i, programs[i].end, said);
        free(said);
        mr_rank_program_free(&programs[i]);
    }
    assert_int_equal(n_good, n);
    assert_true(is_told);
    assert_int_equal(mr_rank_program_leftovers(5000), 0);
    expect_losses(name);
}

/* Start ranks by a launcher: argv before the program's. */
static void launch_ranks(struct mr_rank_words *argv, const struct mr_rank_words *settings,
                         const char *name, const char *backend)
{
    struct mr_rank_program program;
    add_training(argv, name);
    mr_rank_program_start(&program, argv, settings, -1);
    expect_end(&program, 1, name, backend);
}

static void add_address(struct mr_rank_words *settings, uint16_t port)
{
    mr_rank_words_add(settings, "MASTER_ADDR=127.0.0.1");
    mr_rank_words_add(settings, "MASTER_PORT=%u", port);
}

/*
 * Start each rank as a process. settings: format strings with one %u, the rank. port 0: no address.
 */
static void start_ranks(const char *const *settings, uint16_t port, const char *name)
{
    struct mr_rank_program programs[N_RANKS];
    for (uint32_t r = 0; r < N_RANKS; r++) {
        struct mr_rank_words argv = {0}, mine = {0};
        for (size_t i = 0; settings[i]; i++) {
            const char *at = strchr(settings[i], '#');
            if (at)
                mr_rank_words_add(&mine, "%.*s%u", (int)(at - settings[i]), settings[i], r);
            else
                mr_rank_words_add(&mine, "%s", settings[i]);
        }
        if (port)
            add_address(&mine, port);
        add_training(&argv, name);
        mr_rank_program_start(&programs[r], &argv, &mine, -1);
    }
    expect_end(programs, N_RANKS, name, "gloo");
}

/* ---- launchers ---- */

static void millrace_launch_starts_it(void **state)
{
    struct mr_rank_words argv = {0};
    (void)state;
    mr_rank_words_add(&argv, "%s", MR_TEST_MILLRACE);
    mr_rank_words_add(&argv, "launch");
    mr_rank_words_add(&argv, "--nproc");
    mr_rank_words_add(&argv, "%d", N_RANKS);
    mr_rank_words_add(&argv, "--");
    launch_ranks(&argv, NULL, "launch", "gloo");
}

static void variables_set_by_hand_start_it(void **state)
{
    static const char *const settings[] = {"RANK=#", "WORLD_SIZE=2", NULL};
    (void)state;
    start_ranks(settings, mr_rank_program_port(), "hand");
}

/*
 * PyPI's torch, if it is installed. Debian 13's asks for libuv, which it is built without, and
 * starts nothing.
 */
static void torchrun_starts_it(void **state)
{
    struct mr_rank_words argv = {0};
    (void)state;
    if (system("python3 -m torch.distributed.run --standalone --no-python true >/dev/null 2>&1") !=
        0) {
        print_message("no torchrun that starts `true` here (PYTHONPATH may lead to one)\n");
        skip();
    }
    mr_rank_words_add(&argv, "python3");
    mr_rank_words_add(&argv, "-m");
    mr_rank_words_add(&argv, "torch.distributed.run");
    mr_rank_words_add(&argv, "--standalone");
    mr_rank_words_add(&argv, "--nproc-per-node=%d", N_RANKS);
    mr_rank_words_add(&argv, "--no-python");
    launch_ranks(&argv, NULL, "torchrun", "gloo");
}

/* MPI does not free its memory before the process ends. */
static void start_mpirun(uint16_t port, const char *name, const char *backend)
{
#ifdef MR_TEST_MPIRUN
    struct mr_rank_words argv = {0}, settings = {0};
    mr_rank_words_add(&settings, "ASAN_OPTIONS=detect_leaks=0");
    if (port)
        add_address(&settings, port);
    mr_rank_words_add(&argv, "%s", MR_TEST_MPIRUN);
    mr_rank_words_add(&argv, "-n");
    mr_rank_words_add(&argv, "%d", N_RANKS);
    launch_ranks(&argv, &settings, name, backend);
#else
    (void)port, (void)name, (void)backend;
    print_message("this build has no MPI\n");
    skip();
#endif
}

/* MPI carries rank 0's address, and is the group's backend. */
static void mpirun_starts_it(void **state)
{
    (void)state;
    start_mpirun(0, "mpirun", "mpi");
}

static void mpirun_with_an_address_starts_it_on_gloo(void **state)
{
    (void)state;
    start_mpirun(mr_rank_program_port(), "mpirun-gloo", "gloo");
}

/* MPICH's mpiexec, played by its variables. */
static void mpich_s_variables_start_it(void **state)
{
    static const char *const settings[] = {"PMI_RANK=#", "PMI_SIZE=2", "MPI_LOCALRANKID=#",
                                           "MPI_LOCALNRANKS=2", NULL};
    (void)state;
    start_ranks(settings, mr_rank_program_port(), "mpich");
}

static void start_slurm(uint16_t port, const char *name)
{
    char job[40];
    snprintf(job, sizeof job, "SLURM_JOB_ID=%u", (unsigned)mr_rank_program_now_ms());
    const char *const settings[] = {"SLURM_PROCID=#",
                                    "SLURM_LOCALID=#",
                                    "SLURM_NODEID=0",
                                    "SLURM_STEP_NUM_TASKS=2",
                                    "SLURM_STEP_TASKS_PER_NODE=2",
                                    "SLURM_NTASKS=2",
                                    "SLURM_NNODES=1",
                                    "SLURM_STEP_NODELIST=localhost",
                                    "SLURM_STEP_ID=0",
                                    job,
                                    NULL};
    start_ranks(settings, port, name);
}

/* The first host of the list, and a port from the ids of job and step. */
static void srun_s_variables_start_it(void **state)
{
    (void)state;
    start_slurm(0, "srun");
}

static void srun_s_variables_with_an_address_start_it(void **state)
{
    (void)state;
    start_slurm(mr_rank_program_port(), "srun-address");
}

/* ---- set-up ---- */

static int make_pictures(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    mr_rank_pictures_write(folder, 80, 20);
    return 0;
}

static int remove_pictures(void **state)
{
    (void)state;
    free(expected);
    return 0;
}

static void set_environment(void)
{
    static const char *const names[] = {"RANK",         "WORLD_SIZE",    "LOCAL_RANK",
                                        "MASTER_ADDR",  "MASTER_PORT",   "MR_TOKEN",
                                        "MR_RUN_ID",    "PMI_RANK",      "SLURM_PROCID",
                                        "SLURM_JOB_ID", "SLURM_STEP_ID", "MR_MODULE_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* computes on the host on every machine */
    /* the same sums each time, and two ranks on two cores */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1); /* for Open MPI 5 */
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(millrace_launch_starts_it),
        cmocka_unit_test(variables_set_by_hand_start_it),
        cmocka_unit_test(torchrun_starts_it),
        cmocka_unit_test(mpirun_starts_it),
        cmocka_unit_test(mpirun_with_an_address_starts_it_on_gloo),
        cmocka_unit_test(mpich_s_variables_start_it),
        cmocka_unit_test(srun_s_variables_start_it),
        cmocka_unit_test(srun_s_variables_with_an_address_start_it),
    };
    alarm(280); /* the children end with this process */
    set_environment();
    mr_rank_program_init();
    return cmocka_run_group_tests(tests, make_pictures, remove_pictures);
}

#else

int main(void)
{
    puts("skipped: train_cifar10, the millrace command or the gloo module was not built");
    return 77;
}

#endif
