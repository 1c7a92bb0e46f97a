/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/dataset/key_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <millrace/status.h>

#include "base/clock.h"
#include "dataset/remote/stores/credentials.h"
#include "tests/support/folder.h"

struct key_rig key_rig;

static void keep_log(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    key_rig.n_logged++;
    snprintf(key_rig.logged, sizeof key_rig.logged, "%s", line);
}

void key_rig_write_time(char text[40], int from_now_s)
{
    time_t end = time(NULL) + from_now_s;
    struct tm tm;
    strftime(text, 40, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &tm));
}

static char *make_json(const char *token_name)
{
    char text[1000], end[40];
    key_rig_write_time(end, key_rig.life_s);
    snprintf(text, sizeof text,
             "{\"Code\" : \"Success\",\n \"AccessKeyId\" : \"ID%d\", \"SecretAccessKey\" : "
             "\"SECRET\\/%d\", \"%s\" : \"TOKEN%d\", \"Expiration\" : \"%s\"}",
             key_rig.n_sets, key_rig.n_sets, token_name, key_rig.n_sets, end);
    return strdup(text);
}

static char *make_xml(void)
{
    char text[1000], end[40];
    key_rig_write_time(end, key_rig.life_s);
    snprintf(text, sizeof text,
             "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/\">"
             "<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>TOKEN%d</SessionToken>"
             "<SecretAccessKey>SECRET/%d</SecretAccessKey><Expiration>%s</Expiration>"
             "<AccessKeyId>ID%d</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
             "</AssumeRoleWithWebIdentityResponse>",
             key_rig.n_sets, key_rig.n_sets, end, key_rig.n_sets);
    return strdup(text);
}

static bool has_imds_token(const struct mr_test_http_request *request)
{
    return strstr(request->head, "X-aws-ec2-metadata-token: IMDS\r\n");
}

static bool answer(void *user, const struct mr_test_http_request *request,
                   struct mr_test_http_page *page)
{
    (void)user;
    if (key_rig.hangs) {
        while (key_rig.hangs)
            mr_clock_sleep_ms(10);
        page->status = "503 Service Unavailable";
        return true;
    }
    if (strncmp(request->path, "/latest/", 8) == 0 && key_rig.n_slow-- > 0)
        mr_clock_sleep_ms(1500);
    if (strncmp(request->path, "/latest/", 8) == 0 && key_rig.n_busy-- > 0) {
        page->status = "503 Service Unavailable";
        return true;
    }
    if (strcmp(request->path, "/latest/api/token") == 0) {
        if (strncmp(request->head, "PUT ", 4) != 0 ||
            !strstr(request->head, "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"))
            page->status = "400 Bad Request";
        page->body = strdup("IMDS");
        return true;
    }
    if (strcmp(request->path, "/latest/meta-data/iam/security-credentials/") == 0) {
        page->status = has_imds_token(request) ? "200 OK" : "401 Unauthorized";
        page->body = strdup("role-1\nrole-2\n");
        key_rig.n_busy = key_rig.busy_after_role;
        return true;
    }
    snprintf(key_rig.head, sizeof key_rig.head, "%s", request->head);
    snprintf(key_rig.body, sizeof key_rig.body, "%s", request->body);
    bool is_sts = strcmp(request->path, "/sts/") == 0;
    if (key_rig.refuses) {
        page->status = "403 Forbidden";
        page->body = strdup(is_sts ? "<ErrorResponse><Error><Code>ExpiredTokenException</Code>"
                                     "<Message>SECRET</Message></Error></ErrorResponse>"
                                   : "{\"code\": \"AccessDenied\", \"message\": \"SECRET\"}");
        return true;
    }
    key_rig.n_sets++;
    if (is_sts)
        page->body = make_xml();
    else if (strcmp(request->path, "/latest/meta-data/iam/security-credentials/role-1") == 0 &&
             has_imds_token(request))
        page->body = make_json("Token");
    else if (strcmp(request->path, "/container") == 0)
        page->body = make_json("Token");
    else
        page->status = "404 Not Found";
    return true;
}

int key_rig_start(void **state)
{
    (void)state;
    key_rig.folder = mr_test_folder_create();
    key_rig.server = mr_test_http_start(key_rig.folder, NULL, NULL);
    mr_test_http_answer_with(key_rig.server, answer);
    mr_log_set(keep_log, NULL);
    setenv("HOME", key_rig.folder, 1);
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/.aws", key_rig.folder);
    return mkdir(path, 0700);
}

int key_rig_stop(void **state)
{
    (void)state;
    mr_test_http_stop(key_rig.server);
    mr_test_folder_remove(key_rig.folder);
    return 0;
}

void key_rig_set(const char *name, const char *value)
{
    setenv(name, value, 1);
}

void key_rig_set_below(const char *name, const char *root, const char *rest)
{
    char text[PATH_BYTES];
    snprintf(text, sizeof text, "%s%s", root, rest);
    setenv(name, text, 1);
}

void key_rig_write_file(const char *name, const char *text)
{
    mr_test_folder_write(key_rig.folder, name, text, strlen(text));
}

int key_rig_set_up(void **state)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                                        "AWS_NO_SIGN_REQUEST",
                                        "AWS_PROFILE",
                                        "AWS_DEFAULT_PROFILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                        "HF_TOKEN"};
    static int n;
    char text[20];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    key_rig_set("AWS_EC2_METADATA_DISABLED", "true");
    snprintf(text, sizeof text, "%d", n++);
    key_rig_set("AWS_TEST_NUMBER", text); /* the environment has changed */
    key_rig_write_file(".aws/credentials", "");
    key_rig_write_file(".aws/config", "");
    key_rig.n_sets = key_rig.n_logged = key_rig.n_busy = key_rig.n_slow = key_rig.busy_after_role =
        0;
    key_rig.life_s = 3600;
    key_rig.refuses = false;
    return 0;
}

/* An environment that is not the one of the last call. */
static void change_environment(void)
{
    static int n;
    char text[20];
    snprintf(text, sizeof text, "%d", n++);
    key_rig_set("AWS_TEST_CHANGE", text);
}

struct mr_store_s3 key_rig_find(void)
{
    struct mr_store_settings settings;
    mr_error error;
    change_environment();
    if (mr_credentials_find(true, &error) != MR_OK)
        fail_msg("%s", error.text);
    assert_true(mr_store_settings_get(&settings) > 0);
    return settings.s3;
}

void key_rig_expect_keys(const char *id, const char *secret, const char *token)
{
    struct mr_store_s3 s3 = key_rig_find();
    assert_string_equal(s3.problem, "");
    assert_string_equal(s3.key_id, id);
    assert_string_equal(s3.secret, secret);
    assert_string_equal(s3.token, token);
}

void key_rig_expect_problem(const char *words)
{
    struct mr_store_s3 s3 = key_rig_find();
    assert_string_equal(s3.key_id, "");
    if (!strstr(s3.problem, words))
        fail_msg("'%s' is not in '%s'", words, s3.problem);
    assert_null(strstr(s3.problem, "SECRET"));
}

void key_rig_write_script(const char *name, const char *text)
{
    char path[PATH_BYTES];
    key_rig_write_file(name, text);
    snprintf(path, sizeof path, "%s/%s", key_rig.folder, name);
    assert_int_equal(chmod(path, 0700), 0);
}

void key_rig_write_config(const char *format, ...)
{
    char text[3 * PATH_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    key_rig_write_file(".aws/config", text);
}
