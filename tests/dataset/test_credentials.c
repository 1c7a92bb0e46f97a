/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where keys are found, in which order, when they are renewed, and what errors say: files, programs
 * and a server that answers as AWS's endpoints do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "dataset/remote/stores/credentials.h"
#include "dataset/remote/stores/settings.h"
#include "dataset/remote/stores/settings_cell.h"
#include "tests/support/folder.h"
#include "tests/support/http_server.h"

#include <millrace/dataset.h>
#include <millrace/status.h>

enum { PATH_BYTES = 4300 };

static char *folder;
static struct mr_test_http *server;
static int n_sets;                  /* how many sets of keys the server has given */
static int life_s = 3600;           /* of its keys */
static bool refuses;                /* the server gives no more keys */
static int n_busy, busy_after_role; /* so many answers of the metadata service are 503 */
static char head[4096], body[4096]; /* of the last request for keys */
static char logged[1000];
static int n_logged;

static void keep_log(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    n_logged++;
    snprintf(logged, sizeof logged, "%s", line);
}

static void write_time(char text[40], int from_now_s)
{
    time_t end = time(NULL) + from_now_s;
    struct tm tm;
    strftime(text, 40, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &tm));
}

static char *make_json(const char *token_name)
{
    char text[1000], end[40];
    write_time(end, life_s);
    snprintf(text, sizeof text,
             "{\"Code\" : \"Success\",\n \"AccessKeyId\" : \"ID%d\", \"SecretAccessKey\" : "
             "\"SECRET\\/%d\", \"%s\" : \"TOKEN%d\", \"Expiration\" : \"%s\"}",
             n_sets, n_sets, token_name, n_sets, end);
    return strdup(text);
}

static char *make_xml(void)
{
    char text[1000], end[40];
    write_time(end, life_s);
    snprintf(text, sizeof text,
             "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/\">"
             "<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>TOKEN%d</SessionToken>"
             "<SecretAccessKey>SECRET/%d</SecretAccessKey><Expiration>%s</Expiration>"
             "<AccessKeyId>ID%d</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
             "</AssumeRoleWithWebIdentityResponse>",
             n_sets, n_sets, end, n_sets);
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
    if (strncmp(request->path, "/latest/", 8) == 0 && n_busy-- > 0) {
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
        n_busy = busy_after_role;
        return true;
    }
    snprintf(head, sizeof head, "%s", request->head);
    snprintf(body, sizeof body, "%s", request->body);
    bool is_sts = strcmp(request->path, "/sts/") == 0;
    if (refuses) {
        page->status = "403 Forbidden";
        page->body = strdup(is_sts ? "<ErrorResponse><Error><Code>ExpiredTokenException</Code>"
                                     "<Message>SECRET</Message></Error></ErrorResponse>"
                                   : "{\"code\": \"AccessDenied\", \"message\": \"SECRET\"}");
        return true;
    }
    n_sets++;
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

static int start(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    server = mr_test_http_start(folder, NULL, NULL);
    mr_test_http_answer_with(server, answer);
    mr_log_set(keep_log, NULL);
    setenv("HOME", folder, 1);
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/.aws", folder);
    return mkdir(path, 0700);
}

static int stop(void **state)
{
    (void)state;
    mr_test_http_stop(server);
    mr_test_folder_remove(folder);
    return 0;
}

static void set(const char *name, const char *value)
{
    setenv(name, value, 1);
}

/* A path of a file in the folder, or a URL of the server, as a variable. */
static void set_below(const char *name, const char *root, const char *rest)
{
    char text[PATH_BYTES];
    snprintf(text, sizeof text, "%s%s", root, rest);
    setenv(name, text, 1);
}

static void write_file(const char *name, const char *text)
{
    mr_test_folder_write(folder, name, text, strlen(text));
}

/* Without any source but the files of AWS, which are empty. */
static int set_up(void **state)
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
    set("AWS_EC2_METADATA_DISABLED", "true");
    snprintf(text, sizeof text, "%d", n++);
    set("AWS_TEST_NUMBER", text); /* the environment has changed */
    write_file(".aws/credentials", "");
    write_file(".aws/config", "");
    n_sets = n_logged = n_busy = busy_after_role = 0;
    life_s = 3600;
    refuses = false;
    return 0;
}

/* An environment that is not the one of the last call. */
static void change_environment(void)
{
    static int n;
    char text[20];
    snprintf(text, sizeof text, "%d", n++);
    set("AWS_TEST_CHANGE", text);
}

static struct mr_store_s3 find(void)
{
    struct mr_store_settings settings;
    mr_error error;
    change_environment();
    if (mr_credentials_find(true, &error) != MR_OK)
        fail_msg("%s", error.text);
    assert_true(mr_store_settings_get(&settings) > 0);
    return settings.s3;
}

static void expect_keys(const char *id, const char *secret, const char *token)
{
    struct mr_store_s3 s3 = find();
    assert_string_equal(s3.problem, "");
    assert_string_equal(s3.key_id, id);
    assert_string_equal(s3.secret, secret);
    assert_string_equal(s3.token, token);
}

static void expect_problem(const char *words)
{
    struct mr_store_s3 s3 = find();
    assert_string_equal(s3.key_id, "");
    if (!strstr(s3.problem, words))
        fail_msg("'%s' is not in '%s'", words, s3.problem);
    assert_null(strstr(s3.problem, "SECRET"));
}

static void write_script(const char *name, const char *text)
{
    char path[PATH_BYTES];
    write_file(name, text);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(chmod(path, 0700), 0);
}

static void write_config(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void write_config(const char *format, ...)
{
    char text[3 * PATH_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_file(".aws/config", text);
}

static void sources_are_asked_in_the_order_of_awss_tools(void **state)
{
    (void)state;
    expect_keys("", "", ""); /* no source has any */
    unsetenv("AWS_EC2_METADATA_DISABLED");
    set_below("AWS_EC2_METADATA_SERVICE_ENDPOINT", mr_test_http_url(server), "/");
    expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_non_null(strstr(head, "/latest/meta-data/iam/security-credentials/role-1 HTTP"));
    set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(server), "/container?x=1");
    set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc");
    expect_keys("ID2", "SECRET/2", "TOKEN2");
    assert_non_null(strstr(head, "/container?x=1 HTTP"));
    assert_non_null(strstr(head, "\r\nAuthorization: Basic abc\r\n"));
    write_file("authorization", "first\n");
    set_below("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder, "/authorization");
    expect_keys("ID3", "SECRET/3", "TOKEN3");
    assert_non_null(strstr(head, "\r\nAuthorization: first\r\n"));
    write_file("identity", "a+b/c\n");
    set_below("AWS_WEB_IDENTITY_TOKEN_FILE", folder, "/identity");
    set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    set_below("AWS_ENDPOINT_URL_STS", mr_test_http_url(server), "/sts");
    expect_keys("ID4", "SECRET/4", "TOKEN4");
    assert_non_null(strstr(head, "POST /sts/ HTTP"));
    assert_non_null(strstr(body, "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&"));
    assert_non_null(strstr(body, "&WebIdentityToken=a%2Bb%2Fc"));
    set("AWS_ROLE_SESSION_NAME", "my-session");
    expect_keys("ID5", "SECRET/5", "TOKEN5");
    assert_non_null(strstr(body, "&RoleSessionName=my-session&"));
    write_script("program", "#!/bin/sh\necho '{\"Version\":1,\"AccessKeyId\":\"'$1'\","
                            "\"SecretAccessKey\":\"'$2'\"}'\n");
    write_config("[default]\ncredential_process = '%s/program' PROGRAM \"a b\"\n", folder);
    expect_keys("PROGRAM", "a b", "");
    write_file(".aws/credentials",
               "[default]\naws_access_key_id=FILE\naws_secret_access_key = file=secret \n");
    expect_keys("FILE", "file=secret", "");
    set("AWS_ACCESS_KEY_ID", "ENV");
    set("AWS_SECRET_ACCESS_KEY", "env-secret");
    expect_keys("ENV", "env-secret", "");
    assert_int_equal(n_sets, 5);
    assert_int_equal(n_logged, 0);
    set("AWS_SESSION_TOKEN", "env-token");
    expect_keys("ENV", "env-secret", "env-token");
    assert_non_null(strstr(logged, "are temporary and are not renewed"));
    set("AWS_NO_SIGN_REQUEST", "1");
    unsetenv("AWS_ACCESS_KEY_ID");
    assert_string_equal(find().key_id, "");
    assert_int_equal(n_sets, 5);
}

static void profiles_are_read_as_awss_tools_read_them(void **state)
{
    (void)state;
    struct mr_store_s3 s3;
    write_file(".aws/credentials", "# comment\n"
                                   "  [not-a-section]\n"
                                   "[default]\r\n"
                                   "aws_access_key_id = D\r\n"
                                   "aws_secret_access_key = d\r\n"
                                   "[other]\n"
                                   "  AWS_Access_Key_Id = O\n"
                                   "  aws_secret_access_key = o\n"
                                   "  aws_session_token = t\n"
                                   "[half]\n"
                                   "aws_access_key_id = H\n");
    write_config("[default]\nregion = eu-west-1\n"
                 "aws_access_key_id = IGNORED\n"
                 "[profile other]\nregion=us-east-2\nservices = mine\nendpoint_url = http://all\n"
                 "[profile \"quoted name\"]\nendpoint_url = http://quoted\n"
                 "s3 =\n  max_attempts = 3\n  region = no\n"
                 "aws_access_key_id = Q\naws_secret_access_key = q\n"
                 "[services mine]\n"
                 "ec2 =\n  endpoint_url = http://ec2\n"
                 "s3 =\n  addressing_style = path\n  endpoint_url = http://s3\n"
                 "[profile last]\nregion = x");
    s3 = find();
    assert_string_equal(s3.key_id, "D");
    assert_string_equal(s3.secret, "d");
    assert_string_equal(s3.region, "eu-west-1");
    assert_string_equal(s3.endpoint, "");
    set("AWS_DEFAULT_PROFILE", "other");
    s3 = find();
    assert_string_equal(s3.key_id, "O");
    assert_string_equal(s3.secret, "o");
    assert_string_equal(s3.token, "t");
    assert_string_equal(s3.region, "us-east-2");
    assert_string_equal(s3.endpoint, "http://s3");
    set("AWS_PROFILE", "quoted name");
    s3 = find();
    assert_string_equal(s3.key_id, "Q");
    assert_string_equal(s3.region, "");
    assert_string_equal(s3.endpoint, "http://quoted");
    set("AWS_REGION", "env");
    set("AWS_ENDPOINT_URL", "http://env");
    s3 = find();
    assert_string_equal(s3.region, "env");
    assert_string_equal(s3.endpoint, "http://env");
    unsetenv("AWS_ENDPOINT_URL");
    set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
    assert_string_equal(find().endpoint, "");
    unsetenv("AWS_REGION");
    set("AWS_PROFILE", "last");
    s3 = find();
    assert_string_equal(s3.key_id, ""); /* the next sources have none */
    assert_string_equal(s3.region, "x");
    set("AWS_PROFILE", "half");
    expect_problem("profile 'half' has aws_access_key_id without aws_secret_access_key");
    set("AWS_PROFILE", "no such");
    expect_problem("AWS_PROFILE is 'no such', which is in neither of AWS's files");
    write_file("moved", "[no such]\naws_access_key_id=M\naws_secret_access_key=m");
    set("AWS_SHARED_CREDENTIALS_FILE", "~/moved");
    set("AWS_CONFIG_FILE", "/nowhere");
    expect_keys("M", "m", "");
    set_below("AWS_SHARED_CREDENTIALS_FILE", folder, "");
    expect_problem("cannot open ");
}

static void roles_of_profiles_need_a_web_identity_or_a_program(void **state)
{
    (void)state;
    write_file("identity", "token");
    write_config("[profile web]\nrole_arn = arn:role\nweb_identity_token_file = %s/identity\n"
                 "role_session_name = named\naws_access_key_id = IGNORED\n"
                 "[profile chained]\nrole_arn = arn:role\nsource_profile = web\n"
                 "[profile sso]\nsso_session = s\n[profile old-sso]\nsso_start_url = https://x\n",
                 folder);
    set_below("AWS_ENDPOINT_URL", mr_test_http_url(server), "/sts/");
    set("AWS_PROFILE", "web");
    expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_non_null(strstr(body, "&RoleSessionName=named&WebIdentityToken=token"));
    set("AWS_PROFILE", "chained");
    expect_problem("profile 'chained' has role_arn without web_identity_token_file; make a profile "
                   "with credential_process = aws configure export-credentials");
    set("AWS_PROFILE", "sso");
    expect_problem("profile 'sso' signs on by SSO; make a profile with credential_process = ");
    set("AWS_PROFILE", "old-sso");
    expect_problem("profile 'old-sso' signs on by SSO");
}

static void programs_that_fail_are_named_and_their_output_is_not(void **state)
{
    (void)state;
    static const struct {
        const char *command, *words;
    } cases[] = {
        {"/no/such/program", "cannot start /no/such/program: No such file"},
        {"false SECRET", "credential_process: false ended with status 1"},
        {"echo SECRET", "credential_process: its answer is not JSON"},
        {"echo '{\"AccessKeyId\": \"SECRET\"}'", "has no good AccessKeyId and SecretAccessKey"},
        {"echo '{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"SECRET\\n\"}'",
         "has no good AccessKeyId and SecretAccessKey"},
        {"echo '{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"SECRET\", \"Expiration\": \"x\"}'",
         "an Expiration that is no time"},
        {"echo '{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"SECRET\", \"SessionToken\": "
         "\"\"}'",
         "its session token is empty or has more than 4095 bytes"},
        {"echo SECRET | cat", "is run without a shell"},
        {"echo $(echo SECRET)", "is run without a shell"},
        {"echo 'SECRET", "is run without a shell"},
        {"sh -c 'kill -9 $$'", "credential_process: sh was ended by signal 9"},
        {"head -c 20000 /dev/zero", "writes more than 16382 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config("[default]\ncredential_process = %s\n", cases[i].command);
        expect_problem(cases[i].words);
    }
    for (int offset = 0; offset < 2; offset++) { /* of a time */
        write_config("[default]\ncredential_process = echo '{\"AccessKeyId\": \"a\", "
                     "\"SecretAccessKey\": \"b\", \"SessionToken\": \"c\", "
                     "\"Expiration\": \"2999-01-01T00:00:00.123%s\"}'\n",
                     offset ? "+01:00" : "Z");
        expect_keys("a", "b", "c");
    }
}

static void servers_that_refuse_are_named_with_their_word(void **state)
{
    (void)state;
    refuses = true;
    set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(server), "/container?SECRET");
    expect_problem("the container's endpoint: it answers AccessDenied");
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/SECRET");
    expect_problem("is neither https:// nor at an address of this machine, ECS or EKS");
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:80@example.org/SECRET");
    expect_problem("is neither https:// nor at an address");
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.org/SECRET");
    expect_problem("is neither https:// nor at an address");
    set_below("AWS_WEB_IDENTITY_TOKEN_FILE", folder, "/none");
    set("AWS_ROLE_ARN", "arn:role");
    set_below("AWS_ENDPOINT_URL_STS", mr_test_http_url(server), "/sts");
    expect_problem("/none: No such file");
    write_file("identity", "SECRET");
    set_below("AWS_WEB_IDENTITY_TOKEN_FILE", folder, "/identity");
    expect_problem("the role arn:role by web identity: it answers ExpiredTokenException");
}

static void a_busy_metadata_service_is_not_taken_for_none(void **state)
{
    (void)state;
    unsetenv("AWS_EC2_METADATA_DISABLED");
    set_below("AWS_EC2_METADATA_SERVICE_ENDPOINT", mr_test_http_url(server), "/");
    n_busy = 1;
    expect_problem("EC2's metadata service: HTTP 503");
    busy_after_role = 2; /* it is there, and is asked again at once */
    expect_keys("ID1", "SECRET/1", "TOKEN1");
}

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

static void keys_are_renewed_while_they_are_held_and_kept_when_that_fails(void **state)
{
    (void)state;
    mr_error error;
    set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(server), "/container");
    set_below("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder, "/authorization");
    write_file("authorization", "first");
    expect_keys("ID1", "SECRET/1", "TOKEN1"); /* for an hour, so no thread asks again */
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    mr_credentials_release();
    life_s = 4;
    uint64_t version = expect_set(1) + 1;
    expect_keys("ID2", "SECRET/2", "TOKEN2");
    expect_threads(2); /* this one and the server's */
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    expect_threads(3);
    assert_int_equal(mr_credentials_hold(&error), MR_OK); /* the thread is shared */
    expect_threads(3);
    write_file("authorization", "second");
    wait_for_version(version + 1);
    expect_set(3);
    assert_non_null(strstr(head, "Authorization: second\r\n")); /* the file is read again */
    refuses = true;
    uint64_t before = mr_test_http_n_requests(server);
    while (mr_test_http_n_requests(server) < before + 2)
        mr_clock_sleep_ms(10);
    expect_set(3);
    assert_int_equal(n_logged, 1);
    assert_string_equal(logged, "the keys for S3 are not renewed, and are used on: the container's "
                                "endpoint: it answers AccessDenied");
    refuses = false;
    wait_for_version(version + 2);
    expect_set(4);
    mr_credentials_release();
    expect_threads(3);
    mr_credentials_release();
    expect_threads(2);
    before = mr_test_http_n_requests(server);
    mr_clock_sleep_ms(3500); /* nothing renews */
    assert_int_equal(mr_test_http_n_requests(server), before);
    expect_set(4);
    assert_int_equal(mr_credentials_find(true, &error), MR_OK); /* before a request of the host */
    expect_set(5);
    assert_int_equal(n_logged, 1);
}

static void keys_that_have_ended_are_not_asked_for_all_the_time(void **state)
{
    (void)state;
    life_s = -3600; /* or the clock of this machine is wrong */
    set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(server), "/container");
    time_t begin = time(NULL);
    expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_int_equal(mr_credentials_hold(NULL), MR_OK);
    mr_clock_sleep_ms(2500);
    mr_credentials_release();
    assert_in_range(n_sets, 1, 1 + (time(NULL) - begin) / 9);
}

static void a_forked_child_has_its_own_settings(void **state)
{
    (void)state;
    mr_error error;
    life_s = 2;
    set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(server), "/container");
    expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_int_equal(mr_credentials_hold(&error), MR_OK);
    wait_for_version(expect_set(1) + 1);
    pid_t pid = fork();
    if (pid == 0) {
        struct mr_store_settings settings;
        set("AWS_ACCESS_KEY_ID", "CHILD");
        set("AWS_SECRET_ACCESS_KEY", "child");
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

/* Opening asks S3 for nothing, but the loader's workers will. */
static void local_annotations_of_images_at_s3_need_awss_keys(void **state)
{
    (void)state;
    char spec[2 * PATH_BYTES];
    write_file("all.json",
               "{\"images\":[{\"id\":1,\"file_name\":\"a.jpg\",\"width\":9,\"height\":9}],"
               "\"annotations\":[],\"categories\":[{\"id\":1,\"name\":\"x\"}]}");
    write_file(".aws/credentials",
               "[default]\naws_access_key_id = FILE\naws_secret_access_key = secret\n");
    snprintf(spec, sizeof spec, "coco:s3://bucket/images?index=none&annotations=%s/all.json",
             folder);
    pid_t pid = fork(); /* has asked for nothing yet */
    if (pid == 0) {
        struct mr_store_settings settings;
        mr_dataset *dataset;
        bool good = mr_dataset_open(spec, NULL, &dataset, NULL) == MR_OK &&
                    mr_credentials_hold(NULL) == MR_OK && mr_store_settings_get(&settings) > 0;
        _exit(good && strcmp(settings.s3.key_id, "FILE") == 0 ? 0 : 1);
    }
    int end;
    assert_true(waitpid(pid, &end, 0) == pid && end == 0);
}

static void other_stores_do_not_ask_for_awss_keys(void **state)
{
    (void)state;
    struct mr_store_settings settings;
    set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(server), "/container");
    pid_t pid = fork(); /* has asked for nothing yet */
    if (pid == 0) {
        set("HF_TOKEN", "hf_x");
        bool good = mr_credentials_find(false, NULL) == MR_OK &&
                    mr_store_settings_get(&settings) > 0 &&
                    strcmp(settings.hf.token, "hf_x") == 0 && !*settings.s3.key_id;
        good = good && mr_credentials_find(true, NULL) == MR_OK &&
               mr_store_settings_get(&settings) > 0 && strcmp(settings.s3.key_id, "ID1") == 0;
        _exit(good ? 0 : 1);
    }
    int end;
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
    assert_int_equal(n_sets, 1);
}

#define T(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(other_stores_do_not_ask_for_awss_keys),            /* the first, as it says */
        T(local_annotations_of_images_at_s3_need_awss_keys), /* so is this one */
        T(sources_are_asked_in_the_order_of_awss_tools),
        T(profiles_are_read_as_awss_tools_read_them),
        T(roles_of_profiles_need_a_web_identity_or_a_program),
        T(programs_that_fail_are_named_and_their_output_is_not),
        T(servers_that_refuse_are_named_with_their_word),
        T(a_busy_metadata_service_is_not_taken_for_none),
        T(keys_are_renewed_while_they_are_held_and_kept_when_that_fails),
        T(keys_that_have_ended_are_not_asked_for_all_the_time),
        T(a_forked_child_has_its_own_settings),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
