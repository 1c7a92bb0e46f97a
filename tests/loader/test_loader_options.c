/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a loader: defaults as the header states them, ranges, and combinations that
 * exclude each other.
 */
#include "tests/loader/rig.h"
#include "tests/support/assert_words.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_share.h"

/* Tested by tests/base/test_cpu_share.c. */
static uint32_t cpu_share(void)
{
    struct mr_cpu_share share;
    mr_cpu_share_read(&share);
    return mr_cpu_share_count(&share);
}

/* The first CPU that this process may use. */
static int32_t first_cpu(void)
{
    cpu_set_t set;
    int32_t cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET((size_t)cpu, &set))
        cpu++;
    return cpu;
}

static void defaults_are_filled_in(void **state)
{
    rig_needs_fork();
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_loader *loader = rig_loader(*state, &options);
    const mr_loader_options *o = mr_loader_resolved(loader);
    assert_int_equal(o->struct_size, sizeof *o);
    assert_int_equal(o->batch_size, 64);
    assert_int_equal(o->num_workers, cpu_share());
    assert_int_equal(o->world_size, 1);
    assert_int_equal(o->dtype, MR_U8);
    assert_int_equal(o->start, MR_START_FORK);
    assert_true(o->n_slots >= 2 && o->n_slots <= 1024);
    assert_int_equal(o->read_ahead, 4);
    assert_int_equal(o->time_limit_ms, 60000);
    assert_int_equal(o->max_file_bytes, 1 << 30);
    assert_int_equal(o->max_pixels, 178956970);
    assert_string_equal(o->device, "host");
    assert_int_equal(o->on_error, MR_ON_ERROR_FAIL);
    assert_int_equal(o->tail, MR_TAIL_PAD);
    assert_int_equal(mr_loader_epoch(loader), 0);
    mr_loader_destroy(loader);
}

/* The default number of worker threads of a loader over these devices. */
static uint32_t default_workers(struct rig *rig, const char *device, const char *const *devices,
                                uint32_t n_devices)
{
    mr_loader_options options = rig_options();
    options.num_workers = 0;
    options.device = device;
    options.devices = devices;
    options.n_devices = n_devices;
    mr_loader *loader = rig_loader(rig, &options);
    uint32_t n = mr_loader_resolved(loader)->num_workers;
    mr_loader_destroy(loader);
    return n;
}

static void default_workers_are_the_share_of_the_cpus_or_four_a_device(void **state)
{
    static const char *const two[] = {"host:0", "host:1"};
    uint32_t n_cpus = cpu_share();
    rig_log_capture();
    assert_int_equal(default_workers(*state, "host", NULL, 0), n_cpus);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    assert_int_equal(default_workers(*state, "host", NULL, 0), cpu_share());
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    assert_int_equal(default_workers(*state, "host", NULL, 0), n_cpus > 1 ? n_cpus / 2 : 1);
    setenv("LOCAL_WORLD_SIZE", "100000", 1);
    assert_int_equal(default_workers(*state, "host", NULL, 0), 1);
    assert_int_equal(rig_log_count("workers share"), 0);
    rig_log_end();
    assert_int_equal(default_workers(*state, "host:0", NULL, 0), 4);
    assert_int_equal(default_workers(*state, NULL, two, 2), 8);
    setenv("LOCAL_WORLD_SIZE", "some", 1);
    assert_int_equal(default_workers(*state, "host", NULL, 0), n_cpus);
    unsetenv("LOCAL_WORLD_SIZE");
}

/* Runs first in its program, because the warning comes once. */
static void the_default_number_of_workers_causes_no_warning(void **state)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        skip();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)first_cpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    rig_log_capture();
    assert_int_equal(default_workers(*state, "host", NULL, 0), 1);
    assert_int_equal(rig_log_count("workers share"), 0);
    rig_log_end();
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
}

static void without_cuda_batches_are_not_page_locked_and_a_line_says_so(void **state)
{
    mr_loader_options options = rig_options();
    options.device = "host";
    options.pin_memory = true;
    rig_log_capture();
    mr_loader *loader = rig_loader(*state, &options);
    assert_false(mr_loader_resolved(loader)->pin_memory);
    assert_int_equal(
        rig_log_count("pin_memory: the batches are not page-locked: this build has no CUDA"), 1);
    rig_log_end();
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_use(batch, &options), MR_OK); /* has no effect */
    assert_int_equal(mr_batch_release_on(batch, &options), MR_OK);
    mr_loader_destroy(loader);
}

static void no_options_mean_the_defaults(void **state)
{
    rig_needs_fork();
    mr_loader *loader = rig_loader(*state, NULL);
    assert_int_equal(mr_loader_resolved(loader)->batch_size, 64);
    assert_false(mr_loader_resolved(loader)->no_shuffle);
    mr_loader_destroy(loader);
}

static void options_that_were_set_are_unchanged(void **state)
{
    mr_loader_options options = rig_options();
    int32_t cpus[2] = {first_cpu(), first_cpu()};
    options.batch_size = 5;
    options.rank = 1;
    options.world_size = 3;
    options.seed = 77;
    options.epoch = 9;
    options.n_slots = 2;
    options.read_ahead = 128;
    options.nice = 3;
    options.affinity = MR_AFFINITY_LIST;
    options.affinity_cpus = cpus;
    options.n_affinity_cpus = 2;
    options.device = "host:0";
    mr_loader *loader = rig_loader(*state, &options);
    const mr_loader_options *o = mr_loader_resolved(loader);
    assert_int_equal(o->batch_size, 5);
    assert_int_equal(o->rank, 1);
    assert_int_equal(o->world_size, 3);
    assert_int_equal(o->seed, 77);
    assert_int_equal(o->epoch, 9);
    assert_int_equal(o->n_slots, 2);
    assert_int_equal(o->read_ahead, 128);
    assert_int_equal(o->start, MR_START_THREAD);
    assert_ptr_not_equal(o->affinity_cpus, cpus);
    assert_true(o->affinity_cpus != NULL || o->n_affinity_cpus == 0);
    assert_int_equal(mr_loader_epoch(loader), 9);
    assert_int_equal(mr_loader_n_samples(loader), 34);
    assert_int_equal(mr_loader_n_batches(loader), 7);
    mr_loader_destroy(loader);
}

static void drop_last_leaves_the_last_batch_out(void **state)
{
    mr_loader_options options = rig_options();
    options.drop_last = true;
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_n_samples(loader), 96);
    assert_int_equal(mr_loader_n_batches(loader), 12);
    mr_loader_destroy(loader);
}

static void an_epoch_of_no_batch_is_refused_unless_allowed(void **state)
{
    mr_loader_options options = rig_options();
    options.batch_size = 101;
    options.drop_last = true;
    rig_refuses(*state, &options, MR_ERR_INVALID,
                "an epoch has 0 batches: 100 samples of this rank are fewer than batch_size 101, "
                "and drop_last");
    options.batch_size = 51;
    options.world_size = 2;
    rig_refuses(*state, &options, MR_ERR_INVALID,
                "50 samples of this rank are fewer than batch_size 51");
    options.drop_last = false;
    options.tail = MR_TAIL_DROP;
    options.world_size = 101;
    rig_refuses(*state, &options, MR_ERR_INVALID,
                "100 samples are fewer than world_size 101, and tail drop");
    options.tail = MR_TAIL_PAD;
    options.world_size = 1;
    options.repeat = 3;
    rig_refuses(*state, &options, MR_ERR_INVALID,
                "an epoch has 0 batches: of 100 samples repeat takes multiples of 256, which are "
                "too few for "
                "world_size 1; repeat_form timm takes fewer, too");
    options.repeat = 0;
    options.tail = MR_TAIL_DROP;
    options.world_size = 101;
    options.allow_empty_epoch = true;
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_n_batches(loader), 0);
    rig_expect(loader, MR_END);
    mr_loader_destroy(loader);
}

static void a_full_batch_or_a_short_one_is_an_epoch(void **state)
{
    mr_loader_options options = rig_options();
    options.batch_size = 100;
    options.drop_last = true;
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_n_batches(loader), 1);
    mr_loader_destroy(loader);
    options.batch_size = 101;
    options.drop_last = false;
    loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_n_batches(loader), 1);
    mr_loader_destroy(loader);
}

#define REFUSES(field, value, words)                                                               \
    do {                                                                                           \
        mr_loader_options refused_ = rig_options();                                                \
        refused_.field = value;                                                                    \
        rig_refuses(*state, &refused_, MR_ERR_INVALID, words);                                     \
    } while (0)

static void values_out_of_range_are_refused_by_name(void **state)
{
    REFUSES(batch_size, 65536, "batch_size 65536 is above the limit of 65535");
    REFUSES(num_workers, 1025, "num_workers 1025 is above the limit of 1024");
    REFUSES(n_slots, 1, "n_slots 1 is below 2");
    REFUSES(n_slots, 1025, "n_slots 1025 is above the limit of 1024");
    REFUSES(read_ahead, 129, "read_ahead 129 is above the limit of 128");
    REFUSES(nice, -1, "nice -1 is not from 0 to 19");
    REFUSES(nice, 20, "nice 20 is not from 0 to 19");
    REFUSES(rank, 1, "rank 1 is not below world_size 1");
    REFUSES(tail, (mr_tail)3, "tail 3");
    REFUSES(order, (mr_order)2, "order 2");
    REFUSES(on_error, (mr_on_error)3, "on_error 3");
    REFUSES(layout, (mr_layout)2, "layout 2");
    REFUSES(start, (mr_start)4, "start 4");
    REFUSES(reader, (mr_reader_kind)3, "reader 3");
    REFUSES(jpeg_decoder, (mr_jpeg_decoder)2, "jpeg_decoder 2");
    REFUSES(cache_form, (mr_cache_form)3, "cache_form 3");
    REFUSES(affinity, (mr_affinity)3, "affinity 3");
    REFUSES(dtype, (mr_dtype)99, "dtype");
}

static void options_that_exclude_each_other_are_refused(void **state)
{
    mr_loader_options options = rig_options();
    int32_t cpus[2] = {first_cpu(), -1};
    options.tail = MR_TAIL_EXACT;
    options.drop_last = true;
    rig_refuses(*state, &options, MR_ERR_INVALID, "exact tail and drop_last");
    options = rig_options();
    options.start = MR_START_EXEC;
    rig_refuses(*state, &options, MR_ERR_INVALID, "callbacks need start fork or thread");
    options = rig_options();
    options.epoch = UINT64_MAX;
    options.n_epochs = 1;
    rig_refuses(*state, &options, MR_ERR_INVALID,
                "epoch 18446744073709551615 plus n_epochs 1 is above 2^64 - 1");
    options = rig_options();
    options.affinity = MR_AFFINITY_LIST;
    rig_refuses(*state, &options, MR_ERR_INVALID, "affinity list without affinity_cpus");
    options.affinity_cpus = cpus;
    options.n_affinity_cpus = 2;
    rig_refuses(*state, &options, MR_ERR_INVALID, "affinity_cpus[1] -1");
    cpus[1] = CPU_SETSIZE - 1; /* no test machine has so many */
    char words[64];
    snprintf(words, sizeof words, "affinity_cpus[1] %d is not among this process's CPUs",
             CPU_SETSIZE - 1);
    rig_refuses(*state, &options, MR_ERR_INVALID, words);
}

static void missing_devices_are_refused(void **state)
{
    mr_loader_options options = rig_options();
    options.device = "host:64";
    rig_refuses(*state, &options, MR_ERR_NO_DEVICE, "host:64");
    options.device = "cuda:0";
    rig_refuses(*state, &options, MR_ERR_UNSUPPORTED, "no CUDA");
    options.device = "gpu";
    rig_refuses(*state, &options, MR_ERR_INVALID, "gpu");
}

static void a_slab_beyond_memory_is_refused_with_the_sizes(void **state)
{
    static const struct rig_mode none = {"none", MR_NO_WORKERS, MR_START_DEFAULT};
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    mr_loader_options options = rig_options_of(&none);
    mr_dataset *dataset;
    mr_loader *loader;
    mr_error error;
    struct rig *rig = *state;
    callbacks.n_samples = 10;
    callbacks.get = (int (*)(void *, int64_t, mr_sample *))(void *)rig_create; /* never called */
    callbacks.ndim = 2;
    callbacks.dtype = MR_F32;
    callbacks.shape[0] = callbacks.shape[1] = 1 << 20;
    assert_int_equal(mr_dataset_from_callbacks(&callbacks, &dataset, &error), MR_OK);
    assert_error(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_NO_MEMORY,
                 &error, " MB");
    assert_words(error.text, "leaves");
    assert_null(loader);
    mr_dataset_destroy(dataset);
    assert_int_equal(atomic_load(&rig->shared->n_gets), 0);
}

static void struct_sizes_of_other_versions_are_understood(void **state)
{
    struct {
        mr_loader_options known;
        char unknown[64];
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.known = rig_options();
    newer.known.struct_size = sizeof newer;
    mr_loader *loader = rig_loader(*state, &newer.known);
    assert_int_equal(mr_loader_resolved(loader)->struct_size, sizeof(mr_loader_options));
    mr_loader_destroy(loader);
    newer.unknown[63] = 1;
    rig_refuses(*state, &newer.known, MR_ERR_INVALID, "struct_size");
    newer.known.struct_size = 0;
    rig_refuses(
        *state, &newer.known, MR_ERR_INVALID,
        "struct_size of the mr_loader_options is 0: initialise it with MR_LOADER_OPTIONS_INIT");
    newer.known.struct_size = SIZE_MAX;
    rig_refuses(*state, &newer.known, MR_ERR_INVALID, "struct_size");

    /* ends after num_workers; another variable's bytes follow */
    mr_loader_options older = rig_options();
    memset((char *)&older + offsetof(mr_loader_options, start), 0xff,
           sizeof older - offsetof(mr_loader_options, start));
    older.num_workers = MR_NO_WORKERS;
    older.struct_size = offsetof(mr_loader_options, start);
    loader = rig_loader(*state, &older);
    assert_int_equal(mr_loader_resolved(loader)->batch_size, 8);
    assert_int_equal(mr_loader_resolved(loader)->read_ahead, 4);
    mr_loader_destroy(loader);
}

static void missing_arguments_are_refused(void **state)
{
    struct rig *rig = *state;
    mr_loader *loader = NULL;
    mr_error error;
    assert_error(mr_loader_create(NULL, NULL, NULL, &loader, &error), MR_ERR_INVALID, &error,
                 "dataset is NULL");
    assert_error(mr_loader_create(rig->dataset, NULL, NULL, NULL, &error), MR_ERR_INVALID, &error,
                 "loader_out is NULL");
    mr_loader_destroy(NULL);
    assert_int_equal(mr_loader_next(NULL, 0, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_loader_set_epoch(NULL, 0), MR_ERR_INVALID);
    assert_int_equal(mr_loader_get_stats(NULL, NULL), MR_ERR_INVALID);
    mr_loader_cancel(NULL);
}

static void an_empty_dataset_has_no_loader(void **state)
{
    (void)state;
    struct rig *rig = rig_create(0);
    rig_refuses(rig, NULL, MR_ERR_INVALID, "the dataset has no samples");
    rig_destroy(rig);
}

static void more_workers_than_cpus_warn_once_a_loader(void **state)
{
    mr_loader_options options = rig_options();
    options.num_workers = 300;
    rig_log_capture();
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(rig_log_count("300 workers share "), 1);
    rig_drain(loader, false, (int64_t[100]){0}, 100);
    mr_loader_destroy(loader);
    assert_int_equal(rig_log_count("300 workers share "), 1);
    rig_log_end();
}

static void the_loader_holds_the_dataset(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options();
    int64_t indices[100];
    mr_loader *loader = rig_loader(rig, &options);
    mr_dataset_destroy(rig->dataset);
    rig->dataset = NULL;
    assert_int_equal(rig_drain(loader, false, indices, 100), 100);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(the_default_number_of_workers_causes_no_warning),
        RIG_TEST(options_that_were_set_are_unchanged),
        RIG_TEST(drop_last_leaves_the_last_batch_out),
        RIG_TEST(an_epoch_of_no_batch_is_refused_unless_allowed),
        RIG_TEST(a_full_batch_or_a_short_one_is_an_epoch),
        RIG_TEST(values_out_of_range_are_refused_by_name),
        RIG_TEST(options_that_exclude_each_other_are_refused),
        RIG_TEST(missing_devices_are_refused),
        RIG_TEST(a_slab_beyond_memory_is_refused_with_the_sizes),
        RIG_TEST(struct_sizes_of_other_versions_are_understood),
        RIG_TEST(missing_arguments_are_refused),
        cmocka_unit_test(an_empty_dataset_has_no_loader),
        RIG_TEST(more_workers_than_cpus_warn_once_a_loader),
        RIG_TEST(default_workers_are_the_share_of_the_cpus_or_four_a_device),
        RIG_TEST(the_loader_holds_the_dataset),
        RIG_TEST(defaults_are_filled_in),
        RIG_TEST(without_cuda_batches_are_not_page_locked_and_a_line_says_so),
        RIG_TEST(no_options_mean_the_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
