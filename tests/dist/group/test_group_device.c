/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group on a device without failures: which calls wait, which do not, and how the library reduces
 * its own host numbers.
 */
#include "tests/dist/group/group_rig.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/loader.h>
#include <millrace/metrics.h>
#include <millrace/run.h>

#include "tests/dist/group/device_engine_double.h"

static struct device_double *orders;

static int a_stream;

static struct device_double_rank *get_orders(const mr_group *group)
{
    return &orders->ranks[mr_group_rank(group)];
}

/* For ranks 0 to n - 1: nothing is left in the engine, and no forbidden call was made. */
static void expect_clean(uint32_t n, bool healthy)
{
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_sums), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_other_ends), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_healthy_ends) > 0, healthy);
        assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 0);
    }
}

static void every_kind(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    uint32_t n = mr_group_world_size(group);
    float x[2] = {1, (float)rank};
    double all[RIG_RANKS];
    double own = rank;
    int32_t part = 0;
    int32_t parts[RIG_RANKS];
    (void)arg;
    RIG_CHECK(group, strcmp(mr_group_backend(group), "nccl") == 0);
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    RIG_CHECK(group, mr_group_all_reduce(group, x, 2, MR_F32, MR_SUM) == MR_OK);
    RIG_CHECK(group, x[0] == (float)n && x[1] == (float)(n * (n - 1) / 2));
    RIG_CHECK(group,
              mr_group_all_reduce(group, x, 2, MR_F32, MR_MEAN) == MR_OK && x[0] == (float)n);
    RIG_CHECK(group,
              mr_group_all_gather(group, &own, all, 1, MR_F64) == MR_OK && all[n - 1] == n - 1);
    RIG_CHECK(group, mr_group_broadcast(group, &own, 1, MR_F64, n - 1) == MR_OK && own == n - 1);
    for (uint32_t r = 0; r < n; r++)
        parts[r] = (int32_t)(r + 1);
    RIG_CHECK(group, mr_group_reduce_scatter(group, parts, &part, 1, MR_I32, MR_SUM) == MR_OK);
    RIG_CHECK(group, part == (int32_t)(n * (rank + 1)));
    if (rank == 0 && n > 1)
        RIG_CHECK(group, mr_group_send(group, &part, 1, MR_I32, n - 1) == MR_OK);
    if (rank == n - 1 && n > 1)
        RIG_CHECK(group, mr_group_recv(group, &part, 1, MR_I32, 0) == MR_OK && part == (int32_t)n);
    RIG_CHECK(group, mr_group_all_reduce(group, NULL, 0, MR_F32, MR_SUM) == MR_OK);
    RIG_CHECK(group, mr_group_all_reduce(group, NULL, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    RIG_CHECK(group, atomic_load(&get_orders(group)->n_on_host) == 0);
}

static void collectives_work_over_a_device(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 4; n++) {
        orders = rig_use_device();
        rig_run(n, 10000, every_kind, NULL);
        expect_clean(n, true);
    }
}

static void asynchronous(mr_group *group, void *arg)
{
    struct device_double_rank *own = get_orders(group);
    double x[2] = {1, 2};
    mr_group_work *works[2];
    (void)arg;
    atomic_store(&own->is_held, true);
    for (int i = 0; i < 2; i++)
        RIG_CHECK(group, mr_group_all_reduce_async(group, &x[i], 1, MR_F64, MR_SUM, &a_stream,
                                                   &works[i]) == MR_OK);
    RIG_CHECK(group, mr_group_work_test(works[0]) == MR_PENDING);
    RIG_CHECK(group, mr_group_work_sync(works[1], 30) == MR_PENDING);
    RIG_CHECK(group, mr_group_work_wait(works[0], &a_stream) == MR_OK);
    RIG_CHECK(group, atomic_load(&own->n_waits) == 1 && atomic_load(&own->stream) == &a_stream);
    atomic_store(&own->held_above, 1);
    RIG_CHECK(group, mr_group_work_sync(works[0], MR_FOREVER) == MR_OK);
    RIG_CHECK(group, x[0] == mr_group_world_size(group));
    RIG_CHECK(group, mr_group_work_test(works[1]) == MR_PENDING);
    /* it has ended: no stream needs to wait */
    RIG_CHECK(group, mr_group_work_wait(works[0], &a_stream) == MR_OK);
    RIG_CHECK(group, atomic_load(&own->n_waits) == 1);
    atomic_store(&own->is_held, false);
    RIG_CHECK(group, mr_group_work_sync(works[1], MR_FOREVER) == MR_OK);
    RIG_CHECK(group, mr_group_work_test(works[1]) == MR_OK);
    mr_group_work_destroy(works[0]);
    mr_group_work_destroy(works[1]);
}

static void works_are_pending_until_the_device_is_done(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(3, 10000, asynchronous, NULL);
    expect_clean(3, true);
}

static void frees_early(mr_group *group, void *arg)
{
    struct device_double_rank *own = get_orders(group);
    float x[20] = {0};
    uint64_t start = rig_now_ms();
    (void)arg;
    atomic_store(&own->is_held, true);
    for (int i = 0; i < 20; i++) {
        mr_group_work *work = NULL;
        RIG_CHECK(group,
                  mr_group_all_reduce_async(group, &x[i], 1, MR_F32, MR_SUM, NULL, &work) == MR_OK);
        mr_group_work_destroy(work);
    }
    RIG_CHECK(group, rig_now_ms() - start < 15000);
    RIG_CHECK(group, atomic_load(&own->n_tickets) == 20);
    atomic_store(&own->is_held, false);
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    /* The watch of each rank sees their end soon, and the next collective frees them. */
    int32_t n_left = 1;
    for (int i = 0; i < 2000 && n_left > 0; i++) {
        usleep(1000);
        RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
        n_left = atomic_load(&own->n_tickets);
        RIG_CHECK(group, mr_group_all_reduce(group, &n_left, 1, MR_I32, MR_MAX) == MR_OK);
    }
    RIG_CHECK(group, atomic_load(&own->n_tickets) == 0);
    RIG_CHECK(group, mr_group_all_reduce(group, x, 20, MR_F32, MR_SUM) == MR_OK);
}

static void a_work_is_freed_without_waiting_for_it(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(2, 10000, frees_early, NULL);
    expect_clean(2, true);
}

/* The first takes 1.5 s, and the second another 1.5 s. Each is within its 2.5 s. */
static void waits_in_turn(mr_group *group, void *arg)
{
    struct device_double_rank *own = get_orders(group);
    float x = 0;
    mr_group_work *works[2];
    (void)arg;
    atomic_store(&own->is_held, true);
    for (int i = 0; i < 2; i++)
        RIG_CHECK(group, mr_group_all_reduce_async(group, &x, 1, MR_F32, MR_SUM, NULL, &works[i]) ==
                             MR_OK);
    usleep(1500000);
    atomic_store(&own->held_above, 1);
    usleep(1500000);
    atomic_store(&own->is_held, false);
    RIG_CHECK(group, mr_group_work_sync(works[1], MR_FOREVER) == MR_OK);
    mr_group_work_destroy(works[0]);
    mr_group_work_destroy(works[1]);
}

static void the_time_limit_of_a_work_begins_when_earlier_works_have_ended(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(2, 2500, waits_in_turn, NULL);
    expect_clean(2, true);
}

/* The library's own numbers are in host memory, the user's in device memory. */
static void own_numbers(mr_group *group, void *arg)
{
    struct device_double_rank *own = get_orders(group);
    int signal = 1;
    (void)arg;
    RIG_CHECK(group, mr_group_same(group, 7, "the dataset") == MR_OK);
    RIG_CHECK(group, atomic_load(&own->n_on_host) == 1);
    RIG_CHECK(group, mr_signals_agree(group, &signal) == MR_OK && signal == 0);
    RIG_CHECK(group, atomic_load(&own->n_on_host) == 2);
    RIG_CHECK(group, mr_group_same(group, mr_group_rank(group), "the dataset") == MR_ERR_PEER);
    RIG_SAYS(group, "the dataset of rank 1 differs from rank 0's");
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
}

static void numbers_of_the_library_are_in_host_memory(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(2, 10000, own_numbers, NULL);
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    expect_clean(2, true); /* all ranks end the group: no abort is needed */
}

/*
 * Additions from host and device to one name are summed. What is added after the start belongs to
 * the next reduction.
 */
static void metrics_of_both(mr_group *group, void *arg)
{
    double n = mr_group_world_size(group);
    float loss = 0.5F;
    int64_t correct = 3;
    mr_metrics *metrics = NULL;
    (void)arg;
    RIG_CHECK(group, mr_metrics_create(group, &metrics, NULL) == MR_OK);
    RIG_CHECK(group, mr_metrics_add(metrics, "loss", 1, 2) == MR_OK);
    RIG_CHECK(group, mr_metrics_add_device(metrics, "loss", &loss, MR_F32, 4, &a_stream) == MR_OK);
    RIG_CHECK(group,
              mr_metrics_add_device(metrics, "correct", &correct, MR_I64, 4, &a_stream) == MR_OK);
    RIG_CHECK(group, atomic_load(&get_orders(group)->stream) == &a_stream);
    RIG_CHECK(group, mr_metrics_max(metrics, "loss", 9) == MR_OK);
    RIG_CHECK(group, mr_metrics_reduce_async(metrics) == MR_OK);
    RIG_CHECK(group, mr_metrics_add_device(metrics, "loss", &loss, MR_F32, 1, NULL) == MR_OK);
    RIG_CHECK(group, mr_metrics_sync(metrics) == MR_OK);
    RIG_CHECK(group, mr_metrics_sum(metrics, "loss") == 1.5 * n &&
                         mr_metrics_count(metrics, "loss") == 6 * n);
    RIG_CHECK(group, mr_metrics_mean(metrics, "correct") == 0.75 &&
                         mr_metrics_maximum(metrics, "loss") == 9);
    RIG_CHECK(group, mr_metrics_reduce(metrics) == MR_OK);
    RIG_CHECK(group,
              mr_metrics_sum(metrics, "loss") == 0.5 * n && mr_metrics_count(metrics, "loss") == n);
    RIG_CHECK(group, mr_metrics_sum(metrics, "correct") == 0);
    RIG_CHECK(group,
              mr_metrics_add_device(metrics, "loss", NULL, MR_F32, 1, NULL) == MR_ERR_INVALID);
    mr_metrics_destroy(metrics);
}

static void metrics_add_sums_of_the_device(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(3, 10000, metrics_of_both, NULL);
    expect_clean(3, true);
}

static void splits(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    mr_group *part = NULL;
    mr_group *none = NULL;
    float x = (float)rank;
    (void)arg;
    RIG_CHECK(group, mr_group_split(group, rank % 2, 10 - rank, &part) == MR_OK);
    RIG_CHECK(group, mr_group_world_size(part) == 2 && mr_group_rank(part) == 1 - rank / 2);
    RIG_CHECK(group, mr_group_all_reduce(part, &x, 1, MR_F32, MR_SUM) == MR_OK &&
                         x == (float)(2 * (rank % 2) + 2));
    RIG_CHECK(group, mr_group_split(group, rank == 1 ? MR_NO_COLOR : rank, 0, &none) == MR_OK);
    /* a group of one, with an engine */
    RIG_CHECK(group, rank == 1 ? !none : mr_group_barrier(none) == MR_OK);
    mr_group_destroy(none);
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F32, MR_SUM) == MR_OK && x == 12);
    mr_group_destroy(part);
}

static void a_group_of_devices_splits(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(4, 10000, splits, NULL);
    expect_clean(4, true);
}

/* An adopted communicator knows its device, and so do the groups that are split from its group. */
static void splits_adopted(mr_group *group, void *arg)
{
    mr_group *both = NULL;
    float x = 1;
    (void)arg;
    RIG_CHECK(group, mr_group_split(group, 3, 0, &both) == MR_OK);
    RIG_CHECK(group, both && mr_group_all_reduce(both, &x, 1, MR_F32, MR_SUM) == MR_OK && x == 2);
    mr_group_destroy(both);
}

static void a_group_of_an_adopted_communicator_splits(void **state)
{
    (void)state;
    int comm = 0;
    orders = rig_use_device();
    rig_use("nccl", NULL);
    rig_adopt(&comm);
    rig_run(2, 10000, splits_adopted, NULL);
    rig_adopt(NULL);
    expect_clean(2, true);
}

/* A refused issue has no effect: the group still works, and its numbers equal the other rank's. */
static void is_refused(mr_group *group, void *arg)
{
    struct device_double_rank *own = get_orders(group);
    int32_t status = *(int32_t *)arg;
    float x = 1;
    mr_group_work *work = NULL;
    if (mr_group_rank(group) == 1) {
        atomic_store(&own->fails_at, 2);
        atomic_store(&own->issue_status, status);
    }
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    if (mr_group_rank(group) == 1) {
        RIG_CHECK(group, (int32_t)mr_group_all_reduce_async(group, &x, 1, MR_F32, MR_SUM, &a_stream,
                                                            &work) == status);
        RIG_CHECK(group, work == NULL);
        RIG_SAYS(group, "the double was told to fail");
    }
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F32, MR_SUM) == MR_OK && x == 2);
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
}

static void a_refused_issue_does_not_change_the_group(void **state)
{
    (void)state;
    int32_t statuses[] = {MR_ERR_STATE, MR_ERR_INVALID};
    for (int i = 0; i < 2; i++) {
        orders = rig_use_device();
        rig_run(2, 5000, is_refused, &statuses[i]);
        expect_clean(2, true);
    }
}

/* Works under way when the group is destroyed end within the grace time. */
static void leaves_works(mr_group *group, void *arg)
{
    mr_group_work **works = arg;
    float x = 0;
    static float kept[2];
    (void)x;
    RIG_CHECK(group,
              mr_group_all_reduce_async(group, &kept[mr_group_rank(group)], 1, MR_F32, MR_SUM, NULL,
                                        &works[mr_group_rank(group)]) == MR_OK);
}

static void destroy_waits_for_a_work_that_ends_soon(void **state)
{
    (void)state;
    mr_group_work *works[2];
    orders = rig_use_device();
    rig_run(2, 10000, leaves_works, works);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(mr_group_work_sync(works[r], MR_FOREVER), MR_OK);
        mr_group_work_destroy(works[r]);
    }
    expect_clean(2, true);
}

static void differs(mr_group *group, void *arg)
{
    float x[4] = {0};
    mr_group_work *work = NULL;
    (void)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    mr_status status = mr_group_all_reduce_async(group, x, mr_group_rank(group) == 2 ? 3 : 4,
                                                 MR_F32, MR_SUM, NULL, &work);
    RIG_CHECK(group, status == MR_ERR_PEER && !work);
    RIG_SAYS(group, "ranks differ in call 2: rank 0 calls all_reduce (4 f32, sum), rank 2 calls "
                    "all_reduce (3 f32, sum)");
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
}

static void a_check_names_the_rank_that_differs(void **state)
{
    (void)state;
    orders = rig_use_device();
    setenv("MR_COMM_CHECK", "1", 1);
    rig_run(3, 20000, differs, NULL);
    unsetenv("MR_COMM_CHECK");
    expect_clean(3, true); /* no collective had begun */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_work_over_a_device),
        cmocka_unit_test(works_are_pending_until_the_device_is_done),
        cmocka_unit_test(a_work_is_freed_without_waiting_for_it),
        cmocka_unit_test(the_time_limit_of_a_work_begins_when_earlier_works_have_ended),
        cmocka_unit_test(numbers_of_the_library_are_in_host_memory),
        cmocka_unit_test(metrics_add_sums_of_the_device),
        cmocka_unit_test(a_group_of_devices_splits),
        cmocka_unit_test(a_group_of_an_adopted_communicator_splits),
        cmocka_unit_test(a_refused_issue_does_not_change_the_group),
        cmocka_unit_test(destroy_waits_for_a_work_that_ends_soon),
        cmocka_unit_test(a_check_names_the_rank_that_differs),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
