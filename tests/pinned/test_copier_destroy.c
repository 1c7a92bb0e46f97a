/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a copier: all work on the devices for released batches and issued copies has ended
 * before any memory is freed. CUDA's own cudaFree would wait as well, so the order is checked
 * before that call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/pinned/copier_fixture.h"

/*
 * mr_device_cuda, but it checks a byte before it frees. Static, because a test cannot pass a
 * pointer to a table's functions.
 */
static struct mr_device_ops watching;
static const uint8_t *watched;
static uint8_t expected;
static uint32_t n_early;
static uint32_t n_late;

static mr_status open_watched(int32_t id, struct mr_device_handle **handle_out, mr_error *error)
{
    mr_status status = mr_device_cuda.open(id, handle_out, error);
    if (status == MR_OK)
        (*handle_out)->ops = &watching;
    return status;
}

static void check_watched_byte(void)
{
    if (watched != NULL && *watched != expected)
        n_early++;
    else
        n_late++;
}

static void free_watched(struct mr_device_handle *handle, void *memory)
{
    check_watched_byte();
    watched = n_early == 0 ? NULL : watched; /* the byte may be in the memory that is freed */
    mr_device_cuda.free(handle, memory);
}

static void unpin_watched(struct mr_device_handle *handle)
{
    check_watched_byte();
    mr_device_cuda.unpin(handle);
}

static void begin(struct copier_fixture *f)
{
    watching = mr_device_cuda;
    watching.open = open_watched;
    watching.free = free_watched;
    watching.unpin = unpin_watched;
    watched = NULL;
    n_early = n_late = 0;
    fixture_open(f, &(struct double_options){.policy = DOUBLE_LATE}, NULL);
    f->placement.devices[0].ops = &watching;
    assert_int_equal(fixture_create(f), MR_OK);
    assert_int_equal(fixture_pin(f), MR_OK);
}

static void end(struct copier_fixture *f)
{
    if (fixture_close(f) != 0)
        fail_msg("%s", double_report());
    assert_int_equal(n_early, 0);
    assert_true(n_late > 0);
}

static void note(void *user, const uint8_t *bytes, size_t len)
{
    (void)bytes, (void)len;
    *(uint8_t *)user = 1;
}

static void memory_is_freed_after_the_reads_of_released_batches(void **state)
{
    (void)state;
    struct copier_fixture f;
    cudaStream_t stream;
    uint32_t buffer;
    uint8_t has_read = 0;
    begin(&f);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(fixture_issue(&f, &buffer), MR_OK);
    assert_int_equal(fixture_use(&f, buffer, 0, stream), MR_OK);
    assert_int_equal(fixture_await(&f, buffer), MR_OK);
    struct mr_copied_part part = mr_copier_part(f.copier, buffer, 0);
    assert_int_equal(
        double_launch_read(stream, part.image, part.n_rows * f.oracle.row_bytes, note, &has_read),
        cudaSuccess);
    assert_int_equal(fixture_release(&f, buffer), MR_OK);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    assert_int_equal(has_read, 0);
    watched = &has_read;
    expected = 1;
    end(&f);
}

/*
 * Destroy after the copies of a batch were issued. nth_record: this event of the issue cannot be
 * recorded; 0: no failure.
 */
static void destroy_after_issue(uint32_t nth_record)
{
    struct copier_fixture f;
    uint32_t buffer;
    begin(&f);
    struct mr_copied_part part = mr_copier_part(f.copier, 0, 0);
    if (nth_record > 0)
        double_fail_at("cudaEventRecord", nth_record, cudaErrorNotSupported);
    mr_status status = fixture_issue(&f, &buffer);
    assert_int_equal(status, nth_record > 0 ? MR_ERR_DEVICE : MR_OK);
    assert_int_equal(buffer, 0);
    watched = double_host_view(part.small);
    assert_non_null(watched);
    const struct mr_slot_view slot = mr_slot_at(&f.oracle.layout, f.slab, 0);
    expected = *(const uint8_t *)mr_slot_row(&slot, MR_COLUMN_LABEL, 0);
    assert_int_not_equal(*watched, expected);
    end(&f);
}

static void memory_is_freed_after_copies_that_were_not_awaited(void **state)
{
    (void)state;
    destroy_after_issue(0);
}

static void memory_is_freed_after_copies_of_an_issue_that_failed(void **state)
{
    (void)state;
    destroy_after_issue(2); /* after the copies */
    destroy_after_issue(3); /* the *filled* event */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_freed_after_the_reads_of_released_batches),
        cmocka_unit_test(memory_is_freed_after_copies_that_were_not_awaited),
        cmocka_unit_test(memory_is_freed_after_copies_of_an_issue_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
