/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of stores: the names in the environment, their order, and values that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "dataset/remote/stores/settings.h"
#include "tests/support/folder.h"

static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                    "AWS_SECRET_ACCESS_KEY",
                                    "AWS_SESSION_TOKEN",
                                    "AWS_REGION",
                                    "AWS_DEFAULT_REGION",
                                    "AWS_ENDPOINT_URL_S3",
                                    "AWS_ENDPOINT_URL",
                                    "AWS_REQUEST_PAYER",
                                    "AWS_VIRTUAL_HOSTING",
                                    "AWS_NO_SIGN_REQUEST",
                                    "GS_ACCESS_KEY_ID",
                                    "GCS_KEY",
                                    "GS_SECRET_ACCESS_KEY",
                                    "GCS_SECRET",
                                    "GS_ENDPOINT_URL",
                                    "STORAGE_EMULATOR_HOST",
                                    "HF_ENDPOINT",
                                    "HF_TOKEN",
                                    "HUGGING_FACE_HUB_TOKEN",
                                    "HF_TOKEN_PATH",
                                    "HF_HOME",
                                    "XDG_CACHE_HOME"};

static int set_up(void **state)
{
    char *folder = mr_test_folder_create();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("HOME", folder, 1);
    *state = folder;
    return 0;
}

static int tear_down(void **state)
{
    mr_test_folder_remove(*state);
    return 0;
}

static void nothing_is_set_without_an_environment(void **state)
{
    (void)state;
    static const struct mr_store_settings none;
    struct mr_store_settings settings;
    mr_store_settings_read(&settings);
    assert_memory_equal(&settings, &none, sizeof none);
}

static void values_come_from_the_names_of_the_stores_tools(void **state)
{
    (void)state;
    struct mr_store_settings settings;
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("AWS_SESSION_TOKEN", "token", 1);
    setenv("AWS_DEFAULT_REGION", "eu-west-1", 1);
    setenv("AWS_ENDPOINT_URL", "http://all:9", 1);
    setenv("AWS_REQUEST_PAYER", "requester", 1);
    setenv("AWS_NO_SIGN_REQUEST", "YES", 1);
    setenv("GCS_KEY", "GOOG1", 1);
    setenv("GCS_SECRET", "shh", 1);
    setenv("STORAGE_EMULATOR_HOST", "http://localhost:4443", 1);
    setenv("HF_ENDPOINT", "https://hf-mirror.com", 1);
    setenv("HF_TOKEN", "hf_x", 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.s3.key_id, "id");
    assert_string_equal(settings.s3.secret, "secret");
    assert_string_equal(settings.s3.token, "token");
    assert_string_equal(settings.s3.region, "eu-west-1");
    assert_string_equal(settings.s3.endpoint, "http://all:9");
    assert_true(settings.s3.requester_pays && settings.s3.anonymous);
    assert_false(settings.s3.path_style || settings.s3.virtual_style);
    assert_string_equal(settings.gcs.key_id, "GOOG1");
    assert_string_equal(settings.gcs.secret, "shh");
    assert_string_equal(settings.gcs.endpoint, "http://localhost:4443");
    assert_string_equal(settings.hf.endpoint, "https://hf-mirror.com");
    assert_string_equal(settings.hf.token, "hf_x");
    assert_string_equal(settings.s3.problem, "");
    assert_string_equal(settings.gcs.problem, "");
    setenv("AWS_REGION", "us-west-2", 1);
    setenv("AWS_ENDPOINT_URL_S3", "http://s3:9", 1);
    setenv("AWS_NO_SIGN_REQUEST", "0", 1);
    setenv("AWS_VIRTUAL_HOSTING", "NO", 1);
    setenv("GS_ACCESS_KEY_ID", "GOOG2", 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.s3.region, "us-west-2");
    assert_string_equal(settings.s3.endpoint, "http://s3:9");
    assert_false(settings.s3.anonymous);
    assert_true(settings.s3.path_style && !settings.s3.virtual_style);
    setenv("AWS_VIRTUAL_HOSTING", "YES", 1);
    mr_store_settings_read(&settings);
    assert_true(!settings.s3.path_style && settings.s3.virtual_style);
    assert_string_equal(settings.gcs.key_id, "GOOG2");
    setenv("AWS_SECRET_ACCESS_KEY", "sec ret \r\n", 1); /* as a file has it */
    setenv("HF_TOKEN", "hf_x\n", 1);
    setenv("AWS_REGION", "\n", 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.s3.secret, "sec ret");
    assert_string_equal(settings.hf.token, "hf_x");
    assert_string_equal(settings.s3.region, "eu-west-1"); /* the next name's */
}

static void problems_name_the_variable_and_not_its_value(void **state)
{
    (void)state;
    static char large[5000];
    struct mr_store_settings settings;
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("GS_ACCESS_KEY_ID", "id", 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.s3.problem,
                        "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not");
    assert_string_equal(settings.gcs.problem,
                        "GS_ACCESS_KEY_ID is set and GS_SECRET_ACCESS_KEY is not");
    memset(large, 'x', sizeof large - 1);
    setenv("AWS_SESSION_TOKEN", large, 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.s3.problem,
                        "AWS_SESSION_TOKEN has 4999 bytes, more than the limit of 4095");
    assert_string_equal(settings.s3.token, "");
    large[MR_STORE_TOKEN - 1] = '\0'; /* fits */
    setenv("AWS_SESSION_TOKEN", large, 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.s3.problem, "");
    assert_string_equal(settings.s3.token, large);
}

static void make_folder(const char *folder, const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void the_token_of_hugging_face_may_be_in_a_file(void **state)
{
    const char *folder = *state;
    struct mr_store_settings settings;
    char path[4200];
    make_folder(folder, ".cache");
    make_folder(folder, ".cache/huggingface");
    make_folder(folder, "other");
    mr_test_folder_write(folder, ".cache/huggingface/token", "hf_home\n", 8);
    mr_test_folder_write(folder, "other/token", "hf_other", 8);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.hf.token, "hf_home");
    snprintf(path, sizeof path, "%s/other", folder);
    setenv("HF_HOME", path, 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.hf.token, "hf_other");
    setenv("HF_TOKEN_PATH", "/nowhere", 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.hf.token, "");
    setenv("HF_TOKEN", "hf_env", 1);
    mr_store_settings_read(&settings);
    assert_string_equal(settings.hf.token, "hf_env");
}

static void settings_that_are_handed_over_replace_the_environment(void **state)
{
    (void)state;
    static const struct mr_store_settings given = {.s3.key_id = "given"};
    struct mr_store_settings settings;
    setenv("AWS_ACCESS_KEY_ID", "environment", 1);
    mr_store_settings_get(&settings);
    assert_string_equal(settings.s3.key_id, "environment");
    assert_int_equal(mr_store_settings_use(&given, NULL), MR_OK);
    mr_store_settings_get(&settings);
    assert_string_equal(settings.s3.key_id, "given");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(nothing_is_set_without_an_environment),
        T(values_come_from_the_names_of_the_stores_tools),
        T(problems_name_the_variable_and_not_its_value),
        T(the_token_of_hugging_face_may_be_in_a_file),
        T(settings_that_are_handed_over_replace_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
