/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that find each other under torchrun, srun and mpirun, with made-up variables. */
#include "tests/dist/rendezvous/rank_threads.h"

#include "base/error.h"
#include "dist/rendezvous/local_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define ENOUGH_MS 20000

/*
 * Plays torchrun's agent: listens on MASTER_PORT, and perhaps on ports above it, and sends nothing
 * or nonsense.
 */
struct talker {
    int fd;
    pthread_t thread;
};

static void *talk_nonsense(void *arg)
{
    static const char words[] =
        "220 smtp.example ESMTP ready, and a lot of other words that no store would ever say\r\n";
    struct talker *talker = arg;
    for (;;) {
        int fd = accept4(talker->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        ssize_t n = send(fd, words, sizeof words, MSG_NOSIGNAL);
        (void)n;
        close(fd);
    }
}

static void under_torchrun_the_store_takes_a_free_port_above_the_agent(void **state)
{
    (void)state;
    struct mr_test_rank ranks[4];
    struct talker talker;
    char number[16];
    uint16_t port = mr_test_free_ports(4);
    int agent = mr_test_listen_on("localhost", port),
        silent = mr_test_listen_on("localhost", (uint16_t)(port + 1));
    talker.fd = mr_test_listen_on("localhost", (uint16_t)(port + 2));
    assert_true(agent >= 0 && silent >= 0 && talker.fd >= 0);
    assert_int_equal(pthread_create(&talker.thread, NULL, talk_nonsense, &talker), 0);
    mr_test_ranks_init(ranks, 4, ENOUGH_MS);
    snprintf(number, sizeof number, "%u", port);
    mr_test_ranks_set(ranks, 4, "MASTER_ADDR", "localhost");
    mr_test_ranks_set(ranks, 4, "MASTER_PORT", number);
    mr_test_ranks_set(ranks, 4, "TORCHELASTIC_RUN_ID", "none");
    mr_test_ranks_set(ranks, 4, "TORCHELASTIC_RESTART_COUNT", "2");
    mr_test_ranks_join(ranks, 4);
    mr_test_ranks_expect_all(ranks, 4, "gloo");
    assert_in_range(mr_store_port(ranks[0].rendezvous.store), port + 3, port + 16);
    mr_test_ranks_leave(ranks, 4);
    shutdown(talker.fd, SHUT_RDWR);
    pthread_join(talker.thread, NULL);
    close(talker.fd);
    close(silent);
    close(agent);
}

static void a_store_of_another_run_is_skipped(void **state)
{
    (void)state;
    struct mr_test_rank ranks[3];
    char number[16];
    uint16_t port = mr_test_free_ports(3);
    struct mr_store *store = NULL;
    struct mr_store_identity identity = {.run = 12345, .world_size = 3};
    assert_int_equal(mr_store_start("127.0.0.1", (uint16_t)(port + 1), &identity, &store, NULL),
                     MR_OK);
    mr_test_ranks_init(ranks, 3, ENOUGH_MS);
    snprintf(number, sizeof number, "%u", port);
    mr_test_ranks_set(ranks, 3, "MASTER_ADDR", "127.0.0.1");
    mr_test_ranks_set(ranks, 3, "MASTER_PORT", number);
    mr_test_ranks_set(ranks, 3, "TORCHELASTIC_RUN_ID", "none");
    mr_test_ranks_join(ranks, 3);
    mr_test_ranks_expect_all(ranks, 3, "gloo");
    mr_test_ranks_leave(ranks, 3);
    mr_store_stop(store);
}

static void set_slurm(struct mr_test_rank *rank, uint32_t r, const char *job)
{
    char number[16];
    memset(rank->environment, 0, sizeof rank->environment);
    snprintf(number, sizeof number, "%u", r);
    mr_test_rank_set(rank, "SLURM_PROCID", number);
    mr_test_rank_set(rank, "SLURM_LOCALID", number);
    mr_test_rank_set(rank, "SLURM_NODEID", "0");
    mr_test_rank_set(rank, "SLURM_STEP_NUM_TASKS", "3");
    mr_test_rank_set(rank, "SLURM_STEP_TASKS_PER_NODE", "3");
    mr_test_rank_set(rank, "SLURM_STEP_NODELIST", "localhost");
    mr_test_rank_set(rank, "SLURM_JOB_ID", job);
    mr_test_rank_set(rank, "SLURM_STEP_ID", "0");
}

static void under_srun_a_taken_derived_port_is_skipped(void **state)
{
    (void)state;
    struct mr_test_rank ranks[3];
    struct mr_rank_identity who;
    char job[16];
    int fd = -1;
    mr_test_ranks_init(ranks, 3, ENOUGH_MS);
    for (uint32_t i = 0; fd < 0; i++) {
        snprintf(job, sizeof job, "%u", (unsigned)getpid() + i);
        set_slurm(&ranks[0], 0, job);
        assert_int_equal(mr_rank_identity_read(ranks[0].means.get, ranks[0].means.user, &who, NULL),
                         MR_OK);
        fd = mr_test_listen_on("localhost", who.master_port);
    }
    for (uint32_t r = 0; r < 3; r++)
        set_slurm(&ranks[r], r, job);
    mr_test_ranks_join(ranks, 3);
    mr_test_ranks_expect_all(ranks, 3, "gloo");
    assert_in_range(mr_store_port(ranks[0].rendezvous.store), who.master_port + 1,
                    who.master_port + 15);
    mr_test_ranks_leave(ranks, 3);
    close(fd);
}

/* Does what MPI_Bcast would do. */
struct carrier {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_there;
    char address[MR_RENDEZVOUS_ADDRESS];
};

static mr_status broadcast(void *user, const struct mr_rank_identity *who, char *address,
                           mr_error *error)
{
    struct carrier *carrier = user;
    (void)error;
    pthread_mutex_lock(&carrier->lock);
    if (who->rank == 0) {
        memcpy(carrier->address, address, MR_RENDEZVOUS_ADDRESS);
        carrier->is_there = true;
        pthread_cond_broadcast(&carrier->changed);
    }
    while (!carrier->is_there)
        pthread_cond_wait(&carrier->changed, &carrier->lock);
    memcpy(address, carrier->address, MR_RENDEZVOUS_ADDRESS);
    pthread_mutex_unlock(&carrier->lock);
    return MR_OK;
}

static void make_mpi_ranks(struct mr_test_rank *ranks, uint32_t n, uint32_t timeout_ms)
{
    char rank[16], size[16];
    mr_test_ranks_init(ranks, n, timeout_ms);
    snprintf(size, sizeof size, "%u", n);
    for (uint32_t r = 0; r < n; r++) {
        memset(ranks[r].environment, 0, sizeof ranks[r].environment);
        snprintf(rank, sizeof rank, "%u", r);
        mr_test_rank_set(&ranks[r], "OMPI_COMM_WORLD_RANK", rank);
        mr_test_rank_set(&ranks[r], "OMPI_COMM_WORLD_SIZE", size);
        mr_test_rank_set(&ranks[r], "OMPI_COMM_WORLD_LOCAL_RANK", rank);
        mr_test_rank_set(&ranks[r], "OMPI_COMM_WORLD_LOCAL_SIZE", size);
    }
}

static void under_mpirun_mpi_can_broadcast_the_address(void **state)
{
    (void)state;
    struct carrier carrier = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    struct mr_test_rank ranks[4];
    make_mpi_ranks(ranks, 4, ENOUGH_MS);
    for (uint32_t r = 0; r < 4; r++) {
        ranks[r].means.bootstrap = broadcast;
        ranks[r].means.bootstrap_user = &carrier;
    }
    mr_test_ranks_join(ranks, 4);
    mr_test_ranks_expect_all(ranks, 4, "mpi");
    mr_test_ranks_leave(ranks, 4);
}

/* Not all ranks are on this machine, so the address must be one that other machines can reach. */
static void over_machines_mpi_broadcasts_an_address_that_others_can_reach(void **state)
{
    (void)state;
    struct carrier carrier = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    struct mr_test_rank ranks[2];
    char own[MR_LOCAL_ADDRESS];
    bool has_way_out = mr_local_address_of_route(own);
    make_mpi_ranks(ranks, 2, 3000);
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r].means.bootstrap = broadcast;
        ranks[r].means.bootstrap_user = &carrier;
        snprintf(ranks[r].lines[2], sizeof ranks[r].lines[2], "OMPI_COMM_WORLD_LOCAL_RANK=0");
        snprintf(ranks[r].lines[3], sizeof ranks[r].lines[3], "OMPI_COMM_WORLD_LOCAL_SIZE=1");
    }
    mr_test_ranks_join(ranks, 2);
    if (ranks[0].status == MR_OK) {
        assert_int_equal(ranks[1].status, MR_OK);
        assert_null(strstr(carrier.address, "127."));
    } else {
        assert_false(has_way_out);
        assert_non_null(
            strstr(ranks[0].error.text, "neither MASTER_ADDR nor MR_SOCKET_IFNAME is set"));
        assert_int_equal(ranks[1].status, MR_ERR_PEER);
        assert_string_equal(ranks[1].error.text, "rank 0 has no store: its address is \"\"");
    }
    mr_test_ranks_leave(ranks, 2);
}

static void an_interface_can_be_named(void **state)
{
    (void)state;
    struct carrier carrier = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    struct mr_test_rank ranks[2];
    make_mpi_ranks(ranks, 2, ENOUGH_MS);
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r].means.bootstrap = broadcast;
        ranks[r].means.bootstrap_user = &carrier;
        mr_test_rank_set(&ranks[r], "MR_SOCKET_IFNAME", "lo");
    }
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_all(ranks, 2, "mpi");
    assert_memory_equal(carrier.address, "127.0.0.1:", 10);
    mr_test_ranks_leave(ranks, 2);
    carrier.is_there = false;
    for (uint32_t r = 0; r < 2; r++)
        strcpy(ranks[r].lines[4], "MR_SOCKET_IFNAME=nonexistent0");
    mr_test_ranks_join(ranks, 2);
    assert_string_equal(ranks[0].error.text,
                        "no network interface \"nonexistent0\" with an address");
    assert_int_equal(ranks[1].status, MR_ERR_PEER);
    mr_test_ranks_leave(ranks, 2);
}

static void under_mpirun_without_mpi_the_missing_variable_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    make_mpi_ranks(ranks, 2, ENOUGH_MS);
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_error(
        ranks, 2, MR_ERR_INVALID,
        "MASTER_ADDR is not set, and mpirun does not provide rank 0's address");
}

static void under_mpirun_with_an_address_auto_is_gloo(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    make_mpi_ranks(ranks, 2, ENOUGH_MS);
    mr_test_ranks_address(ranks, 2);
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_all(ranks, 2, "gloo");
    mr_test_ranks_leave(ranks, 2);
}

/* ---- mpirun on one machine, which gives the job an id ---- */

/* Collects the program's log lines; the threads that are ranks write them. */
static struct {
    pthread_mutex_t lock;
    uint32_t n_lines;
    char last[1200];
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void log_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    (void)level;
    pthread_mutex_lock(&logged.lock);
    logged.n_lines++;
    snprintf(logged.last, sizeof logged.last, "%s", line);
    pthread_mutex_unlock(&logged.lock);
}

static mr_status find_no_module(const char *backend, mr_error *error)
{
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "there is no module of %s", backend);
}

static mr_status find_module(const char *backend, mr_error *error)
{
    (void)backend;
    (void)error;
    return MR_OK;
}

static mr_status fail_broadcast(void *user, const struct mr_rank_identity *who, char *address,
                                mr_error *error)
{
    (void)user;
    (void)address;
    return mr_error_set(error, MR_ERR_STATE, "rank %u asks MPI", who->rank);
}

static void make_local_job(struct mr_test_rank *ranks, uint32_t n, const char *job)
{
    make_mpi_ranks(ranks, n, ENOUGH_MS);
    mr_test_ranks_set(ranks, n, "PMIX_NAMESPACE", job);
    for (uint32_t r = 0; r < n; r++) {
        ranks[r].means.bootstrap = fail_broadcast;
        ranks[r].means.find_module = find_module;
    }
    logged.n_lines = 0;
}

/* A job id of this process, so that tests that run at once have different ports. */
static const char *make_job_id(char text[32])
{
    snprintf(text, 32, "job-%u", (unsigned)getpid());
    return text;
}

static void ranks_of_one_mpirun_on_one_machine_meet_without_mpi(void **state)
{
    (void)state;
    char job[32];
    struct mr_test_rank ranks[4];
    make_local_job(ranks, 4, make_job_id(job));
    mr_test_ranks_join(ranks, 4);
    mr_test_ranks_expect_all(ranks, 4, "mpi");
    assert_int_equal(logged.n_lines, 0);
    mr_test_ranks_leave(ranks, 4);
}

static void without_the_mpi_module_ranks_use_gloo_and_one_logs_it(void **state)
{
    (void)state;
    char job[32];
    struct mr_test_rank ranks[4];
    make_local_job(ranks, 4, make_job_id(job));
    for (uint32_t r = 0; r < 4; r++)
        ranks[r].means.find_module = find_no_module;
    ranks[2].options.backend = "gloo"; /* the other ranks arrive at the same backend */
    mr_test_ranks_join(ranks, 4);
    mr_test_ranks_expect_all(ranks, 4, "gloo");
    assert_int_equal(logged.n_lines, 1);
    assert_string_equal(logged.last, "gloo instead of mpi: there is no module of mpi");
    mr_test_ranks_leave(ranks, 4);
}

/* No rank waits in MPI: the error arrives long before the deadline. */
static void the_only_rank_without_the_mpi_module_is_named(void **state)
{
    (void)state;
    char job[32];
    struct mr_test_rank ranks[4];
    for (uint32_t lacking = 0; lacking < 4; lacking += 2) {
        make_local_job(ranks, 4, make_job_id(job));
        ranks[lacking].means.find_module = find_no_module;
        mr_test_ranks_join(ranks, 4);
        mr_test_ranks_expect_error(
            ranks, 4, MR_ERR_PEER,
            lacking ? "rank 2 wants backend gloo (it cannot open the module of mpi), rank 0 mpi"
                    : "rank 1 wants backend mpi, rank 0 gloo (it cannot open the module of mpi)");
        assert_int_equal(logged.n_lines, 1); /* from the rank that lacks it, with the reason */
        mr_test_ranks_leave(ranks, 4);
    }
}

static void a_given_backend_is_used_or_refused(void **state)
{
    (void)state;
    char job[32];
    struct mr_test_rank ranks[2];
    make_local_job(ranks, 2, make_job_id(job));
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r].means.find_module = find_no_module;
        ranks[r].options.backend = "mpi";
    }
    mr_test_ranks_join(ranks, 2);
    /* opening the module fails later, with a hint */
    mr_test_ranks_expect_all(ranks, 2, "mpi");
    mr_test_ranks_leave(ranks, 2);
    ranks[1].options.backend = "gloo";
    mr_test_ranks_join(ranks, 2);
    mr_test_ranks_expect_error(ranks, 2, MR_ERR_PEER, "rank 1 wants backend gloo, rank 0 mpi");
    mr_test_ranks_leave(ranks, 2);
    assert_int_equal(logged.n_lines, 0);
}

/* A port derived from the job's id may be taken: by a silent program, or by another job's store. */
static void strangers_on_the_ports_of_a_job_are_skipped(void **state)
{
    (void)state;
    char job[32];
    struct mr_test_rank ranks[3];
    struct mr_rank_identity who;
    struct mr_store *store = NULL;
    struct mr_store_identity identity = {.run = 12345, .world_size = 3};
    int silent = -1;
    for (uint32_t i = 0; !store; i++) {
        snprintf(job, sizeof job, "job-%u-%u", (unsigned)getpid(), i);
        make_local_job(ranks, 3, job);
        assert_int_equal(mr_rank_identity_read(ranks[0].means.get, ranks[0].means.user, &who, NULL),
                         MR_OK);
        assert_true(who.port_is_derived && who.run != 0);
        silent = mr_test_listen(who.master_port);
        if (silent >= 0 && mr_store_start("127.0.0.1", (uint16_t)(who.master_port + 1), &identity,
                                          &store, NULL) != MR_OK)
            close(silent);
    }
    mr_test_ranks_join(ranks, 3);
    mr_test_ranks_expect_all(ranks, 3, "mpi");
    assert_in_range(mr_store_port(ranks[0].rendezvous.store), who.master_port + 2,
                    who.master_port + 15);
    mr_test_ranks_leave(ranks, 3);
    mr_store_stop(store);
    close(silent);
}

/* Not all ranks are here, or the job has no id: MPI carries the address. */
static void without_an_id_or_over_machines_mpi_is_used(void **state)
{
    (void)state;
    char job[32];
    struct mr_test_rank ranks[2];
    make_local_job(ranks, 2, make_job_id(job));
    for (uint32_t r = 0; r < 2; r++)
        strcpy(ranks[r].lines[3], "OMPI_COMM_WORLD_LOCAL_SIZE=1");
    strcpy(ranks[1].lines[2], "OMPI_COMM_WORLD_LOCAL_RANK=0");
    mr_test_ranks_join(ranks, 2);
    assert_int_equal(ranks[1].status, MR_ERR_STATE);
    assert_string_equal(ranks[1].error.text, "rank 1 asks MPI");
    make_local_job(ranks, 2, "");
    mr_test_ranks_join(ranks, 2);
    assert_int_equal(ranks[1].status, MR_ERR_STATE);
    assert_string_equal(ranks[1].error.text, "rank 1 asks MPI");
}

/* With MASTER_ADDR, and by MPI, where no variable names a host. */
static void a_loopback_address_of_several_machines_is_warned_of(void **state)
{
    (void)state;
    static const char words[] = "rank 0's address is 127.0.0.1, which other machines cannot reach";
    struct carrier carrier = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, ENOUGH_MS);
    mr_test_ranks_address(ranks, 2);
    mr_test_ranks_set(ranks, 2, "LOCAL_RANK", "0");
    mr_test_ranks_set(ranks, 2, "LOCAL_WORLD_SIZE", "1");
    logged.n_lines = 0;
    mr_test_ranks_join(ranks, 2);
    assert_int_equal(logged.n_lines, 1);
    assert_string_equal(logged.last, words);
    mr_test_ranks_leave(ranks, 2);
    make_mpi_ranks(ranks, 2, ENOUGH_MS);
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r].means.bootstrap = broadcast;
        ranks[r].means.bootstrap_user = &carrier;
        strcpy(ranks[r].lines[2], "OMPI_COMM_WORLD_LOCAL_RANK=0");
        strcpy(ranks[r].lines[3], "OMPI_COMM_WORLD_LOCAL_SIZE=1");
        mr_test_rank_set(&ranks[r], "MR_SOCKET_IFNAME", "lo");
    }
    logged.n_lines = 0;
    mr_test_ranks_join(ranks, 2);
    assert_int_equal(logged.n_lines, 1);
    assert_string_equal(logged.last, words);
    mr_test_ranks_leave(ranks, 2);
}

int main(void)
{
    mr_log_set(log_line, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_torchrun_the_store_takes_a_free_port_above_the_agent),
        cmocka_unit_test(a_store_of_another_run_is_skipped),
        cmocka_unit_test(under_srun_a_taken_derived_port_is_skipped),
        cmocka_unit_test(under_mpirun_mpi_can_broadcast_the_address),
        cmocka_unit_test(over_machines_mpi_broadcasts_an_address_that_others_can_reach),
        cmocka_unit_test(an_interface_can_be_named),
        cmocka_unit_test(under_mpirun_without_mpi_the_missing_variable_is_named),
        cmocka_unit_test(under_mpirun_with_an_address_auto_is_gloo),
        cmocka_unit_test(ranks_of_one_mpirun_on_one_machine_meet_without_mpi),
        cmocka_unit_test(without_the_mpi_module_ranks_use_gloo_and_one_logs_it),
        cmocka_unit_test(the_only_rank_without_the_mpi_module_is_named),
        cmocka_unit_test(a_given_backend_is_used_or_refused),
        cmocka_unit_test(strangers_on_the_ports_of_a_job_are_skipped),
        cmocka_unit_test(without_an_id_or_over_machines_mpi_is_used),
        cmocka_unit_test(a_loopback_address_of_several_machines_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
