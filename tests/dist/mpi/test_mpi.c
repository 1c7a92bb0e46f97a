/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mpi module. Each test starts mpi_rank under mpirun, with four ranks, and checks its exit
 * status and output.
 *
 * Invariant: mpirun and its ranks end with the test, also after a failure. mpirun is in a separate
 * process group, dies with this program, and ends its ranks.
 */
#include "base/clock.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_RANKS 4
#define LIMIT_MS 90000

struct outcome {
    int status; /* mpirun's exit code, or 128 + the signal */
    uint32_t took_ms;
    char said[16384];
};

static char folder[] = "/tmp/mr_test_mpi.XXXXXX";

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    if (where->level > 0)
        (void)remove(path);
    return 0;
}

/* Also removes the files that a killed mpirun leaves under TMPDIR. */
static void empty_folder(void)
{
    assert_int_equal(nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static bool exists(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

struct start {
    const char *program;
    const char *scenario;
    const char *module;
    int n_ranks; /* 0: without mpirun */
    /* not 0: so many ranks must exit by themselves; the end of mpirun itself does not count */
    uint32_t n_leave;
};

static uint32_t count_left(void)
{
    uint32_t n_left = 0;
    for (int rank = 0; rank < N_RANKS; rank++) {
        char name[20];
        snprintf(name, sizeof name, "left-%d", rank);
        n_left += exists(name);
    }
    return n_left;
}

/* Read the ranks' output, of which only the end is stored. False: all writers have ended. */
static bool read_output(int from, struct outcome *outcome, size_t *len)
{
    struct pollfd said = {.fd = from, .events = POLLIN};
    if (poll(&said, 1, 50) <= 0)
        return true;
    if (*len > sizeof outcome->said / 2) {
        memmove(outcome->said, outcome->said + *len / 2, *len - *len / 2);
        *len -= *len / 2;
    }
    ssize_t n = read(from, outcome->said + *len, sizeof outcome->said - 1 - *len);
    *len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* Wait until the program has ended, or until three seconds after the expected ranks have left. */
static void watch(const struct start *start, pid_t pid, int from, struct outcome *outcome)
{
    uint64_t start_ns = mr_clock_now_ns();
    uint32_t limit_ms = LIMIT_MS;
    uint32_t now_ms = 0;
    size_t len = 0;
    while (now_ms < limit_ms && read_output(from, outcome, &len)) {
        now_ms = (uint32_t)((mr_clock_now_ns() - start_ns) / 1000000);
        if (limit_ms == LIMIT_MS && start->n_leave > 0 && count_left() >= start->n_leave)
            limit_ms = now_ms + 3000;
    }
    outcome->said[len] = '\0';
    outcome->took_ms = now_ms;
    if (now_ms >= limit_ms)
        kill(-pid, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void exec_program(const struct start *start, int said)
{
    char n[12];
    snprintf(n, sizeof n, "%d", start->n_ranks);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun's ranks end with it */
    setpgid(0, 0);
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    setenv("TMPDIR", folder, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    /* Like --oversubscribe, which MPICH does not know. */
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1); /* for Open MPI 5 */
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 1);
    if (start->n_ranks == 0)
        execl(start->program, start->program, start->scenario, start->module, folder, (char *)NULL);
    else
        execl(MR_TEST_MPIRUN, "mpirun", MR_TEST_MPIRUN_OPTION "-n", n, start->program,
              start->scenario, start->module, folder, (char *)NULL);
    _exit(127);
}

static struct outcome run(struct start start)
{
    struct outcome outcome;
    int said[2];
    empty_folder();
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        exec_program(&start, said[1]);
    close(said[1]);
    watch(&start, pid, said[0], &outcome);
    close(said[0]);
    return outcome;
}

static struct start rank_of(const char *scenario)
{
    return (struct start){.program = MR_TEST_MPI_RANK,
                          .scenario = scenario,
                          .module = MR_TEST_MPI_MODULE,
                          .n_ranks = N_RANKS};
}

/* The output has no complaint of the ranks' sanitizers. */
static void must_be_sane(const struct outcome *outcome)
{
    static const char *const complaints[] = {"WARNING: ThreadSanitizer", "ERROR: AddressSanitizer",
                                             "runtime error:"};
    for (size_t i = 0; i < sizeof complaints / sizeof complaints[0]; i++)
        if (strstr(outcome->said, complaints[i]))
            fail_msg("%s", strstr(outcome->said, complaints[i]));
}

/* The program must end with 0, without a message from MPI. */
static void must_pass(struct start start)
{
    struct outcome outcome = run(start);
    if (outcome.status != 0)
        print_error("after %u ms:\n%s\n", outcome.took_ms, outcome.said);
    must_be_sane(&outcome);
    assert_int_equal(outcome.status, 0);
    assert_null(strstr(outcome.said, "finalize"));
}

static void must_leave(struct start start, uint32_t n_leave)
{
    start.n_leave = n_leave;
    struct outcome outcome = run(start);
    if (count_left() < n_leave || strstr(outcome.said, "does not hold"))
        print_error("after %u ms:\n%s\n", outcome.took_ms, outcome.said);
    must_be_sane(&outcome);
    assert_null(strstr(outcome.said, "does not hold"));
    assert_true(count_left() >= n_leave);
    assert_true(outcome.took_ms < 30000);
}

/* MASTER_PORT is a free port. */
static struct start group_of(const char *scenario)
{
    char text[16];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(probe >= 0);
    assert_int_equal(bind(probe, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(probe, (struct sockaddr *)&address, &len), 0);
    close(probe);
    snprintf(text, sizeof text, "%u", ntohs(address.sin_port));
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", text, 1);
    setenv("MR_MODULE_PATH", MR_TEST_MPI_FOLDER, 1);
    struct start start = rank_of(scenario);
    start.program = MR_TEST_MPI_GROUP;
    return start;
}

static void passes(const char *scenario)
{
    must_pass(rank_of(scenario));
}

static void every_collective_gives_what_a_sum_of_doubles_gives(void **state)
{
    (void)state;
    passes("oracle");
}

static void three_ranks_get_the_same_results(void **state)
{
    (void)state;
    struct start start = rank_of("oracle");
    start.n_ranks = 3;
    must_pass(start);
}

static void counts_above_one_call_go_in_parts(void **state)
{
    (void)state;
    struct start start = rank_of("parts");
    start.module = MR_TEST_MPI_SMALL_MODULE;
    must_pass(start);
}

static void sixteen_bit_sums_are_rounded_once(void **state)
{
    (void)state;
    passes("rounding");
}

static void means_that_fit_do_not_overflow_on_the_way(void **state)
{
    (void)state;
    passes("overflow");
}

static void buffers_may_begin_at_any_address(void **state)
{
    (void)state;
    passes("unaligned");
}

static void the_group_has_the_launchers_order_of_ranks(void **state)
{
    (void)state;
    passes("reordered");
}

static void a_split_group_works_without_its_parent(void **state)
{
    (void)state;
    passes("split");
}

static void groups_come_and_go_without_a_trace(void **state)
{
    (void)state;
    passes("cycles");
}

static void two_groups_work_in_two_threads(void **state)
{
    (void)state;
    passes("multiple");
}

static void threads_take_turns_in_a_serialized_mpi(void **state)
{
    (void)state;
    passes("serialized");
}

static void an_adopted_communicator_still_belongs_to_the_program(void **state)
{
    (void)state;
    passes("adopt");
}

static void a_communicator_without_mpi_is_refused(void **state)
{
    (void)state;
    passes("adopt_too_early");
}

static void an_mpi_without_threads_is_refused(void **state)
{
    (void)state;
    passes("single");
}

static void a_world_of_another_size_is_refused_with_both_numbers(void **state)
{
    (void)state;
    passes("wrong_size");
}

static void a_forked_child_does_not_end_mpi(void **state)
{
    (void)state;
    passes("fork");
}

static void a_world_of_one_needs_no_mpirun(void **state)
{
    (void)state;
    struct start start = rank_of("oracle");
    start.n_ranks = 0;
    must_pass(start);
}

static void rank_0_reaches_all_before_there_is_a_store(void **state)
{
    (void)state;
    passes("bootstrap");
    passes("bootstrap_all");
}

static void ranks_of_another_mpi_get_an_error_that_names_it(void **state)
{
    (void)state;
    struct start start = rank_of("bootstrap_alone");
    start.n_ranks = 0;
    must_pass(start);
}

static void the_public_interface_keeps_its_contract_over_mpi(void **state)
{
    (void)state;
    must_pass(group_of("contract"));
}

static void a_group_is_split_over_mpi(void **state)
{
    (void)state;
    must_pass(group_of("split"));
}

static void device_memory_is_refused_by_name_over_mpi(void **state)
{
    (void)state;
    must_pass(group_of("pointers"));
}

/* Neither a backend nor an address is named. MPICH gives no job id, so MR_RUN_ID is set. */
static struct start unnamed(const char *scenario)
{
    struct start start = group_of(scenario);
    char id[32];
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
    snprintf(id, sizeof id, "mpi-%u", (unsigned)getpid());
    if (MR_TEST_MPI_IS_MPICH)
        setenv("MR_RUN_ID", id, 1);
    return start;
}

static void the_default_backend_under_mpirun_is_mpi(void **state)
{
    (void)state;
    must_pass(unnamed("auto"));
}

static void without_mpi_s_module_ranks_of_one_machine_use_gloo(void **state)
{
    (void)state;
    if (!MR_TEST_MPI_HAS_GLOO)
        skip();
    must_pass(unnamed("hidden"));
}

static void a_rank_that_alone_lacks_mpi_s_module_is_named_at_once(void **state)
{
    (void)state;
    must_pass(unnamed("mixed"));
}

static void a_rank_that_hangs_ends_the_others_by_their_deadline(void **state)
{
    (void)state;
    must_leave(rank_of("hang"), N_RANKS);
}

static void a_group_ends_by_its_deadline_over_mpi(void **state)
{
    (void)state;
    /* rank 2 waits in MPI_Finalize until it is killed */
    must_leave(group_of("hang"), N_RANKS - 1);
}

static void a_collective_ends_when_it_is_stopped(void **state)
{
    (void)state;
    must_leave(rank_of("stop"), N_RANKS);
}

static void no_rank_waits_forever_at_exit(void **state)
{
    (void)state;
    must_leave(rank_of("late_exit"), N_RANKS - 1);
}

static void a_sender_that_sends_less_is_named(void **state)
{
    (void)state;
    must_leave(rank_of("short_send"), 1);
}

/* test_mpi [PATTERN]: only the tests whose names match. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_gives_what_a_sum_of_doubles_gives),
        cmocka_unit_test(three_ranks_get_the_same_results),
        cmocka_unit_test(counts_above_one_call_go_in_parts),
        cmocka_unit_test(sixteen_bit_sums_are_rounded_once),
        cmocka_unit_test(means_that_fit_do_not_overflow_on_the_way),
        cmocka_unit_test(buffers_may_begin_at_any_address),
        cmocka_unit_test(the_group_has_the_launchers_order_of_ranks),
        cmocka_unit_test(a_split_group_works_without_its_parent),
        cmocka_unit_test(groups_come_and_go_without_a_trace),
        cmocka_unit_test(two_groups_work_in_two_threads),
        cmocka_unit_test(threads_take_turns_in_a_serialized_mpi),
        cmocka_unit_test(an_adopted_communicator_still_belongs_to_the_program),
        cmocka_unit_test(a_communicator_without_mpi_is_refused),
        cmocka_unit_test(an_mpi_without_threads_is_refused),
        cmocka_unit_test(a_world_of_another_size_is_refused_with_both_numbers),
        cmocka_unit_test(a_forked_child_does_not_end_mpi),
        cmocka_unit_test(a_world_of_one_needs_no_mpirun),
        cmocka_unit_test(rank_0_reaches_all_before_there_is_a_store),
        cmocka_unit_test(ranks_of_another_mpi_get_an_error_that_names_it),
        cmocka_unit_test(the_public_interface_keeps_its_contract_over_mpi),
        cmocka_unit_test(a_group_is_split_over_mpi),
        cmocka_unit_test(device_memory_is_refused_by_name_over_mpi),
        cmocka_unit_test(the_default_backend_under_mpirun_is_mpi),
        cmocka_unit_test(without_mpi_s_module_ranks_of_one_machine_use_gloo),
        cmocka_unit_test(a_rank_that_alone_lacks_mpi_s_module_is_named_at_once),
        cmocka_unit_test(a_group_ends_by_its_deadline_over_mpi),
        cmocka_unit_test(a_rank_that_hangs_ends_the_others_by_their_deadline),
        cmocka_unit_test(a_collective_ends_when_it_is_stopped),
        cmocka_unit_test(no_rank_waits_forever_at_exit),
        cmocka_unit_test(a_sender_that_sends_less_is_named),
    };
    if (access(MR_TEST_MPIRUN, X_OK) != 0) {
        printf("skipped: no mpirun at '%s'\n", MR_TEST_MPIRUN);
        return 77;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (!mkdtemp(folder))
        return 1;
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    empty_folder();
    rmdir(folder);
    return n_failed;
}
