/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a VOC dataset in the order of its ImageSets, as torchvision's VOCDetection and
 * VOCSegmentation do.
 */
#include "dataset/annotations/voc.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/words.h"
#include "dataset/annotations/annotated_list.h"
#include "dataset/kind_text.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"

enum { MAX_SET_BYTES = 1 << 28 };

/* torchvision's VOC_DETECTION_CATEGORIES. */
static const char *const categories[] = {
    "__background__",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
};

struct opening {
    const char *set;
    const char *names; /* path of the file with the class names; NULL: those of VOC */
    bool segmentation;
    char root[MR_CATALOG_PATH];
    struct mr_annotated_list list;
};

static bool has_sets(const char *root)
{
    char path[MR_CATALOG_PATH + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/ImageSets", root);
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder of the year, which may be the path itself. A URL is that folder. */
static mr_status find_root(struct opening *opening, const char *path, int64_t year, mr_error *error)
{
    bool is_url = mr_url_is(path);
    int n = is_url || has_sets(path)
                ? snprintf(opening->root, sizeof opening->root, "%s", path)
                : snprintf(opening->root, sizeof opening->root, "%s/%sVOCdevkit/VOC%d", path,
                           year == 2011 ? "TrainVal/" : "", (int)year);
    if (n > 0 && (size_t)n < sizeof opening->root && (is_url || has_sets(opening->root)))
        return MR_OK;
    return mr_error_set(error, MR_ERR_IO, "neither %s nor %.*s has the folder ImageSets", path,
                        MR_CATALOG_PATH, opening->root);
}

static mr_status add_classes(struct opening *opening, mr_error *error)
{
    struct mr_catalog_builder *builder = &opening->list.builder;
    mr_status status = MR_OK;
    if (opening->names)
        return mr_kind_text_names(builder, opening->names, error);
    for (size_t i = 0; status == MR_OK && i < sizeof categories / sizeof *categories; i++)
        status = mr_catalog_builder_class(builder, categories[i], error);
    return status;
}

static char *strip_spaces(char *line)
{
    line += strspn(line, " \t");
    for (size_t len = strlen(line); len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t');)
        line[--len] = '\0';
    return line;
}

static mr_status add_samples(struct opening *opening, char *text, const char *path, mr_error *error)
{
    mr_status status = MR_OK;
    char *line, image[MR_CATALOG_PATH], annotation[MR_CATALOG_PATH];
    const char *form = opening->segmentation ? "SegmentationClass/%s.png" : "Annotations/%s.xml";
    while (status == MR_OK && (line = mr_kind_text_line(&text))) {
        line = strip_spaces(line);
        int n = snprintf(image, sizeof image, "JPEGImages/%s.jpg", line);
        int m = snprintf(annotation, sizeof annotation, form, line);
        if (!*line || (size_t)n >= sizeof image || (size_t)m >= sizeof annotation)
            return mr_error_set(error, MR_ERR_DAMAGED, "%s: a line is empty or too long", path);
        status = mr_annotated_list_add(&opening->list, image, 0, annotation, error);
    }
    return status;
}

static mr_status take_keys(struct mr_spec *spec, struct opening *opening, mr_error *error)
{
    int64_t year = 2012;
    const char *task = mr_spec_take(spec, "task"), *set = mr_spec_take(spec, "set");
    opening->names = mr_spec_take(spec, "names");
    opening->set = set ? set : "train";
    opening->segmentation = task && mr_word_is(task, "segmentation");
    if (task && !opening->segmentation && !mr_word_is(task, "detection"))
        return mr_error_set(error, MR_ERR_INVALID,
                            "task '%s' of voc is neither detection nor segmentation", task);
    if (!*opening->set || strchr(opening->set, '/'))
        return mr_error_set(error, MR_ERR_INVALID, "set '%s' of voc is not the name of a list",
                            opening->set);
    mr_status status = mr_spec_take_int(spec, "year", 2007, 2012, &year, error);
    if (status == MR_OK)
        status = mr_spec_finish(spec, "names, set, task, year", error);
    return status < 0 ? status : find_root(opening, spec->paths[0], year, error);
}

static mr_status open_set(struct opening *opening, int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    char path[MR_CATALOG_PATH + 256];
    struct mr_bytes text = {0};
    bool mask = opening->segmentation;
    mr_status status =
        mr_annotated_list_init(&opening->list, opening->root, mask ? "mask_file" : "boxes",
                               mask ? MR_ANNOTATED_LIST_MASK : MR_ANNOTATED_LIST_BOXES, fds, error);
    opening->list.extra.boxes = !mask;
    opening->list.extra.annotations = mask ? MR_ANNOTATIONS_MASKS : MR_ANNOTATIONS_VOC;
    if (status == MR_OK)
        status = add_classes(opening, error);
    bool has_slash = opening->root[strlen(opening->root) - 1] == '/';
    snprintf(path, sizeof path, "%s%sImageSets/%s/%.200s.txt", opening->root, has_slash ? "" : "/",
             mask ? "Segmentation" : "Main", opening->set);
    if (status == MR_OK)
        status = mr_kind_text_read(path, "the list", MAX_SET_BYTES, &text, error);
    if (status == MR_OK)
        status = add_samples(opening, (char *)text.data, path, error);
    mr_bytes_fini(&text);
    return status < 0 ? status : mr_annotated_list_finish(&opening->list, path, fds, error);
}

mr_status mr_voc_open(struct mr_spec *spec, const mr_dataset_options *options,
                      int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    struct opening opening;
    mr_status status = take_keys(spec, &opening, error);
    if (status < 0)
        return status;
    status = open_set(&opening, fds_out, error);
    mr_annotated_list_fini(&opening.list);
    return status;
}
