/* SPDX-License-Identifier: Apache-2.0 */
/* The public structs that begin with struct_size. */
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <millrace/dist.h>
#include <millrace/millrace.h>

/* A later version may give a reserved field a meaning, so a program must not set it today. */
static void expect_refused(mr_status status, const mr_error *error, const char *type)
{
    char want[100];
    snprintf(want, sizeof want, "reserved of the %s is not 0", type);
    assert_error(status, MR_ERR_INVALID, error, want);
}

static void reserved_fields_are_refused(void **state)
{
    (void)state;
    mr_error error;
    mr_dataset *dataset;
    mr_sampler *sampler;
    mr_group *group;
    mr_dataset_options opening = MR_DATASET_OPTIONS_INIT;
    opening.reserved[5] = 1;
    expect_refused(mr_dataset_open("folder", &opening, &dataset, &error), &error,
                   "mr_dataset_options");
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.reserved = 1;
    expect_refused(mr_dataset_from_callbacks(&callbacks, &dataset, &error), &error, "mr_callbacks");
    mr_sampler_options order = MR_SAMPLER_OPTIONS_INIT;
    order.reserved[0] = 1;
    expect_refused(mr_sampler_create(&order, &sampler, &error), &error, "mr_sampler_options");
    mr_explain_options sample = MR_EXPLAIN_OPTIONS_INIT;
    sample.reserved[1] = 1;
    expect_refused(mr_transform_explain(NULL, &sample, NULL, 0, NULL, &error), &error,
                   "mr_explain_options");
    mr_group_options joining = MR_GROUP_OPTIONS_INIT;
    joining.reserved = 1;
    expect_refused(mr_group_create(&joining, &group, &error), &error, "mr_group_options");
    mr_launch_options starting = MR_LAUNCH_OPTIONS_INIT;
    starting.reserved[3] = 1;
    starting.nproc = 1;
    char program[] = "true", *argv[] = {program, NULL};
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    expect_refused(mr_launch(&starting, argv, &result, &error), &error, "mr_launch_options");
}

static int no_sample(void *user, int64_t index, mr_sample *sample)
{
    (void)user, (void)index, (void)sample;
    return 1;
}

static void reserved_fields_of_a_dataset_in_use_are_refused(void **state)
{
    (void)state;
    mr_error error;
    mr_dataset *dataset;
    mr_loader *loader;
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = 1;
    callbacks.get = no_sample;
    assert_ok(mr_dataset_from_callbacks(&callbacks, &dataset, &error), &error);
    mr_pack_options packing = MR_PACK_OPTIONS_INIT;
    packing.reserved[4] = 1;
    expect_refused(mr_dataset_pack(dataset, "folder", &packing, NULL, &error), &error,
                   "mr_pack_options");
    for (int i = 0; i < 4; i++) {
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        uint8_t *const reserved[] = {options.reserved_batch, options.reserved_order,
                                     options.reserved_workers, options.reserved_devices};
        reserved[i][0] = 1;
        expect_refused(mr_loader_create(dataset, NULL, &options, &loader, &error), &error,
                       "mr_loader_options");
    }
    mr_dataset_destroy(dataset);
}

#define CHECK_INIT(type, init)                                                                     \
    do {                                                                                           \
        type expected = init, made;                                                                \
        memset(&made, 0xff, sizeof made);                                                          \
        type##_init(&made, sizeof made);                                                           \
        assert_memory_equal(&made, &expected, sizeof made);                                        \
        memset(&made, 0xff, sizeof made);                                                          \
        type##_init(&made, sizeof(size_t) + 1); /* as an older program, whose struct ends there */ \
        assert_int_equal(made.struct_size, sizeof(size_t) + 1);                                    \
        assert_int_equal(((unsigned char *)&made)[sizeof(size_t)], 0);                             \
        assert_int_equal(((unsigned char *)&made)[sizeof(size_t) + 1], 0xff);                      \
        type##_init(NULL, sizeof made);                                                            \
    } while (0)

static void functions_do_as_the_macros(void **state)
{
    (void)state;
    CHECK_INIT(mr_cache_report, MR_CACHE_REPORT_INIT);
    CHECK_INIT(mr_callbacks, MR_CALLBACKS_INIT);
    CHECK_INIT(mr_dataset_options, MR_DATASET_OPTIONS_INIT);
    CHECK_INIT(mr_explain_options, MR_EXPLAIN_OPTIONS_INIT);
    CHECK_INIT(mr_group_options, MR_GROUP_OPTIONS_INIT);
    CHECK_INIT(mr_launch_options, MR_LAUNCH_OPTIONS_INIT);
    CHECK_INIT(mr_launch_result, MR_LAUNCH_RESULT_INIT);
    CHECK_INIT(mr_loader_options, MR_LOADER_OPTIONS_INIT);
    CHECK_INIT(mr_loader_stats, MR_LOADER_STATS_INIT);
    CHECK_INIT(mr_pack_options, MR_PACK_OPTIONS_INIT);
    CHECK_INIT(mr_pack_progress, MR_PACK_PROGRESS_INIT);
    CHECK_INIT(mr_pack_report, MR_PACK_REPORT_INIT);
    CHECK_INIT(mr_sample, MR_SAMPLE_INIT);
    CHECK_INIT(mr_sample_info, MR_SAMPLE_INFO_INIT);
    CHECK_INIT(mr_sampler_options, MR_SAMPLER_OPTIONS_INIT);
    CHECK_INIT(mr_store_report, MR_STORE_REPORT_INIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserved_fields_are_refused),
        cmocka_unit_test(reserved_fields_of_a_dataset_in_use_are_refused),
        cmocka_unit_test(functions_do_as_the_macros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
