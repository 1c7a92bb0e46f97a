/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens tar shards. The keys of the SPEC give the recipe, its paths the shards, and the headers of
 * the shards the catalog. The root of the catalog is the deepest folder that all shards share.
 */
#include "dataset/tar/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/words.h"
#include "dataset/catalog_build.h"
#include "dataset/extra.h"
#include "dataset/kind_text.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"
#include "dataset/tar/tar_jobs.h"
#include "dataset/tar/tar_shards.h"

struct opening {
    const mr_dataset_options *options;
    struct mr_tar_source source;
    struct mr_tar_recipe recipe;
    enum mr_index_place index_place;
    const char *classes;           /* path of the file with the class names; NULL: none */
    struct mr_bytes paths;         /* paths of the shards as written, NUL-terminated */
    struct mr_bytes offs;          /* size_t: where the part of each path below the root begins */
    char written[MR_CATALOG_PATH]; /* the root as written, with its slash; "" for the working
                                      directory */
    struct mr_catalog_builder builder;
};

static bool add_image(struct mr_tar_recipe *recipe, char *suffix)
{
    if (*suffix == '\0' || recipe->n_images == MR_TAR_MAX_IMAGES)
        return false;
    for (char *c = suffix; *c; c++)
        *c = (char)mr_word_lower(*c);
    recipe->images[recipe->n_images++] = suffix;
    return true;
}

static mr_status take_images(struct mr_spec *spec, struct mr_tar_recipe *recipe, mr_error *error)
{
    const char *text = mr_spec_take(spec, "image");
    int len =
        snprintf(recipe->storage, sizeof recipe->storage, "%s", text ? text : "jpg,jpeg,png,webp");
    bool good = len >= 0 && (size_t)len < sizeof recipe->storage;
    for (char *rest = recipe->storage, *suffix; good && (suffix = strsep(&rest, ","));)
        good = add_image(recipe, suffix);
    return good ? MR_OK
                : mr_error_set(error, MR_ERR_INVALID,
                               "image '%s' of tar is not 1 to %d suffixes such as jpg,png", text,
                               MR_TAR_MAX_IMAGES);
}

static mr_status take_label(struct mr_spec *spec, struct mr_tar_recipe *recipe, mr_error *error)
{
    const char *text = mr_spec_take(spec, "label");
    if (!text || mr_word_is(text, "cls")) {
        recipe->label = MR_TAR_LABEL_CLS;
    } else if (mr_word_is(text, "none")) {
        recipe->label = MR_TAR_LABEL_NONE;
    } else if (mr_word_begins(text, "json:") && text[5] &&
               strlen(text + 5) < sizeof recipe->field) {
        recipe->label = MR_TAR_LABEL_JSON;
        snprintf(recipe->field, sizeof recipe->field, "%s", text + 5);
    } else {
        return mr_error_set(error, MR_ERR_INVALID,
                            "label '%s' of tar is none of cls, json:FIELD, none", text);
    }
    return MR_OK;
}

static mr_status take_keep(struct mr_spec *spec, struct mr_tar_recipe *recipe, mr_error *error)
{
    struct mr_extra_list list;
    mr_status status = mr_extra_parse(spec, "keep", "SUFFIX:BYTES", &list, error);
    recipe->n_extra = list.n;
    recipe->boxes = list.boxes;
    memcpy(recipe->extra, list.extra, sizeof list.extra);
    return status;
}

static mr_status take_keys(struct mr_spec *spec, struct opening *opening, mr_error *error)
{
    if (take_images(spec, &opening->recipe, error) < 0 ||
        take_label(spec, &opening->recipe, error) < 0 ||
        take_keep(spec, &opening->recipe, error) < 0)
        return MR_ERR_INVALID;
    opening->classes = mr_spec_take(spec, "classes");
    mr_status status = mr_index_place_take(spec, &opening->index_place, error);
    return status < 0 ? status
                      : mr_spec_finish(spec, "image, label, keep, boxes, classes, index", error);
}

/*
 * Write the recipe as one text. Each text of the user is preceded by its length, so two different
 * recipes never have the same text.
 */
static void write_recipe(struct mr_tar_recipe *recipe)
{
    static const char *const labels[] = {
        [MR_TAR_LABEL_CLS] = "cls", [MR_TAR_LABEL_JSON] = "json:", [MR_TAR_LABEL_NONE] = "none"};
    int n = snprintf(recipe->text, sizeof recipe->text, "label %s%zu:%s image",
                     labels[recipe->label], strlen(recipe->field), recipe->field);
    for (uint32_t i = 0; i < recipe->n_images;
         i++) /* no overflow: storage and field are shorter than text */
        n += snprintf(recipe->text + n, sizeof recipe->text - (size_t)n, ",%zu:%s",
                      strlen(recipe->images[i]), recipe->images[i]);
    for (uint32_t i = 0; i < recipe->n_extra; i++)
        n += snprintf(recipe->text + n, sizeof recipe->text - (size_t)n, " keep %zu:%s:%" PRIu64,
                      strlen(recipe->extra[i].name), recipe->extra[i].name,
                      recipe->extra[i].max_bytes);
}

/* Length of the folder that two paths share, with its slash. */
static size_t shared_folder(const char *a, const char *b, size_t len)
{
    size_t shared = 0;
    for (size_t i = 0; i < len && a[i] == b[i]; i++)
        if (a[i] == '/')
            shared = i + 1;
    return shared;
}

static mr_status find_root(struct opening *opening, uint64_t n, mr_error *error)
{
    const char *first = (const char *)opening->paths.data, *path = first;
    const char *slash = strrchr(first, '/');
    size_t len = slash ? (size_t)(slash - first) + 1 : 0;
    if (mr_url_is(first)) /* a slash in a query begins no folder */
        len = mr_url_folder_len(first);
    for (uint64_t i = 0; i < n; i++, path += strlen(path) + 1)
        len = shared_folder(first, path, len);
    memcpy(opening->written, first, len);
    opening->written[len] = '\0';
    path = first;
    for (uint64_t i = 0; i < n; i++, path += strlen(path) + 1) {
        size_t off = (size_t)(path - first) + len;
        if (path[len] == '\0')
            return mr_error_set(error, MR_ERR_INVALID, "the shard '%s' of the dataset is a folder",
                                path);
        mr_status status = mr_bytes_append(&opening->offs, &off, sizeof off, error);
        if (status < 0)
            return status;
    }
    return MR_OK;
}

/* Log a line for each broken place of a shard. */
static void report_notes(const struct opening *opening, const char *path,
                         const struct mr_tar_samples *samples)
{
    const char *note = (const char *)samples->notes.data;
    for (size_t at = 0; at < samples->notes.len; at += strlen(note + at) + 1)
        mr_log_line(MR_LOG_WARNING, "%s%s %s", opening->written, path, note + at);
}

static mr_status take_shard(void *user, uint64_t shard, const struct mr_tar_samples *samples,
                            mr_error *error)
{
    struct opening *opening = user;
    struct mr_catalog_builder *builder = &opening->builder;
    const char *path = opening->source.paths + opening->source.offs[shard];
    report_notes(opening, path, samples);
    if (samples->n == 0)
        return MR_OK;
    mr_status status = mr_catalog_builder_folder(builder, path, samples->stamp, error);
    if (status == MR_OK && builder->header.is_remote)
        status = mr_bytes_append(&builder->sections[MR_SECTION_VERSIONS], &samples->version,
                                 sizeof samples->version, error);
    if (status == MR_OK)
        status = mr_bytes_append(&builder->sections[MR_SECTION_MEMBERS], samples->members.data,
                                 samples->members.len, error);
    if (status == MR_OK)
        status = mr_bytes_append(&builder->sections[MR_SECTION_EXTRA], samples->extra.data,
                                 samples->extra.len, error);
    const char *name = (const char *)samples->names.data;
    for (uint64_t i = 0; status == MR_OK && i < samples->n; i++, name += strlen(name) + 1)
        status = mr_catalog_builder_name(builder, name, error);
    builder->header.n_files++;
    builder->header.n_samples += samples->n;
    if (status == MR_OK && opening->options->progress)
        opening->options->progress(opening->options->user, builder->header.n_samples);
    return status;
}

static mr_status build_catalog(struct opening *opening, int *fd_out, mr_error *error)
{
    struct mr_catalog_header *header = &opening->builder.header;
    mr_status status =
        opening->classes ? mr_kind_text_names(&opening->builder, opening->classes, error) : MR_OK;
    if (status == MR_OK)
        status = mr_tar_jobs_run(&opening->source, take_shard, opening, error);
    if (status == MR_OK && header->n_samples == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s%s holds no sample", opening->written,
                              opening->source.paths + opening->source.offs[opening->source.n - 1]);
    if (status < 0)
        return status;
    header->kind.n_extra = opening->recipe.n_extra;
    header->kind.boxes = opening->recipe.boxes;
    if (header->kind.boxes)
        header->kind.annotations = MR_ANNOTATIONS_BOXES;
    memcpy(header->kind.extra, opening->recipe.extra, sizeof header->kind.extra);
    header->kind.encoded = 1;
    header->kind.picture = 1;
    mr_kind_set_integer_label(&header->kind);
    return mr_catalog_builder_finish(&opening->builder, fd_out, error);
}

/* True if a shard is at a URL. */
static bool has_url(const struct opening *opening, uint64_t n)
{
    const char *path = (const char *)opening->paths.data;
    for (uint64_t i = 0; i < n; i++, path += strlen(path) + 1)
        if (mr_url_is(path))
            return true;
    return false;
}

static mr_status open_shards(struct mr_spec *spec, struct opening *opening,
                             int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    char absolute[PATH_MAX];
    uint64_t n = 0;
    mr_status status = mr_tar_shards_expand(spec->paths, spec->n_paths, &opening->paths, &n, error);
    if (status == MR_OK)
        status = find_root(opening, n, error);
    if (status == MR_OK)
        status = mr_kind_open_root(*opening->written ? opening->written : ".",
                                   &fds[MR_CATALOG_FD_ROOT], absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_root(&opening->builder, opening->written, absolute, error);
    opening->builder.header.is_remote = has_url(opening, n);
    opening->builder.header.no_index = opening->index_place == MR_INDEX_NONE;
    if (status < 0)
        return status;
    opening->source =
        (struct mr_tar_source){.root = fds[MR_CATALOG_FD_ROOT],
                               .written = opening->written,
                               .recipe = &opening->recipe,
                               .index_place = opening->index_place,
                               .paths = (const char *)opening->paths.data,
                               .offs = (const size_t *)(const void *)opening->offs.data,
                               .n = n};
    return build_catalog(opening, &fds[MR_CATALOG_FD_REGION], error);
}

mr_status mr_tar_open(struct mr_spec *spec, const mr_dataset_options *options,
                      int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    struct opening *opening = calloc(1, sizeof *opening);
    if (!opening)
        return mr_error_memory(error, sizeof *opening);
    opening->options = options;
    mr_status status = take_keys(spec, opening, error);
    if (status == MR_OK) {
        write_recipe(&opening->recipe);
        status = mr_catalog_builder_init(&opening->builder, MR_SCHEME_TAR, error);
        if (status == MR_OK)
            status = open_shards(spec, opening, fds_out, error);
        mr_catalog_builder_fini(&opening->builder);
    }
    mr_bytes_fini(&opening->paths);
    mr_bytes_fini(&opening->offs);
    free(opening);
    return status;
}
