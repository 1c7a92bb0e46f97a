/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a buffer: a buffer that an engine cannot use is refused with its name, and the
 * group still works. The program is linked with a double of CUDA's driver, which the library
 * queries.
 */
#include "tests/dist/group/group_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/metrics.h>

#include "dist/group/device_pointer.h"
#include "tests/dist/group/device_engine_double.h"
#include "tests/dist/group/driver_double.h"

/* In host memory, whatever the driver reports. */
static float on_first[16];
static float on_second[16];
static float managed[16];
static float pinned[16];
static float usual[RIG_RANKS];

static void declare_all(void)
{
    driver_double_say(on_first, sizeof on_first, true, false, 0);
    driver_double_say(on_second, sizeof on_second, true, false, 1);
    driver_double_say(managed, sizeof managed, false, true, 1);
    driver_double_say(pinned, sizeof pinned, false, false, 0);
}

static void the_driver_reports_each_kind_of_memory(void **state)
{
    struct mr_device_pointer is;
    (void)state;
    assert_true(mr_device_pointer_look(on_second + 3, &is));
    assert_true(is.is_device && !is.is_managed && !is.is_pinned && is.ordinal == 1);
    assert_true(mr_device_pointer_look(managed, &is));
    assert_true(!is.is_device && is.is_managed);
    assert_true(mr_device_pointer_look(pinned, &is));
    assert_true(!is.is_device && !is.is_managed && is.is_pinned);
    assert_true(mr_device_pointer_look(usual, &is));
    assert_true(!is.is_device && !is.is_managed && !is.is_pinned);
}

static void on_the_host(mr_group *group, void *arg)
{
    const char *backend = arg;
    char words[160];
    uint32_t rank = mr_group_rank(group);
    float *own = &usual[rank];
    mr_group_work *work = NULL;
    snprintf(words, sizeof words,
             "buffer is memory of cuda:1; %s needs host memory: copy it, or use backend nccl",
             backend);
    RIG_CHECK(group, mr_group_all_reduce(group, on_second, 4, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_CHECK(group, strcmp(mr_group_error(group)->text, words) == 0);
    RIG_CHECK(group, mr_group_broadcast_async(group, on_first + 1, 1, MR_F32, 0, NULL, &work) ==
                             MR_ERR_INVALID &&
                         !work);
    RIG_SAYS(group, "buffer is memory of cuda:0");
    RIG_CHECK(group, mr_group_all_gather(group, own, on_first, 1, MR_F32) == MR_ERR_INVALID);
    RIG_SAYS(group, "out is memory of cuda:0");
    RIG_CHECK(group, mr_group_all_gather(group, on_second, on_first, 1, MR_F32) == MR_ERR_INVALID);
    RIG_SAYS(group, "in is memory of cuda:1");
    /* count 0: the buffer is not checked */
    RIG_CHECK(group, mr_group_all_reduce(group, on_second, 0, MR_F32, MR_SUM) == MR_OK);
    *own = 1;
    pinned[rank] = 2;
    managed[rank] = 3;
    RIG_CHECK(group, mr_group_all_reduce(group, own, 1, MR_F32, MR_SUM) == MR_OK && *own == 2);
    RIG_CHECK(group, mr_group_all_reduce(group, &pinned[rank], 1, MR_F32, MR_SUM) == MR_OK &&
                         pinned[rank] == 4);
    RIG_CHECK(group, mr_group_all_reduce(group, &managed[rank], 1, MR_F32, MR_SUM) == MR_OK &&
                         managed[rank] == 6);
}

static void a_host_engine_refuses_device_memory(void **state)
{
    (void)state;
    rig_run(2, 10000, on_the_host, "double");
}

#ifdef MR_TEST_GLOO
static void gloo_refuses_device_memory(void **state)
{
    (void)state;
    setenv("MR_MODULE_PATH", MR_TEST_GLOO, 1);
    rig_run(2, 10000, on_the_host, "gloo");
    setenv("MR_MODULE_PATH", MR_TEST_DOUBLE, 1);
}
#endif

static void a_world_of_one_refuses_device_memory(void **state)
{
    (void)state;
    mr_group *group = NULL;
    mr_error error;
    if (mr_group_create(NULL, &group, &error))
        fail_msg("%s", error.text);
    assert_int_equal(mr_group_all_gather(group, on_first, usual, 1, MR_F32), MR_ERR_INVALID);
    assert_string_equal(mr_group_error(group)->text,
                        "in is memory of cuda:0; a world of one without an engine needs host "
                        "memory: copy it, or use backend nccl with a device");
    assert_int_equal(mr_group_all_reduce(group, managed, 1, MR_F32, MR_SUM), MR_OK);
    mr_group_destroy(group);
}

/* The group's device is cuda:1 on each rank; "cuda:local" would differ between them. */
static void on_the_device(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    mr_metrics *metrics = NULL;
    (void)arg;
    RIG_CHECK(group, mr_group_all_reduce(group, &usual[rank], 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_SAYS(group, "buffer is host memory; nccl needs memory of its device: copy it");
    RIG_CHECK(group,
              mr_group_all_reduce(group, &pinned[rank], 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_SAYS(group, "buffer is pinned host memory; nccl needs memory of its device: copy it");
    RIG_CHECK(group,
              mr_group_all_reduce(group, &on_first[rank], 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_SAYS(group, "buffer is memory of cuda:0, but the group's device is cuda:1");
    on_second[rank] = 1;
    managed[rank] = 1;
    RIG_CHECK(group, mr_group_all_reduce(group, &on_second[rank], 1, MR_F32, MR_SUM) == MR_OK &&
                         on_second[rank] == 2);
    RIG_CHECK(group, mr_group_all_reduce(group, &managed[rank], 1, MR_F32, MR_SUM) == MR_OK &&
                         managed[rank] == 2);
    RIG_CHECK(group, mr_metrics_create(group, &metrics, NULL) == MR_OK);
    RIG_CHECK(group, mr_metrics_add_device(metrics, "loss", &usual[rank], MR_F32, 1, NULL) ==
                         MR_ERR_INVALID);
    RIG_CHECK(group, strstr(mr_metrics_error(metrics)->text, "the sum is host memory") != NULL);
    RIG_CHECK(group,
              mr_metrics_add_device(metrics, "loss", &on_second[rank], MR_F32, 1, NULL) == MR_OK);
    RIG_CHECK(group, mr_metrics_reduce(metrics) == MR_OK && mr_metrics_mean(metrics, "loss") == 2);
    mr_metrics_destroy(metrics);
}

static void a_device_engine_refuses_host_memory(void **state)
{
    (void)state;
    struct device_double *orders = rig_use_device();
    rig_use("nccl", "cuda:1");
    rig_run(2, 10000, on_the_device, NULL);
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
}

/* "cuda:local" is the device of the local rank. */
static void on_local(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    float *own = rank ? on_second : on_first;
    float *other = rank ? on_first : on_second;
    (void)arg;
    *own = 1;
    RIG_CHECK(group, mr_group_all_reduce(group, other, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_CHECK(group, mr_group_all_reduce(group, own, 1, MR_F32, MR_SUM) == MR_OK && *own == 2);
}

static void the_local_device_is_that_of_the_local_rank(void **state)
{
    (void)state;
    (void)rig_use_device();
    rig_run(2, 10000, on_local, NULL);
}

/* Launchers that show each rank only its own GPU: it is cuda:0 on all of them. */
static void on_the_only_one(mr_group *group, void *arg)
{
    float *own = &on_first[mr_group_rank(group)];
    mr_group *both = NULL;
    (void)arg;
    *own = 1;
    RIG_CHECK(group, mr_group_all_reduce(group, own, 1, MR_F32, MR_SUM) == MR_OK && *own == 2);
    RIG_CHECK(group, mr_group_split(group, 0, 0, &both) == MR_OK);
    RIG_CHECK(group, mr_group_all_reduce(both, own, 1, MR_F32, MR_SUM) == MR_OK && *own == 4);
    RIG_CHECK(group, mr_group_all_reduce(both, on_second, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    mr_group_destroy(both);
}

static void the_engine_reports_its_device(void **state)
{
    (void)state;
    struct device_double *orders = rig_use_device();
    atomic_store(&orders->shows_one, true);
    rig_run(2, 10000, on_the_only_one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_reports_each_kind_of_memory),
        cmocka_unit_test(a_host_engine_refuses_device_memory),
#ifdef MR_TEST_GLOO
        cmocka_unit_test(gloo_refuses_device_memory),
#endif
        cmocka_unit_test(a_world_of_one_refuses_device_memory),
        cmocka_unit_test(a_device_engine_refuses_host_memory),
        cmocka_unit_test(the_local_device_is_that_of_the_local_rank),
        cmocka_unit_test(the_engine_reports_its_device),
    };
    rig_init();
    declare_all();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
