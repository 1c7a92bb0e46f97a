/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One epoch over photographs and their boxes, made into what a detector with one grid of cells
 * learns (docs/detection.md): detection SPEC, such as yolo:train.txt,
 * 'voc:VOCdevkit/VOC2012?set=train&task=detection' or 'coco:train2017?annotations=FILE'
 */
#include <err.h>
#include <millrace/millrace.h>
#include <stdio.h>

enum { SIDE = 320, CELLS = 10, CELL = SIDE / CELLS };

/* The cell of a box's centre learns where the box is, and its class. */
struct target {
    float x, y, width, height; /* of the box; the centre from 0 to 1 within the cell */
    int64_t label;             /* -1: the background */
};

/* Returns how many cells have a box. A later box replaces an earlier one. */
static int fill_targets(struct target *targets, const float *box, const int64_t *label, int64_t n)
{
    int n_filled = 0;

    for (int i = 0; i < CELLS * CELLS; i++)
        targets[i] = (struct target){.label = -1};
    for (int64_t i = 0; i < n; i++, box += 4) { /* left, top, right, bottom, in pixels */
        float x = (box[0] + box[2]) / 2 / CELL, y = (box[1] + box[3]) / 2 / CELL;
        struct target *target = &targets[(int)y * CELLS + (int)x];
        n_filled += target->label < 0;
        *target = (struct target){x - (int)x, y - (int)y, (box[2] - box[0]) / SIDE,
                                  (box[3] - box[1]) / SIDE, label[i]};
    }
    return n_filled;
}

int main(int argc, char **argv)
{
    struct target targets[CELLS * CELLS];
    mr_dataset *dataset;
    mr_transform *transform;
    mr_loader *loader;
    mr_batch *batch;
    mr_error error;
    mr_status status;

    if (mr_dataset_open(argc > 1 ? argv[1] : "", NULL, &dataset, &error) < 0 ||
        mr_transform_parse(
            "random_zoom_out(fill=127)+random_iou_crop+letterbox(320)+hflip+sanitize", &transform,
            &error) < 0 ||
        mr_loader_create(dataset, transform, NULL, &loader, &error) < 0)
        errx(1, "%s", error.text);
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        const mr_array *boxes = mr_batch_array(batch, "boxes"); /* f32 [sum, 4] */
        const int64_t *label = (const int64_t *)mr_batch_data(batch, "box_label"); /* i64 [sum] */
        const int64_t *row = boxes->row_offsets; /* image i has the boxes row[i] to row[i + 1] */
        int n_filled = 0;
        for (uint32_t i = 0; i < mr_batch_size(batch); i++)
            n_filled += fill_targets(targets, (const float *)boxes->data + 4 * row[i],
                                     label + row[i], row[i + 1] - row[i]);
        printf("%u images, %d boxes, %d cells\n", mr_batch_size(batch), (int)boxes->n_values,
               n_filled);
        mr_batch_release(batch);
    }
    if (status < 0)
        errx(1, "%s", mr_loader_error(loader)->text);
    mr_loader_destroy(loader);
    mr_transform_destroy(transform);
    mr_dataset_destroy(dataset);
}
