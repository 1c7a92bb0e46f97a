/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a COCO dataset in the order of torchvision's CocoDetection. The boxes of each image are
 * rows in the catalog.
 */
#include "dataset/annotations/coco.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "dataset/annotations/annotated_list.h"
#include "dataset/annotations/box_member.h"
#include "dataset/annotations/coco_index.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"

/* A larger category id has no class name. */
enum { MAX_CLASSES = 1 << 16 };

struct opening {
    const char *annotations;
    char name[MR_CATALOG_PATH]; /* the same as messages name it */
    enum mr_index_place index_place;
    bool drops_crowd;
    bool drops_empty;
    bool is_dense;   /* labels are the places of the sorted categories */
    bool is_clamped; /* clamp boxes to the image, drop those without area */
    struct mr_coco_table table;
    struct mr_annotated_list list;
};

/* Take a key with two words, the first of which is the default. */
static mr_status take_choice(struct mr_spec *spec, const char *key, const char *first,
                             const char *second, bool *second_out, mr_error *error)
{
    const char *text = mr_spec_take(spec, key);
    *second_out = text && mr_word_is(text, second);
    if (!text || *second_out || mr_word_is(text, first))
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID, "%s '%s' of coco is neither %s nor %s", key, text,
                        first, second);
}

/* The keys that are those of the detection reference's get_coco(). */
static mr_status take_reference(struct mr_spec *spec, struct opening *opening, mr_error *error)
{
    const char *set = mr_spec_take(spec, "coco_reference");
    if (!set)
        return MR_OK;
    bool train = mr_word_is(set, "train");
    if (!train && !mr_word_is(set, "val"))
        return mr_error_set(error, MR_ERR_INVALID,
                            "coco_reference '%s' of coco is neither train nor val", set);
    if (mr_spec_take(spec, "crowd") || mr_spec_take(spec, "empty"))
        return mr_error_set(error, MR_ERR_INVALID,
                            "coco_reference of coco states what crowd and empty would");
    opening->drops_crowd = opening->is_clamped = true;
    opening->drops_empty = train;
    return MR_OK;
}

static mr_status take_keys(struct mr_spec *spec, struct opening *opening, mr_error *error)
{
    static const char *const missing[] = {"masks", "keypoints"};
    mr_status status = MR_OK;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (mr_spec_take(spec, missing[i]))
            return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s of coco are not offered yet",
                                missing[i]);
    opening->annotations = mr_spec_take(spec, "annotations");
    if (!opening->annotations)
        return mr_error_set(error, MR_ERR_INVALID, "coco needs the key annotations");
    snprintf(opening->name, sizeof opening->name, "%.*s", mr_url_path_len(opening->annotations),
             opening->annotations);
    status = take_choice(spec, "crowd", "keep", "drop", &opening->drops_crowd, error);
    if (status == MR_OK)
        status = take_choice(spec, "empty", "keep", "drop", &opening->drops_empty, error);
    if (status == MR_OK)
        status = take_choice(spec, "labels", "category", "dense", &opening->is_dense, error);
    if (status == MR_OK)
        status = take_reference(spec, opening, error);
    if (status == MR_OK)
        status = mr_index_place_take(spec, &opening->index_place, error);
    return status < 0
               ? status
               : mr_spec_finish(spec, "annotations, coco_reference, crowd, empty, index, labels",
                                error);
}

/* The class of each label. Labels between category ids have the name that torchvision gives them.
 */
static mr_status add_classes(struct opening *opening, mr_error *error)
{
    const struct mr_coco_category *categories = mr_coco_table_categories(&opening->table);
    size_t n = mr_coco_table_n_categories(&opening->table);
    int64_t next = 0;
    mr_status status = MR_OK;
    bool named =
        opening->is_dense || (n > 0 && categories[0].id >= 0 && categories[n - 1].id < MAX_CLASSES);
    for (size_t i = 0; named && status == MR_OK && i < n; i++, next++) {
        for (; status == MR_OK && !opening->is_dense && next < categories[i].id; next++)
            status = mr_catalog_builder_class(&opening->list.builder,
                                              next == 0 ? "__background__" : "N/A", error);
        if (status == MR_OK)
            status = mr_catalog_builder_class(
                &opening->list.builder, mr_coco_table_name(&opening->table, categories[i].name),
                error);
    }
    return status;
}

static float clamp_to(float value, uint32_t most)
{
    return value < 0 ? 0 : value > (float)most ? (float)most : value;
}

static mr_status fail_image(const struct opening *opening, const struct mr_coco_image *image,
                            mr_error *error, const char *what)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "%s: image %" PRId64 " %s", opening->name, image->id,
                        what);
}

/* Make the row of a box. *kept_out: it stays. */
static mr_status make_row(const struct opening *opening, const struct mr_coco_image *image,
                          const struct mr_coco_box *box, struct mr_box_row *row_out, bool *kept_out,
                          mr_error *error)
{
    struct mr_box_row *row = row_out;
    *row = box->row;
    *kept_out = !opening->drops_crowd || !row->is_crowd;
    if (opening->is_dense) {
        row->label = mr_coco_table_find_category(&opening->table, row->label);
        if (row->label < 0)
            return fail_image(opening, image, error, "has a box of an unknown category");
    }
    if (!opening->is_clamped)
        return MR_OK;
    if (image->width == 0 || image->height == 0)
        return fail_image(opening, image, error, "has no width or height");
    row->x1 = clamp_to(row->x1, image->width);
    row->x2 = clamp_to(row->x2, image->width);
    row->y1 = clamp_to(row->y1, image->height);
    row->y2 = clamp_to(row->y2, image->height);
    *kept_out = *kept_out && row->x2 > row->x1 && row->y2 > row->y1;
    return MR_OK;
}

static mr_status add_rows(struct opening *opening, const struct mr_coco_image *image,
                          const struct mr_coco_box *boxes, size_t n, mr_error *error)
{
    struct mr_bytes *rows = &opening->list.builder.sections[MR_SECTION_EXTRA];
    struct mr_extra *extra = &opening->list.extra.extra[0];
    size_t start = rows->len;
    mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < n; i++) {
        struct mr_box_row row;
        bool kept;
        status = make_row(opening, image, &boxes[i], &row, &kept, error);
        if (status == MR_OK && kept && rows->len == start)
            status = mr_bytes_append(rows, MR_BOX_ROWS_MAGIC, MR_BOX_ROWS_HEAD, error);
        if (status == MR_OK && kept)
            status = mr_bytes_append(rows, &row, sizeof row, error);
    }
    if (rows->len - start > extra->max_bytes)
        extra->max_bytes = rows->len - start;
    if (status == MR_OK && extra->max_bytes > MR_ANNOTATED_LIST_MASK)
        return fail_image(opening, image, error, "has too many boxes");
    return status < 0 ? status
                      : mr_bytes_append_u64(&opening->list.builder.sections[MR_SECTION_STARTS],
                                            rows->len, error);
}

/* As _coco_remove_images_without_annotations() of torchvision's reference: a box has a real area.
 */
static bool has_boxes(const struct mr_coco_box *boxes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!boxes[i].is_thin)
            return true;
    return false;
}

static mr_status add_samples(struct opening *opening, mr_error *error)
{
    const struct mr_coco_table *table = &opening->table;
    const struct mr_coco_image *images = mr_coco_table_images(table);
    const struct mr_coco_box *boxes = mr_coco_table_boxes(table);
    size_t n_boxes = mr_coco_table_n_boxes(table), first = 0;
    mr_status status =
        mr_bytes_append_u64(&opening->list.builder.sections[MR_SECTION_STARTS], 0, error);
    for (size_t i = 0; status == MR_OK && i < mr_coco_table_n_images(table); i++) {
        while (first < n_boxes && boxes[first].image < images[i].id) /* of no image */
            first++;
        const struct mr_coco_box *own = n_boxes > 0 ? boxes + first : NULL;
        size_t n = 0;
        while (first + n < n_boxes && own[n].image == images[i].id)
            n++;
        if (!opening->drops_empty || has_boxes(own, n)) {
            const struct mr_catalog_size size = {images[i].width, images[i].height};
            status = mr_bytes_append(&opening->list.builder.sections[MR_SECTION_SIZES], &size,
                                     sizeof size, error);
            if (status == MR_OK)
                status = add_rows(opening, &images[i], own, n, error);
            if (status == MR_OK)
                status =
                    mr_annotated_list_add(&opening->list, mr_coco_table_name(table, images[i].name),
                                          images[i].id, "", error);
        }
        first += n;
    }
    return status;
}

static mr_status open_images(struct opening *opening, const char *images, int fds[MR_CATALOG_N_FDS],
                             mr_error *error)
{
    mr_status status = mr_annotated_list_init(&opening->list, images, "boxes", 1, fds, error);
    opening->list.extra.boxes = 1;
    opening->list.extra.annotations = MR_ANNOTATIONS_COCO;
    opening->list.builder.header.no_index = opening->index_place == MR_INDEX_NONE;
    if (status == MR_OK)
        status =
            mr_coco_index_read(opening->index_place, opening->annotations, &opening->table, error);
    if (status == MR_OK)
        status = add_classes(opening, error);
    if (status == MR_OK)
        status = add_samples(opening, error);
    return status < 0 ? status
                      : mr_annotated_list_finish(&opening->list, opening->name, fds, error);
}

mr_status mr_coco_open(struct mr_spec *spec, const mr_dataset_options *options,
                       int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    struct opening opening = {0};
    mr_status status = take_keys(spec, &opening, error);
    if (status < 0)
        return status;
    status = open_images(&opening, spec->paths[0], fds_out, error);
    mr_annotated_list_fini(&opening.list);
    mr_coco_table_fini(&opening.table);
    return status;
}
