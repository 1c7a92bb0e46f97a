/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files and XML, and checks what was found in XML and in JSON. */
#include "dataset/remote/stores/key_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/regular_file.h"

mr_status mr_key_text_read(const char *path, bool is_needed, char *out, size_t size,
                           mr_error *error)
{
    size_t len = 0;
    ssize_t n;
    *out = '\0';
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, NULL);
    if (fd == -ENOENT && !is_needed)
        return MR_OK;
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "cannot open %s", path);
    while ((n = read(fd, out + len, size - len)) > 0)
        len += (size_t)n;
    int failed = n < 0 ? errno : 0;
    close(fd);
    if (failed)
        return mr_error_os(error, MR_ERR_IO, failed, "cannot read %s", path);
    if (len == size)
        return mr_error_set(error, MR_ERR_IO, "%s has %zu or more bytes", path, size);
    out[len] = '\0';
    return MR_OK;
}

/* "2026-11-28T12:00:00Z", also with a fraction or an offset such as +01:00. */
static bool parse_time(const char *text, int64_t *time_out)
{
    struct tm tm = {0};
    int hours, minutes;
    const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!at)
        return false;
    *time_out = timegm(&tm);
    if (*at == '.')
        at += 1 + strspn(at + 1, "0123456789");
    if (strcmp(at, "Z") == 0)
        return true;
    if ((*at != '+' && *at != '-') || sscanf(at + 1, "%2d:%2d", &hours, &minutes) != 2)
        return false;
    *time_out -= (*at == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

/* A line end in a key would begin another header of a request. */
static bool copy(const char *text, char *out, size_t size)
{
    size_t len = text ? strlen(text) : 0;
    if (len == 0 || len >= size || strpbrk(text, "\r\n"))
        return false;
    memcpy(out, text, len + 1);
    return true;
}

mr_status mr_key_text_take(const struct mr_key_texts *texts, struct mr_key_set *out,
                           mr_error *error)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    *out = (struct mr_key_set){0};
    if (texts->code && !texts->id && strspn(texts->code, letters) == strlen(texts->code))
        return mr_error_set(error, MR_ERR_DAMAGED, "it answers %.60s", texts->code);
    if (!copy(texts->id, out->id, sizeof out->id) ||
        !copy(texts->secret, out->secret, sizeof out->secret))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "its answer has no good AccessKeyId and SecretAccessKey");
    if (texts->token && !copy(texts->token, out->token, sizeof out->token))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "its session token is empty or has more than %d bytes",
                            MR_STORE_TOKEN - 1);
    if (texts->end && !parse_time(texts->end, &out->end_s))
        return mr_error_set(error, MR_ERR_DAMAGED, "its answer has an Expiration that is no time");
    return MR_OK;
}

mr_status mr_key_xml_parse(char *xml, struct mr_key_set *out, mr_error *error)
{
    static const char *const tags[] = {"<AccessKeyId>", "<SecretAccessKey>", "<SessionToken>",
                                       "<Expiration>", "<Code>"};
    enum { N_TAGS = sizeof tags / sizeof *tags };
    char *values[N_TAGS];
    for (int i = 0; i < N_TAGS; i++) {
        char *tag = strstr(xml, tags[i]);
        values[i] = tag ? tag + strlen(tags[i]) : NULL;
    }
    for (int i = 0; i < N_TAGS; i++)
        if (values[i]) /* values of keys have no entities */
            values[i][strcspn(values[i], "<")] = '\0';
    const struct mr_key_texts texts = {values[0], values[1], values[2], values[3], values[4]};
    return mr_key_text_take(&texts, out, error);
}
