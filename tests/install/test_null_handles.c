/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of <millrace/status.h> for NULL in place of a handle, for every public function. A
 * function that is in an export map must be called here, or be listed as one that takes no handle.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <millrace/dist.h>
#include <millrace/millrace.h>

enum { MAX_NAMES = 400 };

static const char *const without_handle[] = {
    "mr_cache_clear",
    "mr_cache_report_init",
    "mr_cache_stat",
    "mr_callbacks_init",
    "mr_constant",
    "mr_dataset_from_callbacks",
    "mr_dataset_from_files",
    "mr_dataset_from_store",
    "mr_dataset_open",
    "mr_dataset_options_init",
    "mr_device_count",
    "mr_dtype_name",
    "mr_dtype_parse",
    "mr_dtype_size",
    "mr_elapsed",
    "mr_explain_options_init",
    "mr_features",
    "mr_group_create",
    "mr_group_options_init",
    "mr_launch",
    "mr_launch_options_init",
    "mr_launch_result_init",
    "mr_launch_spawn",
    "mr_loader_option_name",
    "mr_loader_options_get",
    "mr_loader_options_init",
    "mr_loader_options_set",
    "mr_loader_stats_init",
    "mr_log_queue",
    "mr_log_set",
    "mr_log_take",
    "mr_nearest_name",
    "mr_pack_options_init",
    "mr_pack_progress_init",
    "mr_pack_report_init",
    "mr_sample_info_init",
    "mr_sample_init",
    "mr_sampler_create",
    "mr_sampler_options_init",
    "mr_seed",
    "mr_signals_watch",
    "mr_status_name",
    "mr_store_check",
    "mr_store_report_init",
    "mr_transform_parse",
    "mr_version",
    "mr_version_number",
};

static const char *called[MAX_NAMES];
static unsigned n_called;
static mr_error error;

/* Each function's name is noted before it is called. */
static void note(const char *name)
{
    assert_true(n_called < MAX_NAMES);
    called[n_called++] = name;
    error = (mr_error){0};
}

static const char *last_called(void)
{
    return called[n_called - 1];
}

static void expect_status(mr_status status, mr_status expected)
{
    if (status != expected)
        fail_msg("%s(NULL) returns %s, not %s", last_called(), mr_status_name(status),
                 mr_status_name(expected));
}

static void expect_words(mr_status status)
{
    expect_status(status, MR_ERR_INVALID);
    if (error.status != MR_ERR_INVALID || !error.text[0])
        fail_msg("%s(NULL) has no words", last_called());
}

static void expect_error(const mr_error *of_null)
{
    if (!of_null || of_null->status != MR_ERR_INVALID || !strstr(of_null->text, "NULL"))
        fail_msg("%s(NULL) does not say that the handle is NULL", last_called());
}

#define NOTHING(function, ...) (note(#function), function(__VA_ARGS__))
#define IS_OK(function, ...) (note(#function), expect_status(function(__VA_ARGS__), MR_OK))
#define IS_INVALID(function, ...)                                                                  \
    (note(#function), expect_status(function(__VA_ARGS__), MR_ERR_INVALID))
#define HAS_WORDS(function, ...) (note(#function), expect_words(function(__VA_ARGS__)))
#define HAS_ERROR(function) (note(#function), expect_error(function(NULL)))
#define IS_VALUE(expected, function, ...)                                                          \
    do {                                                                                           \
        note(#function);                                                                           \
        if (function(__VA_ARGS__) != (expected))                                                   \
            fail_msg("%s(NULL) is not " #expected, #function);                                     \
    } while (0)
#define IS_NAN(function) assert_true((note(#function), isnan(function(NULL, "loss"))))

static void batches(void **state)
{
    (void)state;
    struct DLManagedTensor *tensor;
    struct DLManagedTensorVersioned *versioned;
    mr_batch *copy = (mr_batch *)1;
    IS_VALUE(0, mr_batch_size, NULL);
    IS_VALUE(0, mr_batch_valid, NULL);
    IS_VALUE(0, mr_batch_epoch, NULL);
    IS_VALUE(0, mr_batch_number, NULL);
    IS_VALUE(0, mr_batch_channels, NULL);
    IS_VALUE(0, mr_batch_n_arrays, NULL);
    IS_VALUE(NULL, mr_batch_array_at, NULL, 0);
    IS_VALUE(NULL, mr_batch_array, NULL, "image");
    IS_VALUE(NULL, mr_batch_data, NULL, "image");
    IS_VALUE(0, mr_batch_buffer, NULL);
    IS_VALUE(0, mr_batch_n_parts, NULL);
    IS_VALUE(NULL, mr_batch_part, NULL, 0);
    IS_INVALID(mr_batch_copy, NULL, &copy);
    assert_null(copy);
    IS_INVALID(mr_batch_use, NULL, NULL);
    IS_OK(mr_batch_release, NULL);
    IS_OK(mr_batch_release_on, NULL, NULL);
    IS_INVALID(mr_batch_to_dlpack, NULL, "image", NULL, &tensor);
    IS_INVALID(mr_batch_to_dlpack_versioned, NULL, "image", NULL, &versioned);
    HAS_ERROR(mr_batch_error);
    NOTHING(mr_dlpack_capsule_destroy, NULL);
}

static void datasets(void **state)
{
    (void)state;
    char name[8];
    int64_t label;
    size_t n;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_pack_report report = MR_PACK_REPORT_INIT;
    NOTHING(mr_dataset_destroy, NULL);
    IS_VALUE(0, mr_dataset_n_samples, NULL);
    IS_VALUE(0, mr_dataset_n_classes, NULL);
    IS_VALUE(NULL, mr_dataset_class_name, NULL, 0);
    IS_VALUE(MR_ANNOTATIONS_NONE, mr_dataset_annotations, NULL);
    IS_VALUE(0, mr_dataset_name, NULL, 0, name, sizeof name);
    IS_VALUE(0, mr_dataset_relative_name, NULL, 0, name, sizeof name);
    HAS_WORDS(mr_dataset_label, NULL, 0, &label, &error);
    HAS_WORDS(mr_dataset_box_labels, NULL, 0, &label, 1, &n, &error);
    HAS_WORDS(mr_dataset_boxes, NULL, 0, 1, 1, NULL, 0, &n, &error);
    HAS_WORDS(mr_dataset_inspect, NULL, 0, &info, &error);
    HAS_WORDS(mr_dataset_save_list, NULL, "list", &error);
    HAS_WORDS(mr_dataset_pack, NULL, "pack", NULL, &report, &error);
    HAS_WORDS(mr_dataset_check, NULL, NULL, &report, &error);
    HAS_WORDS(mr_pack_unpack, NULL, "folder", NULL, &report, &error);
}

static void samplers_and_transforms(void **state)
{
    (void)state;
    char text[8] = "text";
    NOTHING(mr_sampler_destroy, NULL);
    HAS_WORDS(mr_sampler_set_epoch, NULL, 1, &error);
    IS_VALUE(0, mr_sampler_length, NULL);
    IS_VALUE(MR_NO_INDEX, mr_sampler_at, NULL, 0);
    IS_VALUE(0, mr_sampler_occurrence, NULL, 0);
    NOTHING(mr_transform_destroy, NULL);
    IS_VALUE(0, mr_transform_format, NULL, text, sizeof text);
    assert_string_equal(text, "");
    HAS_WORDS(mr_transform_passes, NULL, 8, 8, MR_U8, MR_NCHW, text, sizeof text, NULL, &error);
    IS_VALUE(false, mr_transform_turns, NULL);
    mr_explain_options sample = MR_EXPLAIN_OPTIONS_INIT;
    sample.width = sample.height = 8;
    IS_VALUE(MR_OK, mr_transform_explain, NULL, &sample, NULL, 0, NULL, &error);
    HAS_WORDS(mr_transform_append, NULL, "hflip", &error);
}

static void loaders(void **state)
{
    (void)state;
    mr_batch *batch = (void *)&batch;
    mr_loader *loader = (void *)&loader;
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    uint8_t position[MR_LOADER_STATE_MAX] = {0};
    size_t len;
    double share;
    int64_t index = 0, pid;
    int fd = 0;
    char text[8] = "text";
    HAS_WORDS(mr_loader_create, NULL, NULL, NULL, &loader, &error);
    assert_null(loader);
    NOTHING(mr_loader_destroy, NULL);
    IS_INVALID(mr_loader_next, NULL, 0, &batch);
    assert_null(batch);
    batch = (void *)&batch;
    IS_INVALID(mr_loader_next_on, NULL, 0, NULL, &batch);
    assert_null(batch);
    IS_INVALID(mr_loader_fd, NULL, &fd);
    assert_int_equal(fd, -1);
    HAS_ERROR(mr_loader_error);
    IS_INVALID(mr_loader_set_epoch, NULL, 1);
    IS_INVALID(mr_loader_set_epoch_order, NULL, 1, &index, 1);
    IS_INVALID(mr_loader_resume_epoch_order, NULL, 1, &index, 1, 0);
    NOTHING(mr_loader_cancel, NULL);
    IS_VALUE(0, mr_loader_n_batches, NULL);
    IS_VALUE(0, mr_loader_n_samples, NULL);
    IS_VALUE(0, mr_loader_n_lent, NULL);
    IS_VALUE(0, mr_loader_state_size, NULL);
    IS_VALUE(0, mr_loader_epoch, NULL);
    IS_VALUE(NULL, mr_loader_resolved, NULL);
    IS_INVALID(mr_loader_save, NULL, position, sizeof position, &len);
    IS_INVALID(mr_loader_restore, NULL, position, sizeof position);
    IS_INVALID(mr_loader_get_stats, NULL, &stats);
    IS_VALUE(0, mr_loader_verdict, NULL, text, sizeof text);
    assert_string_equal(text, "");
    IS_VALUE(0, mr_loader_fingerprint, NULL);
    IS_INVALID(mr_loader_damaged, NULL, 0, &error);
    IS_VALUE(0, mr_loader_worker_shares, NULL, &share, 1);
    IS_VALUE(0, mr_loader_worker_pids, NULL, &pid, 1);
}

static void collectives(void **state)
{
    (void)state;
    float buffer[1] = {0}, out[1];
    mr_group_work *work = (void *)&work;
    IS_INVALID(mr_group_barrier, NULL);
    IS_INVALID(mr_group_all_reduce, NULL, buffer, 1, MR_F32, MR_SUM);
    IS_INVALID(mr_group_reduce, NULL, buffer, 1, MR_F32, MR_SUM, 0);
    IS_INVALID(mr_group_broadcast, NULL, buffer, 1, MR_F32, 0);
    IS_INVALID(mr_group_all_gather, NULL, buffer, out, 1, MR_F32);
    IS_INVALID(mr_group_reduce_scatter, NULL, buffer, out, 1, MR_F32, MR_SUM);
    IS_INVALID(mr_group_send, NULL, buffer, 1, MR_F32, 0);
    IS_INVALID(mr_group_recv, NULL, buffer, 1, MR_F32, 0);
    IS_INVALID(mr_group_barrier_async, NULL, NULL, &work);
    assert_null(work);
    IS_INVALID(mr_group_all_reduce_async, NULL, buffer, 1, MR_F32, MR_SUM, NULL, &work);
    IS_INVALID(mr_group_reduce_async, NULL, buffer, 1, MR_F32, MR_SUM, 0, NULL, &work);
    IS_INVALID(mr_group_broadcast_async, NULL, buffer, 1, MR_F32, 0, NULL, &work);
    IS_INVALID(mr_group_all_gather_async, NULL, buffer, out, 1, MR_F32, NULL, &work);
    IS_INVALID(mr_group_reduce_scatter_async, NULL, buffer, out, 1, MR_F32, MR_SUM, NULL, &work);
    IS_INVALID(mr_group_send_async, NULL, buffer, 1, MR_F32, 0, NULL, &work);
    IS_INVALID(mr_group_recv_async, NULL, buffer, 1, MR_F32, 0, NULL, &work);
    IS_INVALID(mr_group_work_wait, NULL, NULL);
    IS_INVALID(mr_group_work_sync, NULL, 0);
    IS_INVALID(mr_group_work_test, NULL);
    NOTHING(mr_group_work_destroy, NULL);
}

/* Where <millrace/group.h>, run.h and metrics.h say so. */
static void a_null_group_is_a_world_of_one(void **state)
{
    (void)state;
    mr_group *group = (void *)&group;
    mr_metrics *metrics = NULL;
    int signal = -1;
    NOTHING(mr_group_destroy, NULL);
    IS_VALUE(0, mr_group_rank, NULL);
    IS_VALUE(1, mr_group_world_size, NULL);
    IS_VALUE(0, mr_group_local_rank, NULL);
    IS_VALUE(1, mr_group_local_world_size, NULL);
    IS_VALUE(0, mr_group_node, NULL);
    assert_string_equal((note("mr_group_backend"), mr_group_backend(NULL)), "none");
    HAS_ERROR(mr_group_error);
    IS_INVALID(mr_group_split, NULL, 0, 0, &group);
    assert_null(group);
    NOTHING(mr_group_print0, NULL, "%s", "");
    NOTHING(mr_group_print_rank, NULL, "%s", "");
    IS_OK(mr_group_rank0_first_begin, NULL);
    IS_OK(mr_group_rank0_first_end, NULL);
    IS_OK(mr_group_local_rank0_first_begin, NULL);
    IS_OK(mr_group_local_rank0_first_end, NULL);
    assert_int_not_equal((note("mr_group_seed"), mr_group_seed(NULL, 1, "init")),
                         mr_seed(1, "init"));
    IS_OK(mr_group_same, NULL, 1, "data");
    IS_OK(mr_signals_agree, NULL, &signal);
    IS_OK(mr_metrics_create, NULL, &metrics, &error);
    mr_metrics_destroy(metrics);
}

static void metrics(void **state)
{
    (void)state;
    const float sum = 1;
    NOTHING(mr_metrics_destroy, NULL);
    IS_INVALID(mr_metrics_declare, NULL, "loss");
    IS_INVALID(mr_metrics_add, NULL, "loss", 1, 1);
    IS_INVALID(mr_metrics_add_device, NULL, "loss", &sum, MR_F32, 1, NULL);
    IS_INVALID(mr_metrics_min, NULL, "loss", 1);
    IS_INVALID(mr_metrics_max, NULL, "loss", 1);
    IS_INVALID(mr_metrics_reduce, NULL);
    IS_INVALID(mr_metrics_reduce_async, NULL);
    IS_INVALID(mr_metrics_sync, NULL);
    IS_NAN(mr_metrics_mean);
    IS_NAN(mr_metrics_sum);
    IS_NAN(mr_metrics_count);
    IS_NAN(mr_metrics_minimum);
    IS_NAN(mr_metrics_maximum);
    HAS_ERROR(mr_metrics_error);
}

static bool is_among(const char *name, const char *const *names, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Check the public names of one map; returns how many of them take no handle. */
static unsigned check_map(const char *path)
{
    enum { N_WITHOUT = sizeof without_handle / sizeof *without_handle };
    char line[200], name[100];
    unsigned n = 0;
    bool is_public = false;
    FILE *map = fopen(path, "r");
    assert_non_null(map);
    while (fgets(line, sizeof line, map)) {
        if (strchr(line, '{'))
            is_public = !strstr(line, "PRIVATE");
        if (!is_public || sscanf(line, " %90[a-z0-9_];", name) != 1 || strncmp(name, "mr_", 3) != 0)
            continue;
        bool takes_none = is_among(name, without_handle, N_WITHOUT);
        if (!takes_none && !is_among(name, called, n_called))
            fail_msg("%s() is called with no NULL here", name);
        n += takes_none;
    }
    fclose(map);
    return n;
}

/* Runs last. */
static void no_public_function_is_forgotten(void **state)
{
    (void)state;
    unsigned n =
        check_map(MR_TEST_MAPS "/millrace.map") + check_map(MR_TEST_MAPS "/millrace-dist.map");
    assert_int_equal(n, sizeof without_handle / sizeof *without_handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches),
        cmocka_unit_test(datasets),
        cmocka_unit_test(samplers_and_transforms),
        cmocka_unit_test(loaders),
        cmocka_unit_test(collectives),
        cmocka_unit_test(a_null_group_is_a_world_of_one),
        cmocka_unit_test(metrics),
        cmocka_unit_test(no_public_function_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
