/* SPDX-License-Identifier: Apache-2.0 */
/* Collects, sorts and writes the images of a listing. */
#include "dataset/remote/listing/listing_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/imagefolder.h"
#include "dataset/list.h"
#include "dataset/list_line.h"

static const char *text_at(const struct mr_listing_files *files, size_t at)
{
    return (const char *)files->texts.data + at;
}

static const char *next_text(const char *text)
{
    return text + strlen(text) + 1;
}

static struct mr_listing_class *class_at(const struct mr_listing_files *files, uint64_t i)
{
    return (struct mr_listing_class *)(void *)files->classes.data + i;
}

static mr_status append_text(struct mr_listing_files *files, const char *text, size_t len,
                             mr_error *error)
{
    mr_status status = mr_bytes_append(&files->texts, text, len, error);
    return status < 0 ? status : mr_bytes_append(&files->texts, "", 1, error);
}

mr_status mr_listing_files_class(struct mr_listing_files *files, const char *name,
                                 uint64_t *class_out, mr_error *error)
{
    const struct mr_listing_class added = {.name = files->texts.len};
    *class_out = files->classes.len / sizeof added;
    mr_status status = append_text(files, name, strlen(name), error);
    return status < 0 ? status : mr_bytes_append(&files->classes, &added, sizeof added, error);
}

mr_status mr_listing_files_add(struct mr_listing_files *files, uint64_t class_, const char *path,
                               const char *spelled, uint64_t size, const char *etag,
                               mr_error *error)
{
    const struct mr_listing_file added = {.class_ = class_, .size = size, .text = files->texts.len};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    mr_status status = append_text(files, path, slash ? (size_t)(slash - path) : 0, error);
    if (status == MR_OK)
        status = append_text(files, name, strlen(name), error);
    if (status == MR_OK)
        status = append_text(files, spelled, strlen(spelled), error);
    if (status == MR_OK)
        status = append_text(files, etag, strlen(etag), error);
    if (status == MR_OK)
        status = mr_bytes_append(&files->files, &added, sizeof added, error);
    if (status == MR_OK)
        class_at(files, class_)->n_files++;
    return status;
}

uint64_t mr_listing_files_count(const struct mr_listing_files *files)
{
    return files->files.len / sizeof(struct mr_listing_file);
}

static int compare_classes(const void *a, const void *b, void *user)
{
    const struct mr_listing_files *files = user;
    return mr_imagefolder_compare(text_at(files, class_at(files, *(const uint64_t *)a)->name),
                                  text_at(files, class_at(files, *(const uint64_t *)b)->name));
}

static int compare_files(const void *a, const void *b, void *user)
{
    const struct mr_listing_files *files = user;
    const struct mr_listing_file *x = a, *y = b;
    uint64_t i = class_at(files, x->class_)->label, k = class_at(files, y->class_)->label;
    const char *s = text_at(files, x->text), *t = text_at(files, y->text);
    int order = i == k ? mr_imagefolder_compare(s, t) : i < k ? -1 : 1;
    return order ? order : mr_imagefolder_compare(next_text(s), next_text(t));
}

static mr_status number_classes(struct mr_listing_files *files, mr_error *error)
{
    uint64_t n = files->classes.len / sizeof(struct mr_listing_class);
    uint64_t *order = malloc((n + 1) * sizeof *order);
    mr_status status = order ? MR_OK : mr_error_memory(error, (n + 1) * sizeof *order);
    for (uint64_t i = 0; order && i < n; i++)
        order[i] = i;
    if (order)
        qsort_r(order, n, sizeof *order, compare_classes, files);
    for (uint64_t i = 0; status == MR_OK && i < n; i++) {
        class_at(files, order[i])->label = i;
        class_at(files, i)->sorted = order[i];
        if (i > 0 && compare_classes(&order[i - 1], &order[i], files) == 0)
            status = mr_error_set(error, MR_ERR_DAMAGED, "the folder '%.200s' is listed twice",
                                  text_at(files, class_at(files, order[i])->name));
    }
    free(order);
    return status;
}

mr_status mr_listing_files_sort(struct mr_listing_files *files, mr_error *error)
{
    struct mr_listing_file *file = (struct mr_listing_file *)(void *)files->files.data;
    uint64_t n = mr_listing_files_count(files);
    mr_status status = number_classes(files, error);
    if (status < 0 || n == 0)
        return status;
    qsort_r(file, n, sizeof *file, compare_files, files);
    for (uint64_t i = 1; i < n; i++)
        if (compare_files(&file[i - 1], &file[i], files) == 0)
            return mr_error_set(error, MR_ERR_DAMAGED, "'%.200s/%.200s' is listed twice",
                                text_at(files, file[i].text),
                                next_text(text_at(files, file[i].text)));
    return MR_OK;
}

static size_t put(char *out, size_t at, const char *text, size_t len)
{
    if (out)
        memcpy(out + at, text, len);
    return at + len;
}

static size_t put_escaped(char *out, size_t at, const char *text)
{
    return at + mr_list_line_escape(text, out ? out + at : NULL);
}

/* An ETag that a line cannot have, such as a weak one, is left out. */
static size_t put_version(char *out, size_t at, uint64_t size, const char *etag)
{
    char text[256];
    struct mr_object_version version;
    int n = snprintf(text, sizeof text, "size=%" PRIu64 " etag=%.200s", size, etag);
    if (!mr_list_line_version(&(struct mr_list_line){.path = text, .path_len = (size_t)n},
                              &version))
        n = snprintf(text, sizeof text, "size=%" PRIu64, size);
    at = put(out, at, "\t", 1);
    return put(out, at, text, (size_t)n);
}

static size_t put_classes(const struct mr_listing_files *files, char *out, size_t at)
{
    uint64_t n = files->classes.len / sizeof(struct mr_listing_class);
    at = put(out, at, MR_LIST_CLASSES, strlen(MR_LIST_CLASSES));
    for (uint64_t label = 0; label < n; label++) {
        at = put(out, at, "\t", 1);
        uint64_t i = class_at(files, label)->sorted;
        at = put_escaped(out, at, text_at(files, class_at(files, i)->name));
    }
    return put(out, at, "\r\n", 2); /* the reader drops one "\r", and a name may end with one */
}

size_t mr_listing_files_write(const struct mr_listing_files *files, const char *root, bool classes,
                              char *text_out)
{
    const struct mr_listing_file *file =
        (const struct mr_listing_file *)(const void *)files->files.data;
    size_t at = classes ? put_classes(files, text_out, 0) : 0;
    for (uint64_t i = 0; i < mr_listing_files_count(files); i++) {
        char label[32];
        const char *spelled = next_text(next_text(text_at(files, file[i].text)));
        at = put_escaped(text_out, at, root);
        at = put_escaped(text_out, at, spelled);
        int n = snprintf(label, sizeof label, "\t%" PRIu64, class_at(files, file[i].class_)->label);
        at = put(text_out, at, label, (size_t)n);
        if (file[i].size != MR_LEN_UNKNOWN)
            at = put_version(text_out, at, file[i].size, next_text(spelled));
        at = put(text_out, at, "\n", 1);
    }
    return at;
}

void mr_listing_files_url(const struct mr_listing_files *files, uint64_t i, const char *root,
                          char url_out[MR_CATALOG_PATH])
{
    const struct mr_listing_file *file =
        (const struct mr_listing_file *)(const void *)files->files.data;
    snprintf(url_out, MR_CATALOG_PATH, "%s%s", root,
             next_text(next_text(text_at(files, file[i].text))));
}

void mr_listing_files_fini(struct mr_listing_files *files)
{
    mr_bytes_fini(&files->files);
    mr_bytes_fini(&files->classes);
    mr_bytes_fini(&files->texts);
}
