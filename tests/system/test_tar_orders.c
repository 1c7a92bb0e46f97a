/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of epochs over 50 tar shards of 200 samples, compared with torch's DistributedSampler
 * over their members, whose sequences were recorded as digests. Labels and pixels show which member
 * was loaded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/millrace.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/shards.h"

enum { N_SHARDS = 50, N_EACH = 200, N = N_SHARDS * N_EACH, N_EPOCHS = 3, N_WORLDS = 3, SEED = 9 };
enum { N_KINDS = 64 }; /* different images; sample i has image i % N_KINDS */

/*
 * FNV-1a of the indices as little-endian int64, by torch 2.15: DistributedSampler(range(10000),
 * num_replicas, rank, shuffle=True, seed=9) after set_epoch(epoch).
 */
static const uint64_t torch_orders[N_WORLDS][N_EPOCHS][N_WORLDS] = {
    {{UINT64_C(0x1a9e2b9d0b5c3449)},
     {UINT64_C(0xc4be2ba4cdf26b99)},
     {UINT64_C(0xc2e4ecca271e2139)}},
    {{UINT64_C(0xbd9027b64d779702), UINT64_C(0x7e1a65f91af9f97a)},
     {UINT64_C(0x042aebcd0cf56b66), UINT64_C(0x5337529cdf926d36)},
     {UINT64_C(0xfc1f02ea115ba324), UINT64_C(0x4af0331902513fd0)}},
    {{UINT64_C(0x4f2594fb017757ea), UINT64_C(0xb888d0e494496dad), UINT64_C(0x61f0c868aec0788b)},
     {UINT64_C(0x31008c8ad235dd3c), UINT64_C(0x47d8b9cb6333b8be), UINT64_C(0x88fb2e9277e65092)},
     {UINT64_C(0x588d798c8929ea77), UINT64_C(0x4140736b1e249839), UINT64_C(0xcc9ed2385345aad4)}},
};

static char *folder;
static mr_dataset *shards;
static uint8_t pixels[N_KINDS];

static int set_up(void **state)
{
    (void)state;
    struct mr_test_image images[N_KINDS];
    char path[4096], text[16];
    folder = mr_test_folder_create();
    for (uint32_t k = 0; k < N_KINDS; k++)
        images[k] = mr_test_jpeg(&(struct mr_test_jpeg){.width = 8, .height = 8, .seed = k});
    for (int s = 0; s < N_SHARDS; s++) {
        struct mr_test_shard shard = {0};
        for (int i = s * N_EACH; i < (s + 1) * N_EACH; i++) {
            snprintf(path, sizeof path, "%05d.jpg", i);
            mr_test_shard_add(&shard, path, images[i % N_KINDS].bytes, images[i % N_KINDS].len);
            snprintf(path, sizeof path, "%05d.cls", i);
            snprintf(text, sizeof text, "%d", 2 * i + 1);
            mr_test_shard_add_text(&shard, path, text);
        }
        mr_test_shard_end(&shard);
        snprintf(path, sizeof path, "t-%02d.tar", s);
        mr_test_folder_write(folder, path, shard.bytes, shard.len);
        mr_test_shard_free(&shard);
    }
    for (uint32_t k = 0; k < N_KINDS; k++)
        mr_test_image_free(&images[k]);
    snprintf(path, sizeof path, "tar:%s/t-{00..49}.tar", folder);
    shards = mr_test_dataset(path);
    assert_int_equal(mr_dataset_n_samples(shards), N);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_dataset_destroy(shards);
    return 0;
}

static mr_loader *make_loader(uint32_t world, uint32_t rank, uint32_t workers)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 64;
    o.seed = SEED;
    o.world_size = world;
    o.rank = rank;
    o.num_workers = workers;
    return mr_test_loader(shards, "none", &o);
}

static uint64_t add_index(uint64_t hash, int64_t index)
{
    for (int b = 0; b < 64; b += 8)
        hash = (hash ^ ((uint64_t)index >> b & 0xff)) * UINT64_C(1099511628211);
    return hash;
}

/* Label and first pixel must be those of the member. */
static void check_sample(int64_t index, int64_t label, uint8_t pixel)
{
    assert_int_equal(label, 2 * index + 1);
    assert_int_equal(pixel, pixels[index % N_KINDS]);
}

/* Take the rest of the epoch. hash: the digest of the indices so far; returns the digest of all. */
static uint64_t take_rest(mr_loader *loader, uint64_t hash)
{
    mr_batch *batch;
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        const int64_t *index = mr_batch_data(batch, "index"),
                      *label = mr_batch_data(batch, "label");
        const mr_array *image = mr_batch_array(batch, "image");
        for (uint32_t i = 0; i < mr_batch_size(batch); i++) {
            check_sample(index[i], label[i], ((const uint8_t *)image->data)[i * image->strides[0]]);
            hash = add_index(hash, index[i]);
        }
        mr_batch_release(batch);
    }
    return hash;
}

#define FNV_START UINT64_C(14695981039346656037)

/* Find the first pixel of each image, in an epoch in the order of the members. */
static void members_are_in_the_order_of_shards(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    mr_batch *batch;
    o.batch_size = N_KINDS;
    o.no_shuffle = true;
    o.num_workers = MR_NO_WORKERS;
    mr_loader *loader = mr_test_loader(shards, "none", &o);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    const mr_array *image = mr_batch_array(batch, "image");
    uint32_t n_different = 0;
    for (uint32_t i = 0; i < N_KINDS; i++) {
        pixels[i] = ((const uint8_t *)image->data)[i * image->strides[0]];
        assert_int_equal(((const int64_t *)mr_batch_data(batch, "index"))[i], i);
        n_different += i > 0 && pixels[i] != pixels[0];
    }
    assert_true(n_different > N_KINDS / 2);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void sequences_equal_those_of_torch_for_each_world_and_epoch(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= N_WORLDS; world++) {
        for (uint32_t rank = 0; rank < world; rank++) {
            mr_loader *loader = make_loader(world, rank, world == 2 ? 2 : MR_NO_WORKERS);
            for (uint64_t e = 0; e < N_EPOCHS; e++) {
                assert_int_equal(mr_loader_set_epoch(loader, e), MR_OK);
                assert_int_equal(take_rest(loader, FNV_START), torch_orders[world - 1][e][rank]);
            }
            mr_loader_destroy(loader);
        }
    }
}

/* An epoch is stopped in the middle and resumed by a new loader: the rest is torch's too. */
static void a_resumed_epoch_ends_as_that_of_torch(void **state)
{
    (void)state;
    uint8_t position[MR_LOADER_STATE_MAX];
    size_t len;
    mr_batch *batch;
    uint64_t hash = FNV_START;
    mr_loader *loader = make_loader(3, 1, MR_NO_WORKERS);
    assert_int_equal(mr_loader_set_epoch(loader, 2), MR_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
        const int64_t *index = mr_batch_data(batch, "index");
        for (uint32_t k = 0; k < mr_batch_size(batch); k++)
            hash = add_index(hash, index[k]);
        mr_batch_release(batch);
    }
    assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
    mr_loader_destroy(loader);
    loader = make_loader(3, 1, 2);
    assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
    assert_int_equal(take_rest(loader, hash), torch_orders[2][2][1]);
    mr_loader_destroy(loader);
}

/*
 * Two ranks continue where three stopped: they get each remaining sample once, and no earlier one.
 */
static void a_resumed_epoch_with_another_world_gives_the_rest_once(void **state)
{
    (void)state;
    static uint8_t seen[N];
    uint8_t position[MR_LOADER_STATE_MAX];
    size_t len;
    mr_batch *batch;
    memset(seen, 0, sizeof seen);
    for (uint32_t rank = 0; rank < 3; rank++) {
        mr_loader *loader = make_loader(3, rank, MR_NO_WORKERS);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
            for (uint32_t k = 0; k < mr_batch_size(batch); k++)
                seen[((const int64_t *)mr_batch_data(batch, "index"))[k]]++;
            mr_batch_release(batch);
        }
        assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
        mr_loader_destroy(loader);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        mr_loader *loader = make_loader(2, rank, MR_NO_WORKERS);
        assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
        while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
            for (uint32_t k = 0; k < mr_batch_size(batch); k++)
                seen[((const int64_t *)mr_batch_data(batch, "index"))[k]]++;
            mr_batch_release(batch);
        }
        mr_loader_destroy(loader);
    }
    for (int i = 0; i < N; i++) /* 10000 - 1920 is even: no sample is padding */
        assert_int_equal(seen[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_in_the_order_of_shards),
        cmocka_unit_test(sequences_equal_those_of_torch_for_each_world_and_epoch),
        cmocka_unit_test(a_resumed_epoch_ends_as_that_of_torch),
        cmocka_unit_test(a_resumed_epoch_with_another_world_gives_the_rest_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
