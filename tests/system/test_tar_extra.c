/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further members of tar shards (?keep=) as ragged arrays of batches. The oracle is the text that
 * was written to each sample's member.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "loader/dlpack_abi.h"
#include "tests/support/devices.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"
#include "tests/support/shards.h"
#include "tests/support/assert_words.h"

enum { N_SHARDS = 3, N_EACH = 11, N = N_SHARDS * N_EACH, MAX_TXT = 64, MAX_JSON = 32, LONG = 17 };

static char *folder;

/*
 * Write the caption of sample i: none, empty or longer; that of LONG is above the maximum. False:
 * it has none.
 */
static bool write_caption(int i, char text[128])
{
    text[0] = '\0';
    for (int k = 0; k < i % 5; k++)
        snprintf(text + strlen(text), 128 - strlen(text), "caption %d ", i);
    if (i == LONG)
        snprintf(text, 128, "%0100d", i);
    return i % 4 != 0;
}

static void add_sample(struct mr_test_shard *shard, int i)
{
    char name[64], text[128];
    struct mr_test_image image = mr_test_jpeg(
        &(struct mr_test_jpeg){.width = 40, .height = 30 + (uint32_t)i, .seed = (uint32_t)i});
    snprintf(name, sizeof name, "%03d.txt", i);
    if (write_caption(i, text))
        mr_test_shard_add_text(shard, name, text);
    snprintf(name, sizeof name, "%03d.jpg", i);
    mr_test_shard_add(shard, name, image.bytes, image.len);
    snprintf(name, sizeof name, "%03d.Meta.JSON", i);
    snprintf(text, sizeof text, "{\"y\":%d}", i);
    mr_test_shard_add_text(shard, name, text);
    snprintf(name, sizeof name, "%03d.cls", i);
    snprintf(text, sizeof text, "%d", i);
    mr_test_shard_add_text(shard, name, text);
    mr_test_image_free(&image);
}

/* The shards are old, so that their indexes are stored. */
static int set_up(void **state)
{
    (void)state;
    char path[4096];
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
    folder = mr_test_folder_create();
    for (int s = 0; s < N_SHARDS; s++) {
        struct mr_test_shard shard = {0};
        for (int i = s * N_EACH; i < (s + 1) * N_EACH; i++)
            add_sample(&shard, i);
        mr_test_shard_end(&shard);
        snprintf(path, sizeof path, "t-%02d.tar", s);
        mr_test_folder_write(folder, path, shard.bytes, shard.len);
        snprintf(path, sizeof path, "%s/t-%02d.tar", folder, s);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        mr_test_shard_free(&shard);
    }
    mr_test_sleep_ms(70); /* a cache skips files that changed a moment ago */
    return 0;
}

static mr_dataset *open_shards(const char *keys)
{
    char spec[4200];
    snprintf(spec, sizeof spec, "tar:%s/t-*.tar?%s", folder, keys);
    return mr_test_dataset(spec);
}

static mr_loader_options base_options(void)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 7;
    o.seed = 3;
    o.on_error = MR_ON_ERROR_ZERO;
    return o;
}

static void check_row(const mr_batch *part, const char *name, int64_t row, const char *want)
{
    const mr_array *values = mr_batch_array(part, name);
    char offsets_name[64];
    snprintf(offsets_name, sizeof offsets_name, "%s.offsets", name);
    const int64_t *offsets = mr_test_data(part, offsets_name);
    const char *bytes = mr_test_bytes(values);
    assert_int_equal(offsets[row + 1] - offsets[row], strlen(want));
    assert_memory_equal(bytes + offsets[row], want, strlen(want));
}

static void check_form(const mr_batch *part, const char *name, int64_t max)
{
    const mr_array *values = mr_batch_array(part, name);
    char offsets_name[64];
    snprintf(offsets_name, sizeof offsets_name, "%s.offsets", name);
    const mr_array *offsets = mr_batch_array(part, offsets_name);
    assert_non_null(values);
    assert_non_null(offsets);
    assert_int_equal(values->dtype, MR_U8);
    assert_int_equal(values->ndim, 2);
    assert_int_equal(values->shape[0], mr_batch_size(part));
    assert_int_equal(values->shape[1], max);
    assert_int_equal(values->strides[0], 0);
    assert_ptr_equal(values->row_offsets, offsets->data);
    assert_int_equal(offsets->dtype, MR_I64);
    assert_int_equal(offsets->ndim, 1);
    assert_int_equal(offsets->shape[0], mr_batch_size(part) + 1);
}

static uint32_t check_part(const mr_batch *part)
{
    const int64_t *index = mr_test_data(part, "index");
    const uint8_t *mask = mr_test_data(part, "mask");
    uint32_t n_valid = 0;
    char caption[128], json[32];
    check_form(part, "txt", MAX_TXT);
    check_form(part, "meta.json", MAX_JSON);
    for (int64_t i = 0; i < mr_batch_size(part); i++) {
        bool has = write_caption((int)index[i], caption);
        snprintf(json, sizeof json, "{\"y\":%d}", (int)index[i]);
        assert_int_equal(mask[i], index[i] != LONG);
        check_row(part, "txt", i, mask[i] && has ? caption : "");
        check_row(part, "meta.json", i, mask[i] ? json : "");
        n_valid += mask[i];
    }
    return n_valid;
}

static void check_epoch(mr_loader *loader, uint64_t number)
{
    uint32_t n_valid = 0;
    mr_batch *batch;
    assert_int_equal(mr_loader_set_epoch(loader, number), MR_OK);
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
            n_valid += check_part(mr_batch_part(batch, p));
        mr_batch_release(batch);
    }
    assert_int_equal(n_valid, N - 1);
}

static const char *const keys = "keep=txt:64,meta.JSON:32";

static void members_come_with_their_samples_in_every_mode(void **state)
{
    (void)state;
    static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};
    static const uint32_t workers[] = {MR_NO_WORKERS, 3};
    mr_dataset *shards = open_shards(keys);
    for (size_t r = 0; r < 2; r++) {
        for (size_t w = 0; w < 2; w++) {
            mr_loader_options o = base_options();
            o.num_workers = workers[w];
            o.reader = readers[r];
            mr_test_set_devices(&o);
            mr_loader *loader = mr_test_loader(shards, "train:24", &o);
            for (uint64_t e = 0; e < 2; e++)
                check_epoch(loader, e);
            mr_loader_destroy(loader);
        }
    }
    mr_dataset_destroy(shards);
}

/* Rows of images are mixed, rows of members are not. */
static void mixing_does_not_change_members(void **state)
{
    (void)state;
    mr_dataset *shards = open_shards(keys);
    mr_loader_options o = base_options();
    o.num_workers = 2;
    o.dtype = MR_F32;
    o.device = "host:0"; /* mixing does not work with several devices */
    mr_loader *loader = mr_test_loader(shards, "train:24+mixup(0.4)", &o);
    for (uint64_t e = 0; e < 2; e++)
        check_epoch(loader, e);
    mr_loader_destroy(loader);
    mr_dataset_destroy(shards);
}

/* Images and labels are the same with and without the members. */
static void images_are_those_of_the_dataset_without_members(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.num_workers = MR_NO_WORKERS;
    o.on_error = MR_ON_ERROR_SKIP;
    mr_dataset *plain = open_shards("label=cls"), *kept = open_shards("keep=meta.json:32");
    mr_loader *a = mr_test_loader(plain, "train:24", &o), *b = mr_test_loader(kept, "train:24", &o);
    struct mr_test_epoch x = mr_test_epoch_run(a, 1), y = mr_test_epoch_run(b, 1);
    assert_int_equal(x.status, MR_END);
    assert_int_equal(y.status, MR_END);
    assert_memory_equal(x.indices, y.indices, N * sizeof *x.indices);
    assert_memory_equal(x.row_digests, y.row_digests, N * sizeof *x.row_digests);
    assert_true(mr_loader_fingerprint(a) != mr_loader_fingerprint(b));
    mr_test_epoch_free(&x);
    mr_test_epoch_free(&y);
    mr_loader_destroy(a);
    mr_loader_destroy(b);
    mr_dataset_destroy(plain);
    mr_dataset_destroy(kept);
}

static void a_member_above_its_maximum_is_damage_and_is_named(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.num_workers = MR_NO_WORKERS;
    o.on_error = MR_ON_ERROR_FAIL;
    mr_dataset *shards = open_shards(keys);
    mr_loader *loader = mr_test_loader(shards, "train:24", &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.n_failures, 1);
    assert_words(
        epoch.first_error.text,
        "t-01.tar/017.jpg (index 17): its member 'txt' has 100 bytes, above the maximum of 64");
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(shards);
}

/* With a cache of either form, members are still read from the shard. */
static void a_cache_changes_nothing(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    char dir[4096];
    mr_dataset *shards = open_shards(keys);
    for (size_t f = 0; f < 2; f++) {
        for (uint32_t run = 0; run < 2; run++) {
            mr_loader_options o = base_options();
            mr_loader_stats stats = MR_LOADER_STATS_INIT;
            snprintf(dir, sizeof dir, "%s/cache", folder);
            o.num_workers = run == 0 ? MR_NO_WORKERS : 2;
            o.cache = dir;
            o.cache_form = forms[f];
            o.cache_slowdown = 100;
            mr_test_set_devices(&o);
            mr_loader *loader = mr_test_loader(shards, "train:24", &o);
            for (uint64_t e = 0; e < 2; e++)
                check_epoch(loader, e);
            assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
            if (run == 1)
                assert_true(stats.n_cached >= 2 * (N - 1)); /* workers are ahead */
            mr_loader_destroy(loader);
        }
    }
    mr_dataset_destroy(shards);
}

static void check_tensor(mr_batch *batch, const char *name, int64_t n, uint8_t bits)
{
    struct DLManagedTensor *tensor;
    assert_int_equal(mr_batch_to_dlpack(batch, name, NULL, &tensor), MR_OK);
    assert_int_equal(tensor->dl_tensor.ndim, 1);
    assert_int_equal(tensor->dl_tensor.shape[0], n);
    assert_int_equal(tensor->dl_tensor.dtype.bits, bits);
    assert_ptr_equal(tensor->dl_tensor.data, mr_batch_data(batch, name));
    tensor->deleter(tensor);
}

/* A copy has separate names and offsets, and so has a copy of the copy. */
static void copies_and_tensors_have_values_and_offsets(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    mr_batch *batch, *copy, *again;
    o.num_workers = MR_NO_WORKERS;
    o.device = "host";
    mr_dataset *shards = open_shards(keys);
    mr_loader *loader = mr_test_loader(shards, "train:24", &o);
    assert_int_equal(mr_loader_set_epoch(loader, 0), MR_OK);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    assert_int_equal(mr_batch_copy(batch, &copy), MR_OK);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(shards);
    assert_int_equal(mr_batch_copy(copy, &again), MR_OK);
    mr_batch_release(copy);
    check_part(again);
    const mr_array *values = mr_batch_array(again, "txt");
    assert_int_equal(values->n_values, values->row_offsets[7]);
    check_tensor(again, "txt", values->n_values, 8);
    check_tensor(again, "txt.offsets", 8, 64);
    mr_batch_release(again);
}

#ifndef MR_TEST_TSAN
static void killed_workers_change_nothing(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.num_workers = 2;
    mr_test_set_devices(&o);
    mr_dataset *shards = open_shards(keys);
    mr_loader *loader = mr_test_loader(shards, "train:24", &o);
    for (uint64_t e = 0; e < 3; e++) {
        mr_test_signal_workers(getpid(), SIGKILL);
        check_epoch(loader, e);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(shards);
}
#endif

static void a_member_with_the_name_of_another_array_is_refused(void **state)
{
    (void)state;
    mr_error error;
    mr_transform *transform;
    mr_loader *loader;
    mr_loader_options o = base_options();
    mr_dataset *shards = open_shards("keep=Index:4");
    assert_int_equal(mr_transform_parse("train:24", &transform, &error), MR_OK);
    assert_error(mr_loader_create(shards, transform, &o, &loader, &error), MR_ERR_INVALID, &error,
                 "the dataset's array 'index' has the name of another array of a batch");
    mr_transform_destroy(transform);
    mr_dataset_destroy(shards);
}

/* The sample with a member that is too long cannot be packed. */
static void packs_have_the_members_of_their_shards(void **state)
{
    (void)state;
    char dir[4096], spec[4200];
    mr_error error = {0};
    mr_dataset *shards = open_shards(keys);
    snprintf(dir, sizeof dir, "%s/pack", folder);
    assert_error(mr_dataset_pack(shards, dir, NULL, NULL, &error), MR_ERR_DAMAGED, &error,
                 "t-01.tar/017.jpg (index 17): its member 'txt' has 100 bytes");
    mr_dataset_destroy(shards);
    snprintf(spec, sizeof spec, "tar:%s/t-00.tar?%s", folder, keys);
    shards = mr_test_dataset(spec);
    snprintf(dir, sizeof dir, "%s/good", folder);
    assert_ok(mr_dataset_pack(shards, dir, NULL, NULL, &error), &error);
    mr_dataset_destroy(shards);
    snprintf(spec, sizeof spec, "pack:%s", dir);
    mr_dataset *pack = mr_test_dataset(spec);
    mr_loader_options o = base_options();
    o.num_workers = 2;
    o.drop_last = 1;
    mr_test_set_devices(&o);
    mr_loader *loader = mr_test_loader(pack, "train:24", &o);
    mr_batch *batch;
    assert_int_equal(mr_loader_set_epoch(loader, 0), MR_OK);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    uint32_t n_valid = 0;
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
        n_valid += check_part(mr_batch_part(batch, p));
    assert_int_equal(n_valid, mr_batch_size(batch));
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(pack);
}

/* Only the caption of the damaged sample is wrong, so its image can be inspected. */
static void members_are_checked_with_their_samples(void **state)
{
    (void)state;
    mr_error error;
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_dataset *shards = open_shards(keys);
    assert_int_equal(mr_dataset_check(shards, NULL, &report, &error), MR_OK);
    assert_int_equal(report.n_damaged, 1);
    assert_int_equal(mr_dataset_inspect(shards, LONG, &info, &error), MR_OK);
    assert_string_equal(info.format, "jpeg");
    assert_int_equal(info.height, 30 + LONG);
    mr_dataset_destroy(shards);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_with_their_samples_in_every_mode),
        cmocka_unit_test(mixing_does_not_change_members),
        cmocka_unit_test(images_are_those_of_the_dataset_without_members),
        cmocka_unit_test(a_member_above_its_maximum_is_damage_and_is_named),
        cmocka_unit_test(a_cache_changes_nothing),
        cmocka_unit_test(copies_and_tensors_have_values_and_offsets),
#ifndef MR_TEST_TSAN
        cmocka_unit_test(killed_workers_change_nothing),
#endif
        cmocka_unit_test(a_member_with_the_name_of_another_array_is_refused),
        cmocka_unit_test(packs_have_the_members_of_their_shards),
        cmocka_unit_test(members_are_checked_with_their_samples),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
