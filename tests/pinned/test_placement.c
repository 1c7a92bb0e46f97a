/* SPDX-License-Identifier: Apache-2.0 */
/* Names to devices and parts, with a CUDA that can only count devices; and torch.chunk's sizes. */
#include "pinned/placement.h"

#include "base/log.h"
#include "tests/pinned/counting_tables.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_placement resolve(const struct mr_placement_names *names)
{
    struct mr_placement placement;
    mr_error error = {.text = "nothing"};
    assert_ok(mr_placement_resolve(names, &placement, &error), &error);
    return placement;
}

static void expect_failure(const struct mr_placement_names *names, mr_status status,
                           const char *words)
{
    struct mr_placement placement, before;
    memset(&placement, 0x5a, sizeof placement);
    before = placement;
    mr_error error;
    assert_error(mr_placement_resolve(names, &placement, &error), status, &error, words);
    assert_memory_equal(&placement, &before, sizeof before);
    assert_int_equal(mr_placement_resolve(names, &placement, NULL), status);
}

static void expect_device(const struct mr_placement *placement, uint32_t i, mr_device_kind kind,
                          int32_t id)
{
    assert_true(i < placement->n_devices);
    assert_ptr_equal(placement->devices[i].ops, mr_device_find(kind));
    assert_int_equal(placement->devices[i].id, id);
}

static void plain_host_lends_the_slots(void **state)
{
    (void)state;
    const struct mr_placement_names names[] = {{0},
                                               {.device = "host"},
                                               {.device = "cpu"},
                                               {.label_device = "host"},
                                               {.device = "host", .label_device = "host"}};
    for (unsigned i = 0; i < 4; i++) {
        struct mr_placement placement = resolve(&names[i]);
        assert_true(placement.lends_slots);
        assert_int_equal(placement.n_parts, 1);
        assert_int_equal(placement.n_devices, 0);
    }
}

static void a_single_device_has_images_and_labels(void **state)
{
    (void)state;
    const struct {
        const char *name;
        mr_device_kind kind;
        int32_t id;
    } cases[] = {
        {"host:0", MR_DEVICE_HOST, 0},       {"host:63", MR_DEVICE_HOST, 63},
        {"host:4095", MR_DEVICE_HOST, 4095}, {"cuda", MR_DEVICE_CUDA, 0},
        {"cuda:0", MR_DEVICE_CUDA, 0},       {"cuda:12", MR_DEVICE_CUDA, 12},
        {"cuda:4095", MR_DEVICE_CUDA, 4095}, {"cuda:local", MR_DEVICE_CUDA, MR_DEVICE_LOCAL}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int with_label = 0; with_label < 2; with_label++) {
            struct mr_placement placement = resolve(&(struct mr_placement_names){
                .device = cases[i].name, .label_device = with_label ? cases[i].name : NULL});
            assert_false(placement.lends_slots);
            assert_int_equal(placement.n_parts, 1);
            assert_int_equal(placement.n_devices, 1);
            assert_int_equal(placement.image[0], 0);
            assert_int_equal(placement.label[0], 0);
            expect_device(&placement, 0, cases[i].kind, cases[i].id);
        }
    }
}

static void labels_may_be_on_another_device(void **state)
{
    (void)state;
    const struct {
        const char *image, *label;
        mr_device_kind image_kind;
        int32_t image_id;
        mr_device_kind label_kind;
        int32_t label_id;
    } cases[] = {{"cuda:0", "cuda:1", MR_DEVICE_CUDA, 0, MR_DEVICE_CUDA, 1},
                 {"cuda:3", "host", MR_DEVICE_CUDA, 3, MR_DEVICE_HOST, 0},
                 {"cuda:local", "host:2", MR_DEVICE_CUDA, MR_DEVICE_LOCAL, MR_DEVICE_HOST, 2},
                 {"host", "cuda", MR_DEVICE_HOST, 0, MR_DEVICE_CUDA, 0},
                 {"host", "host:1", MR_DEVICE_HOST, 0, MR_DEVICE_HOST, 1},
                 {"host:1", "host", MR_DEVICE_HOST, 1, MR_DEVICE_HOST, 0},
                 {NULL, "host:5", MR_DEVICE_HOST, 0, MR_DEVICE_HOST, 5}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_placement placement = resolve(
            &(struct mr_placement_names){.device = cases[i].image, .label_device = cases[i].label});
        assert_false(placement.lends_slots);
        assert_int_equal(placement.n_parts, 1);
        assert_int_equal(placement.n_devices, 2);
        expect_device(&placement, placement.image[0], cases[i].image_kind, cases[i].image_id);
        expect_device(&placement, placement.label[0], cases[i].label_kind, cases[i].label_id);
    }
}

static void host_and_host_0_are_one_place(void **state)
{
    (void)state;
    struct mr_placement placement =
        resolve(&(struct mr_placement_names){.device = "host", .label_device = "host:0"});
    assert_false(placement.lends_slots);
    assert_int_equal(placement.n_devices, 1);
    placement = resolve(&(struct mr_placement_names){.device = "host:0", .label_device = "host"});
    assert_false(placement.lends_slots);
    assert_int_equal(placement.n_devices, 1);
}

static void several_devices_have_a_part_each(void **state)
{
    (void)state;
    const char *const cuda[] = {"cuda:1", "cuda", "cuda:2"};
    struct mr_placement placement =
        resolve(&(struct mr_placement_names){.devices = cuda, .n_devices = 3});
    assert_false(placement.lends_slots);
    assert_int_equal(placement.n_parts, 3);
    assert_int_equal(placement.n_devices, 3);
    const int32_t ids[] = {1, 0, 2};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(placement.image[i], i);
        assert_int_equal(placement.label[i], i);
        expect_device(&placement, i, MR_DEVICE_CUDA, ids[i]);
    }
    const char *const hosts[] = {"host", "host:1"};
    placement = resolve(&(struct mr_placement_names){.devices = hosts, .n_devices = 2});
    assert_false(placement.lends_slots);
    expect_device(&placement, placement.image[0], MR_DEVICE_HOST, 0);
    expect_device(&placement, placement.image[1], MR_DEVICE_HOST, 1);
}

static void labels_of_several_parts_may_stay_on_the_host(void **state)
{
    (void)state;
    char text[MR_MAX_DEVICES][16];
    const char *devices[MR_MAX_DEVICES];
    for (int i = 0; i < MR_MAX_DEVICES; i++) {
        snprintf(text[i], sizeof text[i], "cuda:%d", i);
        devices[i] = text[i];
    }
    struct mr_placement placement = resolve(
        &(struct mr_placement_names){.devices = devices, .n_devices = 16, .label_device = "host"});
    assert_int_equal(placement.n_parts, 16);
    assert_int_equal(placement.n_devices, 17);
    for (uint32_t i = 0; i < 16; i++) {
        expect_device(&placement, placement.image[i], MR_DEVICE_CUDA, (int32_t)i);
        expect_device(&placement, placement.label[i], MR_DEVICE_HOST, 0);
    }
    const char *const hosts[] = {"host:1", "host:0"};
    placement = resolve(
        &(struct mr_placement_names){.devices = hosts, .n_devices = 2, .label_device = "host"});
    assert_int_equal(placement.n_devices, 2);
    assert_int_equal(placement.label[0], 1);
    assert_int_equal(placement.label[1], 1);
}

static void impossible_devices_are_refused(void **state)
{
    (void)state;
    static const char *const
        two[] = {"cuda:0", "cuda:1"},
        *const twice[] = {"cuda:0", "cuda:1", "cuda"}, *const hosts_twice[] = {"host", "host:0"},
        *const mixed[] = {"cuda:0", "host:0"}, *const local[] = {"cuda:0", "cuda:local"},
        *const automatic[] = {"auto", "cuda:1"}, *const rubbish[] = {"cuda:0", "cuda:x"},
        *const hole[] = {"cuda:0", NULL}, *const many[17] = {"cuda:0"};
    const struct {
        struct mr_placement_names names;
        const char *words;
    } cases[] = {
        {{.devices = two, .n_devices = 2, .device = "cuda:0"},
         "both device 'cuda:0' and 2 devices"},
        {{.devices = NULL, .n_devices = 2}, "n_devices is 2 and devices is NULL"},
        {{.devices = two, .n_devices = 0}, "n_devices is 0"},
        {{.devices = two, .n_devices = 1},
         "n_devices 1 is not between 2 and 16; device names a single one"},
        {{.devices = many, .n_devices = 17}, "n_devices 17 is not between 2 and 16"},
        {{.devices = many, .n_devices = UINT32_MAX}, "n_devices 4294967295 is not"},
        {{.devices = twice, .n_devices = 3}, "devices[2] 'cuda' is the same as devices[0]"},
        {{.devices = hosts_twice, .n_devices = 2}, "devices[1] 'host:0' is the same as devices[0]"},
        {{.devices = mixed, .n_devices = 2},
         "devices 'cuda:0' and 'host:0' are of different kinds"},
        {{.devices = local, .n_devices = 2},
         "devices[1] is 'cuda:local', which has no device number"},
        {{.devices = automatic, .n_devices = 2},
         "devices[0] is 'auto', which has no device number"},
        {{.devices = rubbish, .n_devices = 2}, "device 'cuda:x' is none of"},
        {{.devices = hole, .n_devices = 2}, "devices[1] is NULL"},
        {{.devices = two, .n_devices = 2, .label_device = "cuda:0"},
         "label_device 'cuda:0': the labels of several"},
        {{.devices = two, .n_devices = 2, .label_device = "host:0"}, "label_device 'host:0'"},
        {{.devices = two, .n_devices = 2, .label_device = "auto"}, "label_device 'auto'"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_failure(&cases[i].names, MR_ERR_INVALID, cases[i].words);
}

static void unknown_names_are_refused_and_quoted(void **state)
{
    (void)state;
    const char *const names[] = {"",
                                 "gpu",
                                 "Host",
                                 "HOST:0",
                                 "host:",
                                 "host:x",
                                 "host:0x",
                                 "host:-1",
                                 "host: 0",
                                 "host:+0",
                                 "host:0 ",
                                 "host::0",
                                 "host:4096",
                                 "host:00",
                                 "host:01",
                                 "host:local",
                                 "hosts",
                                 "host0",
                                 " host",
                                 "cuda:",
                                 "cuda:x",
                                 "cuda:-1",
                                 "cuda:4096",
                                 "cuda:Local",
                                 "cuda:loc",
                                 "cuda:auto",
                                 "cuda:local ",
                                 "cudahost",
                                 "cuda0",
                                 "Cuda:0",
                                 "auto:0",
                                 "Auto",
                                 "aut",
                                 ":0",
                                 "c",
                                 "cuda:99999",
                                 "cuda:1e1",
                                 "host:18446744073709551616",
                                 "cuda:\xd9\xa1"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char words[100];
        snprintf(words, sizeof words,
                 "device '%s' is none of host, host:N, cuda, cuda:N, cuda:local and auto",
                 names[i]);
        expect_failure(&(struct mr_placement_names){.device = names[i]}, MR_ERR_INVALID, words);
        expect_failure(&(struct mr_placement_names){.label_device = names[i]}, MR_ERR_INVALID,
                       words);
    }
}

static void a_long_name_is_cut_in_the_message(void **state)
{
    (void)state;
    char *name = malloc(100001);
    memset(name, 'x', 100000);
    name[100000] = '\0';
    expect_failure(&(struct mr_placement_names){.device = name}, MR_ERR_INVALID, "device 'xxx");
    memcpy(name, "cuda:", 5);
    memset(name + 5, '9', 99995);
    expect_failure(&(struct mr_placement_names){.device = name}, MR_ERR_INVALID,
                   "device 'cuda:999");
    free(name);
}

static void auto_is_a_gpu_if_there_is_one(void **state)
{
    (void)state;
    unsetenv("LOCAL_RANK");
    counting_state()->n = 1;
    struct mr_placement placement = resolve(&(struct mr_placement_names){.device = "auto"});
    assert_false(placement.lends_slots);
    expect_device(&placement, 0, MR_DEVICE_CUDA, MR_DEVICE_LOCAL);
    counting_state()->n = 4;
    placement = resolve(&(struct mr_placement_names){.device = "auto"});
    expect_device(&placement, 0, MR_DEVICE_CUDA, 0);
    setenv("LOCAL_RANK", "2", 1);
    placement = resolve(&(struct mr_placement_names){.device = "auto", .label_device = "host"});
    expect_device(&placement, placement.image[0], MR_DEVICE_CUDA, MR_DEVICE_LOCAL);
    expect_device(&placement, placement.label[0], MR_DEVICE_HOST, 0);
    unsetenv("LOCAL_RANK");
    assert_int_equal(counting_state()->n_calls, 0); /* CUDA was not called in this process */
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

static void auto_without_a_gpu_is_the_host_and_logs_it_once(void **state)
{
    (void)state;
    struct lines lines = {0};
    mr_log_set(keep_line, &lines);
    counting_state()->n = 0;
    for (int i = 0; i < 3; i++) {
        struct mr_placement placement = resolve(&(struct mr_placement_names){.device = "auto"});
        assert_true(placement.lends_slots);
        placement = resolve(&(struct mr_placement_names){.device = "auto", .label_device = "host"});
        assert_true(placement.lends_slots);
    }
    mr_log_set(NULL, NULL);
    assert_int_equal(lines.n, 1);
    assert_string_equal(lines.last, "device 'auto' is the host: no driver in this test");
}

/* The result of torch.chunk, computed by dealing out rows one by one. */
static uint32_t chunk_by_rows(uint32_t n_rows, uint32_t n_parts, uint32_t *sizes_out)
{
    uint32_t most = 0;
    while (most * n_parts < n_rows)
        most++;
    uint32_t part = 0;
    memset(sizes_out, 0, n_parts * sizeof *sizes_out);
    for (uint32_t row = 0; row < n_rows; row++) {
        if (sizes_out[part] == most)
            part++;
        sizes_out[part]++;
    }
    return part + 1;
}

static void parts_are_those_of_torch_chunk(void **state)
{
    (void)state;
    for (uint32_t n_rows = 0; n_rows <= 200; n_rows++)
        for (uint32_t n_parts = 1; n_parts <= MR_MAX_DEVICES; n_parts++) {
            uint32_t sizes[MR_MAX_DEVICES], begin = 0;
            uint32_t n_expected = chunk_by_rows(n_rows, n_parts, sizes);
            for (uint32_t i = 0; i < n_parts; i++) {
                uint32_t first = 999, n = 999;
                assert_int_equal(mr_placement_split(n_rows, n_parts, i, &first, &n), n_expected);
                if (first != begin || n != sizes[i])
                    fail_msg("part %u of %u in %u: %u rows from %u, not %u from %u", i, n_rows,
                             n_parts, n, first, sizes[i], begin);
                begin += n;
            }
            assert_int_equal(begin, n_rows);
        }
}

/* Known results of torch.chunk(torch.arange(n), k). */
static void known_chunks(void **state)
{
    (void)state;
    const struct {
        uint32_t n_rows, n_parts, n_chunks, last_first, last_n;
    } cases[] = {{8, 4, 4, 6, 2}, {7, 4, 4, 6, 1},
                 {6, 4, 3, 4, 2}, {5, 4, 3, 4, 1},
                 {4, 4, 4, 3, 1}, {1, 4, 1, 0, 1},
                 {9, 5, 5, 8, 1}, {UINT32_MAX, 2, 2, 2147483648u, 2147483647u},
                 {0, 4, 1, 0, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t first, n, last = cases[i].n_chunks - 1;
        assert_int_equal(mr_placement_split(cases[i].n_rows, cases[i].n_parts, last, &first, &n),
                         cases[i].n_chunks);
        assert_int_equal(first, cases[i].last_first);
        assert_int_equal(n, cases[i].last_n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_host_lends_the_slots),
        cmocka_unit_test(a_single_device_has_images_and_labels),
        cmocka_unit_test(labels_may_be_on_another_device),
        cmocka_unit_test(host_and_host_0_are_one_place),
        cmocka_unit_test(several_devices_have_a_part_each),
        cmocka_unit_test(labels_of_several_parts_may_stay_on_the_host),
        cmocka_unit_test(impossible_devices_are_refused),
        cmocka_unit_test(unknown_names_are_refused_and_quoted),
        cmocka_unit_test(a_long_name_is_cut_in_the_message),
        cmocka_unit_test(auto_is_a_gpu_if_there_is_one),
        cmocka_unit_test(auto_without_a_gpu_is_the_host_and_logs_it_once),
        cmocka_unit_test(parts_are_those_of_torch_chunk),
        cmocka_unit_test(known_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
