/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and checks the names of samples in packs.
 *
 * Invariant: an index may come from an untrusted source, so a name is checked again before a file
 * is made. A folder's path may contain any byte, even one with a meaning in a SPEC, so it is
 * escaped.
 */
#include "packs/pack_sample_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "dataset/pack_index.h"

static const char *const jpeg_endings[] = {MR_PACK_SAMPLE_NAME_JPEG, ".jpeg", ".jpe", ".jfif",
                                           NULL};
static const char *const png_endings[] = {MR_PACK_SAMPLE_NAME_PNG, NULL};

static bool has_ending(const char *name, const char *const *endings)
{
    size_t len = strlen(name);
    for (; *endings; endings++) {
        size_t tail = strlen(*endings);
        if (len > tail && mr_word_is(name + len - tail, *endings))
            return true;
    }
    return false;
}

static size_t component_len(const char *at)
{
    return strcspn(at, "/");
}

static bool is_up(const char *at)
{
    return component_len(at) == 2 && at[0] == '.' && at[1] == '.';
}

/* The part after the last ".." and the slashes that follow it. */
static const char *inside_part(const char *path)
{
    const char *start = path;
    for (const char *at = path; *at;) {
        size_t len = component_len(at);
        const char *next = at + len + strspn(at + len, "/");
        if (len == 0 || is_up(at))
            start = next;
        at = next;
    }
    return start;
}

/* Find the path of a sample in its dataset; false if it is not known. */
static bool find_path(const struct mr_catalog *catalog, int64_t index,
                      char path_out[MR_CATALOG_PATH])
{
    /* a member of a tar shard: the shard, then the member's name */
    if (!mr_catalog_is_pack(catalog) && !mr_catalog_loose_files(catalog)) {
        mr_catalog_relative_name(catalog, index, path_out, MR_CATALOG_PATH);
        return true;
    }
    if (!mr_catalog_is_pack(catalog))
        return mr_catalog_path(catalog, mr_catalog_image(catalog, index).file, path_out) == 0;
    const char *name = mr_pack_index_name(mr_catalog_pack(catalog), (uint64_t)index);
    if (!name || strlen(name) >= MR_CATALOG_PATH)
        return false;
    strcpy(path_out, name);
    return true;
}

void mr_pack_sample_name_in_pack(const struct mr_catalog *catalog, int64_t index,
                                 const char *ending, char name_out[MR_CATALOG_PATH])
{
    char path[MR_CATALOG_PATH];
    const char *name = find_path(catalog, index, path) ? inside_part(path) : "";
    const char *more = ending && !has_ending(name, jpeg_endings) ? ending : "";
    if (*name && strlen(name) + strlen(more) < MR_CATALOG_PATH)
        strcpy(stpcpy(name_out, name), more);
    else
        snprintf(name_out, MR_CATALOG_PATH, "sample-%" PRId64 "%s", index, more);
}

bool mr_pack_sample_name_is_safe(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len >= MR_CATALOG_PATH || name[0] == '/' || name[len - 1] == '/')
        return false;
    const char *last = name;
    for (const char *at = name; *at;) {
        if (is_up(at))
            return false;
        last = at;
        at += component_len(at);
        at += strspn(at, "/");
    }
    return strcmp(last, ".") != 0;
}

const char *mr_pack_sample_name_ending(const char *name, const struct mr_packed_image *image)
{
    if (image->encoding == MR_PACKED_RAW)
        return has_ending(name, png_endings) ? "" : MR_PACK_SAMPLE_NAME_PNG;
    return mr_packed_image_is_file(image->encoding) || has_ending(name, jpeg_endings)
               ? ""
               : MR_PACK_SAMPLE_NAME_JPEG;
}

static bool is_safe(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("/._-", c));
}

char *mr_pack_sample_name_spec(const char *dir)
{
    static const char digits[] = "0123456789ABCDEF";
    const char kind[] = "pack:";
    char *spec = malloc(sizeof kind + 3 * strlen(dir));
    if (!spec)
        return NULL;
    char *out = stpcpy(spec, kind);
    for (const unsigned char *in = (const unsigned char *)dir; *in; in++) {
        if (is_safe(*in)) {
            *out++ = (char)*in;
        } else {
            *out++ = '%';
            *out++ = digits[*in >> 4];
            *out++ = digits[*in & 15];
        }
    }
    *out = '\0';
    return spec;
}
