/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a rank, in the environments that launchers set. */
#include "dist/rendezvous/rank_identity.h"

#include "base/cpu_share.h"
#include "tests/dist/rendezvous/made_up_environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef const char *const environment[];

static struct mr_rank_identity read_good(const char *const *lines)
{
    struct mr_rank_identity who;
    mr_error error = {0};
    memset(&who, 0xff, sizeof who);
    if (mr_rank_identity_read(mr_made_up_get, (void *)lines, &who, &error) != MR_OK)
        fail_msg("%s", error.text);
    return who;
}

static void expect_error(const char *const *lines, const char *text)
{
    struct mr_rank_identity who, before;
    mr_error error = {0};
    memset(&before, 0xff, sizeof before);
    who = before;
    assert_int_equal(mr_rank_identity_read(mr_made_up_get, (void *)lines, &who, &error),
                     MR_ERR_INVALID);
    assert_string_equal(error.text, text);
    assert_memory_equal(&who, &before, sizeof who);
}

#define READ(...) read_good((environment){__VA_ARGS__, NULL})
#define EXPECT_ERROR(text, ...) expect_error((environment){__VA_ARGS__, NULL}, text)

static void without_a_launcher_it_is_a_world_of_one(void **state)
{
    (void)state;
    struct mr_rank_identity who = READ("PATH=/bin");
    assert_string_equal(who.source, "none");
    assert_int_equal(who.rank, 0);
    assert_int_equal(who.world_size, 1);
    assert_int_equal(who.local_world_size, 1);
    assert_true(who.knows_local);
    assert_false(who.is_mpi);
    assert_int_equal(who.run, 0);
    assert_string_equal(who.master_addr, "");
}

static void variables_set_by_hand_are_read(void **state)
{
    (void)state;
    struct mr_rank_identity who =
        READ("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "GROUP_RANK=1",
             "MASTER_ADDR=n01", "MASTER_PORT=29500");
    assert_string_equal(who.source, "env");
    assert_int_equal(who.rank, 5);
    assert_int_equal(who.world_size, 8);
    assert_int_equal(who.local_rank, 1);
    assert_int_equal(who.local_world_size, 4);
    assert_int_equal(who.node, 1);
    assert_true(who.knows_local && who.knows_node);
    assert_string_equal(who.master_addr, "n01");
    assert_int_equal(who.master_port, 29500);
    assert_false(who.port_is_taken || who.port_is_derived || who.is_mpi);
    assert_int_equal(who.run, 0);
    assert_int_equal(who.restart, 0);
}

static void values_that_are_not_set_are_unknown(void **state)
{
    (void)state;
    struct mr_rank_identity who = READ("RANK=0", "WORLD_SIZE=2");
    assert_false(who.knows_local || who.knows_node);
    assert_int_equal(who.local_world_size, 0);
    assert_string_equal(who.master_addr, "");
    assert_int_equal(who.master_port, 0);
}

static void torchrun_owns_the_port_and_counts_restarts(void **state)
{
    (void)state;
    struct mr_rank_identity who =
        READ("RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=0",
             "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none",
             "TORCHELASTIC_RESTART_COUNT=3", "MR_RUN_ID=x");
    assert_string_equal(who.source, "torchrun");
    assert_true(who.port_is_taken);
    assert_int_equal(who.restart, 3);
    struct mr_rank_identity other = READ("RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=none");
    assert_true(who.run == other.run && who.run != 0);
    other = READ("RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=nope");
    assert_true(who.run != other.run);
}

static void the_node_rank_of_open_mpi_is_not_used_as_the_node(void **state)
{
    (void)state;
    struct mr_rank_identity who =
        READ("OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
             "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_NODE_RANK=1",
             "PMIX_NAMESPACE=1708589057", "PMIX_RANK=5");
    assert_string_equal(who.source, "openmpi");
    assert_true(who.is_mpi);
    assert_int_equal(who.rank, 5);
    assert_int_equal(who.world_size, 8);
    assert_int_equal(who.local_rank, 1);
    assert_int_equal(who.local_world_size, 4);
    assert_true(who.knows_local);
    assert_false(who.knows_node);
    assert_int_equal(who.node, 0);
    assert_true(who.run != 0);
    assert_string_equal(who.master_addr, "");
}

static void mpich_sets_the_variables_of_pmi(void **state)
{
    (void)state;
    struct mr_rank_identity who =
        READ("PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2");
    assert_string_equal(who.source, "mpich");
    assert_true(who.is_mpi && who.knows_local);
    assert_int_equal(who.rank, 3);
    assert_int_equal(who.world_size, 4);
    assert_int_equal(who.local_rank, 1);
    assert_int_equal(who.local_world_size, 2);
}

#define STEP                                                                                       \
    "SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=7",            \
        "SLURM_LOCALID=1", "SLURM_NODEID=2", "SLURM_STEP_TASKS_PER_NODE=2(x3),1",                  \
        "SLURM_STEP_NODELIST=n[01-03,7]", "SLURM_NTASKS=9"

static void a_slurm_step_sets_every_value(void **state)
{
    (void)state;
    struct mr_rank_identity who = READ(STEP);
    assert_string_equal(who.source, "slurm");
    assert_false(who.is_mpi);
    assert_int_equal(who.rank, 5);
    assert_int_equal(who.world_size, 7);
    assert_int_equal(who.local_rank, 1);
    assert_int_equal(who.local_world_size, 2);
    assert_int_equal(who.node, 2);
    assert_string_equal(who.master_addr, "n01");
    assert_in_range(who.master_port, 20000, 29999);
    assert_true(who.port_is_derived && who.knows_local && who.knows_node);
    assert_true(who.run != 0);
}

static void another_step_has_another_port_and_run(void **state)
{
    (void)state;
    struct mr_rank_identity a = READ(STEP), same = READ(STEP), b = READ("SLURM_STEP_ID=1", STEP);
    assert_int_equal(a.master_port, same.master_port);
    assert_true(a.run == same.run);
    assert_int_not_equal(a.master_port, b.master_port);
    assert_true(a.run != b.run);
}

static void a_given_address_wins_over_that_of_slurm(void **state)
{
    (void)state;
    struct mr_rank_identity who = READ("MASTER_ADDR=10.0.0.7", "MASTER_PORT=1234", STEP);
    assert_string_equal(who.master_addr, "10.0.0.7");
    assert_int_equal(who.master_port, 1234);
    assert_false(who.port_is_derived);
}

static void a_batch_script_without_a_step_is_a_world_of_one(void **state)
{
    (void)state;
    struct mr_rank_identity who =
        READ("SLURM_JOB_ID=4711", "SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_LOCALID=0",
             "SLURM_NODEID=0", "SLURM_TASKS_PER_NODE=8", "SLURM_NODELIST=n[1-2]");
    assert_string_equal(who.source, "slurm");
    assert_int_equal(who.rank, 0);
    assert_int_equal(who.world_size, 1);
}

static void srun_with_pmi_is_not_mpirun(void **state)
{
    (void)state;
    struct mr_rank_identity who = READ("PMI_RANK=5", "PMI_SIZE=7", STEP);
    assert_string_equal(who.source, "slurm");
    assert_false(who.is_mpi);
    assert_int_equal(who.local_world_size, 2);
    /* In an allocation, mpirun starts its ranks below one Slurm task on each node. */
    who = READ("PMI_RANK=11", "PMI_SIZE=14", STEP);
    assert_string_equal(who.source, "mpich");
    assert_int_equal(who.rank, 11);
}

/*
 * The loader's default number of workers comes from another reader, which must know the same
 * variables.
 */
static void a_loader_counts_the_same_ranks(void **state)
{
    (void)state;
    static const char *const lines[][6] = {
        {"RANK=0", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=2"},
        {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=3"},
        {"PMI_RANK=0", "PMI_SIZE=8", "MPI_LOCALNRANKS=4"},
        {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=12", "SLURM_NODEID=0",
         "SLURM_STEP_TASKS_PER_NODE=5(x2),2"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char copy[6][64];
        for (uint32_t k = 0; lines[i][k]; k++) {
            snprintf(copy[k], sizeof copy[k], "%s", lines[i][k]);
            char *value = strchr(copy[k], '=');
            *value = '\0';
            setenv(copy[k], value + 1, 1);
        }
        assert_int_equal(read_good(lines[i]).local_world_size, i + 2);
        assert_int_equal(mr_cpu_share_ranks(), i + 2);
        for (uint32_t k = 0; lines[i][k]; k++)
            unsetenv(copy[k]);
    }
}

static void the_first_launcher_wins(void **state)
{
    (void)state;
    assert_string_equal(
        READ("RANK=0", "WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4").source,
        "env");
    assert_string_equal(
        READ("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "PMI_RANK=1", "PMI_SIZE=2", STEP)
            .source,
        "openmpi");
    /* An incomplete set of variables does not win over a complete one. */
    struct mr_rank_identity who =
        READ("WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4");
    assert_string_equal(who.source, "openmpi");
    assert_int_equal(who.world_size, 4);
}

static void a_run_id_is_shared_by_the_ranks_of_one_launcher(void **state)
{
    (void)state;
    assert_true(READ("RANK=0", "WORLD_SIZE=2", "SLURM_JOB_ID=1", "SLURM_STEP_ID=2").run == 0);
    uint64_t run = READ("RANK=0", "WORLD_SIZE=2", "MR_RUN_ID=abc").run;
    assert_true(run != 0);
    assert_true(READ("RANK=1", "WORLD_SIZE=2", "MR_RUN_ID=abc").run == run);
    assert_true(READ("MR_RUN_ID=abc", STEP).run == run);
    assert_true(READ("RANK=1", "WORLD_SIZE=2", "MR_RUN_ID=").run == 0);
}

static void a_missing_half_of_a_pair_is_named(void **state)
{
    (void)state;
    EXPECT_ERROR("RANK=\"3\" is set, but WORLD_SIZE is not", "RANK=3");
    EXPECT_ERROR("WORLD_SIZE=\"3\" is set, but RANK is not", "WORLD_SIZE=3");
    EXPECT_ERROR("OMPI_COMM_WORLD_RANK=\"0\" is set, but OMPI_COMM_WORLD_SIZE is not",
                 "OMPI_COMM_WORLD_RANK=0");
    EXPECT_ERROR("PMI_RANK=\"0\" is set, but PMI_SIZE is not", "PMI_RANK=0");
    EXPECT_ERROR("SLURM_STEP_NUM_TASKS=\"2\" is set, but SLURM_PROCID is not",
                 "SLURM_STEP_NUM_TASKS=2");
}

static void a_value_that_is_not_a_number_is_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        " 1",
                                        "1 ",
                                        "+1",
                                        "-1",
                                        "0x1",
                                        "1e0",
                                        "one",
                                        "1.0",
                                        "4294967296",
                                        "18446744073709551617",
                                        "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char rank[64], text[160];
        snprintf(rank, sizeof rank, "RANK=%s", wrong[i]);
        snprintf(text, sizeof text, "RANK=\"%s\" is not a number from 0 to 4294967295", wrong[i]);
        EXPECT_ERROR(text, rank, "WORLD_SIZE=2");
    }
    EXPECT_ERROR("WORLD_SIZE=\"two\" is not a number from 1 to 16384", "RANK=0", "WORLD_SIZE=two");
    EXPECT_ERROR("LOCAL_RANK=\"x\" is not a number from 0 to 1", "RANK=0", "WORLD_SIZE=2",
                 "LOCAL_RANK=x");
    EXPECT_ERROR("MASTER_PORT=\"http\" is not a number from 1 to 65535", "RANK=0", "WORLD_SIZE=2",
                 "MASTER_PORT=http");
}

static void a_value_out_of_its_range_is_named(void **state)
{
    (void)state;
    EXPECT_ERROR("WORLD_SIZE=\"0\" is not a number from 1 to 16384", "RANK=0", "WORLD_SIZE=0");
    EXPECT_ERROR("WORLD_SIZE=\"16385\" is not a number from 1 to 16384", "RANK=0",
                 "WORLD_SIZE=16385");
    EXPECT_ERROR("RANK=2 is not below WORLD_SIZE=2", "RANK=2", "WORLD_SIZE=2");
    EXPECT_ERROR("LOCAL_RANK=\"2\" is not a number from 0 to 1", "RANK=0", "WORLD_SIZE=2",
                 "LOCAL_RANK=2");
    EXPECT_ERROR("LOCAL_WORLD_SIZE=\"3\" is not a number from 1 to 2", "RANK=0", "WORLD_SIZE=2",
                 "LOCAL_WORLD_SIZE=3");
    EXPECT_ERROR("LOCAL_RANK=1 is not below LOCAL_WORLD_SIZE=1", "RANK=1", "WORLD_SIZE=2",
                 "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=1");
    EXPECT_ERROR("GROUP_RANK=\"2\" is not a number from 0 to 1", "RANK=0", "WORLD_SIZE=2",
                 "GROUP_RANK=2");
    EXPECT_ERROR("MASTER_PORT=\"0\" is not a number from 1 to 65535", "RANK=0", "WORLD_SIZE=2",
                 "MASTER_PORT=0");
    EXPECT_ERROR("MASTER_PORT=\"65536\" is not a number from 1 to 65535", "RANK=0", "WORLD_SIZE=2",
                 "MASTER_PORT=65536");
    EXPECT_ERROR("TORCHELASTIC_RESTART_COUNT=\"-1\" is not a number from 0 to 4294967295", "RANK=0",
                 "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_RESTART_COUNT=-1");
}

static void the_lists_of_slurm_are_checked(void **state)
{
    (void)state;
    EXPECT_ERROR("SLURM_STEP_TASKS_PER_NODE: \"7\" has 1 nodes, but no node 2",
                 "SLURM_STEP_TASKS_PER_NODE=7", STEP);
    EXPECT_ERROR("SLURM_STEP_TASKS_PER_NODE: no number at byte 0 of \"(x3)\"",
                 "SLURM_STEP_TASKS_PER_NODE=(x3)", STEP);
    EXPECT_ERROR("SLURM_STEP_TASKS_PER_NODE=\"2(x4)\" is 8 tasks, but SLURM_STEP_NUM_TASKS=7",
                 "SLURM_STEP_TASKS_PER_NODE=2(x4)", STEP);
    EXPECT_ERROR(
        "SLURM_LOCALID=1 is not below the 1 tasks of node 2 in SLURM_STEP_TASKS_PER_NODE=\"3,3,1\"",
        "SLURM_STEP_TASKS_PER_NODE=3,3,1", STEP);
    EXPECT_ERROR("SLURM_STEP_NODELIST: no number at byte 2 of \"n[\"", "SLURM_STEP_NODELIST=n[",
                 STEP);
}

static void a_long_master_address_is_refused(void **state)
{
    (void)state;
    char line[400] = "MASTER_ADDR=";
    memset(line + strlen(line), 'a', 256);
    struct mr_rank_identity who;
    mr_error error;
    assert_int_equal(mr_rank_identity_read(
                         mr_made_up_get,
                         (void *)(environment){"RANK=0", "WORLD_SIZE=2", line, NULL}, &who, &error),
                     MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "MASTER_ADDR"));
    assert_non_null(strstr(error.text, "256 bytes"));
}

static void rank_and_size_given_by_the_program_win_over_the_environment(void **state)
{
    (void)state;
    struct mr_rank_identity who;
    mr_error error;
    environment lines = {"RANK=9", "WORLD_SIZE=x", "LOCAL_RANK=3", "MR_RUN_ID=abc", NULL};
    assert_int_equal(mr_rank_identity_given(mr_made_up_get, (void *)lines, 1, 2, &who, &error),
                     MR_OK);
    assert_int_equal(who.rank, 1);
    assert_int_equal(who.world_size, 2);
    assert_false(who.knows_local);
    assert_true(who.run != 0);
    assert_int_equal(mr_rank_identity_given(mr_made_up_get, (void *)lines, 2, 2, &who, &error),
                     MR_ERR_INVALID);
    assert_string_equal(error.text, "rank 2 is not below world_size 2");
    assert_int_equal(mr_rank_identity_given(mr_made_up_get, (void *)lines, 2, 70000, &who, &error),
                     MR_ERR_INVALID);
    assert_string_equal(error.text, "world_size 70000 is above the limit of 16384");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_launcher_it_is_a_world_of_one),
        cmocka_unit_test(variables_set_by_hand_are_read),
        cmocka_unit_test(values_that_are_not_set_are_unknown),
        cmocka_unit_test(torchrun_owns_the_port_and_counts_restarts),
        cmocka_unit_test(the_node_rank_of_open_mpi_is_not_used_as_the_node),
        cmocka_unit_test(mpich_sets_the_variables_of_pmi),
        cmocka_unit_test(a_slurm_step_sets_every_value),
        cmocka_unit_test(another_step_has_another_port_and_run),
        cmocka_unit_test(a_given_address_wins_over_that_of_slurm),
        cmocka_unit_test(a_batch_script_without_a_step_is_a_world_of_one),
        cmocka_unit_test(srun_with_pmi_is_not_mpirun),
        cmocka_unit_test(a_loader_counts_the_same_ranks),
        cmocka_unit_test(the_first_launcher_wins),
        cmocka_unit_test(a_run_id_is_shared_by_the_ranks_of_one_launcher),
        cmocka_unit_test(a_missing_half_of_a_pair_is_named),
        cmocka_unit_test(a_value_that_is_not_a_number_is_named),
        cmocka_unit_test(a_value_out_of_its_range_is_named),
        cmocka_unit_test(the_lists_of_slurm_are_checked),
        cmocka_unit_test(a_long_master_address_is_refused),
        cmocka_unit_test(rank_and_size_given_by_the_program_win_over_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
