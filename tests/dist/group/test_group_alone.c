/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world of one has no engine and no thread, and every collective is a copy or nothing. A forked
 * child is refused.
 */
#include "tests/dist/group/group_rig.h"
#include "tests/support/assert_words.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static mr_group *join_alone(void)
{
    mr_group *group = NULL;
    mr_error error = {0};
    if (mr_group_create(NULL, &group, &error))
        fail_msg("%s", error.text);
    return group;
}

static unsigned count_threads(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static void a_program_without_a_launcher_is_a_world_of_one(void **state)
{
    (void)state;
    unsigned n_threads = count_threads();
    mr_group *group = join_alone();
    assert_int_equal(count_threads(), n_threads);
    assert_int_equal(mr_group_rank(group), 0);
    assert_int_equal(mr_group_world_size(group), 1);
    assert_int_equal(mr_group_local_rank(group), 0);
    assert_int_equal(mr_group_local_world_size(group), 1);
    assert_int_equal(mr_group_node(group), 0);
    assert_string_equal(mr_group_backend(group), "none");
    assert_int_equal(mr_group_error(group)->status, MR_OK);
    mr_group_destroy(group);
}

static void no_group_is_a_world_of_one(void **state)
{
    (void)state;
    float x = 1;
    mr_group_work *work = (mr_group_work *)&x;
    mr_group *part = (mr_group *)&x;
    assert_int_equal(mr_group_rank(NULL), 0);
    assert_int_equal(mr_group_world_size(NULL), 1);
    assert_int_equal(mr_group_local_rank(NULL), 0);
    assert_int_equal(mr_group_local_world_size(NULL), 1);
    assert_int_equal(mr_group_node(NULL), 0);
    assert_string_equal(mr_group_backend(NULL), "none");
    assert_int_equal(mr_group_barrier(NULL), MR_ERR_INVALID);
    assert_int_equal(mr_group_all_reduce_async(NULL, &x, 1, MR_F32, MR_SUM, NULL, &work),
                     MR_ERR_INVALID);
    assert_null(work);
    assert_int_equal(mr_group_split(NULL, 0, 0, &part), MR_ERR_INVALID);
    assert_null(part);
    assert_int_equal(mr_group_work_sync(NULL, 0), MR_ERR_INVALID);
    assert_int_equal(mr_group_work_test(NULL), MR_ERR_INVALID);
    assert_int_equal(mr_group_work_wait(NULL, NULL), MR_ERR_INVALID);
    mr_group_work_destroy(NULL);
    mr_group_destroy(NULL);
}

static void collectives_of_one_rank_are_copies(void **state)
{
    (void)state;
    mr_group *group = join_alone();
    double in[3] = {1, 2, 3};
    double out[3] = {0};
    double part[3] = {0};
    assert_int_equal(mr_group_barrier(group), MR_OK);
    assert_int_equal(mr_group_all_reduce(group, in, 3, MR_F64, MR_MEAN), MR_OK);
    assert_int_equal(mr_group_reduce(group, in, 3, MR_F64, MR_SUM, 0), MR_OK);
    assert_int_equal(mr_group_broadcast(group, in, 3, MR_F64, 0), MR_OK);
    assert_int_equal(mr_group_all_gather(group, in, out, 3, MR_F64), MR_OK);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(mr_group_reduce_scatter(group, in, part, 3, MR_F64, MR_MAX), MR_OK);
    assert_memory_equal(in, part, sizeof in);
    assert_true(in[0] == 1 && in[1] == 2 && in[2] == 3);
    assert_int_equal(mr_group_all_gather(group, in, in, 3, MR_F64), MR_OK);
    assert_int_equal(mr_group_send(group, in, 3, MR_F64, 0), MR_ERR_INVALID);
    assert_int_equal(mr_group_recv(group, in, 3, MR_F64, 1), MR_ERR_INVALID);
    assert_int_equal(mr_group_all_reduce(group, in, 3, MR_U8, MR_SUM), MR_ERR_INVALID);
    assert_int_equal(mr_group_error(group)->status, MR_ERR_INVALID);
    mr_group_destroy(group);
}

static void works_of_one_rank_have_ended_at_once(void **state)
{
    (void)state;
    mr_group *group = join_alone();
    float x = 3;
    mr_group_work *work = NULL;
    assert_int_equal(mr_group_all_reduce_async(group, &x, 1, MR_F32, MR_SUM, NULL, &work), MR_OK);
    assert_int_equal(mr_group_work_test(work), MR_OK);
    mr_group_destroy(group);
    assert_int_equal(mr_group_work_sync(work, 0), MR_OK);
    assert_int_equal(mr_group_work_wait(work, NULL), MR_OK);
    mr_group_work_destroy(work);
}

static void a_world_of_one_splits_into_one(void **state)
{
    (void)state;
    mr_group *group = join_alone();
    mr_group *part = NULL;
    assert_int_equal(mr_group_split(group, 7, 3, &part), MR_OK);
    mr_group_destroy(group);
    assert_int_equal(mr_group_world_size(part), 1);
    assert_int_equal(mr_group_local_world_size(part), 1);
    assert_int_equal(mr_group_barrier(part), MR_OK);
    mr_group *none = part;
    assert_int_equal(mr_group_split(part, MR_NO_COLOR, 0, &none), MR_OK);
    assert_null(none);
    mr_group_destroy(part);
}

/* In the child: calls are refused, and destroy and free touch nothing of the parent. */
static int use_in_child(mr_group *group, mr_group_work *work)
{
    mr_group *part = NULL;
    int refused = mr_group_barrier(group) == MR_ERR_STATE;
    refused &= strcmp(mr_group_error(group)->text, "a group cannot be used in a forked child") == 0;
    refused &= mr_group_split(group, 0, 0, &part) == MR_ERR_STATE;
    refused &= mr_group_work_sync(work, 0) == MR_ERR_STATE;
    mr_group_work_destroy(work);
    mr_group_destroy(group);
    return refused ? 0 : 1;
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    mr_group *group = join_alone();
    mr_group_work *work = NULL;
    int how = 1;
    assert_int_equal(mr_group_barrier_async(group, NULL, &work), MR_OK);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(use_in_child(group, work));
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    assert_int_equal(mr_group_barrier(group), MR_OK);
    mr_group_work_destroy(work);
    mr_group_destroy(group);
}

static void options_are_checked(void **state)
{
    (void)state;
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = (mr_group *)state;
    mr_error error;
    assert_int_equal(mr_group_create(NULL, NULL, &error), MR_ERR_INVALID);
    options.struct_size = 0;
    assert_int_equal(mr_group_create(&options, &group, &error), MR_ERR_INVALID);
    assert_null(group);
    options.struct_size = sizeof options;
    options.init = "carrier-pigeon://";
    assert_error(mr_group_create(&options, &group, &error), MR_ERR_INVALID, &error,
                 "carrier-pigeon");
}

/* The error comes before this rank waits for any other. */
static void a_cuda_device_is_only_for_nccl(void **state)
{
    (void)state;
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = NULL;
    mr_error error;
    char name[80];
    int comm = 0;
    options.device = "cuda:0";
    options.backend = "gloo";
    assert_int_equal(mr_group_create(&options, &group, &error), MR_ERR_INVALID);
    assert_string_equal(error.text,
                        "device \"cuda:0\" is given, but backend gloo works on host memory");
    options.backend = NULL;
    options.mpi_comm = &comm;
    assert_int_equal(mr_group_create(&options, &group, &error), MR_ERR_INVALID);
    assert_string_equal(error.text,
                        "device \"cuda:0\" is given, but mpi_comm works on host memory");
    options.mpi_comm = NULL;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    options.device = name;
    assert_error(mr_group_create(&options, &group, &error), MR_ERR_INVALID, &error, "is too long");
    assert_null(group);
    options.device = "host:1";
    options.backend = "gloo";
    assert_int_equal(mr_group_create(&options, &group, &error), MR_OK);
    mr_group_destroy(group);
}

int main(void)
{
    static const char *const launchers[] = {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                            "PMI_SIZE", "SLURM_PROCID"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_without_a_launcher_is_a_world_of_one),
        cmocka_unit_test(no_group_is_a_world_of_one),
        cmocka_unit_test(collectives_of_one_rank_are_copies),
        cmocka_unit_test(works_of_one_rank_have_ended_at_once),
        cmocka_unit_test(a_world_of_one_splits_into_one),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(a_cuda_device_is_only_for_nccl),
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        unsetenv(launchers[i]);
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
