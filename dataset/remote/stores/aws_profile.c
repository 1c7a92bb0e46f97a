/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the two files as botocore does: "[default]", "[profile NAME]" ("[NAME]" in the credentials
 * file), "key = value", and further keys below a key that are indented more than it is.
 */
#include "dataset/remote/stores/aws_profile.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/words.h"
#include "dataset/remote/stores/key_text.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_NAME = 128 };

struct text {
    const char *at;
    size_t len;
};

static struct text trim(const char *at, size_t len)
{
    static const char spaces[] = " \t\r";
    while (len > 0 && memchr(spaces, *at, sizeof spaces - 1))
        at++, len--;
    while (len > 0 && memchr(spaces, at[len - 1], sizeof spaces - 1))
        len--;
    return (struct text){at, len};
}

static bool is_word(struct text text, const char *word)
{
    char copy[MAX_NAME];
    if (text.len >= sizeof copy)
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    return mr_word_is(copy, word);
}

/* kind: "profile" or "services"; NULL: the line has only the name. */
static bool is_section(struct text line, const char *kind, const char *name)
{
    const char *end = memchr(line.at, ']', line.len);
    struct text text = trim(line.at + 1, end ? (size_t)(end - line.at) - 1 : 0);
    size_t kind_len = kind ? strlen(kind) : 0;
    bool is_kind = text.len > kind_len && kind_len > 0 && memcmp(text.at, kind, kind_len) == 0 &&
                   strchr(" \t", text.at[kind_len]);
    if (is_kind)
        text = trim(text.at + kind_len, text.len - kind_len);
    else if (kind && strcmp(name, "default") != 0)
        return false;
    if (text.len >= 2 && (*text.at == '"' || *text.at == '\'') && text.at[text.len - 1] == *text.at)
        text = (struct text){text.at + 1, text.len - 2};
    return text.len == strlen(name) && memcmp(text.at, name, text.len) == 0;
}

/*
 * Find a key, or the section alone if key is NULL. outer: the key below which it is indented; NULL:
 * it is not.
 */
static bool find_key(const char *file, const char *kind, const char *name, const char *outer,
                     const char *key, struct text *value_out)
{
    bool is_inside = false, is_below = false;
    size_t outer_indent = SIZE_MAX;
    for (const char *start = file, *next; start; start = next) {
        size_t len = strcspn(start, "\n");
        struct text line = trim(start, len);
        size_t indent = (size_t)(line.at - start);
        next = start[len] ? start + len + 1 : NULL;
        if (line.len == 0 || *line.at == '#' || *line.at == ';')
            continue;
        if (*line.at == '[' && indent == 0) {
            is_inside = is_section(line, kind, name);
            outer_indent = SIZE_MAX;
            if (is_inside && !key)
                return true;
        }
        const char *sign = memchr(line.at, '=', line.len);
        if (!is_inside || !sign || *line.at == '[')
            continue;
        struct text own = trim(line.at, (size_t)(sign - line.at));
        bool is_nested = indent > outer_indent;
        if (is_word(own, key) && (is_nested ? is_below : !outer)) {
            *value_out = trim(sign + 1, line.len - (size_t)(sign + 1 - line.at));
            return true;
        }
        if (!is_nested) {
            outer_indent = indent;
            is_below = outer && is_word(own, outer);
        }
    }
    return false;
}

static const char *find_variable(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

/* A file that is not there is no error. */
static mr_status read_file(const char *variable, const char *name, char **text_out, mr_error *error)
{
    char path[PATH_MAX];
    const char *given = find_variable(variable), *home = find_variable("HOME");
    *text_out = NULL;
    if (!given && !home)
        return MR_OK;
    bool below_home = !given || memcmp(given, "~/", 2) == 0;
    int n = snprintf(path, sizeof path, "%s%s%s", below_home && home ? home : "",
                     given ? "" : "/.aws/", given ? given + below_home : name);
    if (n >= (int)sizeof path)
        return mr_error_set(error, MR_ERR_INVALID, "the path in %s is too long", variable);
    *text_out = malloc(MAX_FILE_BYTES);
    if (!*text_out)
        return mr_error_memory(error, MAX_FILE_BYTES);
    return mr_key_text_read(path, false, *text_out, MAX_FILE_BYTES, error);
}

static bool is_known(const struct mr_aws_profile *profile)
{
    return find_key(profile->credentials, NULL, profile->name, NULL, NULL, NULL) ||
           find_key(profile->config, "profile", profile->name, NULL, NULL, NULL);
}

mr_status mr_aws_profile_open(struct mr_aws_profile *profile_out, mr_error *error)
{
    const char *named = find_variable("AWS_PROFILE");
    named = named ? named : find_variable("AWS_DEFAULT_PROFILE");
    *profile_out = (struct mr_aws_profile){.name = named ? named : "default"};
    mr_status status =
        read_file("AWS_SHARED_CREDENTIALS_FILE", "credentials", &profile_out->credentials, error);
    if (status == MR_OK)
        status = read_file("AWS_CONFIG_FILE", "config", &profile_out->config, error);
    if (status == MR_OK && named && !is_known(profile_out))
        status = mr_error_set(error, MR_ERR_INVALID,
                              "AWS_PROFILE is '%s', which is in neither of AWS's files", named);
    return status;
}

static void free_text(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void mr_aws_profile_close(struct mr_aws_profile *profile)
{
    free_text(profile->credentials);
    free_text(profile->config);
}

static mr_status copy_value(struct text value, const struct mr_aws_profile *profile,
                            const char *key, char *out, size_t size, mr_error *error)
{
    if (value.len >= size)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s of profile '%s' has %zu bytes, more than the limit of %zu", key,
                            profile->name, value.len, size - 1);
    memcpy(out, value.at, value.len);
    out[value.len] = '\0';
    return MR_OK;
}

mr_status mr_aws_profile_get(const struct mr_aws_profile *profile, const char *key, char *out,
                             size_t size, mr_error *error)
{
    struct text value = {"", 0};
    if (!find_key(profile->credentials, NULL, profile->name, NULL, key, &value))
        find_key(profile->config, "profile", profile->name, NULL, key, &value);
    return copy_value(value, profile, key, out, size, error);
}

mr_status mr_aws_profile_get_service(const struct mr_aws_profile *profile, const char *service,
                                     const char *key, char *out, size_t size, mr_error *error)
{
    struct text value = {"", 0};
    char section[MAX_NAME];
    mr_status status = mr_aws_profile_get(profile, "services", section, sizeof section, error);
    if (status == MR_OK && *section)
        find_key(profile->config, "services", section, service, key, &value);
    return status == MR_OK ? copy_value(value, profile, key, out, size, error) : status;
}
