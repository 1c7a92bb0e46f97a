/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch on several devices: images and targets have torch.chunk's sizes, each part is on its
 * device, with the bytes of the whole; and labels on other devices than their images. On GPUs of
 * the double, and on host:N without a double.
 */
#include "tests/loader/stream_rig.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

enum { MAX_PARTS = 3 };

static const char *const gpus[] = {"cuda:0", "cuda:1", "cuda:2"};
static const char *const hosts[] = {"host:0", "host:1", "host:2"};

struct streams {
    cudaStream_t at[MAX_PARTS];
};

static struct streams open_all(const struct double_options *options)
{
    struct streams streams;
    stage_open(options);
    for (int d = 0; d < MAX_PARTS; d++)
        streams.at[d] = stage_stream(d, d % 2 ? cudaStreamDefault : cudaStreamNonBlocking);
    return streams;
}

static void sync_all(const struct streams *streams)
{
    for (int d = 0; d < MAX_PARTS; d++)
        stage_sync(streams->at[d]);
}

static void close_all(const struct streams *streams)
{
    for (int d = 0; d < MAX_PARTS; d++)
        stage_end_stream(streams->at[d]);
    stage_close();
}

/*
 * The sizes of torch.chunk(range(n), parts). Returns how many parts there are; only the part of an
 * empty batch is empty.
 */
static uint32_t chunk(uint32_t n, uint32_t parts, uint32_t sizes[MAX_PARTS])
{
    uint32_t each = (n + parts - 1) / parts, n_parts = 0;
    for (uint32_t first = 0; first < n; first += each)
        sizes[n_parts++] = n - first < each ? n - first : each;
    if (n == 0)
        sizes[n_parts++] = 0;
    return n_parts;
}

static void check_shape(mr_batch *batch, uint32_t n_devices, mr_device_kind kind)
{
    uint32_t sizes[MAX_PARTS];
    uint32_t n_parts = chunk(mr_batch_size(batch), n_devices, sizes);
    assert_int_equal(mr_batch_n_parts(batch), n_parts);
    if (n_parts > 1) {
        assert_int_equal(mr_batch_n_arrays(batch), 0);
        assert_null(mr_batch_array(batch, "image"));
        assert_null(mr_batch_array_at(batch, 0));
        assert_null(mr_batch_data(batch, "label"));
    } else {
        assert_ptr_equal(mr_batch_part(batch, 0), batch);
    }
    assert_null(mr_batch_part(batch, n_parts));
    for (uint32_t p = 0; p < n_parts; p++) {
        mr_batch *part = mr_batch_part(batch, p);
        assert_int_equal(mr_batch_size(part), sizes[p]);
        assert_int_equal(mr_batch_number(part), mr_batch_number(batch));
        assert_int_equal(mr_batch_epoch(part), mr_batch_epoch(batch));
        assert_int_equal(mr_batch_n_arrays(part), PLAIN_ARRAYS);
        for (uint32_t i = 0; i < PLAIN_ARRAYS; i++) {
            const mr_array *array = mr_batch_array_at(part, i);
            assert_int_equal(array->device.kind, kind);
            assert_int_equal(array->device.id, (int)p);
            assert_int_equal(array->shape[0], sizes[p]);
            if (kind == MR_DEVICE_CUDA && sizes[p] > 0)
                assert_int_equal(double_device_of(array->data), (int)p);
        }
    }
}

static mr_loader_options split_options(const char *const *devices, uint32_t n_devices,
                                       uint32_t batch_size)
{
    mr_loader_options options = rig_options();
    options.batch_size = batch_size;
    options.devices = devices;
    options.n_devices = n_devices;
    return options;
}

/* The last batches are short: of 4 rows, of 2 rows, full, and of 35 rows. */
static void parts_have_the_sizes_of_chunk_and_the_bytes_of_the_whole(void **state)
{
    static const uint32_t sizes[] = {8, 7, 2, 65};
    struct double_options options = {.n_devices = MAX_PARTS};
    for (unsigned p = 0; stage_policy(p, &options); p++)
        for (uint32_t n_devices = 2; n_devices <= MAX_PARTS; n_devices++)
            for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                struct streams streams = open_all(&options);
                mr_loader_options wanted = split_options(gpus, n_devices, sizes[s]);
                struct seen *seen = seen_create(), *expected;
                expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1);
                mr_loader *loader = rig_loader(*state, &wanted);
                seen_epoch_on(seen, loader, streams.at);
                sync_all(&streams);
                seen_expect_same(seen, expected);
                mr_loader_destroy(loader);
                seen_free(seen);
                seen_free(expected);
                close_all(&streams);
            }
}

static void expect_split(struct rig *rig, const char *const *devices, mr_device_kind kind,
                         uint32_t batch_size)
{
    for (uint32_t n_devices = 2; n_devices <= MAX_PARTS; n_devices++) {
        mr_loader_options wanted = split_options(devices, n_devices, batch_size);
        wanted.no_shuffle = false;
        wanted.seed = 3;
        struct seen *seen = seen_create(), *expected = seen_on_host(rig->dataset, NULL, &wanted, 1);
        mr_loader *loader = rig_loader(rig, &wanted);
        mr_batch *batch;
        while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
            check_shape(batch, n_devices, kind);
            rig_check(batch);
            seen_add(seen, batch);
            stage_release(batch, MR_OK);
        }
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        seen_free(seen);
        seen_free(expected);
    }
}

static void each_part_names_its_device_and_the_whole_has_no_arrays(void **state)
{
    static const uint32_t sizes[] = {8, 7, 5, 4, 3, 2};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        stage_open(
            &(struct double_options){.n_devices = MAX_PARTS, .policy = DOUBLE_RANDOM, .seed = s});
        expect_split(*state, gpus, MR_DEVICE_CUDA, sizes[s]);
        stage_close();
        expect_split(*state, hosts, MR_DEVICE_HOST, sizes[s]);
    }
}

/* Ranks without further samples get empty batches, which have one empty part. */
static void an_empty_batch_has_one_part_without_rows(void **state)
{
    (void)state;
    struct rig *rig = rig_create(41);
    stage_open(&(struct double_options){.n_devices = MAX_PARTS});
    for (unsigned kind = 0; kind < 2; kind++) {
        mr_loader_options wanted = split_options(kind ? gpus : hosts, MAX_PARTS, 8);
        wanted.world_size = 5;
        wanted.rank = 4;
        wanted.tail = MR_TAIL_EXACT;
        mr_loader *loader = rig_loader(rig, &wanted);
        mr_batch *batch = rig_next(loader);
        check_shape(batch, MAX_PARTS, kind ? MR_DEVICE_CUDA : MR_DEVICE_HOST);
        rig_check(batch);
        stage_release(batch, MR_OK);
        batch = kind ? stage_next_on(loader, NULL) : rig_next(loader);
        assert_int_equal(mr_batch_size(batch), 0);
        check_shape(batch, MAX_PARTS, kind ? MR_DEVICE_CUDA : MR_DEVICE_HOST);
        stage_release_on(batch, NULL, MR_OK);
        rig_expect(loader, MR_END);
        mr_loader_destroy(loader);
    }
    stage_close();
    rig_destroy(rig);
}

static void parts_take_streams_of_their_own_device_and_are_not_released(void **state)
{
    struct streams streams = open_all(
        &(struct double_options){.n_devices = MAX_PARTS, .policy = DOUBLE_RANDOM, .seed = 2});
    mr_loader_options wanted = split_options(gpus, MAX_PARTS, 8);
    mr_loader *loader = rig_loader(*state, &wanted);
    mr_batch *batch = (void *)loader;
    /* only part 0's */
    assert_int_equal(mr_loader_next_on(loader, MR_FOREVER, streams.at[1], &batch), MR_ERR_INVALID);
    assert_null(batch);
    batch = stage_next_on(loader, streams.at[0]);
    assert_int_equal(mr_batch_number(batch), 0);
    for (uint32_t p = 0; p < MAX_PARTS; p++) {
        mr_batch *part = mr_batch_part(batch, p);
        stage_use(part, streams.at[p], MR_OK);
        stage_use(part, NULL, MR_OK);
        stage_use(part, streams.at[(p + 1) % MAX_PARTS], MR_ERR_INVALID);
        stage_release(part, MR_ERR_INVALID);
        stage_release_on(part, streams.at[p], MR_ERR_INVALID);
        assert_words(mr_batch_error(part)->text, "part");
    }
    stage_use(batch, streams.at[0], MR_OK); /* it means part 0 */
    stage_use(batch, streams.at[2], MR_ERR_INVALID);
    stage_release_on(batch, streams.at[2], MR_ERR_INVALID);
    sync_all(&streams);
    rig_check(batch); /* all of it is still lent */
    stage_release_on(batch, streams.at[0], MR_OK);
    mr_loader_destroy(loader);
    close_all(&streams);
}

/* Proves that the tests of parts can fail. */
static void the_double_notices_a_part_whose_stream_was_not_named(void **state)
{
    struct streams streams = open_all(&(struct double_options){.n_devices = MAX_PARTS});
    mr_loader_options wanted = split_options(gpus, MAX_PARTS, 8);
    mr_loader *loader = rig_loader(*state, &wanted);
    struct seen *seen = seen_create();
    for (unsigned k = 0; k < 6; k++) {
        mr_batch *batch = stage_next_on(loader, streams.at[0]);
        seen_add_on(seen, batch, streams.at);
        stage_release_on(batch, streams.at[0], MR_OK);
    }
    sync_all(&streams);
    assert_true(double_found(DOUBLE_UNORDERED) > 0);
    double_forget();
    mr_loader_destroy(loader);
    seen_free(seen);
    close_all(&streams);
}

struct apart {
    const char *images;
    const char *labels;
    mr_device image;
    mr_device label;
};

static const struct apart aparts[] = {
    {"cuda:0", "cuda:1", {MR_DEVICE_CUDA, 0}, {MR_DEVICE_CUDA, 1}},
    {"cuda:2", "cuda:0", {MR_DEVICE_CUDA, 2}, {MR_DEVICE_CUDA, 0}},
    {"cuda:1", "cuda:1", {MR_DEVICE_CUDA, 1}, {MR_DEVICE_CUDA, 1}},
    {"cuda:1", "host", {MR_DEVICE_CUDA, 1}, {MR_DEVICE_HOST, 0}},
    {"host:0", "host:1", {MR_DEVICE_HOST, 0}, {MR_DEVICE_HOST, 1}},
    {"host:2", "host", {MR_DEVICE_HOST, 2}, {MR_DEVICE_HOST, 0}},
};

static void expect_devices(const mr_batch *batch, const struct apart *apart)
{
    for (uint32_t i = 0; i < PLAIN_ARRAYS; i++) {
        const mr_array *array = mr_batch_array_at(batch, i);
        mr_device expected = i == 0 ? apart->image : apart->label;
        assert_int_equal(array->device.kind, expected.kind);
        assert_int_equal(array->device.id, expected.id);
        assert_int_equal(double_device_of(array->data),
                         expected.kind == MR_DEVICE_CUDA ? expected.id : -1);
    }
}

/* Index, mask and geometry are on the labels' device. */
static void labels_may_be_on_another_device_or_on_the_host(void **state)
{
    struct double_options options = {.n_devices = MAX_PARTS};
    for (unsigned p = 0; stage_policy(p, &options); p++)
        for (unsigned a = 0; a < sizeof aparts / sizeof *aparts; a++) {
            struct streams streams = open_all(&options);
            mr_loader_options wanted = stage_options(aparts[a].images);
            wanted.label_device = aparts[a].labels;
            struct seen *seen = seen_create(), *expected;
            expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 2);
            mr_loader *loader = rig_loader(*state, &wanted);
            seen_epoch_on(seen, loader, streams.at);
            assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
            mr_batch *batch = rig_next(loader);
            expect_devices(batch, &aparts[a]);
            seen_add(seen, batch);
            stage_release(batch, MR_OK);
            seen_epoch(seen, loader);
            sync_all(&streams);
            seen_expect_same(seen, expected);
            mr_loader_destroy(loader);
            seen_free(seen);
            seen_free(expected);
            close_all(&streams);
        }
}

static void labels_of_several_devices_may_be_on_the_host(void **state)
{
    struct double_options options = {.n_devices = MAX_PARTS};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        struct streams streams = open_all(&options);
        mr_loader_options wanted = split_options(gpus, MAX_PARTS, 7);
        wanted.label_device = "host";
        struct seen *seen = seen_create(), *expected;
        expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1);
        mr_loader *loader = rig_loader(*state, &wanted);
        seen_epoch_on(seen, loader, streams.at);
        sync_all(&streams);
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        seen_free(seen);
        seen_free(expected);
        close_all(&streams);
    }
}

static void a_stream_of_the_labels_device_orders_the_labels(void **state)
{
    struct streams streams = open_all(&(struct double_options){.n_devices = MAX_PARTS});
    mr_loader_options wanted = stage_options("cuda:0");
    wanted.label_device = "cuda:1";
    mr_loader *loader = rig_loader(*state, &wanted);
    mr_batch *batch =
        stage_next_on(loader, streams.at[1]); /* a loop that uses only the labels' device */
    stage_use(batch, streams.at[0], MR_OK);
    stage_use(batch, streams.at[2], MR_ERR_INVALID);
    stage_release_on(batch, streams.at[1], MR_OK);
    mr_loader_destroy(loader);
    close_all(&streams);
}

static void senseless_devices_are_refused(void **state)
{
    static const char *const twice[] = {"cuda:0", "cuda:1", "cuda:0"}, *const mixed[] = {"cuda:0",
                                                                                         "host:1"};
    static const char *const beyond[] = {"cuda:0", "cuda:3"}, *const unnumbered[] = {"cuda:0",
                                                                                     "cuda:local"};
    stage_open(&(struct double_options){.n_devices = MAX_PARTS});
    mr_loader_options o = split_options(twice, 3, 8);
    rig_refuses(*state, &o, MR_ERR_INVALID, "'cuda:0' is the same as devices[0]");
    o = split_options(mixed, 2, 8);
    rig_refuses(*state, &o, MR_ERR_INVALID, "different kinds");
    o = split_options(beyond, 2, 8);
    rig_refuses(*state, &o, MR_ERR_NO_DEVICE, "'cuda:3' does not exist; 3 visible");
    o = split_options(unnumbered, 2, 8);
    rig_refuses(*state, &o, MR_ERR_INVALID, "has no device number");
    o = split_options(gpus, 1, 8);
    rig_refuses(*state, &o, MR_ERR_INVALID, "device names a single one");
    o = split_options(gpus, 2, 8);
    o.device = "cuda:0";
    rig_refuses(*state, &o, MR_ERR_INVALID, "both device 'cuda:0' and 2 devices");
    o = split_options(gpus, 2, 8);
    o.label_device = "cuda:0";
    rig_refuses(*state, &o, MR_ERR_INVALID, "label_device 'cuda:0'");
    o = split_options(NULL, 2, 8);
    rig_refuses(*state, &o, MR_ERR_INVALID, "devices is NULL");
    o = stage_options("cuda:0");
    o.label_device = "gpu";
    rig_refuses(*state, &o, MR_ERR_INVALID, "'gpu'");
    o = stage_options("cuda:x");
    rig_refuses(*state, &o, MR_ERR_INVALID, "'cuda:x'");
    o = stage_options("cuda:0");
    o.n_buffers = 1;
    rig_refuses(*state, &o, MR_ERR_INVALID, "n_buffers 1 is below 2");
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(parts_have_the_sizes_of_chunk_and_the_bytes_of_the_whole),
        RIG_TEST(each_part_names_its_device_and_the_whole_has_no_arrays),
        RIG_TEST(an_empty_batch_has_one_part_without_rows),
        RIG_TEST(parts_take_streams_of_their_own_device_and_are_not_released),
        RIG_TEST(the_double_notices_a_part_whose_stream_was_not_named),
        RIG_TEST(labels_may_be_on_another_device_or_on_the_host),
        RIG_TEST(labels_of_several_devices_may_be_on_the_host),
        RIG_TEST(a_stream_of_the_labels_device_orders_the_labels),
        RIG_TEST(senseless_devices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
