/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options by name: every field has one, values are parsed to the last character, an error changes
 * nothing.
 */
#include "loader/option_table.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void set(mr_loader_options *options, const char *name, const char *value)
{
    mr_error error = {0};
    if (mr_loader_options_set(options, name, value, &error) != MR_OK)
        fail_msg("%s = '%s': %s", name, value, error.text);
}

/* Expect that the error's text contains `words`, and that nothing was changed. */
static void refuse(const char *name, const char *value, const char *words)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT, before;
    mr_error error = {0};
    options.batch_size = 7;
    options.device = "host:1";
    memcpy(&before, &options, sizeof before);
    assert_error(mr_loader_options_set(&options, name, value, &error), MR_ERR_INVALID, &error,
                 words);
    assert_memory_equal(&options, &before, sizeof before);
}

static void values_become_fields(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    static const char cache[] = "some/where";
    set(&o, "batch_size", "64");
    set(&o, "seed", "18446744073709551615");
    set(&o, "nice", "19");
    set(&o, "rank", "0");
    set(&o, "cache", cache);
    set(&o, "cache_bytes", "3G");
    set(&o, "max_file_bytes", "10k");
    set(&o, "tail", "Exact");
    set(&o, "dtype", "bf16");
    set(&o, "pad_channels", "8");
    set(&o, "num_workers", "none");
    set(&o, "cache_slowdown", "idle");
    set(&o, "cache_form", "index");
    set(&o, "trace", "");
    assert_int_equal(o.batch_size, 64);
    assert_true(o.seed == UINT64_MAX);
    assert_int_equal(o.nice, 19);
    assert_ptr_equal(o.cache, cache);
    assert_int_equal(o.cache_bytes, UINT64_C(3) << 30);
    assert_int_equal(o.max_file_bytes, 10240);
    assert_int_equal(o.tail, MR_TAIL_EXACT);
    assert_int_equal(o.dtype, MR_BF16);
    assert_int_equal(o.pad_channels, 8);
    assert_int_equal(o.num_workers, MR_NO_WORKERS);
    assert_int_equal(o.cache_slowdown, MR_CACHE_WHEN_IDLE);
    assert_int_equal(o.cache_form, MR_CACHE_FORM_INDEX);
    assert_string_equal(o.trace, "");
    assert_int_equal(o.struct_size, sizeof o);
    set(&o, "batch_size", "default");
    set(&o, "tail", "DEFAULT");
    assert_int_equal(o.batch_size, 0);
    assert_int_equal(o.tail, 0);
}

static void booleans_have_four_pairs_of_words(void **state)
{
    (void)state;
    static const char *const on[] = {"true", "yes", "on", "1"}, *const off[] = {"false", "NO",
                                                                                "Off", "0"};
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    for (size_t i = 0; i < 4; i++) {
        set(&o, "drop_last", on[i]);
        assert_true(o.drop_last);
        set(&o, "drop_last", off[i]);
        assert_false(o.drop_last);
    }
}

static void dtypes_have_the_names_of_other_libraries_too(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t dtype;
    } names[] = {
        {"float32", MR_F32}, {"torch.bfloat16", MR_BF16}, {"Half", MR_F16}, {"torch.uint8", MR_U8}};
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        set(&o, "dtype", names[i].text);
        assert_int_equal(o.dtype, names[i].dtype);
    }
}

static void wrong_values_are_refused_with_their_limits(void **state)
{
    (void)state;
    refuse("batch_size", "0", "batch_size: '0' is not a number from 1 to 65535, nor 'default'");
    refuse("batch_size", "65536", "batch_size: '65536' is not a number from 1 to 65535");
    refuse("batch_size", "", "batch_size: ''");
    refuse("batch_size", " 8", "batch_size: ' 8'");
    refuse("batch_size", "-1", "batch_size: '-1'");
    refuse("batch_size", "8x", "batch_size: '8x'");
    refuse("batch_size", "8k", "batch_size: '8k'");
    refuse("batch_size", "0x8", "batch_size: '0x8'");
    refuse("seed", "18446744073709551616",
           "seed: '18446744073709551616' is not a number from 0 to 18446744073709551615");
    refuse("nice", "20", "nice: '20' is not a number from 0 to 19");
    refuse("num_workers", "0",
           "num_workers: '0' is not a number from 1 to 1024, nor 'none', nor 'default'");
    refuse("cache_bytes", "16777216T", "cache_bytes: '16777216T' is not a number of bytes");
    refuse("cache_bytes", "1KB", "cache_bytes: '1KB'");
    refuse("tail", "round", "tail: 'round' is none of pad, drop, exact");
    refuse("cache_form", "marks", "cache_form: 'marks' is none of auto, index, dct");
    refuse("pad_channels", "5", "pad_channels: '5' is none of 0, 4, 8");
    refuse("dtype", "x", "dtype: 'x' is none of u8, f32, f16, bf16");
    refuse("drop_last", "perhaps", "drop_last: 'perhaps' is none of true, false");
}

static void wrong_names_are_refused_with_a_hint(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    mr_error error;
    refuse("bacth_size", "8",
           "'bacth_size' is not an option of a loader; did you mean 'batch_size'?");
    refuse("colour", "8", "'colour' is not an option of a loader");
    refuse("", "8", "'' is not an option of a loader");
    refuse("struct_size", "8", "'struct_size' is not an option");
    refuse("devices", "cuda:0,cuda:1",
           "devices: a list has no text form; use the field of mr_loader_options");
    refuse("n_affinity_cpus", "1", "n_affinity_cpus: a list has no text form");
    refuse(NULL, "8", "name is NULL");
    refuse("device", NULL, "value is NULL");
    assert_int_equal(mr_loader_options_set(NULL, "device", "host", NULL), MR_ERR_INVALID);
    o.struct_size = offsetof(mr_loader_options, seed);
    set(&o, "batch_size", "8");
    assert_error(mr_loader_options_set(&o, "seed", "8", &error), MR_ERR_INVALID, &error,
                 "seed: the struct_size");
    o.struct_size = 0;
    assert_int_equal(mr_loader_options_set(&o, "batch_size", "8", NULL), MR_ERR_INVALID);
}

/*
 * The name that a line of the struct declares, as in "    const char *const *devices; ...". False
 * if it declares none.
 */
static bool read_field(const char *line, char name_out[64])
{
    const char *end = strchr(line, ';'), *comment = strstr(line, "/*");
    if (!end || strncmp(line, "    ", 4) != 0 || line[4] == ' ' || (comment && comment < end))
        return false;
    const char *name = end;
    while (name > line && name[-1] != ' ' && name[-1] != '*')
        name--;
    snprintf(name_out, 64, "%.*s", (int)(end - name), name);
    return true;
}

static void every_field_of_the_struct_is_in_the_table(void **state)
{
    (void)state;
    FILE *header = fopen(MR_TEST_HEADER, "r");
    char line[512], name[64];
    bool inside = false;
    size_t n = 0;
    assert_non_null(header);
    while (fgets(line, sizeof line, header) && strncmp(line, "} mr_loader_options;", 20) != 0) {
        if (inside && read_field(line, name) && strcmp(name, "struct_size") != 0 &&
            strncmp(name, "reserved", 8) != 0) {
            assert_true(n < mr_option_table_n);
            assert_string_equal(mr_option_table[n].name, name);
            n++;
        }
        inside = inside || strncmp(line, "typedef struct mr_loader_options {", 34) == 0;
    }
    fclose(header);
    assert_int_equal(n, mr_option_table_n);
}

static void only_the_lists_are_refused(void **state)
{
    (void)state;
    size_t n_lists = 0;
    for (size_t i = 0; i < mr_option_table_n; i++) {
        const struct mr_option *option = &mr_option_table[i];
        mr_loader_options o = MR_LOADER_OPTIONS_INIT;
        if (option->type == MR_OPTION_LIST)
            n_lists++;
        else
            set(&o, option->name, option->type == MR_OPTION_BOOL ? "on" : "default");
    }
    assert_int_equal(n_lists, 6); /* affinity_cpus, devices, weight_values and their lengths */
}

static void expect_text(const mr_loader_options *options, const char *name, const char *expected)
{
    char text[64];
    size_t len = 0;
    mr_error error = {0};
    if (mr_loader_options_get(options, name, text, sizeof text, &len, &error) != MR_OK)
        fail_msg("%s: %s", name, error.text);
    assert_string_equal(text, expected);
    assert_int_equal(len, strlen(expected));
}

static void texts_are_read_and_written_alike(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    static const char *const values[][2] = {{"batch_size", "7"},        {"dtype", "f16"},
                                            {"layout", "nhwc"},         {"pad_channels", "4"},
                                            {"drop_last", "true"},      {"rank", "0"},
                                            {"seed", "12345678901"},    {"num_workers", "none"},
                                            {"num_workers", "3"},       {"nice", "19"},
                                            {"affinity", "spread"},     {"on_error", "skip"},
                                            {"cache_bytes", "1048576"}, {"trace", "a file"},
                                            {"cache_slowdown", "idle"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        set(&o, values[i][0], values[i][1]);
        expect_text(&o, values[i][0], values[i][1]);
    }
    expect_text(&o, "order", "torch");
    expect_text(&o, "start", "default");
    expect_text(&o, "read_ahead", "default");
    expect_text(&o, "pin_memory", "false");
    expect_text(&o, "cache", "");
}

static void every_name_but_a_list_has_a_text(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT, again = MR_LOADER_OPTIONS_INIT;
    mr_error error;
    char text[64];
    size_t n = 0, n_lists = 0;
    for (const char *name; (name = mr_loader_option_name(n)) != NULL; n++) {
        if (mr_loader_options_get(&o, name, text, sizeof text, NULL, &error) == MR_OK) {
            set(&again, name, text);
        } else {
            assert_words(error.text, "a list has no text form");
            n_lists++;
        }
    }
    assert_int_equal(n, mr_option_table_n);
    assert_int_equal(n_lists, 6);
}

static void a_text_is_cut_to_the_size(void **state)
{
    (void)state;
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    mr_error error;
    char text[4] = "xxx";
    size_t len = 0;
    assert_int_equal(mr_loader_options_get(&o, "batch_size", text, 3, &len, NULL), MR_OK);
    assert_string_equal(text, "de");
    assert_int_equal(len, 7);
    assert_int_equal(mr_loader_options_get(&o, "batch_size", NULL, 0, &len, NULL), MR_OK);
    assert_error(mr_loader_options_get(&o, "bacth_size", text, 3, &len, &error), MR_ERR_INVALID,
                 &error, "did you mean 'batch_size'?");
    assert_int_equal(mr_loader_options_get(NULL, "seed", text, 3, &len, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_loader_options_get(&o, NULL, text, 3, &len, NULL), MR_ERR_INVALID);
    set(&o, "seed", "8");
    o.struct_size = offsetof(mr_loader_options, seed);
    expect_text(&o, "seed", "0"); /* the caller's version has no such field */
}

static void dtypes_and_layouts_have_their_usual_names(void **state)
{
    (void)state;
    for (int i = MR_U8; i <= MR_U32; i++) {
        mr_loader_options o = MR_LOADER_OPTIONS_INIT;
        set(&o, "dtype", mr_dtype_name((mr_dtype)i));
        assert_int_equal(o.dtype, i);
    }
    assert_string_equal(mr_dtype_name((mr_dtype)(MR_U32 + 1)), "?");
}

static void limits_of_values_and_of_texts_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < mr_option_table_n; i++) {
        const struct mr_option *option = &mr_option_table[i];
        const uint64_t numbers[] = {option->lo, option->hi, option->hi + 1};
        for (size_t k = 0; option->type == MR_OPTION_U32 && option->hi > 0 && k < 3; k++) {
            mr_loader_options by_name = MR_LOADER_OPTIONS_INIT, by_value = MR_LOADER_OPTIONS_INIT;
            uint32_t value = (uint32_t)numbers[k];
            char text[32];
            snprintf(text, sizeof text, "%u", value);
            memcpy((char *)&by_value + option->offset, &value, sizeof value);
            mr_status status = mr_loader_options_set(&by_name, option->name, text, NULL);
            if (value != 0)
                assert_int_equal(status, mr_option_table_resolve(&by_value, NULL));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_become_fields),
        cmocka_unit_test(booleans_have_four_pairs_of_words),
        cmocka_unit_test(dtypes_have_the_names_of_other_libraries_too),
        cmocka_unit_test(wrong_values_are_refused_with_their_limits),
        cmocka_unit_test(wrong_names_are_refused_with_a_hint),
        cmocka_unit_test(every_field_of_the_struct_is_in_the_table),
        cmocka_unit_test(only_the_lists_are_refused),
        cmocka_unit_test(texts_are_read_and_written_alike),
        cmocka_unit_test(every_name_but_a_list_has_a_text),
        cmocka_unit_test(a_text_is_cut_to_the_size),
        cmocka_unit_test(dtypes_and_layouts_have_their_usual_names),
        cmocka_unit_test(limits_of_values_and_of_texts_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
