/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses names in stores.
 *
 * Invariant: a bucket becomes a part of a host's name, so it has no bytes that would name another
 * host.
 */
#include "dataset/remote/stores/store_name.h"

#include <string.h>

#include "base/words.h"

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

enum { SCHEME_LEN = 5 };

static const struct {
    const char *scheme, *form;
} stores[] = {
    [MR_STORE_NONE] = {"", ""},
    [MR_STORE_S3] = {"s3://", "s3://BUCKET/KEY"},
    [MR_STORE_GS] = {"gs://", "gs://BUCKET/KEY"},
    [MR_STORE_HF] = {"hf://", "hf://datasets/OWNER/NAME@REVISION/PATH"},
};

enum mr_store mr_store_name_find(const char *text)
{
    for (enum mr_store store = MR_STORE_S3; store <= MR_STORE_HF; store++)
        if (mr_word_begins(text, stores[store].scheme))
            return store;
    return MR_STORE_NONE;
}

const char *mr_store_name_form(enum mr_store store)
{
    return stores[store].form;
}

/* Move *text past one segment of a path, and past its slash. Returns the segment's length. */
static size_t take_segment(const char **text)
{
    size_t len = strspn(*text, NAME_BYTES);
    *text += len + ((*text)[len] == '/');
    return len;
}

/* The revision after an @: one segment, or three if it begins with refs/. */
static const char *parse_revision(const char *text, struct mr_store_name *name)
{
    size_t len = strcspn(text, "/");
    for (int i = 0; i < 2 && strncmp(text, "refs/", 5) == 0 && text[len]; i++)
        len += 1 + strcspn(text + len + 1, "/");
    name->revision = text;
    name->revision_len = len;
    return text + len;
}

static bool parse_hf(const char *text, struct mr_store_name *name)
{
    const char *end = text;
    if (strncmp(text, "datasets/", 9) == 0 || strncmp(text, "spaces/", 7) == 0)
        take_segment(&end);
    size_t owner = take_segment(&end);
    bool has_name = owner > 0 && end[-1] == '/';
    size_t len = strspn(end, NAME_BYTES);
    name->bucket = text;
    name->bucket_len = (size_t)(end - text) + len;
    end += len;
    if (*end == '@')
        end = parse_revision(end + 1, name);
    name->key = end + (*end == '/');
    return has_name && len > 0 && (!*end || *end == '/');
}

bool mr_store_name_parse(const char *text, struct mr_store_name *name_out)
{
    *name_out = (struct mr_store_name){.store = mr_store_name_find(text)};
    text += SCHEME_LEN;
    if (name_out->store == MR_STORE_HF)
        return parse_hf(text, name_out);
    size_t len = strspn(text, NAME_BYTES);
    name_out->bucket = text;
    name_out->bucket_len = len;
    name_out->key = text + len + (text[len] == '/');
    return len > 0 && (!text[len] || text[len] == '/');
}
