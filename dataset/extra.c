/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses lists of further members.
 *
 * Invariant: a list is split at its commas and colons first, and %XX is undone in each piece
 * afterwards. So a name or a folder may contain any byte.
 */
#include "dataset/extra.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "dataset/kind.h"

/*
 * A batch has room for the longest row of each sample, so this is not enough for images of any
 * size.
 */
#define MAX_BYTES (UINT64_C(1) << 24)
#define OFFSETS ".offsets"

enum { NAME, BYTES, SUFFIX, FOLDER, MAX_PIECES };

static mr_status refuse_item(const struct mr_spec *spec, const char *key, const char *form,
                             const char *item, mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s '%s' of %s is not %s; %.*s has 1 to %d bytes and no slash, BYTES is 1 "
                        "to %llu",
                        key, item, spec->kind->name, form, (int)strcspn(form, ":"), form,
                        MR_EXTRA_NAME - 1, (unsigned long long)MAX_BYTES);
}

static uint32_t count_pieces(const char *form)
{
    uint32_t n = 1;
    for (; *form; form++)
        n += *form == ':';
    return n;
}

/* Cut an item into n pieces, and undo their escapes. False: it has fewer. */
static bool cut_item(char *item, uint32_t n, char *pieces_out[MAX_PIECES])
{
    for (uint32_t i = 0; i < n; i++) {
        if (!item)
            return false;
        pieces_out[i] = i + 1 < n ? strsep(&item, ":") : item;
        mr_spec_decode(pieces_out[i], NULL); /* cannot fail: mr_spec_parse() has checked it */
    }
    return true;
}

static bool is_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len < MR_EXTRA_NAME && !strchr(name, '/');
}

static bool parse_bytes(const char *text, uint64_t *bytes_out)
{
    size_t len = strspn(text, "0123456789");
    *bytes_out = strtoull(text, NULL, 10);
    return len > 0 && len < 10 && text[len] == '\0' && *bytes_out >= 1 && *bytes_out <= MAX_BYTES;
}

/* False: the name is free. The loader refuses names of the other arrays of a batch. */
static bool is_taken(const struct mr_extra_list *list, const char *name)
{
    size_t len = strlen(name), end = strlen(OFFSETS);
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(name, list->extra[i].name) == 0)
            return true;
    return len >= end && strcmp(name + len - end, OFFSETS) == 0;
}

bool mr_extra_add(struct mr_extra_list *list, const char *name, uint64_t max_bytes)
{
    if (list->n == MR_MAX_MEMBERS || !is_name(name) || is_taken(list, name) || max_bytes < 1 ||
        max_bytes > MAX_BYTES)
        return false;
    struct mr_extra *extra = &list->extra[list->n++];
    extra->max_bytes = max_bytes;
    snprintf(extra->name, sizeof extra->name, "%s", name);
    snprintf(extra->offsets, sizeof extra->offsets, "%s" OFFSETS, name);
    return true;
}

static mr_status add_item(const struct mr_spec *spec, const char *key, const char *form, char *item,
                          struct mr_extra_list *list, mr_error *error)
{
    char shown[256], *pieces[MAX_PIECES] = {NULL};
    uint64_t bytes;
    snprintf(shown, sizeof shown, "%s", item);
    if (!cut_item(item, count_pieces(form), pieces) || !is_name(pieces[NAME]) ||
        !parse_bytes(pieces[BYTES], &bytes))
        return refuse_item(spec, key, form, shown, error);
    for (char *c = pieces[NAME]; *c; c++)
        *c = (char)mr_word_lower(*c);
    if (is_taken(list, pieces[NAME]))
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s '%s' of %s: '%s' is named twice or ends with " OFFSETS, key, shown,
                            spec->kind->name, pieces[NAME]);
    if (!mr_extra_add(list, pieces[NAME], bytes))
        return mr_error_set(error, MR_ERR_INVALID, "%s '%s' of %s is above the limit of %d members",
                            key, shown, spec->kind->name, MR_MAX_MEMBERS);
    list->suffixes[list->n - 1] = pieces[SUFFIX];
    list->folders[list->n - 1] = pieces[FOLDER];
    return MR_OK;
}

static mr_status choose_boxes(struct mr_spec *spec, const char *key, struct mr_extra_list *list,
                              mr_error *error)
{
    const char *name = mr_spec_take(spec, "boxes");
    if (!name)
        return MR_OK;
    for (uint32_t i = 0; i < list->n; i++)
        if (mr_word_is(list->extra[i].name, name))
            list->boxes = i + 1;
    list->annotations = MR_ANNOTATIONS_BOXES;
    return list->boxes ? MR_OK
                       : mr_error_set(error, MR_ERR_INVALID, "boxes '%s' of %s is not named in %s",
                                      name, spec->kind->name, key);
}

mr_status mr_extra_parse(struct mr_spec *spec, const char *key, const char *form,
                         struct mr_extra_list *list_out, mr_error *error)
{
    char *rest = mr_spec_take_list(spec, key), *item;
    mr_status status = MR_OK;
    *list_out = (struct mr_extra_list){0};
    while (status == MR_OK && (item = strsep(&rest, ",")))
        status = add_item(spec, key, form, item, list_out, error);
    return status == MR_OK ? choose_boxes(spec, key, list_out, error) : status;
}

void mr_extra_declare(const struct mr_extra_list *list, struct mr_sample_kind *kind)
{
    kind->n_extra = list->n;
    kind->boxes = list->boxes;
    kind->annotations = list->annotations;
    memcpy(kind->extra, list->extra, sizeof list->extra);
}
