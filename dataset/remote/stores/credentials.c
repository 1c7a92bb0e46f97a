/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of sources, and the thread that renews.
 *
 * Invariant: keys are only on the stack, where they are overwritten, and in the settings' cell.
 */
#include "dataset/remote/stores/credentials.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/words.h"
#include "base/xxh3.h"
#include "dataset/remote/stores/aws_profile.h"
#include "dataset/remote/stores/key_source.h"
#include "dataset/remote/stores/settings.h"

enum {
    RENEW_S = 300,    /* before keys end; half of their time if that is less */
    REREAD_S = 600,   /* the end of temporary keys in a file, which does not state it */
    AGAIN_S = 10,     /* a source that failed at first, or gave ended keys, is asked again */
    MAX_PAUSE_S = 60, /* after renewals that failed */
};

#define EXPORT "credential_process = aws configure export-credentials --format process --profile"

/* In the order in which they are asked; after the environment's keys. */
enum source { PROFILE, WEB_IDENTITY, CONTAINER, INSTANCE, N_SOURCES };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    uint64_t environment; /* a hash of that in which the settings were found; 0: none yet */
    bool has_s3;          /* the chain was asked */
    enum source source;   /* of the keys, or the one that failed */
    int64_t renew_s;      /* when it is asked again, since 1970; 0: never */
    uint32_t n_failures;  /* of renewals in a row */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .stopped = PTHREAD_COND_INITIALIZER};

/* Who starts and ends the renewer; taken before state.lock. */
static pthread_mutex_t holding = PTHREAD_MUTEX_INITIALIZER;
static uint32_t n_holds;
static struct mr_thread renewer;

static const char *find_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : "";
}

static uint64_t hash_environment(void)
{
    static const char *const names[] = {"AWS_", "GS_",   "GCS_",           "STORAGE_EMULATOR_",
                                        "HF_",  "HOME=", "XDG_CACHE_HOME", "HUGGING_FACE_"};
    uint64_t hash = 1;
    for (char **entry = environ; *entry; entry++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(*entry, names[i], strlen(names[i])) == 0)
                hash = mr_xxh3_pair(&hash, sizeof hash, *entry, strlen(*entry));
    return hash | 1;
}

static mr_status ask_web_identity(struct mr_web_identity *identity, const char *region,
                                  struct mr_key_set *out, mr_error *error)
{
    const char *endpoint = find_variable("AWS_ENDPOINT_URL_STS");
    endpoint = *endpoint ? endpoint : find_variable("AWS_ENDPOINT_URL");
    snprintf(identity->endpoint, sizeof identity->endpoint, "%s", endpoint);
    snprintf(identity->region, sizeof identity->region, "%s", region);
    return mr_key_source_web_identity(identity, out, error);
}

static mr_status ask_environment_identity(const char *region, struct mr_key_set *out,
                                          mr_error *error)
{
    struct mr_web_identity identity;
    const char *file = find_variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    const char *role = find_variable("AWS_ROLE_ARN");
    if (!*file || !*role)
        return mr_error_set(error, MR_END, "no web identity is in the environment");
    snprintf(identity.token_file, sizeof identity.token_file, "%s", file);
    snprintf(identity.role, sizeof identity.role, "%s", role);
    snprintf(identity.session, sizeof identity.session, "%s",
             find_variable("AWS_ROLE_SESSION_NAME"));
    return ask_web_identity(&identity, region, out, error);
}

/* Copy keys of a profile; the value "" of a key that it lacks. */
#define TAKE(key, out) mr_aws_profile_get(profile, key, out, sizeof(out), error)

static mr_status take_keys(const struct mr_aws_profile *profile, struct mr_key_set *out,
                           mr_error *error)
{
    mr_status status = TAKE("aws_secret_access_key", out->secret);
    if (status == MR_OK)
        status = TAKE("aws_session_token", out->token);
    if (status == MR_OK && !*out->secret)
        status = mr_error_set(error, MR_ERR_INVALID,
                              "profile '%s' has aws_access_key_id without aws_secret_access_key",
                              profile->name);
    out->end_s = *out->token ? time(NULL) + REREAD_S : 0;
    return status;
}

static mr_status take_role(const struct mr_aws_profile *profile, const char *region,
                           struct mr_web_identity *identity, struct mr_key_set *out,
                           mr_error *error)
{
    mr_status status = TAKE("web_identity_token_file", identity->token_file);
    if (status == MR_OK && !*identity->token_file)
        status = mr_error_set(error, MR_ERR_UNSUPPORTED,
                              "profile '%s' has role_arn without web_identity_token_file; make a "
                              "profile with " EXPORT " %s",
                              profile->name, profile->name);
    if (status == MR_OK)
        status = TAKE("role_session_name", identity->session);
    return status == MR_OK ? ask_web_identity(identity, region, out, error) : status;
}

static mr_status take_process(const struct mr_aws_profile *profile, struct mr_key_set *out,
                              mr_error *error)
{
    char command[4096], session[256], start[1024];
    mr_status status = TAKE("credential_process", command);
    if (status == MR_OK && *command)
        return mr_key_source_process(command, out, error);
    if (status == MR_OK)
        status = TAKE("sso_session", session);
    if (status == MR_OK)
        status = TAKE("sso_start_url", start);
    if (status == MR_OK && (*session || *start))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "profile '%s' signs on by SSO; make a profile with " EXPORT " %s",
                            profile->name, profile->name);
    return status == MR_OK ? mr_error_set(error, MR_END, "profile '%s' has no keys", profile->name)
                           : status;
}

static mr_status ask_profile(const char *region, struct mr_key_set *out, mr_error *error)
{
    struct mr_aws_profile opened, *profile = &opened;
    struct mr_web_identity identity = {.role = ""};
    mr_status status = mr_aws_profile_open(&opened, error);
    *out = (struct mr_key_set){.id = ""};
    if (status == MR_OK)
        status = TAKE("role_arn", identity.role);
    if (status == MR_OK)
        status = TAKE("aws_access_key_id", out->id);
    if (status == MR_OK && *identity.role)
        status = take_role(profile, region, &identity, out, error);
    else if (status == MR_OK && *out->id)
        status = take_keys(profile, out, error);
    else if (status == MR_OK)
        status = take_process(profile, out, error);
    mr_aws_profile_close(&opened);
    return status;
}

static mr_status ask(enum source source, const char *region, struct mr_key_set *out,
                     mr_error *error)
{
    switch (source) {
    case PROFILE: return ask_profile(region, out, error);
    case WEB_IDENTITY: return ask_environment_identity(region, out, error);
    case CONTAINER: return mr_key_source_container(out, error);
    default: return mr_key_source_instance(out, error);
    }
}

/* Put keys into the settings, and note when they are renewed. */
static void use_keys(const struct mr_key_set *keys, struct mr_store_s3 *s3)
{
    int64_t now = time(NULL), left = keys->end_s - now;
    int64_t early = left / 2 < RENEW_S ? left / 2 : RENEW_S;
    memcpy(s3->key_id, keys->id, sizeof s3->key_id);
    memcpy(s3->secret, keys->secret, sizeof s3->secret);
    memcpy(s3->token, keys->token, sizeof s3->token);
    s3->problem[0] = '\0';
    state.n_failures = 0;
    if (left > 2)
        state.renew_s = keys->end_s - early;
    else /* they have ended, or the clock is wrong: the source is not asked all the time */
        state.renew_s = keys->end_s == 0 ? 0 : now + (left > 0 ? 1 : AGAIN_S);
}

static void note_problem(struct mr_store_s3 *s3, const mr_error *error)
{
    snprintf(s3->problem, sizeof s3->problem, "%.*s", MR_STORE_PROBLEM - 1, error->text);
}

static void ask_all(struct mr_store_s3 *s3)
{
    struct mr_key_set keys;
    mr_error error;
    mr_status status = MR_END;
    bool is_disabled = mr_word_is(find_variable("AWS_EC2_METADATA_DISABLED"), "true");
    enum source end = is_disabled ? INSTANCE : N_SOURCES;
    for (state.source = 0; status == MR_END && state.source < end; state.source++)
        status = ask(state.source, s3->region, &keys, &error);
    state.source--; /* of the status */
    if (status == MR_OK) {
        use_keys(&keys, s3);
    } else if (status < 0) {
        note_problem(s3, &error);
        state.renew_s = time(NULL) + AGAIN_S;
    } else if (!is_disabled) { /* the metadata service may only have been slow */
        state.renew_s = time(NULL) + 1;
    }
    explicit_bzero(&keys, sizeof keys);
}

/* What the environment leaves open. */
static mr_status take_places(struct mr_store_s3 *s3, mr_error *error)
{
    struct mr_aws_profile opened, *profile = &opened;
    bool ignores = strcmp(find_variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true") == 0;
    mr_status status = mr_aws_profile_open(&opened, error);
    if (status == MR_OK && !*s3->region)
        status = TAKE("region", s3->region);
    if (status == MR_OK && !*s3->endpoint && !ignores)
        status = mr_aws_profile_get_service(profile, "s3", "endpoint_url", s3->endpoint,
                                            sizeof s3->endpoint, error);
    if (status == MR_OK && !*s3->endpoint && !ignores)
        status = TAKE("endpoint_url", s3->endpoint);
    mr_aws_profile_close(&opened);
    return status;
}

static void find_s3(struct mr_store_s3 *s3)
{
    mr_error error;
    if (!*s3->problem && take_places(s3, &error) != MR_OK)
        note_problem(s3, &error);
    if (*s3->problem || s3->anonymous)
        return;
    if (!*s3->key_id)
        ask_all(s3);
    else if (*s3->token)
        mr_log_line(MR_LOG_WARNING, "the keys in AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN are "
                                    "temporary and are not renewed; without them, the other "
                                    "sources of keys are asked");
}

static mr_status find_all(bool with_s3, uint64_t environment, mr_error *error)
{
    struct mr_store_settings settings;
    mr_store_settings_read(&settings);
    state.renew_s = 0;
    state.n_failures = 0;
    if (with_s3)
        find_s3(&settings.s3);
    mr_status status = mr_store_settings_use(&settings, error);
    explicit_bzero(&settings, sizeof settings);
    state.environment = status == MR_OK ? environment : 0;
    state.has_s3 = with_s3;
    return status;
}

/* Ask the source of the keys again. If it fails, they stay in use. */
static mr_status renew(mr_error *error)
{
    struct mr_store_settings settings;
    struct mr_key_set keys;
    mr_error why;
    mr_store_settings_get(&settings);
    mr_status status = ask(state.source, settings.s3.region, &keys, &why);
    if (status == MR_OK) {
        use_keys(&keys, &settings.s3);
        status = mr_store_settings_use(&settings, error);
    } else if (!mr_key_source_stop) {
        uint32_t shift = state.n_failures < 6 ? state.n_failures : 6;
        int64_t pause_s = (int64_t)1 << shift;
        state.renew_s = time(NULL) + (pause_s < MAX_PAUSE_S ? pause_s : MAX_PAUSE_S);
        if (state.n_failures++ == 0 && *settings.s3.key_id)
            mr_log_line(MR_LOG_WARNING, "the keys for S3 are not renewed, and are used on: %s",
                        why.text);
        status = MR_OK;
    }
    explicit_bzero(&settings, sizeof settings);
    explicit_bzero(&keys, sizeof keys);
    return status;
}

static void *renew_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&state.lock);
    while (!mr_key_source_stop) {
        struct timespec until = {.tv_sec = state.renew_s};
        if (state.renew_s == 0)
            pthread_cond_wait(&state.stopped, &state.lock);
        else if (time(NULL) < state.renew_s)
            pthread_cond_timedwait(&state.stopped, &state.lock, &until);
        else
            renew(NULL);
    }
    pthread_mutex_unlock(&state.lock);
    return NULL;
}

/* In a forked child, which has no renewer, and whose locks may be those of lost threads. */
static void forget_holds(void)
{
    pthread_mutex_init(&state.lock, NULL);
    pthread_mutex_init(&holding, NULL);
    pthread_cond_init(&state.stopped, NULL);
    mr_key_source_stop = false;
    n_holds = 0;
    renewer.runs = false;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_holds);
}

/* With the lock of holding. */
static mr_status find(bool with_s3, mr_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    mr_status status = MR_OK;
    pthread_mutex_lock(&state.lock);
    uint64_t environment = hash_environment();
    if (state.environment != environment || (with_s3 && !state.has_s3))
        status = find_all(with_s3 || state.has_s3, environment, error);
    else if (state.renew_s != 0 && time(NULL) >= state.renew_s)
        status = renew(error);
    bool ends = state.renew_s != 0;
    pthread_mutex_unlock(&state.lock);
    if (status == MR_OK && ends && n_holds > 0 && !renewer.runs)
        status = mr_thread_run(&renewer, "the thread that renews keys", renew_main, NULL, error);
    return status;
}

mr_status mr_credentials_find(bool with_s3, mr_error *error)
{
    pthread_mutex_lock(&holding);
    mr_status status = find(with_s3, error);
    pthread_mutex_unlock(&holding);
    return status;
}

mr_status mr_credentials_hold(mr_error *error)
{
    pthread_mutex_lock(&holding);
    n_holds++;
    mr_status status = find(false, error);
    n_holds -= status != MR_OK;
    pthread_mutex_unlock(&holding);
    return status;
}

void mr_credentials_release(void)
{
    pthread_mutex_lock(&holding);
    if (--n_holds == 0 && renewer.runs) {
        mr_key_source_stop = true; /* before the lock, which the renewer has while it asks */
        pthread_mutex_lock(&state.lock);
        pthread_cond_signal(&state.stopped);
        pthread_mutex_unlock(&state.lock);
        mr_thread_join(&renewer);
        mr_key_source_stop = false;
    }
    pthread_mutex_unlock(&holding);
}

const char *mr_credentials_source(void)
{
    static const char *const names[] = {[PROFILE] = "AWS's files",
                                        [WEB_IDENTITY] = "web identity",
                                        [CONTAINER] = "container's endpoint",
                                        [INSTANCE] = "instance's metadata"};
    if (*find_variable("AWS_ACCESS_KEY_ID"))
        return "environment";
    pthread_mutex_lock(&state.lock);
    enum source source = state.source;
    pthread_mutex_unlock(&state.lock);
    return names[source];
}
