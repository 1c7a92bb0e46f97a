/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole epochs over tar shards. The oracle is a list of the same images, as files, in the order of
 * the members. Order, pixels and labels must be the same in every mode.
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

#include <millrace/run.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/packs.h"
#include "tests/support/shards.h"
#include "tests/support/assert_words.h"

enum { N_SHARDS = 7, N_EACH = 13, N = N_SHARDS * N_EACH };

static char *folder;
static mr_dataset *files, *shards;

/* Write image i to a file and to its shard. */
static void add_image(struct mr_test_shard *shard, int i, FILE *list)
{
    char name[64], label[16];
    struct mr_test_image image;
    if (i % 9 == 4)
        image = mr_test_png(
            &(struct mr_test_png){.width = 40 + (uint32_t)i, .height = 50, .colour_type = 2});
    else
        image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 60 + (uint32_t)i,
                                                    .height = 120 - (uint32_t)i,
                                                    .seed = (uint32_t)i,
                                                    .progressive = i % 5 == 0});
    snprintf(name, sizeof name, "%03d.%s", i, i % 9 == 4 ? "png" : "jpg");
    mr_test_folder_write(folder, name, image.bytes, image.len);
    fprintf(list, "%s\t%d\n", name, i * 3);
    mr_test_shard_add(shard, name, image.bytes, image.len);
    snprintf(name, sizeof name, "%03d.cls", i);
    snprintf(label, sizeof label, "%d", i * 3);
    mr_test_shard_add_text(shard, name, label);
    mr_test_image_free(&image);
}

static int set_up(void **state)
{
    (void)state;
    char path[4096];
    folder = mr_test_folder_create();
    snprintf(path, sizeof path, "%s/list.txt", folder);
    FILE *list = fopen(path, "w");
    assert_non_null(list);
    for (int s = 0; s < N_SHARDS; s++) {
        struct mr_test_shard shard = {0};
        for (int i = s * N_EACH; i < (s + 1) * N_EACH; i++)
            add_image(&shard, i, list);
        mr_test_shard_end(&shard);
        snprintf(path, sizeof path, "t-%02d.tar", s);
        mr_test_folder_write(folder, path, shard.bytes, shard.len);
        mr_test_shard_free(&shard);
    }
    fclose(list);
    snprintf(path, sizeof path, "list:%s/list.txt", folder);
    files = mr_test_dataset(path);
    snprintf(path, sizeof path, "tar:%s/t-{00..%02d}.tar", folder, N_SHARDS - 1);
    shards = mr_test_dataset(path);
    assert_int_equal(mr_dataset_n_samples(shards), N);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_dataset_destroy(files);
    mr_dataset_destroy(shards);
    return 0;
}

static mr_loader_options base_options(void)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.seed = 5;
    return o;
}

static void expect_same_epoch(mr_loader *a, mr_loader *b, uint64_t number)
{
    struct mr_test_epoch x = mr_test_epoch_run(a, number), y = mr_test_epoch_run(b, number);
    assert_int_equal(x.status, MR_END);
    assert_int_equal(y.status, MR_END);
    assert_int_equal(x.n_samples, y.n_samples);
    assert_int_equal(x.n_valid, x.n_samples);
    assert_memory_equal(x.indices, y.indices, x.n_samples * sizeof *x.indices);
    assert_true(x.digest == y.digest);
    mr_test_epoch_free(&x);
    mr_test_epoch_free(&y);
}

static void bits_are_those_of_files_in_every_mode(void **state)
{
    (void)state;
    static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};
    static const uint32_t workers[] = {MR_NO_WORKERS, 3};
    for (size_t r = 0; r < 2; r++) {
        for (size_t w = 0; w < 2; w++) {
            mr_loader_options o = base_options();
            o.num_workers = MR_NO_WORKERS;
            mr_loader *a = mr_test_loader(files, "train:48", &o);
            o.num_workers = workers[w];
            o.reader = readers[r];
            mr_loader *b = mr_test_loader(shards, "train:48", &o);
            for (uint64_t e = 0; e < 2; e++)
                expect_same_epoch(a, b, e);
            mr_loader_destroy(a);
            mr_loader_destroy(b);
        }
    }
}

/*
 * Take three batches of 8 with world size 2 from the first dataset, then the rest of the epoch with
 * another world size from the second.
 */
static struct mr_test_epoch take_rest(mr_dataset *first, mr_dataset *second, uint32_t workers)
{
    mr_loader_options o = base_options();
    uint8_t position[MR_LOADER_STATE_MAX];
    size_t len;
    mr_batch *batch;
    o.num_workers = workers;
    o.world_size = 2;
    mr_loader *loader = mr_test_loader(first, "train:48", &o);
    assert_int_equal(mr_loader_set_epoch(loader, 2), MR_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
        mr_batch_release(batch);
    }
    assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
    mr_loader_destroy(loader);
    o.world_size = 1;
    loader = mr_test_loader(second, "train:48", &o);
    assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
    struct mr_test_epoch rest = mr_test_epoch_rest(loader);
    assert_int_equal(rest.status, MR_END);
    mr_loader_destroy(loader);
    return rest;
}

static void resuming_in_mid_epoch_with_another_world_is_exact(void **state)
{
    (void)state;
    struct mr_test_epoch x = take_rest(files, files, MR_NO_WORKERS),
                         y = take_rest(shards, shards, 2);
    assert_int_equal(x.n_samples, y.n_samples);
    assert_true(x.n_samples > N / 4);
    assert_memory_equal(x.indices, y.indices, x.n_samples * sizeof *x.indices);
    assert_true(x.digest == y.digest);
    mr_test_epoch_free(&x);
    mr_test_epoch_free(&y);
}

#ifndef MR_TEST_TSAN
static void killed_workers_change_nothing(void **state)
{
    (void)state;
    mr_loader_options o = base_options();
    o.num_workers = MR_NO_WORKERS;
    mr_loader *a = mr_test_loader(files, "train:48", &o);
    o.num_workers = 2;
    mr_loader *b = mr_test_loader(shards, "train:48", &o);
    for (uint64_t e = 0; e < 3; e++) {
        mr_test_signal_workers(getpid(), SIGKILL);
        expect_same_epoch(a, b, e);
    }
    mr_loader_destroy(a);
    mr_loader_destroy(b);
}
#endif

/* A pack of shards has the members' names and bits. */
static void a_pack_of_shards_has_their_names_and_bits(void **state)
{
    (void)state;
    static const mr_pack_encoding encodings[] = {MR_PACK_JPEG, MR_PACK_DCT};
    char spec[4200], dir[4096];
    for (size_t i = 0; i < 2; i++) {
        snprintf(spec, sizeof spec, "tar:%s/t-*.tar", folder);
        snprintf(dir, sizeof dir, "%s/pack-%zu", folder, i);
        mr_test_packs_make(spec, dir, encodings[i]);
        snprintf(spec, sizeof spec, "pack:%s", dir);
        mr_dataset *pack = mr_test_dataset(spec);
        assert_int_equal(mr_dataset_n_samples(pack), N);
        mr_dataset_relative_name(pack, N_EACH + 1, dir, sizeof dir);
        assert_string_equal(dir, "t-01.tar/014.jpg");
        mr_loader_options o = base_options();
        o.num_workers = MR_NO_WORKERS;
        mr_loader *a = mr_test_loader(shards, "train:48", &o),
                  *b = mr_test_loader(pack, "train:48", &o);
        expect_same_epoch(a, b, 0);
        mr_loader_destroy(a);
        mr_loader_destroy(b);
        mr_dataset_destroy(pack);
    }
}

/* The fingerprint shows that another rank's shards have other labels. */
static void labels_of_shards_are_in_the_fingerprint(void **state)
{
    (void)state;
    static const char *const labels[] = {"1", "1", "2"};
    uint64_t prints[3];
    char path[4096];
    for (int i = 0; i < 3; i++) {
        struct mr_test_shard shard = {0};
        mr_test_shard_add_text(&shard, "a.jpg", "x");
        mr_test_shard_add_text(&shard, "a.cls", labels[i]);
        snprintf(path, sizeof path, "%s/%d", folder, i);
        mkdir(path, 0777);
        mr_test_folder_write(path, "s.tar", shard.bytes, shard.len);
        mr_test_shard_free(&shard);
        snprintf(path, sizeof path, "tar:%s/%d/s.tar", folder, i);
        mr_dataset *dataset = mr_test_dataset(path);
        mr_loader_options o = base_options();
        o.num_workers = MR_NO_WORKERS;
        mr_loader *loader = mr_test_loader(dataset, "train:48", &o);
        prints[i] = mr_loader_fingerprint(loader);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
    assert_true(prints[0] == prints[1]);
    assert_true(prints[0] != prints[2]);
}

/*
 * The expected order over all members comes from the sampler, whose orders other tests compare with
 * torch's.
 */
static void orders_are_those_of_a_distributed_sampler_over_the_members(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 3; world++) {
        for (uint32_t rank = 0; rank < world; rank++) {
            mr_loader_options o = base_options();
            o.world_size = world;
            o.rank = rank;
            o.num_workers = MR_NO_WORKERS;
            mr_loader *loader = mr_test_loader(shards, "center_crop(8)", &o);
            for (uint64_t e = 0; e < 3; e++) {
                mr_sampler_options s = MR_SAMPLER_OPTIONS_INIT;
                mr_sampler *sampler;
                s.n_samples = N;
                s.world_size = world;
                s.rank = rank;
                s.seed = o.seed;
                s.epoch = e;
                assert_int_equal(mr_sampler_create(&s, &sampler, NULL), MR_OK);
                struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
                assert_int_equal(epoch.n_samples, mr_sampler_length(sampler));
                for (uint64_t p = 0; p < epoch.n_samples; p++)
                    assert_int_equal(epoch.indices[p], mr_sampler_at(sampler, (int64_t)p));
                mr_test_epoch_free(&epoch);
                mr_sampler_destroy(sampler);
            }
            mr_loader_destroy(loader);
        }
    }
}

/*
 * The shard is rewritten with the same places. If it were mistaken for the old one, an image would
 * get another image's label.
 */
static void a_shard_that_changed_since_it_was_opened_is_damage(void **state)
{
    (void)state;
    char path[4096];
    mr_error error;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 64, .height = 48});
    mr_dataset *dataset = NULL;
    for (int s = 0; s < 3; s++) { /* two shards, then the second one again with another label */
        const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000 + s}};
        struct mr_test_shard shard = {0};
        mr_test_shard_add(&shard, "a.jpg", image.bytes, image.len);
        mr_test_shard_add_text(&shard, "a.cls", s < 2 ? "1" : "2");
        snprintf(path, sizeof path, "changed-%d.tar", s > 0);
        mr_test_folder_write(folder, path, shard.bytes, shard.len);
        mr_test_shard_free(&shard);
        snprintf(path, sizeof path, "%s/changed-%d.tar", folder, s > 0);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        snprintf(path, sizeof path, "tar:%s/changed-*.tar", folder);
        if (s == 1)
            dataset = mr_test_dataset(path);
    }
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, &error), MR_OK);
    assert_error(mr_dataset_inspect(dataset, 1, &info, &error), MR_ERR_IO, &error,
                 "changed-1.tar/a.jpg: the file changed since the dataset was opened");
    for (int r = 0; r < 3; r++) {
        mr_loader_options o = base_options();
        o.num_workers = r == 0 ? MR_NO_WORKERS : 2;
        o.reader = r == 1 ? MR_READER_PREAD : MR_READER_AUTO;
        mr_loader *loader = mr_test_loader(dataset, "center_crop(8)", &o);
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
        assert_int_equal(epoch.n_failures, 1);
        assert_words(epoch.first_error.text, "the file changed since the dataset was opened");
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
    mr_test_image_free(&image);
}

/* A shard that was truncated before it was opened: the policy applies only to its lost samples. */
static void the_policy_applies_to_samples_that_a_shard_lost(void **state)
{
    (void)state;
    struct mr_test_shard shard = {0};
    char path[4096];
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 64, .height = 48});
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%d.cls", i);
        mr_test_shard_add_text(&shard, path, "1");
        snprintf(path, sizeof path, "%d.jpg", i);
        size_t at = mr_test_shard_add(&shard, path, image.bytes, image.len);
        if (i == 2) /* the headers of this sample */
            memset(shard.bytes + at - 1024, 'x', 1024 + 512);
    }
    mr_test_folder_write(folder, "broken.tar", shard.bytes, shard.len - image.len / 2);
    mr_test_shard_free(&shard);
    mr_test_image_free(&image);
    snprintf(path, sizeof path, "tar:%s/broken.tar", folder);
    mr_dataset *dataset = mr_test_dataset(path);
    assert_int_equal(mr_dataset_n_samples(dataset), 6);
    for (int r = 0; r < 2; r++) {
        mr_loader_options o = base_options();
        o.num_workers = r == 0 ? MR_NO_WORKERS : 2;
        o.reader = r == 0 ? MR_READER_PREAD : MR_READER_AUTO;
        o.on_error = MR_ON_ERROR_ZERO;
        mr_loader *loader = mr_test_loader(dataset, "center_crop(8)", &o);
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
        assert_int_equal(epoch.status, MR_END);
        assert_int_equal(epoch.n_samples, 6);
        assert_int_equal(epoch.n_valid, 4);
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_files_in_every_mode),
        cmocka_unit_test(resuming_in_mid_epoch_with_another_world_is_exact),
#ifndef MR_TEST_TSAN
        cmocka_unit_test(killed_workers_change_nothing),
#endif
        cmocka_unit_test(a_pack_of_shards_has_their_names_and_bits),
        cmocka_unit_test(labels_of_shards_are_in_the_fingerprint),
        cmocka_unit_test(orders_are_those_of_a_distributed_sampler_over_the_members),
        cmocka_unit_test(the_policy_applies_to_samples_that_a_shard_lost),
        cmocka_unit_test(a_shard_that_changed_since_it_was_opened_is_damage),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
