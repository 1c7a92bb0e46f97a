/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of a training run that are killed or stopped at random times: every survivor ends soon,
 * with a line that names the rank, and nothing is left. Only the rank itself gets the signal: its
 * workers must end too.
 *
 * test_rank_kills [PROGRAM BACKEND OPTIONS...]: PROGRAM is another build of the training example.
 * It gets these further options, and its engine must be BACKEND. nccl is NCCL's double, which
 * alternately reports a rank's death and does not.
 */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fault/rank_pictures.h"
#include "tests/fault/rank_program.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"
#include "tests/support/scale.h"

#ifdef MR_TEST_TRAIN

/*
 * SLACK_MS: the time that the end of a process may take on a busy machine. SILENCE_MS: a rank
 * without a sign for this long is silent. SOON_MS is far above the usual time, for busy machines,
 * and below the time that a wait for silence would take.
 */
enum {
    N_RANKS = 3,
    START_MS = 60000,
    SLACK_MS = 9500,
    SOON_MS = 9000,
    SILENCE_MS = 10000,
    LATEST_MS = 800
};

static char *folder;
static const char *program = MR_TEST_TRAIN;
static const char *backend = "gloo";
static char *const *options; /* more options; NULL ends the list */
static uint64_t random_state;

static uint32_t draw(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static void add_training(struct mr_rank_words *argv)
{
    mr_rank_words_add(argv, "%s", program);
    mr_rank_words_add(argv, "--data=%s", folder);
    mr_rank_words_add(argv, "--out=%s/out", folder);
    mr_rank_words_add(argv, "--epochs=100000");
    mr_rank_words_add(argv, "--batch-size=12");
    mr_rank_words_add(argv, "--workers=1");
    for (char *const *option = options; option && *option; option++)
        mr_rank_words_add(argv, "%s", *option);
}

/*
 * Prepare the next run. The doubles behave differently, so that a death is reported by NCCL or by
 * the store alone.
 */
static void vary_doubles(void)
{
    static const char *const policies[] = {"early", "late", "random"};
    static uint32_t n_runs;
    char cuda[64];
    snprintf(cuda, sizeof cuda, "devices=%d,policy=%s,seed=%u", N_RANKS, policies[n_runs % 3],
             n_runs);
    setenv("MR_CUDA_DOUBLE", cuda, 1);
    setenv("MR_NCCL_DOUBLE", n_runs++ % 2 == 0 ? "death=silent" : "death=noticed", 1);
}

/* ---- one run ---- */

struct hit {
    uint32_t rank;
    int number; /* SIGKILL, SIGSTOP */
    uint32_t after_ms;
    uint16_t port;
    struct mr_rank_program ranks[N_RANKS];
};

static void show(const struct hit *hit)
{
    printf("signal %d to rank %u %u ms after the start of training\n", hit->number, hit->rank,
           hit->after_ms);
    if (getenv("MR_NCCL_DOUBLE"))
        printf("%s, %s\n", getenv("MR_CUDA_DOUBLE"), getenv("MR_NCCL_DOUBLE"));
    for (uint32_t r = 0; r < N_RANKS; r++) {
        char *said = mr_rank_program_said(&hit->ranks[r]);
        printf("rank %u, status %d, %u ms:\n%s\n", r, hit->ranks[r].end, hit->ranks[r].took_ms,
               said);
        free(said);
    }
}

static void start(struct hit *hit)
{
    char words[64];
    for (uint32_t r = 0; r < N_RANKS; r++) {
        struct mr_rank_words argv = {0}, settings = {0};
        mr_rank_words_add(&settings, "RANK=%u", r);
        mr_rank_words_add(&settings, "LOCAL_RANK=%u", r);
        mr_rank_words_add(&settings, "WORLD_SIZE=%d", N_RANKS);
        mr_rank_words_add(&settings, "MASTER_ADDR=127.0.0.1");
        mr_rank_words_add(&settings, "MASTER_PORT=%u", hit->port);
        add_training(&argv);
        mr_rank_program_start(&hit->ranks[r], &argv, &settings, -1);
    }
    snprintf(words, sizeof words, "world size %d (%s)", N_RANKS, backend);
    if (!mr_rank_program_expect(&hit->ranks[0], words, START_MS)) {
        show(hit);
        fail_msg("training does not begin");
    }
}

/*
 * Things that a program leaves when it gives up are no fault; the way it used its devices until
 * then may be one.
 */
static bool is_faultless(const struct mr_rank_program *rank)
{
    return !mr_rank_program_says(rank, "misuse: ") && !mr_rank_program_says(rank, "unordered: ");
}

/*
 * Expect a line by the survivor itself, not the killed rank's line, which is reported elsewhere
 * too.
 */
static void expect_survivor(struct hit *hit, uint32_t r, uint32_t limit_ms)
{
    char words[24];
    snprintf(words, sizeof words, "rank %u ", hit->rank);
    bool in_time = mr_rank_program_wait(&hit->ranks[r], limit_ms);
    if (!in_time || hit->ranks[r].end == 0 || hit->ranks[r].end >= 128 ||
        !mr_rank_program_says(&hit->ranks[r], words) || !is_faultless(&hit->ranks[r])) {
        show(hit);
        fail_msg("rank %u does not end well within %u ms", r, limit_ms);
    }
}

static uint32_t count_files(const char *name)
{
    char path[512];
    uint32_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        n += entry->d_name[0] != '.';
    closedir(directory);
    return n;
}

static void expect_nothing_left(uint16_t port)
{
    assert_int_equal(mr_rank_program_leftovers(5000), 0);
    assert_int_equal(count_files("tmp"), 0);
    if (port)
        assert_true(mr_rank_program_is_free(port));
}

static void strike(uint32_t rank, int number, uint32_t after_ms)
{
    struct hit hit = {
        .rank = rank, .number = number, .after_ms = after_ms, .port = mr_rank_program_port()};
    uint32_t limit_ms = number == SIGSTOP ? SILENCE_MS + SLACK_MS : SLACK_MS;
    if (strcmp(backend, "nccl") == 0)
        vary_doubles();
    start(&hit);
    mr_test_sleep_ms(after_ms);
    for (uint32_t r = 0; r < N_RANKS; r++)
        if (kill(hit.ranks[r].pid, 0) != 0 || mr_rank_program_says(&hit.ranks[r], "rank "))
            fail_msg("rank %u has ended by itself", r);
    kill(hit.ranks[rank].pid, number);
    uint64_t until_ms = mr_rank_program_now_ms() + limit_ms;
    for (uint32_t r = 0; r < N_RANKS; r++) {
        uint64_t now_ms = mr_rank_program_now_ms();
        if (r != rank)
            expect_survivor(&hit, r, now_ms < until_ms ? (uint32_t)(until_ms - now_ms) : 0);
    }
    if (number == SIGSTOP) { /* it wakes up and finds itself alone */
        kill(hit.ranks[rank].pid, SIGCONT);
        bool in_time = mr_rank_program_wait(&hit.ranks[rank], SILENCE_MS + SLACK_MS);
        if (!in_time || hit.ranks[rank].end == 0) {
            show(&hit);
            fail_msg("rank %u was woken and does not end", rank);
        }
    } else {
        assert_true(mr_rank_program_wait(&hit.ranks[rank], SLACK_MS));
        assert_int_equal(hit.ranks[rank].end, 128 + SIGKILL);
    }
    for (uint32_t r = 0; r < N_RANKS; r++)
        mr_rank_program_free(&hit.ranks[r]);
    expect_nothing_left(hit.port);
}

/* ---- tests ---- */

static void survivors_of_a_kill_name_the_rank(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < mr_test_scale(9); i++)
        strike(draw(N_RANKS), SIGKILL, draw(LATEST_MS));
}

static void survivors_of_a_silent_rank_name_it(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < mr_test_scale(1); i++)
        strike(draw(N_RANKS), SIGSTOP, draw(LATEST_MS));
}

/* Each rank writes its process id into folder/pids before it becomes the program. */
static pid_t await_pid(uint32_t rank)
{
    char path[512];
    int pid = 0;
    snprintf(path, sizeof path, "%s/pids/%u", folder, rank);
    for (int i = 0; i < START_MS / 5; i++) {
        FILE *file = fopen(path, "r");
        int n = file ? fscanf(file, "%d\n", &pid) : 0;
        if (file)
            fclose(file);
        if (n == 1)
            break;
        mr_test_sleep_ms(5);
    }
    assert_true(pid > 0);
    return pid;
}

static void start_launch(struct mr_rank_program *launch)
{
    struct mr_rank_words argv = {0};
    mr_rank_words_add(&argv, "%s", MR_TEST_MILLRACE);
    mr_rank_words_add(&argv, "launch");
    mr_rank_words_add(&argv, "--nproc");
    mr_rank_words_add(&argv, "%d", N_RANKS);
    mr_rank_words_add(&argv, "--");
    mr_rank_words_add(&argv, "/bin/sh");
    mr_rank_words_add(&argv, "-c");
    mr_rank_words_add(
        &argv, "echo $$ > %s/pids/new-$RANK; mv %s/pids/new-$RANK %s/pids/$RANK; exec \"$@\"",
        folder, folder, folder);
    mr_rank_words_add(&argv, "sh");
    add_training(&argv);
    mr_rank_program_start(launch, &argv, NULL, -1);
}

static void start_ranks_of_launch(struct mr_rank_program *launch, pid_t pids_out[N_RANKS])
{
    start_launch(launch);
    for (uint32_t r = 0; r < N_RANKS; r++)
        pids_out[r] = await_pid(r);
}

/*
 * Expect that it ends soon, with this status, and that nothing is left. Ownership of the output:
 * the caller's.
 */
static char *finish_launch(struct mr_rank_program *launch, int end)
{
    uint64_t began_ms = mr_rank_program_now_ms();
    bool in_time = mr_rank_program_wait(launch, SLACK_MS);
    uint32_t took_ms = (uint32_t)(mr_rank_program_now_ms() - began_ms);
    char *said = mr_rank_program_said(launch);
    if (!in_time || launch->end != end || took_ms > SOON_MS) {
        print_message("%s\n", said);
        fail_msg("the launch ended with %d after %u ms", launch->end, took_ms);
    }
    mr_rank_program_free(launch);
    for (uint32_t r = 0; r < N_RANKS; r++) {
        char path[512];
        snprintf(path, sizeof path, "%s/pids/%u", folder, r);
        assert_int_equal(unlink(path), 0);
    }
    expect_nothing_left(0);
    return said;
}

static bool reports_kill(const char *said, uint32_t rank, pid_t pid)
{
    char words[100];
    snprintf(words, sizeof words, "rank %u (process %d) was killed by SIGKILL", rank, (int)pid);
    return strstr(said, words) != NULL;
}

/* At any time, even before the ranks have found each other. */
static void a_launch_says_who_was_killed_first(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < mr_test_scale(5); i++) {
        struct mr_rank_program launch;
        pid_t pids[N_RANKS];
        uint32_t rank = draw(N_RANKS);
        start_ranks_of_launch(&launch, pids);
        mr_test_sleep_ms(draw(2 * LATEST_MS));
        kill(pids[rank], SIGKILL);
        char *said = finish_launch(&launch, 128 + SIGKILL);
        if (!reports_kill(said, rank, pids[rank]) ||
            !strstr(said, "; the other ranks were ended\n"))
            fail_msg("rank %u was killed: %s", rank, said);
        free(said);
    }
}

/* Which one was first cannot be known here; but it is one of them, and only one is named. */
static void of_ranks_that_are_killed_at_once_one_is_named(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < mr_test_scale(3); i++) {
        struct mr_rank_program launch;
        pid_t pids[N_RANKS];
        uint32_t first = draw(N_RANKS), n_named = 0;
        start_ranks_of_launch(&launch, pids);
        mr_test_sleep_ms(draw(LATEST_MS));
        for (uint32_t r = 0; r < N_RANKS; r++)
            kill(pids[(first + r) % N_RANKS], SIGKILL);
        char *said = finish_launch(&launch, 128 + SIGKILL);
        for (uint32_t r = 0; r < N_RANKS; r++)
            n_named += reports_kill(said, r, pids[r]);
        if (n_named != 1)
            fail_msg("%u ranks are named: %s", n_named, said);
        free(said);
    }
}

/* The same holds for the ranks' workers. */
static void no_rank_outlives_a_killed_launcher(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < mr_test_scale(3); i++) {
        struct mr_rank_program launch;
        pid_t pids[N_RANKS];
        start_ranks_of_launch(&launch, pids);
        mr_test_sleep_ms(draw(2 * LATEST_MS));
        kill(launch.pid, SIGKILL);
        free(finish_launch(&launch, 128 + SIGKILL));
    }
}

/* ---- the rest ---- */

static void make_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0777), 0);
    if (strcmp(name, "tmp") == 0)
        setenv("TMPDIR", path, 1);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    mr_rank_pictures_write(folder, 96, 12);
    make_folder("pids");
    make_folder("tmp");
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_of_a_kill_name_the_rank),
        cmocka_unit_test(survivors_of_a_silent_rank_name_it),
        cmocka_unit_test(a_launch_says_who_was_killed_first),
        cmocka_unit_test(of_ranks_that_are_killed_at_once_one_is_named),
        cmocka_unit_test(no_rank_outlives_a_killed_launcher),
    };
    if (argc >= 3) {
        program = argv[1];
        backend = argv[2];
        options = argv + 3;
    } else {
        setenv("CUDA_VISIBLE_DEVICES", "", 1); /* on the host, wherever this runs */
    }
    random_state = getenv("MR_TEST_SEED") ? strtoull(getenv("MR_TEST_SEED"), NULL, 10)
                                          : mr_rank_program_now_ms();
    printf("seed %llu (MR_TEST_SEED)\n", (unsigned long long)random_state);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    unsetenv("MR_TOKEN");
    unsetenv("MR_RUN_ID");
    mr_rank_program_init();
    return cmocka_run_group_tests(tests, set_up, NULL);
}

#else

int main(void)
{
    puts("skipped: train_cifar10, the millrace command or the gloo module was not built");
    return 77;
}

#endif
