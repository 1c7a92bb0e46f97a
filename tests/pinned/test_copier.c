/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copier on the host's devices: every byte of every part of every placement, what await
 * reports, and which streams are remembered. The order of calls is in test_copier_order.c, failures
 * are in test_copier_faults.c.
 */
#include "pinned/buffer.h"
#include "tests/pinned/copier_rig.h"
#include "tests/support/assert_words.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void create(struct copier_rig *rig, uint32_t n_buffers)
{
    mr_error error = {0};
    mr_status status = copier_rig_create(rig, n_buffers, &error);
    if (status)
        fail_msg("%s", error.text);
}

/* Resolve names as a caller gives them, with mr_placement_resolve(). */
static void place(struct copier_rig *rig, const char *const *devices, uint32_t n_devices,
                  const char *label_device)
{
    mr_error error = {0};
    struct mr_placement_names names = {.label_device = label_device};
    if (n_devices == 1)
        names.device = devices[0];
    else
        names.devices = devices, names.n_devices = n_devices;
    if (mr_placement_resolve(&names, &rig->placement, &error))
        fail_msg("%s", error.text);
}

/* The bytes copied for a batch: images once, the small block once per device that needs it. */
static uint64_t expected_bytes(const struct copier_rig *rig, uint32_t n_rows, uint32_t n_parts)
{
    bool wants_small[MR_PLACEMENT_DEVICES] = {0};
    uint64_t bytes = n_rows * rig->layout.sample_bytes;
    for (uint32_t i = 0; i < n_parts; i++) {
        wants_small[rig->placement.label[i]] = true;
        wants_small[rig->placement.image[i]] |= rig->finish.needed != 0;
    }
    for (uint32_t d = 0; d < rig->placement.n_devices; d++)
        bytes += wants_small[d] ? rig->layout.small_bytes : 0;
    return bytes;
}

static struct mr_copy_report pass_batch(struct copier_rig *rig, uint32_t buffer, uint32_t seed,
                                        uint32_t n_rows)
{
    mr_error error = {0};
    struct mr_copy_report report = {0};
    struct mr_slot_view slot = copier_rig_fill(rig, seed % COPIER_RIG_SLOTS, seed);
    if (mr_copier_issue(rig->copier, buffer, &slot, n_rows, &error) ||
        mr_copier_await(rig->copier, buffer, &report, &error))
        fail_msg("%s", error.text);
    copier_rig_check(rig, buffer, &slot, n_rows);
    assert_int_equal(report.bytes,
                     expected_bytes(rig, n_rows, mr_copier_n_parts(rig->copier, buffer)));
    return report;
}

/* Pass all sizes of batches, full, short and empty, twice through both buffers. */
static void pass_all_sizes(struct copier_rig *rig)
{
    create(rig, 2);
    uint32_t seed = 1;
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t n = 0; n <= rig->layout.batch_size; n++, seed++)
            (void)pass_batch(rig, seed % 2, seed, n);
    copier_rig_fini(rig);
}

static void one_device_gets_every_byte(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:3"};
    for (int floats = 0; floats < 2; floats++)
        for (uint32_t batch_size = 1; batch_size < 6; batch_size++) {
            struct copier_rig rig;
            copier_rig_init(&rig, batch_size, floats);
            place(&rig, devices, 1, NULL);
            pass_all_sizes(&rig);
        }
}

static void images_and_labels_go_to_their_own_devices(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:1"};
    static const char *const labels[] = {"host", "host:0", "host:2", "host:1"};
    for (int floats = 0; floats < 2; floats++)
        for (uint32_t i = 0; i < 4; i++) {
            struct copier_rig rig;
            copier_rig_init(&rig, 5, floats);
            place(&rig, devices, 1, labels[i]);
            pass_all_sizes(&rig);
        }
}

static void a_batch_is_scattered_over_devices(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0", "host:1", "host:2", "host:3", "host:7"};
    for (int floats = 0; floats < 2; floats++)
        for (uint32_t n = 2; n <= 5; n++)
            for (int on_host = 0; on_host < 2; on_host++) {
                struct copier_rig rig;
                copier_rig_init(&rig, 11, floats);
                place(&rig, devices, n, on_host ? "host" : NULL);
                pass_all_sizes(&rig);
            }
}

static void parts_of_a_short_batch_are_those_of_torch_chunk(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0", "host:1", "host:2", "host:3"};
    struct copier_rig rig;
    copier_rig_init(&rig, 16, false);
    place(&rig, devices, 4, NULL);
    create(&rig, 2);
    /* before the first batch: the parts of a full one */
    assert_int_equal(mr_copier_n_parts(rig.copier, 0), 4);
    (void)pass_batch(&rig, 0, 1, 5);
    assert_int_equal(mr_copier_n_parts(rig.copier, 0), 3);
    assert_int_equal(mr_copier_part(rig.copier, 0, 2).n_rows, 1);
    (void)pass_batch(&rig, 0, 2, 2);
    assert_int_equal(mr_copier_n_parts(rig.copier, 0), 2);
    (void)pass_batch(&rig, 0, 3, 0);
    assert_int_equal(mr_copier_n_parts(rig.copier, 0), 1);
    assert_int_equal(mr_copier_part(rig.copier, 0, 0).n_rows, 0);
    copier_rig_fini(&rig);
}

static void a_buffer_keeps_its_addresses(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0", "host:1"};
    struct copier_rig rig;
    copier_rig_init(&rig, 6, true);
    place(&rig, devices, 2, "host");
    create(&rig, 3);
    struct mr_copied_part before[3][2];
    for (uint32_t b = 0; b < 3; b++)
        for (uint32_t p = 0; p < 2; p++)
            before[b][p] = mr_copier_part(rig.copier, b, p);
    for (uint32_t seed = 0; seed < 12; seed++)
        (void)pass_batch(&rig, seed % 3, seed, seed % 7);
    for (uint32_t b = 0; b < 3; b++)
        for (uint32_t p = 0; p < 2; p++) {
            struct mr_copied_part now = mr_copier_part(rig.copier, b, p);
            assert_ptr_equal(now.image, before[b][p].image);
            assert_ptr_equal(now.small, before[b][p].small);
            assert_ptr_not_equal(now.image, before[(b + 1) % 3][p].image);
            assert_ptr_not_equal(now.small, before[(b + 1) % 3][p].small);
        }
    copier_rig_fini(&rig);
}

static void the_slot_is_only_read(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0", "host:1"};
    struct copier_rig rig;
    copier_rig_init(&rig, 6, true);
    place(&rig, devices, 2, NULL);
    create(&rig, 2);
    struct mr_slot_view slot = copier_rig_fill(&rig, 0, 9);
    uint8_t *before = malloc(rig.layout.slab_bytes);
    assert_non_null(before);
    memcpy(before, rig.slab, rig.layout.slab_bytes);
    struct mr_copy_report report;
    assert_int_equal(mr_copier_issue(rig.copier, 0, &slot, 5, NULL), MR_OK);
    assert_int_equal(mr_copier_await(rig.copier, 0, &report, NULL), MR_OK);
    assert_memory_equal(rig.slab, before, rig.layout.slab_bytes);
    free(before);
    copier_rig_fini(&rig);
}

static void await_reports_whether_the_batch_before_was_ready(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0"};
    int streams[1];
    struct copier_rig rig;
    copier_rig_init(&rig, 4, false);
    place(&rig, devices, 1, NULL);
    create(&rig, 2);
    assert_int_equal(pass_batch(&rig, 0, 1, 4).was_ready, -1); /* no batch before it */
    assert_int_equal(mr_copier_use(rig.copier, 0, 0, streams, true, NULL), MR_OK);
    assert_int_equal(mr_copier_release(rig.copier, 0, NULL), MR_OK);
    assert_int_equal(pass_batch(&rig, 1, 2, 4).was_ready, -1); /* another buffer */
    assert_int_equal(pass_batch(&rig, 0, 3, 4).was_ready, 1);
    assert_int_equal(mr_copier_use(rig.copier, 0, 0, streams, false, NULL), MR_OK);
    assert_int_equal(mr_copier_release(rig.copier, 0, NULL), MR_OK);
    assert_int_equal(pass_batch(&rig, 0, 4, 4).was_ready, -1); /* no stream arrived at it */
    assert_int_equal(pass_batch(&rig, 0, 5, 4).was_ready, -1); /* nor at the one before */
    copier_rig_fini(&rig);
}

static void a_ninth_stream_is_refused_and_the_same_stream_counts_once(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0", "host:1"};
    int streams[MR_BUFFER_STREAMS + 1];
    mr_error error = {0};
    struct copier_rig rig;
    copier_rig_init(&rig, 4, false);
    place(&rig, devices, 2, NULL);
    create(&rig, 2);
    for (uint32_t seed = 0; seed < 3; seed++) {
        (void)pass_batch(&rig, 0, seed, 4);
        for (uint32_t i = 0; i < 3 * MR_BUFFER_STREAMS; i++) {
            void *stream = i % MR_BUFFER_STREAMS ? &streams[i % MR_BUFFER_STREAMS] : NULL;
            assert_int_equal(mr_copier_use(rig.copier, 0, 1, stream, false, &error), MR_OK);
        }
        assert_error(mr_copier_use(rig.copier, 0, 1, &streams[MR_BUFFER_STREAMS], false, &error),
                     MR_ERR_STATE, &error, "8 streams");
        assert_int_equal(mr_copier_remember(rig.copier, 0, 1, &streams[MR_BUFFER_STREAMS], &error),
                         MR_ERR_STATE);
        assert_int_equal(
            mr_copier_use(rig.copier, 0, 0, &streams[MR_BUFFER_STREAMS], false, &error), MR_OK);
        assert_int_equal(mr_copier_release(rig.copier, 0, &error), MR_OK);
    }
    copier_rig_fini(&rig);
}

/* The holder of a batch uses and releases it while the copier still waits for it. */
struct pair {
    struct copier_rig *rig;
    pthread_barrier_t issued;
    pthread_barrier_t done;
    uint32_t n_rounds;
};

static void *consume(void *arg)
{
    struct pair *pair = arg;
    for (uint32_t i = 0; i < pair->n_rounds; i++) {
        pthread_barrier_wait(&pair->issued);
        for (uint32_t part = 0; part < mr_copier_n_parts(pair->rig->copier, i % 2); part++)
            if (mr_copier_use(pair->rig->copier, i % 2, part, pair, part == 0, NULL))
                abort();
        if (mr_copier_release(pair->rig->copier, i % 2, NULL))
            abort();
        pthread_barrier_wait(&pair->done);
    }
    return NULL;
}

static void use_and_release_may_run_beside_await(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0", "host:1"};
    struct copier_rig rig;
    copier_rig_init(&rig, 6, true);
    place(&rig, devices, 2, "host");
    create(&rig, 2);
    struct pair pair = {.rig = &rig, .n_rounds = 200};
    assert_int_equal(pthread_barrier_init(&pair.issued, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&pair.done, NULL, 2), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, consume, &pair), 0);
    struct mr_slot_view slot = copier_rig_fill(&rig, 0, 1);
    for (uint32_t i = 0; i < pair.n_rounds; i++) {
        struct mr_copy_report report;
        assert_int_equal(mr_copier_issue(rig.copier, i % 2, &slot, i % 7, NULL), MR_OK);
        pthread_barrier_wait(&pair.issued);
        assert_int_equal(mr_copier_await(rig.copier, i % 2, &report, NULL), MR_OK);
        assert_int_equal(report.was_ready, i < 2 ? -1 : 1);
        pthread_barrier_wait(&pair.done);
    }
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&pair.done);
    pthread_barrier_destroy(&pair.issued);
    copier_rig_fini(&rig);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0"};
    mr_error error = {0};
    struct copier_rig rig;
    copier_rig_init(&rig, 4, true);
    place(&rig, devices, 1, NULL);
    rig.finish.height = UINT32_C(1) << 31;
    rig.finish.width = UINT32_C(1) << 29;
    rig.finish.out_channels = 1;
    assert_error(copier_rig_create(&rig, 2, &error), MR_ERR_NO_MEMORY, &error, "4 samples");
    assert_null(rig.copier);
    copier_rig_fini(&rig);
}

static void a_missing_device_is_named(void **state)
{
    (void)state;
    mr_error error = {0};
    struct copier_rig rig;
    copier_rig_init(&rig, 4, true);
    copier_rig_place(&rig, &mr_device_host, 4000, 1);
    assert_error(copier_rig_create(&rig, 2, &error), MR_ERR_NO_DEVICE, &error, "host:4000");
    assert_null(rig.copier);
    copier_rig_fini(&rig);
}

static void ranges_and_the_node_pass_through(void **state)
{
    (void)state;
    struct copier_rig rig;
    copier_rig_init(&rig, 4, false);
    copier_rig_place(&rig, &mr_device_host, 0, 1);
    create(&rig, 2);
    assert_int_equal(mr_copier_numa_node(rig.copier), -1);
    mr_copier_range_push(rig.copier, "copy");
    mr_copier_range_pop(rig.copier);
    copier_rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_gets_every_byte),
        cmocka_unit_test(images_and_labels_go_to_their_own_devices),
        cmocka_unit_test(a_batch_is_scattered_over_devices),
        cmocka_unit_test(parts_of_a_short_batch_are_those_of_torch_chunk),
        cmocka_unit_test(a_buffer_keeps_its_addresses),
        cmocka_unit_test(the_slot_is_only_read),
        cmocka_unit_test(await_reports_whether_the_batch_before_was_ready),
        cmocka_unit_test(a_ninth_stream_is_refused_and_the_same_stream_counts_once),
        cmocka_unit_test(use_and_release_may_run_beside_await),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(a_missing_device_is_named),
        cmocka_unit_test(ranges_and_the_node_pass_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
