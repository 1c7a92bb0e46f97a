/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices: the host, others that are not there, and rubbish. */
#include "pinned/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void the_host_is_found_by_its_names(void **state)
{
    (void)state;
    const char *const names[] = {NULL, "host", "host:0"};
    for (unsigned i = 0; i < 3; i++) {
        const struct mr_device_table *table = NULL;
        mr_device device = {.kind = MR_DEVICE_CUDA, .id = 9};
        mr_error error;
        assert_int_equal(mr_device_find(names[i], &table, &device, &error), MR_OK);
        assert_ptr_equal(table, &mr_device_host);
        assert_int_equal(device.kind, MR_DEVICE_HOST);
        assert_int_equal(device.id, 0);
    }
}

static void the_host_lends_its_slots_and_needs_no_pinning(void **state)
{
    (void)state;
    char memory[64] = "as it was";
    mr_error error;
    assert_true(mr_device_host.lends_slots);
    assert_int_equal(mr_device_host.count(), 1);
    assert_int_equal(mr_device_host.pin(0, memory, sizeof memory, &error), MR_OK);
    mr_device_host.unpin(0, memory, sizeof memory);
    assert_string_equal(memory, "as it was");
}

static void expect(const char *name, mr_status status, const char *words)
{
    const struct mr_device_table *table = NULL;
    mr_device device = {0};
    mr_error error;
    assert_int_equal(mr_device_find(name, &table, &device, &error), status);
    assert_int_equal(error.status, status);
    if (!strstr(error.text, words))
        fail_msg("'%s' lacks '%s'", error.text, words);
    assert_null(table);
    assert_int_equal(mr_device_find(name, &table, &device, NULL), status);
}

static void a_second_host_does_not_exist(void **state)
{
    (void)state;
    expect("host:1", MR_ERR_NO_DEVICE, "device 'host:1' does not exist; there are 1");
    expect("host:4095", MR_ERR_NO_DEVICE, "host:4095");
}

static void cuda_is_not_in_this_build(void **state)
{
    (void)state;
    expect("cuda", MR_ERR_UNSUPPORTED, "device 'cuda'");
    expect("cuda:0", MR_ERR_UNSUPPORTED, "device 'cuda:0': this build has no CUDA");
}

static void rubbish_is_refused_with_the_form(void **state)
{
    (void)state;
    const char *const names[] = {
        "",        "gpu",     "Host",    "host:",      "host:x",   "host:0x", "host:-1", "host: 0",
        "host:+0", "host:0 ", "host::0", "host:99999", "cudahost", "cuda:x",  ":0",      "host:18446744073709551616"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        expect(names[i], MR_ERR_INVALID, "is not of the form host or host:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_found_by_its_names),
        cmocka_unit_test(the_host_lends_its_slots_and_needs_no_pinning),
        cmocka_unit_test(a_second_host_does_not_exist),
        cmocka_unit_test(cuda_is_not_in_this_build),
        cmocka_unit_test(rubbish_is_refused_with_the_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
