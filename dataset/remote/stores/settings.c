/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the environment. Each value has the name that the store's own tools use, and those of other
 * tools after it.
 */
#include "dataset/remote/stores/settings.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "base/words.h"
#include "dataset/remote/stores/settings_cell.h"

static const char *find_value(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

/*
 * Take the first of these variables that is set, without white space at its end: secrets that are
 * made of files have a line end. A value that does not fit is a problem.
 */
static void take(const char *const names[], char *out, size_t size, char problem[MR_STORE_PROBLEM])
{
    for (; *names; names++) {
        const char *value = find_value(*names);
        size_t len = value ? strlen(value) : 0;
        while (len > 0 && strchr(" \t\r\n", value[len - 1]))
            len--;
        if (len == 0)
            continue;
        if (len < size)
            snprintf(out, size, "%.*s", (int)len, value);
        else
            snprintf(problem, MR_STORE_PROBLEM, "%s has %zu bytes, more than the limit of %zu",
                     *names, len, size - 1);
        return;
    }
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static bool is_yes(const char *name)
{
    const char *value = find_value(name);
    return value && (mr_word_is(value, "1") || mr_word_is(value, "true") ||
                     mr_word_is(value, "yes") || mr_word_is(value, "on"));
}

static void read_s3(struct mr_store_s3 *s3)
{
    char *problem = s3->problem;
    const char *payer = find_value("AWS_REQUEST_PAYER");
    take(NAMES("AWS_ACCESS_KEY_ID"), s3->key_id, sizeof s3->key_id, problem);
    take(NAMES("AWS_SECRET_ACCESS_KEY"), s3->secret, sizeof s3->secret, problem);
    take(NAMES("AWS_SESSION_TOKEN"), s3->token, sizeof s3->token, problem);
    take(NAMES("AWS_REGION", "AWS_DEFAULT_REGION"), s3->region, sizeof s3->region, problem);
    take(NAMES("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), s3->endpoint, sizeof s3->endpoint,
         problem);
    s3->requester_pays = payer && mr_word_is(payer, "requester");
    s3->virtual_style = is_yes("AWS_VIRTUAL_HOSTING");
    s3->path_style = find_value("AWS_VIRTUAL_HOSTING") && !s3->virtual_style;
    s3->anonymous = is_yes("AWS_NO_SIGN_REQUEST");
    if (*s3->key_id && !*s3->secret && !*problem)
        snprintf(problem, MR_STORE_PROBLEM,
                 "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not");
}

static void read_gcs(struct mr_store_gcs *gcs)
{
    char *problem = gcs->problem;
    take(NAMES("GS_ACCESS_KEY_ID", "GCS_KEY"), gcs->key_id, sizeof gcs->key_id, problem);
    take(NAMES("GS_SECRET_ACCESS_KEY", "GCS_SECRET"), gcs->secret, sizeof gcs->secret, problem);
    take(NAMES("GS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST"), gcs->endpoint, sizeof gcs->endpoint,
         problem);
    if (*gcs->key_id && !*gcs->secret && !*problem)
        snprintf(problem, MR_STORE_PROBLEM,
                 "GS_ACCESS_KEY_ID is set and GS_SECRET_ACCESS_KEY is not");
}

/* The file that `hf auth login` writes. */
static bool find_token_file(char path_out[PATH_MAX])
{
    static const struct {
        const char *variable, *rest;
    } places[] = {{"HF_TOKEN_PATH", ""},
                  {"HF_HOME", "/token"},
                  {"XDG_CACHE_HOME", "/huggingface/token"},
                  {"HOME", "/.cache/huggingface/token"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = find_value(places[i].variable);
        if (value)
            return snprintf(path_out, PATH_MAX, "%s%s", value, places[i].rest) < PATH_MAX;
    }
    return false;
}

static void read_hf(struct mr_store_hf *hf)
{
    char path[PATH_MAX];
    take(NAMES("HF_ENDPOINT"), hf->endpoint, sizeof hf->endpoint, hf->problem);
    take(NAMES("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), hf->token, sizeof hf->token, hf->problem);
    if (*hf->token || *hf->problem || !find_token_file(path))
        return;
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, NULL);
    ssize_t n = fd >= 0 ? read(fd, hf->token, sizeof hf->token - 1) : 0;
    if (fd >= 0)
        close(fd);
    hf->token[n > 0 ? n : 0] = '\0';
    hf->token[strcspn(hf->token, " \r\n")] = '\0';
}

void mr_store_settings_read(struct mr_store_settings *out)
{
    *out = (struct mr_store_settings){0};
    read_s3(&out->s3);
    read_gcs(&out->gcs);
    read_hf(&out->hf);
}

bool mr_store_settings_is_secret(const char *variable)
{
    static const char *const secrets[] = {
        "AWS_SECRET_ACCESS_KEY=", "AWS_SESSION_TOKEN=", "AWS_CONTAINER_AUTHORIZATION_TOKEN=",
        "GS_SECRET_ACCESS_KEY=",  "GCS_SECRET=",        "HF_TOKEN=",
        "HUGGING_FACE_HUB_TOKEN="};
    bool is_secret = false;
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        is_secret |= strncmp(variable, secrets[i], strlen(secrets[i])) == 0;
    return is_secret;
}

mr_status mr_store_settings_use(const struct mr_store_settings *settings, mr_error *error)
{
    static_assert(sizeof *settings <= MR_SETTINGS_CELL_BYTES && sizeof *settings % 8 == 0,
                  "the settings fit into the cell");
    return mr_settings_cell_write(settings, sizeof *settings, error);
}

uint64_t mr_store_settings_get(struct mr_store_settings *out)
{
    uint64_t version = mr_settings_cell_read(out, sizeof *out);
    if (version == 0)
        mr_store_settings_read(out);
    return version;
}
