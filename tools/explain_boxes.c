/* SPDX-License-Identifier: Apache-2.0 */
/* Reads again with more room if the sample has more boxes than usual. */
#include "tools/explain_boxes.h"

#include <stdio.h>
#include <stdlib.h>

mr_status mr_explain_boxes_read(const mr_dataset *dataset, mr_explain_options *options,
                                mr_error *error)
{
    size_t room = 0, n = 64;
    float *boxes = NULL;
    mr_status status = MR_OK;

    while (status == MR_OK && n > room) {
        free(boxes);
        room = n;
        boxes = malloc(room * 4 * sizeof *boxes);
        if (boxes == NULL) {
            snprintf(error->text, sizeof error->text, "no memory for %zu boxes", room);
            return MR_ERR_NO_MEMORY;
        }
        status = mr_dataset_boxes(dataset, options->index, options->width, options->height, boxes,
                                  room, &n, error);
    }
    if (status != MR_OK) {
        free(boxes);
        return status == MR_ERR_UNSUPPORTED ? MR_OK : status;
    }
    options->boxes = boxes;
    options->n_boxes = n;
    return MR_OK;
}
