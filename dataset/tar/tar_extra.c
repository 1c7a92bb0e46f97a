/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the key `keep`: which extra members come with each sample. Each of them becomes an array
 * of the batch, named by its suffix.
 */
#include "dataset/tar/tar_extra.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"

/*
 * A batch has room for the longest row of each sample, so this is not enough for images of any
 * size.
 */
#define MAX_BYTES (UINT64_C(1) << 24)
#define OFFSETS ".offsets"

static mr_status refuse_keep(const char *text, mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID,
                        "keep '%s' of tar is not 1 to %d SUFFIX:BYTES, separated by commas; "
                        "a suffix has at most %d bytes, BYTES is 1 to %llu",
                        text, MR_MAX_MEMBERS, MR_EXTRA_NAME - 1, (unsigned long long)MAX_BYTES);
}

/* False: the name is free. The loader refuses names of the other arrays of a batch. */
static bool is_taken(const struct mr_tar_recipe *recipe, const char *name)
{
    size_t len = strlen(name), end = strlen(OFFSETS);
    for (uint32_t i = 0; i < recipe->n_extra; i++)
        if (strcmp(name, recipe->extra[i].name) == 0)
            return true;
    return len >= end && strcmp(name + len - end, OFFSETS) == 0;
}

static bool parse_bytes(const char *text, uint64_t *bytes_out)
{
    size_t len = strspn(text, "0123456789");
    *bytes_out = strtoull(text, NULL, 10);
    return len > 0 && len < 10 && text[len] == '\0' && *bytes_out >= 1 && *bytes_out <= MAX_BYTES;
}

static mr_status add_extra(struct mr_tar_recipe *recipe, const char *text, char *item,
                           mr_error *error)
{
    char *colon = strrchr(item, ':');
    struct mr_extra extra = {0};
    if (recipe->n_extra == MR_MAX_MEMBERS || !colon || colon == item ||
        colon - item >= MR_EXTRA_NAME || !parse_bytes(colon + 1, &extra.max_bytes))
        return refuse_keep(text, error);
    *colon = '\0';
    for (size_t i = 0; item[i]; i++)
        extra.name[i] = (char)mr_word_lower(item[i]);
    if (is_taken(recipe, extra.name))
        return mr_error_set(error, MR_ERR_INVALID,
                            "keep '%s' of tar: '%s' is named twice or ends with " OFFSETS, text,
                            extra.name);
    snprintf(extra.offsets, sizeof extra.offsets, "%s" OFFSETS, extra.name);
    recipe->extra[recipe->n_extra++] = extra;
    return MR_OK;
}

mr_status mr_tar_extra_parse(struct mr_spec *spec, struct mr_tar_recipe *recipe, mr_error *error)
{
    const char *text = mr_spec_take(spec, "keep");
    char copy[256];
    mr_status status = MR_OK;
    if (!text)
        return MR_OK;
    if (strlen(text) >= sizeof copy)
        return refuse_keep(text, error);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest = copy, *item; status == MR_OK && (item = strsep(&rest, ","));)
        status = add_extra(recipe, text, item, error);
    return status;
}
