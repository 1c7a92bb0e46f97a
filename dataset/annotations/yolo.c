/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens darknet's train.txt: each line is the path of an image, from which that of its label file
 * is made.
 */
#include "dataset/annotations/yolo.h"

#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "dataset/annotations/annotated_list.h"
#include "dataset/kind_text.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"

enum { MAX_LIST_BYTES = 1 << 30 };

struct opening {
    char *path;
    const char *names;          /* path of the file with the class names; NULL: none */
    bool beside;                /* label files are beside the images */
    char root[MR_CATALOG_PATH]; /* where relative paths start; "": the working directory */
    struct mr_annotated_list list;
};

static bool is_folder_of_images(const char *name, size_t len)
{
    return (len == 6 && memcmp(name, "images", len) == 0) ||
           (len == 10 && memcmp(name, "JPEGImages", len) == 0);
}

/* The last folder of the path with one of these names; NULL: none. */
static const char *find_images(const char *path, size_t *len_out)
{
    const char *found = NULL, *slash;
    for (const char *name = path; (slash = strchr(name, '/')); name = slash + 1) {
        if (!is_folder_of_images(name, (size_t)(slash - name)))
            continue;
        found = name;
        *len_out = (size_t)(slash - name);
    }
    return found;
}

/*
 * The path of an image, which is the label's up to its folder and its ending. The host of a URL is
 * not a folder, and its query stays.
 */
static bool make_label_path(char *image, bool has_query, bool beside,
                            char label_out[MR_CATALOG_PATH])
{
    size_t images_len = 0, len = has_query ? mr_url_shown_len(image) : strlen(image);
    char end = image[len];
    image[len] = '\0';
    char *path = image + (mr_url_is(image) ? mr_url_host_len(image) : 0);
    const char *images = beside ? NULL : find_images(path, &images_len);
    const char *rest = images ? images + images_len : path;
    const char *base = strrchr(rest, '/'), *dot = strrchr(base ? base : rest, '.');
    int n = snprintf(label_out, MR_CATALOG_PATH, "%.*s%s%.*s.txt",
                     (int)((images ? images : path) - image), image, images ? "labels" : "",
                     (int)(dot ? (size_t)(dot - rest) : strlen(rest)), rest);
    image[len] = end;
    if (n > 0 && n < MR_CATALOG_PATH)
        n += snprintf(label_out + n, (size_t)(MR_CATALOG_PATH - n), "%s", image + len);
    return n > 0 && n < MR_CATALOG_PATH;
}

static mr_status add_samples(struct opening *opening, char *text, mr_error *error)
{
    mr_status status = MR_OK;
    char label[MR_CATALOG_PATH], *line;
    bool has_query = mr_url_has_query(opening->root);
    while (status == MR_OK && (line = mr_kind_text_line(&text))) {
        if (!*line)
            continue;
        if (!make_label_path(line, has_query || mr_url_has_query(line), opening->beside, label))
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "%s: the path of the labels of %.100s... has more than 4095 bytes",
                                opening->path, line);
        status = mr_annotated_list_add(&opening->list, line, 0, label, error);
    }
    return status;
}

static mr_status take_keys(struct mr_spec *spec, struct opening *opening, mr_error *error)
{
    const char *labels = mr_spec_take(spec, "labels"), *root = mr_spec_take(spec, "root");
    opening->path = spec->paths[0];
    snprintf(opening->root, sizeof opening->root, "%.*s",
             (int)(root ? strlen(root) : mr_url_folder_len(opening->path)),
             root ? root : opening->path);
    opening->names = mr_spec_take(spec, "names");
    opening->beside = labels && mr_word_is(labels, "beside");
    if (labels && !opening->beside && !mr_word_is(labels, "folder"))
        return mr_error_set(error, MR_ERR_INVALID,
                            "labels '%s' of yolo is neither folder nor beside", labels);
    return mr_spec_finish(spec, "labels, names, root", error);
}

static mr_status open_list(struct opening *opening, int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    struct mr_bytes text = {0};
    mr_status status = mr_annotated_list_init(&opening->list, opening->root, "boxes",
                                              MR_ANNOTATED_LIST_BOXES, fds, error);
    struct mr_catalog_builder *builder = &opening->list.builder;
    builder->header.may_lack = 1;
    opening->list.extra.boxes = 1; /* mr_list_scan() declares it */
    opening->list.extra.annotations = MR_ANNOTATIONS_DARKNET;
    if (status == MR_OK && opening->names)
        status = mr_kind_text_names(builder, opening->names, error);
    if (status == MR_OK)
        status = mr_kind_text_read(opening->path, "the list", MAX_LIST_BYTES, &text, error);
    opening->path[mr_url_path_len(opening->path)] = '\0'; /* messages have no query */
    if (status == MR_OK)
        status = add_samples(opening, (char *)text.data, error);
    mr_bytes_fini(&text);
    return status < 0 ? status
                      : mr_annotated_list_finish(&opening->list, opening->path, fds, error);
}

mr_status mr_yolo_open(struct mr_spec *spec, const mr_dataset_options *options,
                       int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    struct opening opening;
    mr_status status = take_keys(spec, &opening, error);
    if (status < 0)
        return status;
    status = open_list(&opening, fds_out, error);
    mr_annotated_list_fini(&opening.list);
    return status;
}
