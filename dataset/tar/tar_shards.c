/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expands the paths of a SPEC: braces first, then escapes, then globs.
 *
 * Invariant: an escaped byte is an ordinary byte. So braces are found before %XX is undone, and
 * bytes that are special to glob() get a backslash.
 */
#include "dataset/tar/tar_shards.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/remote/url.h"
#include "dataset/spec.h"

#define MAX_SHARDS 10000000u
enum { MAX_DIGITS = 9, MAX_BRACES = 16 };

struct expansion {
    struct mr_bytes *paths;
    uint64_t n;
};

static mr_status add_path(struct expansion *expansion, const char *path, mr_error *error)
{
    size_t len = strlen(path);
    if (len + 1 > MR_CATALOG_PATH)
        return mr_error_os(error, MR_ERR_IO, ENAMETOOLONG, "%.400s...", path);
    if (++expansion->n > MAX_SHARDS)
        return mr_error_set(error, MR_ERR_INVALID, "the dataset has more than %u shards",
                            MAX_SHARDS);
    return mr_bytes_append(expansion->paths, path, len + 1, error);
}

static int compare_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static mr_status add_matches(struct expansion *expansion, const char *pattern, const char *shown,
                             mr_error *error)
{
    glob_t found = {0};
    mr_status status = MR_OK;
    int rc = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (rc == GLOB_NOMATCH)
        status = mr_error_os(error, MR_ERR_IO, ENOENT, "no shard matches %s", shown);
    else if (rc == GLOB_NOSPACE)
        status = mr_error_memory(error, 0);
    else if (rc != 0)
        status = mr_error_os(error, MR_ERR_IO, errno, "cannot list what matches %s", shown);
    if (status == MR_OK)
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_bytes);
    for (size_t i = 0; status == MR_OK && i < found.gl_pathc; i++)
        status = add_path(expansion, found.gl_pathv[i], error);
    globfree(&found);
    return status;
}

static mr_status add_glob(struct expansion *expansion, const char *text, mr_error *error)
{
    size_t len = strlen(text), n = 0;
    char *pattern = malloc(2 * len + 1), byte[4];
    if (!pattern)
        return mr_error_memory(error, 2 * len + 1);
    for (const char *at = text; *at; at++) {
        bool escaped = *at == '%';
        snprintf(byte, sizeof byte, "%.*s", escaped ? 3 : 1, at);
        if (escaped) /* cannot fail: add_pattern() has decoded it once */
            mr_spec_decode(byte, NULL), at += 2;
        if (*byte == '\\' || *byte == '?' || (escaped && strchr("*[]", *byte)))
            pattern[n++] = '\\';
        pattern[n++] = *byte;
    }
    pattern[n] = '\0';
    mr_status status = add_matches(expansion, pattern, text, error);
    free(pattern);
    return status;
}

/* Expand a pattern without braces. */
static mr_status add_pattern(struct expansion *expansion, const char *text, mr_error *error)
{
    char *plain = strdup(text);
    if (!plain)
        return mr_error_memory(error, strlen(text) + 1);
    mr_status status = mr_spec_decode(plain, error);
    bool is_glob = strpbrk(text, "*["), is_url = status == MR_OK && mr_url_is(plain);
    if (is_url)
        status = mr_url_check(plain, error);
    if (status == MR_OK && is_url && is_glob)
        status = mr_error_set(error, MR_ERR_INVALID,
                              "'%.*s' of the dataset has a * or [, and a server is not asked for "
                              "names; write {000..099}, or %%2A and %%5B for these bytes",
                              (int)mr_url_shown_len(plain), plain);
    if (status == MR_OK)
        status = is_glob ? add_glob(expansion, text, error) : add_path(expansion, plain, error);
    free(plain);
    return status;
}

struct brace {
    unsigned long first, last;
    int width; /* 0: no padding */
    const char *rest;
};

static bool parse_digits(const char **text, unsigned long *value_out, size_t *n_out)
{
    *n_out = strspn(*text, "0123456789");
    *value_out = strtoul(*text, NULL, 10);
    *text += *n_out;
    return *n_out > 0 && *n_out <= MAX_DIGITS;
}

/* Parse "{000..099}" at text. */
static bool parse_brace(const char *text, struct brace *brace_out)
{
    size_t n_first, n_last;
    const char *first = ++text;
    if (!parse_digits(&text, &brace_out->first, &n_first) || strncmp(text, "..", 2) != 0)
        return false;
    const char *last = text += 2;
    if (!parse_digits(&text, &brace_out->last, &n_last) || *text != '}' ||
        brace_out->last < brace_out->first)
        return false;
    bool padded = (*first == '0' && n_first > 1) || (*last == '0' && n_last > 1);
    brace_out->width = padded ? (int)(n_first > n_last ? n_first : n_last) : 0;
    brace_out->rest = text + 1;
    return true;
}

/* The leftmost brace counts most slowly. */
static mr_status expand_braces(struct expansion *expansion, const char *text, mr_error *error)
{
    struct brace brace;
    const char *open = strchr(text, '{');
    if (!open)
        return add_pattern(expansion, text, error);
    if (!parse_brace(open, &brace))
        return mr_error_set(error, MR_ERR_INVALID,
                            "'%.40s' of the dataset is not a range of numbers such as {000..099}; "
                            "%%7B is a literal brace",
                            open);
    size_t size = strlen(text) + MAX_DIGITS + 1;
    char *one = malloc(size);
    if (!one)
        return mr_error_memory(error, size);
    mr_status status = MR_OK;
    for (unsigned long i = brace.first; status == MR_OK && i <= brace.last; i++) {
        snprintf(one, size, "%.*s%0*lu%s", (int)(open - text), text, brace.width, i, brace.rest);
        status = expand_braces(expansion, one, error);
    }
    free(one);
    return status;
}

static mr_status expand_pattern(struct expansion *expansion, const char *text, mr_error *error)
{
    size_t n = 0;
    for (const char *c = text; *c; c++)
        n += *c == '{';
    if (n > MAX_BRACES)
        return mr_error_set(error, MR_ERR_INVALID,
                            "'%.40s...' of the dataset has %zu braces, above the limit of %d", text,
                            n, MAX_BRACES);
    return expand_braces(expansion, text, error);
}

mr_status mr_tar_shards_expand(char *const *patterns, size_t n_patterns, struct mr_bytes *paths,
                               uint64_t *n_out, mr_error *error)
{
    struct expansion expansion = {.paths = paths};
    mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < n_patterns; i++)
        status = expand_pattern(&expansion, patterns[i], error);
    *n_out = expansion.n;
    return status;
}
