/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups consecutive members with one stem into samples, and reads their labels.
 *
 * Headers in a gap are lost, and with them members with unknown names. If the sample before or
 * after a gap lacks its image or its label, that sample stands for the loss. Otherwise a damaged
 * sample is added in the place of the gap, so that the policy for damaged samples sees it.
 */
#include "dataset/tar/tar_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "dataset/tar/tar_label.h"

/* A longer label is invalid. Limits for an integer as text, and for a JSON object. */
enum { MAX_CLS = 64, MAX_JSON = 16 << 20, MAX_NOTES = 16, SUFFIX_BYTES = 256 };

struct mr_tar_group {
    struct mr_tar_file *file;
    const struct mr_tar_recipe *recipe;
    struct mr_tar_samples *samples;
    uint64_t n_notes;
    bool has_gap; /* a gap that no damaged sample stands for yet */
    struct mr_tar_gap gap;
    /* The current sample: */
    bool is_open, has_label, is_cut;
    bool gap_before;                 /* a gap precedes its first member */
    bool gap_within;                 /* a gap is between its members */
    enum mr_catalog_problem problem; /* found in a member */
    uint32_t image;                  /* index in the list of the recipe; n_images: no image yet */
    int64_t label;
    struct mr_catalog_member member;
    struct mr_catalog_extra extra[MR_MAX_EXTRA];
    bool has_extra[MR_MAX_EXTRA];
    size_t stem_len;
    char stem[MR_CATALOG_PATH]; /* name of the first member; the first stem_len bytes are the same
                                   for all members */
    char name[MR_CATALOG_PATH]; /* of the image */
};

void mr_tar_samples_fini(struct mr_tar_samples *samples)
{
    mr_bytes_fini(&samples->members);
    mr_bytes_fini(&samples->extra);
    mr_bytes_fini(&samples->names);
    mr_bytes_fini(&samples->notes);
    *samples = (struct mr_tar_samples){0};
}

/* Members of WebDataset itself: "__x__" and everything below it. */
static bool is_meta(const char *name)
{
    size_t len = strcspn(name, "/");
    return len >= 4 && name[0] == '_' && name[1] == '_' && name[len - 1] == '_' &&
           name[len - 2] == '_';
}

bool mr_tar_group_split(const char *name, size_t *stem_len_out, const char **suffix_out)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
    if (!dot || dot == base || is_meta(name))
        return false;
    *stem_len_out = (size_t)(dot - name);
    *suffix_out = dot + 1;
    return true;
}

mr_status mr_tar_group_create(struct mr_tar_file *file, const struct mr_tar_recipe *recipe,
                              struct mr_tar_samples *samples, struct mr_tar_group **group_out,
                              mr_error *error)
{
    struct mr_tar_group *group = calloc(1, sizeof *group);
    if (!group)
        return mr_error_memory(error, sizeof *group);
    group->file = file;
    group->recipe = recipe;
    group->samples = samples;
    *group_out = group;
    return MR_OK;
}

void mr_tar_group_destroy(struct mr_tar_group *group)
{
    free(group);
}

static mr_status add_sample(struct mr_tar_group *group, const struct mr_catalog_member *member,
                            const struct mr_catalog_extra *extra, const char *name, mr_error *error)
{
    struct mr_tar_samples *samples = group->samples;
    mr_status status = mr_bytes_append(&samples->members, member, sizeof *member, error);
    if (status == MR_OK)
        status =
            mr_bytes_append(&samples->extra, extra, group->recipe->n_extra * sizeof *extra, error);
    if (status == MR_OK)
        status = mr_bytes_append(&samples->names, name, strlen(name) + 1, error);
    samples->n += status == MR_OK;
    return status;
}

/* Add a damaged sample for the members lost in a gap. */
static mr_status add_gap(struct mr_tar_group *group, mr_error *error)
{
    static const struct mr_catalog_extra none[MR_MAX_EXTRA];
    char name[64];
    struct mr_catalog_member member = {.offset = group->gap.from,
                                       .len = group->gap.to - group->gap.from,
                                       .problem = MR_PROBLEM_LOST};
    snprintf(name, sizeof name, "(bytes %" PRIu64 " to %" PRIu64 ")", group->gap.from,
             group->gap.to);
    group->has_gap = false;
    return add_sample(group, &member, none, name, error);
}

static bool lacks_extra(const struct mr_tar_group *group)
{
    for (uint32_t i = 0; i < group->recipe->n_extra; i++)
        if (!group->has_extra[i])
            return true;
    return false;
}

static enum mr_catalog_problem judge_sample(const struct mr_tar_group *group)
{
    if (group->problem != MR_PROBLEM_NONE)
        return group->problem;
    bool has_image = group->image < group->recipe->n_images;
    bool has_label = group->has_label || group->recipe->label == MR_TAR_LABEL_NONE;
    /* the missing member may be in the gap, or after the cut */
    bool may_lack = (group->gap_within || group->is_cut) && lacks_extra(group);
    if (has_image && has_label && !may_lack)
        return MR_PROBLEM_NONE;
    if (has_image && has_label && group->gap_within)
        return MR_PROBLEM_LOST;
    if (group->is_cut)
        return MR_PROBLEM_CUT;
    return has_image ? MR_PROBLEM_NO_LABEL : MR_PROBLEM_NO_IMAGE;
}

/* Add the open sample. A gap before it is added first, unless the sample stands for the loss. */
static mr_status close_sample(struct mr_tar_group *group, mr_error *error)
{
    mr_status status = MR_OK;
    if (!group->is_open)
        return MR_OK;
    group->is_open = false;
    group->member.problem = judge_sample(group);
    group->member.label = group->label;
    if (group->member.problem != MR_PROBLEM_NONE)
        group->has_gap = false; /* this sample stands for the loss */
    else if (group->has_gap && group->gap_before)
        status = add_gap(group, error);
    if (status < 0)
        return status;
    return add_sample(group, &group->member, group->extra, *group->name ? group->name : group->stem,
                      error);
}

/* Add a note with the number of broken places that have no note. */
static mr_status count_rest(struct mr_tar_group *group, mr_error *error)
{
    char note[64];
    if (group->n_notes <= MAX_NOTES)
        return MR_OK;
    int len = snprintf(note, sizeof note, "has %" PRIu64 " more broken places",
                       group->n_notes - MAX_NOTES);
    return mr_bytes_append(&group->samples->notes, note, (size_t)len + 1, error);
}

mr_status mr_tar_group_finish(struct mr_tar_group *group, mr_error *error)
{
    mr_status status = close_sample(group, error);
    if (status == MR_OK && group->has_gap)
        status = add_gap(group, error);
    return status == MR_OK ? count_rest(group, error) : status;
}

static void open_sample(struct mr_tar_group *group, const char *name, size_t stem_len)
{
    group->is_open = true;
    group->gap_before = group->has_gap;
    group->gap_within = false;
    group->has_label = group->is_cut = false;
    group->problem = MR_PROBLEM_NONE;
    group->image = group->recipe->n_images;
    group->label = 0;
    group->member = (struct mr_catalog_member){0};
    memset(group->extra, 0, sizeof group->extra);
    memset(group->has_extra, 0, sizeof group->has_extra);
    group->stem_len = stem_len;
    snprintf(group->stem, sizeof group->stem, "%s", name);
    group->name[0] = '\0';
}

static mr_status add_note(struct mr_tar_group *group, const char *note, mr_error *error)
{
    group->samples->is_broken = true;
    if (group->n_notes++ >= MAX_NOTES)
        return MR_OK;
    return mr_bytes_append(&group->samples->notes, note, strlen(note) + 1, error);
}

static void take_image(struct mr_tar_group *group, const struct mr_tar_member *member,
                       const char *suffix)
{
    for (uint32_t i = 0; i < group->recipe->n_images; i++) {
        if (strcmp(suffix, group->recipe->images[i]) != 0)
            continue;
        if (i == group->image)
            group->problem = MR_PROBLEM_TWICE;
        if (i >= group->image)
            return;
        group->image = i;
        group->member.offset = member->offset;
        group->member.len = member->len;
        snprintf(group->name, sizeof group->name, "%s", member->name);
        return;
    }
}

static void take_extra(struct mr_tar_group *group, const struct mr_tar_member *member,
                       const char *suffix)
{
    for (uint32_t i = 0; i < group->recipe->n_extra; i++) {
        if (strcmp(suffix, group->recipe->extra[i].name) != 0)
            continue;
        if (group->has_extra[i])
            group->problem = MR_PROBLEM_TWICE;
        else if (member->is_cut)
            group->problem = MR_PROBLEM_CUT;
        else if (member->len > group->recipe->extra[i].max_bytes &&
                 group->problem == MR_PROBLEM_NONE)
            group->problem = MR_PROBLEM_LONG;
        group->has_extra[i] = true;
        group->extra[i] = (struct mr_catalog_extra){.offset = member->offset, .len = member->len};
    }
}

/* Read the label from a JSON member that is longer than the window. */
static mr_status read_json(struct mr_tar_group *group, const struct mr_tar_member *member,
                           bool *good_out, mr_error *error)
{
    size_t n = 0, len = (size_t)member->len;
    char *text = malloc(len + 1);
    if (!text)
        return mr_error_memory(error, len + 1);
    mr_status status = mr_tar_file_read(group->file, member->offset, text, len, &n, error);
    *good_out = status == MR_OK && mr_tar_label_json(text, n, group->recipe->field, &group->label);
    free(text);
    return status;
}

static mr_status read_label(struct mr_tar_group *group, const struct mr_tar_member *member,
                            mr_error *error)
{
    bool good = false, is_json = group->recipe->label == MR_TAR_LABEL_JSON;
    mr_status status = MR_OK;
    if (member->len <= (is_json ? MR_TAR_WINDOW : MAX_CLS)) {
        const char *text =
            (const char *)mr_tar_file_look(group->file, member->offset, (size_t)member->len, error);
        if (!text)
            return MR_ERR_IO;
        good = is_json ? mr_tar_label_json(text, (size_t)member->len, group->recipe->field,
                                           &group->label)
                       : mr_tar_label_integer(text, (size_t)member->len, &group->label);
    } else if (is_json && member->len <= MAX_JSON) {
        status = read_json(group, member, &good, error);
    }
    if (!good && group->problem == MR_PROBLEM_NONE)
        group->problem = MR_PROBLEM_BAD_LABEL;
    return status;
}

static mr_status take_label(struct mr_tar_group *group, const struct mr_tar_member *member,
                            const char *suffix, mr_error *error)
{
    enum mr_tar_label label = group->recipe->label;
    if (label == MR_TAR_LABEL_NONE ||
        strcmp(suffix, label == MR_TAR_LABEL_CLS ? "cls" : "json") != 0)
        return MR_OK;
    if (group->has_label)
        group->problem = MR_PROBLEM_TWICE;
    if (group->has_label || member->is_cut)
        return MR_OK;
    group->has_label = true;
    return read_label(group, member, error);
}

static mr_status note_cut(struct mr_tar_group *group, const struct mr_tar_member *member,
                          mr_error *error)
{
    char note[MR_CATALOG_PATH + 256];
    group->is_cut = true;
    snprintf(note, sizeof note,
             "ends at byte %" PRIu64 ", within %s, whose %" PRIu64 " bytes begin at %" PRIu64
             "; this member and any after it are lost",
             group->file->size, member->name, member->len, member->offset);
    return add_note(group, note, error);
}

mr_status mr_tar_group_member(void *user, const struct mr_tar_member *member, mr_error *error)
{
    struct mr_tar_group *group = user;
    char lower[SUFFIX_BYTES];
    const char *suffix;
    size_t stem_len, i;
    if (!mr_tar_group_split(member->name, &stem_len, &suffix))
        return member->is_cut ? note_cut(group, member, error) : MR_OK;
    for (i = 0; suffix[i] && i < sizeof lower - 1; i++)
        lower[i] = (char)mr_word_lower(suffix[i]);
    lower[suffix[i] ? 0 : i] = '\0'; /* a longer suffix matches none */
    mr_status status = MR_OK;
    if (!group->is_open || stem_len != group->stem_len ||
        memcmp(member->name, group->stem, stem_len) != 0) {
        status = close_sample(group, error);
        open_sample(group, member->name, stem_len);
    } else if (!group->gap_before) {
        group->gap_within |= group->has_gap;
        group->has_gap = false; /* the gap is inside this sample */
    }
    if (status == MR_OK && member->is_cut)
        status = note_cut(group, member, error);
    if (status < 0)
        return status;
    take_image(group, member, lower);
    take_extra(group, member, lower);
    return take_label(group, member, lower, error);
}

mr_status mr_tar_group_gap(void *user, const struct mr_tar_gap *gap, mr_error *error)
{
    struct mr_tar_group *group = user;
    char note[MR_CATALOG_PATH + 256];
    snprintf(note, sizeof note,
             "bytes %" PRIu64 " to %" PRIu64 " are not members (%s): members after %s are lost",
             gap->from, gap->to, gap->why, group->is_open ? group->stem : "the start");
    mr_status status = add_note(group, note, error);
    group->has_gap = true;
    group->gap = *gap;
    return status;
}
