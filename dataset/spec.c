/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a SPEC. Kinds and keys may be in any case.
 *
 * Invariant: the text is split at ? & = and , first, and %XX is undone in each piece afterwards. So
 * an escaped separator is an ordinary byte.
 */
#include "dataset/spec.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "dataset/kind.h"
#include "dataset/remote/url.h"

enum { MAX_NAMES = 16, HINT_BYTES = 64 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    unsigned char low = mr_word_lower(c);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

mr_status mr_spec_decode(char *text, mr_error *error)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int hi = hex_digit(in[1]), lo = hi < 0 ? -1 : hex_digit(in[2]);
        if (lo < 0)
            return mr_error_set(
                error, MR_ERR_INVALID,
                "'%.3s' in the dataset is not an escape; write %%25 for a percent sign", in);
        if (hi == 0 && lo == 0)
            return mr_error_set(error, MR_ERR_INVALID,
                                "%%00 in the dataset: a path cannot contain a zero byte");
        *out++ = (char)(hi << 4 | lo);
        in += 2;
    }
    *out = '\0';
    return MR_OK;
}

static mr_status check_escapes(const char *value, mr_error *error)
{
    char *copy = strdup(value);
    mr_status status =
        copy ? mr_spec_decode(copy, error) : mr_error_memory(error, strlen(value) + 1);
    free(copy);
    return status;
}

static mr_status parse_keys(char *query, struct mr_spec *spec, mr_error *error)
{
    size_t n = 1;
    for (const char *c = query; *c; c++)
        n += *c == '&';
    spec->keys = calloc(n, sizeof *spec->keys);
    if (!spec->keys)
        return mr_error_memory(error, n * sizeof *spec->keys);
    for (char *rest = query, *item; (item = strsep(&rest, "&"));) {
        char *value = strchr(item, '=');
        if (!value || value == item)
            return mr_error_set(error, MR_ERR_INVALID, "'%s' in the dataset is not key=value",
                                item);
        *value++ = '\0';
        mr_status status = check_escapes(value, error);
        if (status < 0)
            return status;
        for (size_t i = 0; i < spec->n_keys; i++)
            if (mr_word_is(spec->keys[i].key, item))
                return mr_error_set(error, MR_ERR_INVALID, "key '%s' of the dataset is given twice",
                                    item);
        spec->keys[spec->n_keys++] = (struct mr_spec_key){.key = item, .value = value};
    }
    return MR_OK;
}

/*
 * Check a URL, and refuse those that cannot be read. A folder with such a name is "./s3://bucket".
 */
static mr_status check_place(const struct mr_kind *kind, const char *path, mr_error *error)
{
    if (kind->remote && mr_url_is(path))
        return mr_url_check(path, error);
    size_t len = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (len == 0 || *path == '.' || strncmp(path + len, "://", 3) != 0)
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID, "'%.*s' is a URL that %s does not read: %s",
                        (int)mr_url_shown_len(path), path, kind->name,
                        kind->advice && mr_url_is(path)
                            ? kind->advice
                            : "copy the files to a local folder, or mount the storage (s3fs, "
                              "rclone mount), and name that path");
}

static mr_status parse_paths(char *text, bool many, struct mr_spec *spec, mr_error *error)
{
    size_t n = 1;
    for (const char *c = text; many && *c; c++)
        n += *c == ',';
    spec->paths = calloc(n, sizeof *spec->paths);
    if (!spec->paths)
        return mr_error_memory(error, n * sizeof *spec->paths);
    char *rest = text;
    for (size_t i = 0; i < n; i++) {
        char *path = many ? strsep(&rest, ",") : text;
        if (!spec->kind->raw_paths && mr_spec_decode(path, error) < 0)
            return MR_ERR_INVALID;
        if (*path == '\0')
            return mr_error_set(error, MR_ERR_INVALID, "the dataset '%s:' has no path",
                                spec->kind->name);
        if (check_place(spec->kind, path, error) < 0)
            return MR_ERR_INVALID;
        spec->paths[spec->n_paths++] = path;
    }
    return MR_OK;
}

/* Cut off the kind. A text without a known kind is a directory. */
static char *parse_kind(char *text, const struct mr_kind *kinds, struct mr_spec *spec)
{
    char *colon = strchr(text, ':');
    spec->table = kinds;
    for (size_t i = 0; colon && kinds[i].name; i++) {
        if (strlen(kinds[i].name) == (size_t)(colon - text) &&
            mr_word_begins(text, kinds[i].name)) {
            *colon = '\0';
            spec->kind = &kinds[i];
            return colon + 1;
        }
    }
    spec->kind = &kinds[0];
    spec->kinds = kinds;
    return text;
}

mr_status mr_spec_parse(const char *text, const struct mr_kind *kinds, struct mr_spec *spec_out,
                        mr_error *error)
{
    struct mr_spec spec = {.text = strdup(text)};
    if (!spec.text)
        return mr_error_memory(error, strlen(text) + 1);
    char *rest = parse_kind(spec.text, kinds, &spec);
    char *path = spec.kind->whole ? rest : strsep(&rest, "?");
    if (spec.kind->whole)
        rest = NULL;
    mr_status status = parse_paths(path, spec.kind->many_paths, &spec, error);
    if (status == MR_OK && rest)
        status = parse_keys(rest, &spec, error);
    if (status < 0) {
        mr_spec_fini(&spec);
        return status;
    }
    *spec_out = spec;
    return MR_OK;
}

void mr_spec_fini(struct mr_spec *spec)
{
    free(spec->paths);
    free(spec->keys);
    free(spec->text);
    *spec = (struct mr_spec){0};
}

static struct mr_spec_key *find_key(const struct mr_spec *spec, const char *key)
{
    for (size_t i = 0; i < spec->n_keys; i++)
        if (mr_word_is(spec->keys[i].key, key))
            return &spec->keys[i];
    return NULL;
}

const char *mr_spec_take(struct mr_spec *spec, const char *key)
{
    struct mr_spec_key *found = find_key(spec, key);
    if (!found)
        return NULL;
    if (!found->taken)
        mr_spec_decode(found->value, NULL); /* cannot fail: parse_keys() has checked it */
    found->taken = true;
    return found->value;
}

char *mr_spec_take_list(struct mr_spec *spec, const char *key)
{
    struct mr_spec_key *found = find_key(spec, key);
    if (!found)
        return NULL;
    assert(!found->taken);
    found->taken = true;
    return found->value;
}

mr_status mr_spec_take_int(struct mr_spec *spec, const char *key, int64_t lo, int64_t hi,
                           int64_t *value_out, mr_error *error)
{
    const char *text = mr_spec_take(spec, key);
    if (!text)
        return MR_OK;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)*text))
        return mr_error_set(error, MR_ERR_INVALID, "%s '%s' of the dataset is not a whole number",
                            key, text);
    if (errno || value < lo || value > hi)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s %s of the dataset is not between %" PRId64 " and %" PRId64, key,
                            text, lo, hi);
    *value_out = value;
    return MR_OK;
}

/* " (did you mean 'X'?)", or "" if no name is similar. */
static const char *format_hint(const char *word, const char *const *names, size_t n,
                               char hint_out[HINT_BYTES])
{
    const char *nearest = mr_nearest_name(word, names, n);
    hint_out[0] = '\0';
    if (nearest)
        snprintf(hint_out, HINT_BYTES, " (did you mean '%s'?)", nearest);
    return hint_out;
}

static mr_status refuse_key(const struct mr_spec *spec, const char *key, const char *known,
                            mr_error *error)
{
    const char *names[MAX_NAMES];
    char copy[256], hint[HINT_BYTES], *rest = copy;
    size_t n = 0;
    snprintf(copy, sizeof copy, "%s", known);
    for (char *name; n < MAX_NAMES && (name = strsep(&rest, ","));)
        names[n++] = name + (*name == ' ');
    return mr_error_set(error, MR_ERR_INVALID, "%s has no key '%s'%s; its keys: %s",
                        spec->kind->name, key, format_hint(key, names, n, hint), known);
}

mr_status mr_spec_finish(const struct mr_spec *spec, const char *known, mr_error *error)
{
    for (size_t i = 0; i < spec->n_keys; i++)
        if (!spec->keys[i].taken)
            return refuse_key(spec, spec->keys[i].key, known, error);
    return MR_OK;
}

mr_status mr_spec_no_folder(const struct mr_spec *spec, int os_error, mr_error *error)
{
    const char *names[MAX_NAMES], *path = spec->paths[0];
    char word[32], hint[HINT_BYTES], list[256] = "";
    size_t len = strcspn(path, ":/"), n = 0, used = 0;
    if (!spec->kinds || path[len] != ':' || len == 0 || len >= sizeof word)
        return mr_error_os(error, MR_ERR_IO, os_error, "%scannot open the folder %s",
                           spec->kinds && os_error == ENOTDIR
                               ? "open a file as list:FILE or records:FILE?bytes=N; "
                               : "",
                           path);
    for (; spec->kinds[n].name && n < MAX_NAMES && used < sizeof list; n++) {
        names[n] = spec->kinds[n].name;
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", n > 0 ? ", " : "", names[n]);
    }
    snprintf(word, sizeof word, "%.*s", (int)len, path);
    return mr_error_os(error, MR_ERR_IO, os_error,
                       "'%s' is not a kind of dataset%s; the kinds: %s; cannot open the folder %s",
                       word, format_hint(word, names, n, hint), list, path);
}
