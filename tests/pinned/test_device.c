/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kinds, the host as a device with its own memory, and a program without CUDA. */
#include "pinned/device.h"

#include "base/clock.h"
#include "base/log.h"
#include "pinned/placement.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_device_ops *const host = &mr_device_host;

static struct mr_device_handle *open_host(int32_t id)
{
    struct mr_device_handle *handle = NULL;
    mr_error error;
    assert_int_equal(host->open(id, &handle, &error), MR_OK);
    assert_non_null(handle);
    return handle;
}

static void a_kind_has_its_table_or_none(void **state)
{
    (void)state;
    assert_ptr_equal(mr_device_find(MR_DEVICE_HOST), host);
    assert_null(mr_device_find(MR_DEVICE_CUDA));
    assert_null(mr_device_find((mr_device_kind)99));
}

/* Callers do not check whether a function exists. */
static void the_hosts_table_has_every_function(void **state)
{
    (void)state;
    const size_t first = offsetof(struct mr_device_ops, count);
    const size_t n = (sizeof *host - first) / sizeof(void (*)(void));
    for (size_t i = 0; i < n; i++) {
        void (*function)(void);
        memcpy(&function, (const char *)host + first + i * sizeof function, sizeof function);
        if (!function)
            fail_msg("function %zu of the table is NULL", i);
    }
    assert_string_equal(host->name, "host");
    assert_int_equal(host->kind, MR_DEVICE_HOST);
}

static void there_are_64_hosts(void **state)
{
    (void)state;
    uint32_t n = 0;
    mr_error error;
    assert_int_equal(host->count(&n, &error), MR_OK);
    assert_int_equal(n, 64);
    const int32_t ids[] = {0, 1, 63};
    for (unsigned i = 0; i < 3; i++) {
        struct mr_device_handle *handle = open_host(ids[i]);
        assert_ptr_equal(handle->ops, host);
        assert_int_equal(handle->device.kind, MR_DEVICE_HOST);
        assert_int_equal(handle->device.id, ids[i]);
        assert_non_null(handle->copy_stream);
        assert_int_equal(handle->ops->split(handle, NULL), MR_OK);
        assert_null(handle->finish_stream);
        assert_int_equal(host->numa_node(handle), -1);
        host->close(handle);
    }
}

static void expect_no_open(int32_t id, mr_status status, const char *words)
{
    struct mr_device_handle *handle = (void *)&words;
    mr_error error;
    assert_int_equal(host->open(id, &handle, &error), status);
    assert_null(handle);
    assert_int_equal(error.status, status);
    assert_words(error.text, words);
    assert_int_equal(host->open(id, &handle, NULL), status);
}

static void other_hosts_do_not_exist(void **state)
{
    (void)state;
    expect_no_open(64, MR_ERR_NO_DEVICE, "device 'host:64' does not exist; there are 64");
    expect_no_open(4095, MR_ERR_NO_DEVICE, "host:4095");
    expect_no_open(-2, MR_ERR_NO_DEVICE, "host:-2");
    expect_no_open(MR_DEVICE_LOCAL, MR_ERR_INVALID, "host:local");
}

static void memory_is_its_own_and_on_pages(void **state)
{
    (void)state;
    struct mr_device_handle *handle = open_host(3);
    const uint64_t sizes[] = {0, 1, 4096, 4097, 1000000};
    for (unsigned i = 0; i < 5; i++) {
        void *memory = NULL;
        mr_error error;
        assert_int_equal(host->alloc(handle, sizes[i], &memory, &error), MR_OK);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 4096, 0);
        memset(memory, 1, sizes[i]);
        host->free(handle, memory);
    }
    host->free(handle, NULL);
    host->close(handle);
}

static void too_much_memory_is_refused_with_its_size(void **state)
{
    (void)state;
    struct mr_device_handle *handle = open_host(0);
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 4095, (uint64_t)1 << 63};
    for (unsigned i = 0; i < 3; i++) {
        void *memory = handle;
        mr_error error;
        assert_int_equal(host->alloc(handle, sizes[i], &memory, &error), MR_ERR_NO_MEMORY);
        assert_null(memory);
        assert_int_equal(error.status, MR_ERR_NO_MEMORY);
    }
    host->close(handle);
}

static void copies_and_finishing_have_ended_when_they_return(void **state)
{
    (void)state;
    struct mr_device_handle *handle = open_host(1);
    mr_error error;
    const uint8_t pixels[2] = {255, 7};
    uint8_t staging[2] = {0};
    const uint8_t mask[1] = {1};
    struct mr_finish finish = {.height = 1,
                               .width = 2,
                               .channels = 1,
                               .out_channels = 4,
                               .dtype = MR_U8,
                               .layout = MR_NHWC};
    uint8_t out[8];
    struct mr_finish_job job = {
        .finish = &finish, .mask = mask, .n = 1, .staging = staging, .out = out};
    assert_int_equal(host->enter(handle, &error), MR_OK);
    assert_int_equal(host->pin(handle, staging, 1, 2, &error), MR_OK);
    assert_int_equal(host->copy_in(handle, staging, pixels, 2, &error), MR_OK);
    assert_int_equal(host->finish(handle, &job, &error), MR_OK);
    assert_memory_equal(out, ((const uint8_t[]){255, 0, 0, 0, 7, 0, 0, 0}), 8);
    assert_int_equal(host->copy_in(handle, NULL, NULL, 0, &error), MR_OK);
    host->unpin(handle);
    host->range_push("copy");
    host->range_pop();
    host->close(handle);
}

static void events_keep_the_time_between_them(void **state)
{
    (void)state;
    struct mr_device_handle *handle = open_host(0), *other = open_host(1);
    void *begin = NULL, *end = NULL;
    mr_error error;
    assert_int_equal(host->event_create(handle, &begin, &error), MR_OK);
    assert_int_equal(host->event_create(handle, &end, &error), MR_OK);
    int64_t ns = -5;
    assert_int_equal(host->sync(handle, begin, &error),
                     MR_OK); /* returns at once, though never recorded */
    assert_int_equal(host->wait(other, NULL, begin, &error), MR_OK);
    assert_int_equal(host->record(handle, begin, handle->copy_stream, &error), MR_OK);
    assert_error(host->elapsed(handle, begin, end, &ns, &error), MR_ERR_DEVICE, &error, "second");
    assert_int_equal(ns, -5);
    mr_clock_sleep_ms(3);
    assert_int_equal(host->record(handle, end, NULL, &error), MR_OK);
    assert_int_equal(host->wait(other, other->copy_stream, end, &error), MR_OK);
    assert_int_equal(host->sync(handle, end, &error), MR_OK);
    assert_int_equal(host->elapsed(handle, begin, end, &ns, &error), MR_OK);
    assert_in_range(ns, 3000000, 10000000000);
    int64_t back_ns = 0;
    assert_int_equal(host->elapsed(handle, end, begin, &back_ns, &error), MR_OK);
    assert_true(back_ns == -ns);
    assert_int_equal(host->check_capture(handle, NULL, &error), MR_OK);
    host->event_destroy(handle, begin);
    host->event_destroy(handle, end);
    host->close(other);
    host->close(handle);
}

static void cuda_is_not_in_this_build(void **state)
{
    (void)state;
    const char *const names[] = {"cuda", "cuda:0", "cuda:17", "cuda:local"};
    for (unsigned i = 0; i < 4; i++) {
        struct mr_placement_names asked = {.device = names[i]};
        struct mr_placement placement = {.n_parts = 77};
        mr_error error;
        char expected[100];
        snprintf(expected, sizeof expected, "device '%s': this build has no CUDA", names[i]);
        assert_int_equal(mr_placement_resolve(&asked, &placement, &error), MR_ERR_UNSUPPORTED);
        assert_string_equal(error.text, expected);
        assert_int_equal(placement.n_parts, 77);
    }
    mr_error error;
    assert_int_equal(mr_device_count(MR_DEVICE_CUDA, &error), 0);
    assert_int_equal(error.status, MR_ERR_UNSUPPORTED);
    assert_string_equal(error.text, "this build has no CUDA");
    assert_int_equal(mr_device_count(MR_DEVICE_CUDA, NULL), 0);
}

struct lines {
    int n;
    char last[200];
};

static void keep_line(void *user, mr_log_level level, const char *line)
{
    struct lines *lines = user;
    (void)level;
    lines->n++;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

static void auto_is_the_host_here_and_logs_it_once(void **state)
{
    (void)state;
    struct lines lines = {0};
    mr_log_set(keep_line, &lines);
    for (int i = 0; i < 3; i++) {
        struct mr_placement placement;
        mr_error error;
        assert_int_equal(mr_placement_resolve(&(struct mr_placement_names){.device = "auto"},
                                              &placement, &error),
                         MR_OK);
        assert_true(placement.lends_slots);
        assert_int_equal(placement.n_parts, 1);
    }
    mr_log_set(NULL, NULL);
    assert_int_equal(lines.n, 1);
    assert_string_equal(lines.last, "device 'auto' is the host: this build has no CUDA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_has_its_table_or_none),
        cmocka_unit_test(the_hosts_table_has_every_function),
        cmocka_unit_test(there_are_64_hosts),
        cmocka_unit_test(other_hosts_do_not_exist),
        cmocka_unit_test(memory_is_its_own_and_on_pages),
        cmocka_unit_test(too_much_memory_is_refused_with_its_size),
        cmocka_unit_test(copies_and_finishing_have_ended_when_they_return),
        cmocka_unit_test(events_keep_the_time_between_them),
        cmocka_unit_test(cuda_is_not_in_this_build),
        cmocka_unit_test(auto_is_the_host_here_and_logs_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
