/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where keys are found, in which order, and what errors say: files, programs and a server that
 * answers as AWS's endpoints do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataset/remote/stores/credentials.h"
#include "tests/dataset/key_rig.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"

#include <millrace/dataset.h>
#include <millrace/status.h>

static void sources_are_asked_in_the_order_of_awss_tools(void **state)
{
    (void)state;
    key_rig_expect_keys("", "", ""); /* no source has any */
    unsetenv("AWS_EC2_METADATA_DISABLED");
    key_rig_set_below("AWS_EC2_METADATA_SERVICE_ENDPOINT", mr_test_http_url(key_rig.server), "/");
    key_rig_expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_non_null(strstr(key_rig.head, "/latest/meta-data/iam/security-credentials/role-1 HTTP"));
    key_rig_set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(key_rig.server),
                      "/container?x=1");
    key_rig_set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc");
    key_rig_expect_keys("ID2", "SECRET/2", "TOKEN2");
    assert_non_null(strstr(key_rig.head, "/container?x=1 HTTP"));
    assert_non_null(strstr(key_rig.head, "\r\nAuthorization: Basic abc\r\n"));
    key_rig_write_file("authorization", "first\n");
    key_rig_set_below("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", key_rig.folder, "/authorization");
    key_rig_expect_keys("ID3", "SECRET/3", "TOKEN3");
    assert_non_null(strstr(key_rig.head, "\r\nAuthorization: first\r\n"));
    key_rig_write_file("identity", "a+b/c\n");
    key_rig_set_below("AWS_WEB_IDENTITY_TOKEN_FILE", key_rig.folder, "/identity");
    key_rig_set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    key_rig_set_below("AWS_ENDPOINT_URL_STS", mr_test_http_url(key_rig.server), "/sts");
    key_rig_expect_keys("ID4", "SECRET/4", "TOKEN4");
    assert_non_null(strstr(key_rig.head, "POST /sts/ HTTP"));
    assert_non_null(strstr(key_rig.body, "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&"));
    assert_non_null(strstr(key_rig.body, "&WebIdentityToken=a%2Bb%2Fc"));
    key_rig_set("AWS_ROLE_SESSION_NAME", "my-session");
    key_rig_expect_keys("ID5", "SECRET/5", "TOKEN5");
    assert_non_null(strstr(key_rig.body, "&RoleSessionName=my-session&"));
    key_rig_write_script("program", "#!/bin/sh\necho '{\"Version\":1,\"AccessKeyId\":\"'$1'\","
                                    "\"SecretAccessKey\":\"'$2'\"}'\n");
    key_rig_write_config("[default]\ncredential_process = '%s/program' PROGRAM \"a b\"\n",
                         key_rig.folder);
    key_rig_expect_keys("PROGRAM", "a b", "");
    key_rig_write_file(".aws/credentials",
                       "[default]\naws_access_key_id=FILE\naws_secret_access_key = file=secret \n");
    key_rig_expect_keys("FILE", "file=secret", "");
    key_rig_set("AWS_ACCESS_KEY_ID", "ENV");
    key_rig_set("AWS_SECRET_ACCESS_KEY", "env-secret");
    key_rig_expect_keys("ENV", "env-secret", "");
    assert_int_equal(key_rig.n_sets, 5);
    assert_int_equal(key_rig.n_logged, 0);
    key_rig_set("AWS_SESSION_TOKEN", "env-token");
    key_rig_expect_keys("ENV", "env-secret", "env-token");
    assert_non_null(strstr(key_rig.logged, "are temporary and are not renewed"));
    key_rig_set("AWS_NO_SIGN_REQUEST", "1");
    unsetenv("AWS_ACCESS_KEY_ID");
    assert_string_equal(key_rig_find().key_id, "");
    assert_int_equal(key_rig.n_sets, 5);
}

static void profiles_are_read_as_awss_tools_read_them(void **state)
{
    (void)state;
    struct mr_store_s3 s3;
    key_rig_write_file(".aws/credentials", "# comment\n"
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
    key_rig_write_config(
        "[default]\nregion = eu-west-1\n"
        "aws_access_key_id = IGNORED\n"
        "[profile other]\nregion=us-east-2\nservices = mine\nendpoint_url = http://all\n"
        "[profile \"quoted name\"]\nendpoint_url = http://quoted\n"
        "s3 =\n  max_attempts = 3\n  region = no\n"
        "aws_access_key_id = Q\naws_secret_access_key = q\n"
        "[services mine]\n"
        "ec2 =\n  endpoint_url = http://ec2\n"
        "s3 =\n  addressing_style = path\n  endpoint_url = http://s3\n"
        "[profile last]\nregion = x");
    s3 = key_rig_find();
    assert_string_equal(s3.key_id, "D");
    assert_string_equal(s3.secret, "d");
    assert_string_equal(s3.region, "eu-west-1");
    assert_string_equal(s3.endpoint, "");
    key_rig_set("AWS_DEFAULT_PROFILE", "other");
    s3 = key_rig_find();
    assert_string_equal(s3.key_id, "O");
    assert_string_equal(s3.secret, "o");
    assert_string_equal(s3.token, "t");
    assert_string_equal(s3.region, "us-east-2");
    assert_string_equal(s3.endpoint, "http://s3");
    key_rig_set("AWS_PROFILE", "quoted name");
    s3 = key_rig_find();
    assert_string_equal(s3.key_id, "Q");
    assert_string_equal(s3.region, "");
    assert_string_equal(s3.endpoint, "http://quoted");
    key_rig_set("AWS_REGION", "env");
    key_rig_set("AWS_ENDPOINT_URL", "http://env");
    s3 = key_rig_find();
    assert_string_equal(s3.region, "env");
    assert_string_equal(s3.endpoint, "http://env");
    unsetenv("AWS_ENDPOINT_URL");
    key_rig_set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
    assert_string_equal(key_rig_find().endpoint, "");
    unsetenv("AWS_REGION");
    key_rig_set("AWS_PROFILE", "last");
    s3 = key_rig_find();
    assert_string_equal(s3.key_id, ""); /* the next sources have none */
    assert_string_equal(s3.region, "x");
    key_rig_set("AWS_PROFILE", "half");
    key_rig_expect_problem("profile 'half' has aws_access_key_id without aws_secret_access_key");
    key_rig_set("AWS_PROFILE", "no such");
    key_rig_expect_problem("AWS_PROFILE is 'no such', which is in neither of AWS's files");
    key_rig_write_file("moved", "[no such]\naws_access_key_id=M\naws_secret_access_key=m");
    key_rig_set("AWS_SHARED_CREDENTIALS_FILE", "~/moved");
    key_rig_set("AWS_CONFIG_FILE", "/nowhere");
    key_rig_expect_keys("M", "m", "");
    key_rig_set_below("AWS_SHARED_CREDENTIALS_FILE", key_rig.folder, "");
    key_rig_expect_problem("cannot open ");
}

static void roles_of_profiles_need_a_web_identity_or_a_program(void **state)
{
    (void)state;
    key_rig_write_file("identity", "token");
    key_rig_write_config(
        "[profile web]\nrole_arn = arn:role\nweb_identity_token_file = %s/identity\n"
        "role_session_name = named\naws_access_key_id = IGNORED\n"
        "[profile chained]\nrole_arn = arn:role\nsource_profile = web\n"
        "[profile sso]\nsso_session = s\n[profile old-sso]\nsso_start_url = https://x\n",
        key_rig.folder);
    key_rig_set_below("AWS_ENDPOINT_URL", mr_test_http_url(key_rig.server), "/sts/");
    key_rig_set("AWS_PROFILE", "web");
    key_rig_expect_keys("ID1", "SECRET/1", "TOKEN1");
    assert_non_null(strstr(key_rig.body, "&RoleSessionName=named&WebIdentityToken=token"));
    key_rig_set("AWS_PROFILE", "chained");
    key_rig_expect_problem(
        "profile 'chained' has role_arn without web_identity_token_file; make a profile "
        "with credential_process = aws configure export-credentials");
    key_rig_set("AWS_PROFILE", "sso");
    key_rig_expect_problem(
        "profile 'sso' signs on by SSO; make a profile with credential_process = ");
    key_rig_set("AWS_PROFILE", "old-sso");
    key_rig_expect_problem("profile 'old-sso' signs on by SSO");
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
        {"sh -c 'exec >&- && exec sleep 100'",
         "sh closes its output, but does not end in 5 seconds"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        key_rig_write_config("[default]\ncredential_process = %s\n", cases[i].command);
        key_rig_expect_problem(cases[i].words);
    }
    for (int offset = 0; offset < 2; offset++) { /* of a time */
        key_rig_write_config("[default]\ncredential_process = echo '{\"AccessKeyId\": \"a\", "
                             "\"SecretAccessKey\": \"b\", \"SessionToken\": \"c\", "
                             "\"Expiration\": \"2999-01-01T00:00:00.123%s\"}'\n",
                             offset ? "+01:00" : "Z");
        key_rig_expect_keys("a", "b", "c");
    }
}

static void servers_that_refuse_are_named_with_their_word(void **state)
{
    (void)state;
    key_rig.refuses = true;
    key_rig_set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(key_rig.server),
                      "/container?SECRET");
    key_rig_expect_problem("the container's endpoint: it answers AccessDenied");
    key_rig_set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/SECRET");
    key_rig_expect_problem("is neither https:// nor at an address of this machine, ECS or EKS");
    key_rig_set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:80@example.org/SECRET");
    key_rig_expect_problem("is neither https:// nor at an address");
    key_rig_set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.org/SECRET");
    key_rig_expect_problem("is neither https:// nor at an address");
    key_rig_set_below("AWS_WEB_IDENTITY_TOKEN_FILE", key_rig.folder, "/none");
    key_rig_set("AWS_ROLE_ARN", "arn:role");
    key_rig_set_below("AWS_ENDPOINT_URL_STS", mr_test_http_url(key_rig.server), "/sts");
    key_rig_expect_problem("/none: No such file");
    key_rig_write_file("identity", "SECRET");
    key_rig_set_below("AWS_WEB_IDENTITY_TOKEN_FILE", key_rig.folder, "/identity");
    key_rig_expect_problem("the role arn:role by web identity: it answers ExpiredTokenException");
}

static void a_busy_metadata_service_is_not_taken_for_none(void **state)
{
    (void)state;
    unsetenv("AWS_EC2_METADATA_DISABLED");
    key_rig_set_below("AWS_EC2_METADATA_SERVICE_ENDPOINT", mr_test_http_url(key_rig.server), "/");
    key_rig.n_busy = 1;
    key_rig_expect_problem("EC2's metadata service: HTTP 503");
    key_rig.busy_after_role = 2; /* it is there, and is asked again at once */
    key_rig_expect_keys("ID1", "SECRET/1", "TOKEN1");
}

/* Opening asks S3 for nothing, but the loader's workers will. */
static void local_annotations_of_images_at_s3_need_awss_keys(void **state)
{
    (void)state;
#ifdef MR_TEST_ASAN
    skip(); /* this test forks beside the server's threads */
#endif
    char spec[2 * PATH_BYTES];
    key_rig_write_file("all.json",
                       "{\"images\":[{\"id\":1,\"file_name\":\"a.jpg\",\"width\":9,\"height\":9}],"
                       "\"annotations\":[],\"categories\":[{\"id\":1,\"name\":\"x\"}]}");
    key_rig_write_file(".aws/credentials",
                       "[default]\naws_access_key_id = FILE\naws_secret_access_key = secret\n");
    snprintf(spec, sizeof spec, "coco:s3://bucket/images?index=none&annotations=%s/all.json",
             key_rig.folder);
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
#ifdef MR_TEST_ASAN
    skip(); /* this test forks beside the server's threads */
#endif
    struct mr_store_settings settings;
    key_rig_set_below("AWS_CONTAINER_CREDENTIALS_FULL_URI", mr_test_http_url(key_rig.server),
                      "/container");
    pid_t pid = fork(); /* has asked for nothing yet */
    if (pid == 0) {
        key_rig_set("HF_TOKEN", "hf_x");
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
    assert_int_equal(key_rig.n_sets, 1);
}

#define T(name) cmocka_unit_test_setup(name, key_rig_set_up)

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
    };
    return cmocka_run_group_tests(tests, key_rig_start, key_rig_stop);
}
