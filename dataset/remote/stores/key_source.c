/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the sources, with the names, addresses and limits of AWS's own tools. */
#include "dataset/remote/stores/key_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include "base/clock.h"
#include "base/words.h"
#include "dataset/remote/fetch.h"

enum {
    PROCESS_MS = 60000,
    EXIT_MS = 5000, /* for a program that has closed its output */
    STEP_MS = 20,
    STS_MS = 5000,
    CONTAINER_MS = 2000,
    RETRY_MS = 5000,
    INSTANCE_MS = 1000, /* elsewhere than at EC2 nothing answers */
    MAX_URL = 2048,
};

#define NS_PER_MS UINT64_C(1000000)
#define CONTAINER "the container's endpoint"
#define INSTANCE "EC2's metadata service"

_Atomic bool mr_key_source_stop;

static const char *find_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

/* Put the name of the source before what is wrong. */
static mr_status fail(const char *source, const mr_error *why, mr_error *error)
{
    return mr_error_set(error, why->status, "%s: %s", source, why->text);
}

/* Start the program with its output in a pipe. Returns 0 or an errno. */
static int start_process(char **words, pid_t *pid_out, int *fd_out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigemptyset(&signals); /* our threads block all signals, and programs ignore some */
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    int failed = posix_spawnp(pid_out, words[0], &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *fd_out = ends[0];
    if (failed)
        close(ends[0]);
    return failed;
}

static uint64_t end_after(uint32_t ms)
{
    return mr_clock_now_ns() + ms * NS_PER_MS;
}

static bool may_wait(uint64_t end_ns)
{
    return !mr_key_source_stop && mr_clock_now_ns() < end_ns;
}

/* Read until the program has closed its output. False: it takes too long, or writes too much. */
static bool read_output(int fd, char out[MR_KEY_TEXT])
{
    const uint64_t end_ns = end_after(PROCESS_MS);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    size_t len = 0;
    while (may_wait(end_ns) && len < MR_KEY_TEXT - 1) {
        if (poll(&wait, 1, STEP_MS) <= 0)
            continue;
        ssize_t n = read(fd, out + len, MR_KEY_TEXT - 1 - len);
        len += n > 0 ? (size_t)n : 0;
        out[len] = '\0';
        if (n == 0 || (n < 0 && errno != EINTR))
            return true;
    }
    return false;
}

/*
 * Wait until the program has ended. False: it was killed, because it takes too long. A program that
 * reaps all of its children may have taken the status.
 */
static bool wait_for_end(pid_t pid, uint64_t end_ns, int *status_out)
{
    pid_t rc;
    while ((rc = waitpid(pid, status_out, WNOHANG)) == 0 && may_wait(end_ns))
        mr_clock_sleep_ms(STEP_MS);
    if (rc != 0)
        return true;
    kill(pid, SIGKILL);
    while (waitpid(pid, status_out, 0) < 0 && errno == EINTR)
        ;
    return false;
}

static mr_status run_process(char **words, char out[MR_KEY_TEXT], mr_error *error)
{
    pid_t pid;
    int fd = -1, end = 0;
    int failed = start_process(words, &pid, &fd);
    if (failed)
        return mr_error_os(error, MR_ERR_IO, failed, "cannot start %s", words[0]);
    bool is_whole = read_output(fd, out);
    close(fd);
    bool has_ended = wait_for_end(pid, is_whole ? end_after(EXIT_MS) : 0, &end);
    if (!is_whole)
        return mr_error_set(error, MR_ERR_IO,
                            "%s takes more than %d seconds, or writes more than %d bytes", words[0],
                            PROCESS_MS / 1000, MR_KEY_TEXT - 2);
    if (!has_ended)
        return mr_error_set(error, MR_ERR_IO,
                            "%s closes its output, but does not end in %d seconds", words[0],
                            EXIT_MS / 1000);
    if (WIFSIGNALED(end))
        return mr_error_set(error, MR_ERR_IO, "%s was ended by signal %d", words[0], WTERMSIG(end));
    if (WEXITSTATUS(end) != 0)
        return mr_error_set(error, MR_ERR_IO, "%s ended with status %d", words[0],
                            WEXITSTATUS(end));
    return MR_OK;
}

mr_status mr_key_source_process(const char *command, struct mr_key_set *out, mr_error *error)
{
    wordexp_t words;
    char text[MR_KEY_TEXT];
    mr_error why;
    int rc = wordexp(command, &words, WRDE_NOCMD);
    if (rc == WRDE_NOSPACE)
        return mr_error_memory(error, strlen(command));
    if (rc != 0 || words.we_wordc == 0) {
        if (rc == 0)
            wordfree(&words);
        return mr_error_set(
            error, MR_ERR_INVALID,
            "credential_process is run without a shell: for |, &, ;, <, >, {, }, (, ) or "
            "$() outside of quotes, write a script");
    }
    mr_status status = run_process(words.we_wordv, text, &why);
    if (status == MR_OK)
        status = mr_key_json_parse(text, out, &why);
    explicit_bzero(text, sizeof text);
    wordfree(&words);
    return status == MR_OK ? MR_OK : fail("credential_process", &why, error);
}

/* Ask a server and let parse() take the keys from its answer. */
static mr_status fetch_keys(const char *source, const struct mr_fetch_request *request,
                            mr_status (*parse)(char *text, struct mr_key_set *out, mr_error *error),
                            struct mr_key_set *out, mr_error *error)
{
    struct mr_fetch *fetch;
    struct mr_fetch_answer answer;
    mr_error why;
    mr_status status = mr_fetch_create(&fetch, &why);
    if (status == MR_OK)
        status = mr_fetch_run(fetch, request, &answer, &why);
    if (status == MR_OK) {
        status = parse(answer.body, out, &why);
        if (answer.code != 200 && (status == MR_OK || strncmp(why.text, "it answers", 10) != 0))
            status = mr_error_set(&why, MR_ERR_IO, "HTTP %d", answer.code);
    }
    mr_fetch_destroy(fetch);
    return status == MR_OK ? MR_OK : fail(source, &why, error);
}

static mr_status parse_json(char *text, struct mr_key_set *out, mr_error *error)
{
    return mr_key_json_parse(text, out, error);
}

/* Append "&NAME=VALUE" to a form. */
static void add_field(char *form, size_t size, const char *name, const char *value)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    size_t len = strlen(form);
    len += (size_t)snprintf(form + len, size - len, "&%s=", name);
    for (; *value; value++)
        len += (size_t)snprintf(form + len, size - len, strchr(plain, *value) ? "%c" : "%%%02X",
                                (unsigned char)*value);
}

static void find_sts(const struct mr_web_identity *identity, char url_out[MAX_URL])
{
    const char *region = identity->region;
    size_t len = strlen(identity->endpoint);
    if (len > 0)
        snprintf(url_out, MAX_URL, "%s%s", identity->endpoint,
                 identity->endpoint[len - 1] == '/' ? "" : "/");
    else
        snprintf(url_out, MAX_URL, "https://sts.%s%samazonaws.com%s/", region, *region ? "." : "",
                 strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
}

mr_status mr_key_source_web_identity(const struct mr_web_identity *identity, struct mr_key_set *out,
                                     mr_error *error)
{
    char source[MAX_URL + 40], url[MAX_URL], session[40], token[MR_KEY_TEXT], form[4 * MR_KEY_TEXT];
    mr_status status = mr_key_text_read(identity->token_file, true, token, sizeof token, error);
    if (status != MR_OK)
        return status;
    token[strcspn(token, "\r\n")] = '\0';
    snprintf(source, sizeof source, "the role %s by web identity", identity->role);
    snprintf(session, sizeof session, "millrace-%d", (int)getpid());
    snprintf(form, sizeof form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
    add_field(form, sizeof form, "RoleArn", identity->role);
    add_field(form, sizeof form, "RoleSessionName",
              *identity->session ? identity->session : session);
    add_field(form, sizeof form, "WebIdentityToken", token);
    find_sts(identity, url);
    const struct mr_fetch_request request = {.method = "POST",
                                             .url = url,
                                             .body = form,
                                             .timeout_ms = STS_MS,
                                             .retry_ms = RETRY_MS,
                                             .max_bytes = MR_KEY_TEXT - 1,
                                             .stop = &mr_key_source_stop};
    status = fetch_keys(source, &request, mr_key_xml_parse, out, error);
    explicit_bzero(token, sizeof token);
    explicit_bzero(form, sizeof form);
    return status;
}

/* Without TLS, keys may come only from this machine, or from the addresses of ECS and EKS. */
static bool is_allowed(const char *url)
{
    static const char *const hosts[] = {"127.0.0.1",     "localhost",      "[::1]",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    bool is_secure = mr_word_begins(url, "https://");
    const char *host = url + (is_secure ? 8 : 7);
    if ((!is_secure && !mr_word_begins(url, "http://")) || memchr(host, '@', strcspn(host, "/?#")))
        return false;
    for (size_t i = 0; !is_secure && i < sizeof hosts / sizeof *hosts; i++)
        is_secure = mr_word_begins(host, hosts[i]) && strchr(":/?", host[strlen(hosts[i])]);
    return is_secure;
}

mr_status mr_key_source_container(struct mr_key_set *out, mr_error *error)
{
    char url[MAX_URL], token[MR_KEY_TEXT] = "", header[MR_KEY_TEXT + 32];
    const char *path = find_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *whole = find_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *file = find_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *given = find_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const char *const headers[] = {"Accept: application/json", header, NULL};
    mr_status status = MR_OK;
    if (!path && !whole)
        return mr_error_set(error, MR_END, "no container's endpoint is in the environment");
    int n =
        snprintf(url, sizeof url, "%s%s", path ? "http://169.254.170.2" : "", path ? path : whole);
    if (n >= MAX_URL || !is_allowed(url))
        return mr_error_set(error, MR_ERR_INVALID,
                            "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor at an "
                            "address of this machine, ECS or EKS");
    if (file)
        status = mr_key_text_read(file, true, token, sizeof token, error);
    else if (given)
        snprintf(token, sizeof token, "%s", given);
    if (status != MR_OK)
        return status;
    token[strcspn(token, "\r\n")] = '\0';
    /* libcurl leaves out a header without a value */
    snprintf(header, sizeof header, "Authorization:%s%s", *token ? " " : "", token);
    const struct mr_fetch_request request = {.url = url,
                                             .headers = headers,
                                             .timeout_ms = CONTAINER_MS,
                                             .retry_ms = RETRY_MS,
                                             .max_bytes = MR_KEY_TEXT - 1,
                                             .stop = &mr_key_source_stop,
                                             .direct = true};
    status = fetch_keys(CONTAINER, &request, parse_json, out, error);
    explicit_bzero(token, sizeof token);
    explicit_bzero(header, sizeof header);
    return status;
}

/* The first line of a page of the metadata service. MR_END: there is none; a busy one is there. */
static mr_status fetch_line(const struct mr_fetch_request *request, char *out, size_t size,
                            mr_error *error)
{
    struct mr_fetch *fetch;
    struct mr_fetch_answer answer;
    mr_error why;
    bool is_busy = false;
    mr_status status = mr_fetch_create(&fetch, &why);
    if (status == MR_OK)
        status = mr_fetch_run(fetch, request, &answer, &why);
    if (status == MR_OK) {
        is_busy = answer.code == 429 || answer.code == 503;
        size_t len = strcspn(answer.body, "\r\n");
        if (answer.code != 200 || len == 0 || len >= size)
            status = mr_error_set(&why, MR_ERR_IO, "HTTP %d", answer.code);
        else
            snprintf(out, size, "%.*s", (int)len, answer.body);
    }
    mr_fetch_destroy(fetch);
    if (status == MR_ERR_IO && !is_busy)
        why.status = MR_END;
    return status == MR_OK ? MR_OK : fail(INSTANCE, &why, error);
}

mr_status mr_key_source_instance(struct mr_key_set *out, mr_error *error)
{
    static const char *const ttl[] = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL};
    char url[MAX_URL], token[256], header[300], role[256];
    const char *const headers[] = {header, NULL};
    const char *given = find_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = find_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    const char *base =
        mode && mr_word_is(mode, "IPv6") ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
    struct mr_fetch_request request = {.method = "PUT",
                                       .url = url,
                                       .headers = ttl,
                                       .timeout_ms = INSTANCE_MS,
                                       .max_bytes = MR_KEY_TEXT - 1,
                                       .stop = &mr_key_source_stop,
                                       .direct = true};
    base = given ? given : base;
    int len = (int)strlen(base);
    len -= len > 0 && base[len - 1] == '/';
    snprintf(url, sizeof url, "%.*s/latest/api/token", len, base);
    mr_status status = fetch_line(&request, token, sizeof token, error);
    if (status != MR_OK)
        return status;
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", token);
    request.method = NULL;
    request.headers = headers;
    request.retry_ms = RETRY_MS; /* it is there */
    snprintf(url, sizeof url, "%.*s/latest/meta-data/iam/security-credentials/", len, base);
    status = fetch_line(&request, role, sizeof role, error);
    if (status != MR_OK)
        return status;
    size_t at = strlen(url);
    snprintf(url + at, sizeof url - at, "%s", role);
    return fetch_keys(INSTANCE, &request, parse_json, out, error);
}
