/* SPDX-License-Identifier: Apache-2.0 */
/* When keys are asked for again: before they end, after a failure, and after a fork. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataset/remote/stores/credentials.h"
#include "dataset/remote/stores/settings_cell.h"
#include "tests/dataset/key_rig.h"
#include "tests/support/processes.h"

#include <millrace/status.h>

static uint64_t expect_set(int n)
{
    struct mr_store_settings settings;
    char id[20];
    uint64_t version = mr_store_settings_get(&settings);
    snprintf(id, sizeof id, "ID%d", n);
    assert_string_equal(settings.s3.key_id, id);
    return version;
}

static void wait_for_version(uint64_t version)
{
    for (int i = 0; mr_settings_cell_version() < version; i++) {
        assert_true(i < 3000);
        mr_clock_sleep_ms(10);
    }
}

/* Threads of the server that served a connection end soon after it. */
static void expect_threads(int wanted)
{
    char line[200];
    int n = -1;
    for (int i = 0;; i++, n = -1) {
        FILE *file = fopen("/proc/self/status", "r");
        while (n < 0 && fgets(line, sizeof line, file))
            sscanf(line, "Threads: %d", &n);
        fclose(file);
        if (n == wanted)
            return;
        if (i == 1000)
            fail_msg("%d threads instead of %d", n, wanted);
        mr_clock_sleep_ms(10);
    }
}

/* At first it is taken for none, because nothing answers at other places than EC2. */
static void a_slow_metadata_service_is_asked_again(void **state)
{
    (void)state;
    struct mr_store_settings settings;
    unsetenv("AWS_EC2_METADATA_DISABLED");
    key_rig_set_below("AWS_EC2_METADATA_SERVICE_ENDPOINT", mr_test_http_url(key_rig.server), "/");
    key_rig.n_slow = 1;
    key_rig_expect_keys("", "", "");
    for (int i = 0; i < 300; i++) {
        assert_int_equal(mr_credentials_find(true, NULL), MR_OK);
        mr_store_settings_get(&settings);
        if (*settings.s3.key_id)
            break;
        mr_clock_sleep_ms(100);
    }
    assert_string_equal(settings.s3.key_id, "ID1");
}

static void a_missing_metadata_service_is_asked_ever_more_rarely(void **state)
{
    (void)state;
    unsetenv("AWS_EC2_METADATA_DISABLED");
    key_rig_set_below("AWS_EC2_METADATA_SERVICE_ENDPOINT", mr_test_http_url(key_rig.server),
                      "/none");
    uint64_t before = mr_test_http_n_requests(key_rig.server);
    time_t begin = time(NULL);
    key_rig_expect_keys("", "", "");
    while (time(NULL) < begin + 5) {
        assert_int_equal(mr_credentials_find(true, NULL), MR_OK);
        mr_clock_sleep_ms(1);
    }
    assert_in_range(mr_test_http_n_requests(key_rig.server) - before, 2,
                    5); /* after 1, 2, 4 seconds */
}

static void keys_are_renewed_while_they_are_held_and_kept_when_that_fails(void **state)
{
    (void)state;
    mr_error error;
    key_rig_set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(key_rig.server),
                      "/container");
    key_rig_set_below("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", key_rig.folder, "/authorization");
    key_rig_write_file("authorization", "first");
    key_rig_expect_keys("ID1", "SECRET/1", "TOKEN1"); /* for an hour, so no thread asks again */
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    mr_credentials_release();
    key_rig.life_s = 4;
    uint64_t version = expect_set(1) + 1;
    key_rig_expect_keys("ID2", "SECRET/2", "TOKEN2");
    key_rig_write_file("authorization", "second");
    expect_threads(2); /* this one and the server's */
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    expect_threads(3);
    assert_int_equal(mr_credentials_hold(&error), MR_OK); /* the thread is shared */
    expect_threads(3);
    wait_for_version(version + 1);
    expect_set(3);
    assert_non_null(strstr(key_rig.head, "Authorization: second\r\n")); /* the file is read again */
    key_rig.refuses = true;
    uint64_t before = mr_test_http_n_requests(key_rig.server);
    while (mr_test_http_n_requests(key_rig.server) < before + 2)
        mr_clock_sleep_ms(10);
    expect_set(3);
    assert_int_equal(key_rig.n_logged, 1);
    assert_string_equal(key_rig.logged,
                        "the keys for S3 are not renewed, and are used on: the container's "
                        "endpoint: it answers AccessDenied");
    key_rig.refuses = false;
    wait_for_version(version + 2);
    expect_set(4);
    mr_credentials_release();
    expect_threads(3);
    mr_credentials_release();
    expect_threads(2);
    before = mr_test_http_n_requests(key_rig.server);
    mr_clock_sleep_ms(3500); /* nothing renews */
    assert_int_equal(mr_test_http_n_requests(key_rig.server), before);
    expect_set(4);
    assert_int_equal(mr_credentials_find(true, &error), MR_OK); /* before a request of the host */
    expect_set(5);
    assert_int_equal(key_rig.n_logged, 1);
}

static void keys_that_have_ended_are_not_asked_for_all_the_time(void **state)
{
    (void)state;
    key_rig.life_s = -3600; /* or the clock of this machine is wrong */
    key_rig_set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(key_rig.server),
                      "/container");
    time_t begin = time(NULL);
    key_rig_expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_int_equal(mr_credentials_hold(NULL), MR_OK);
    mr_clock_sleep_ms(2500);
    mr_credentials_release();
    assert_in_range(key_rig.n_sets, 1, 1 + (time(NULL) - begin) / 9);
}

/* Release keys while their source is being asked. */
static void expect_release_at_once(void)
{
    uint64_t begin = mr_clock_now_ns();
    mr_credentials_release();
    assert_in_range((mr_clock_now_ns() - begin) / 1000000, 0, 4000);
    assert_int_equal(key_rig.n_logged, 0);
}

static void a_release_does_not_wait_for_a_renewal(void **state)
{
    (void)state;
    char path[PATH_BYTES], end[40];
    mr_error error;
    key_rig_write_time(end, 6);
    key_rig_write_script("program", "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n"
                                    "if [ -e first ]; then touch second; exec sleep 100; fi\n"
                                    "touch first; cat keys\n");
    snprintf(path, sizeof path,
             "{\"Version\": 1, \"AccessKeyId\": \"A\", \"SecretAccessKey\": \"B\", "
             "\"SessionToken\": \"C\", \"Expiration\": \"%s\"}",
             end);
    key_rig_write_file("keys", path);
    key_rig_write_config("[default]\ncredential_process = %s/program\n", key_rig.folder);
    key_rig_expect_keys("A", "B", "C");
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    snprintf(path, sizeof path, "%s/second", key_rig.folder);
    while (access(path, F_OK) != 0)
        mr_clock_sleep_ms(10);
    expect_release_at_once();

    key_rig.life_s = 6;
    key_rig_write_config("[default]\n");
    key_rig_write_file("identity", "token");
    key_rig_set_below("AWS_WEB_IDENTITY_TOKEN_FILE", key_rig.folder, "/identity");
    key_rig_set("AWS_ROLE_ARN", "arn:role");
    key_rig_set_below("AWS_ENDPOINT_URL_STS", mr_test_http_url(key_rig.server), "/sts");
    key_rig_expect_keys("ID1", "SECRET/1", "TOKEN1");
    uint64_t before = mr_test_http_n_requests(key_rig.server);
    key_rig.hangs = true;
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    while (mr_test_http_n_requests(key_rig.server) == before)
        mr_clock_sleep_ms(10);
    expect_release_at_once();
    key_rig.hangs = false;
}

static void a_forked_child_has_its_own_settings(void **state)
{
    (void)state;
#ifdef MR_TEST_ASAN
    skip(); /* this test forks beside the server's threads */
#endif
    mr_error error;
    key_rig.life_s = 2;
    key_rig_set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(key_rig.server),
                      "/container");
    key_rig_expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    wait_for_version(expect_set(1) + 1);
    pid_t pid = fork();
    if (pid == 0) {
        struct mr_store_settings settings;
        key_rig_set("AWS_ACCESS_KEY_ID", "CHILD");
        key_rig_set("AWS_SECRET_ACCESS_KEY", "child");
        bool good = mr_credentials_hold(&error) == MR_OK && mr_store_settings_get(&settings) > 0 &&
                    strcmp(settings.s3.key_id, "CHILD") == 0;
        mr_credentials_release();
        _exit(good ? 0 : 1);
    }
    int end;
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
    struct mr_store_settings settings;
    mr_store_settings_get(&settings);
    assert_string_not_equal(settings.s3.key_id, "CHILD");
    mr_credentials_release();
}

#define T(name) cmocka_unit_test_setup(name, key_rig_set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_slow_metadata_service_is_asked_again),
        T(a_missing_metadata_service_is_asked_ever_more_rarely),
        T(keys_are_renewed_while_they_are_held_and_kept_when_that_fails),
        T(keys_that_have_ended_are_not_asked_for_all_the_time),
        T(a_release_does_not_wait_for_a_renewal),
        T(a_forked_child_has_its_own_settings),
    };
    return cmocka_run_group_tests(tests, key_rig_start, key_rig_stop);
}
