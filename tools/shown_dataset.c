/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a dataset and counts its files on the live line. */
#include "tools/shown_dataset.h"

mr_status mr_shown_dataset_open(struct mr_progress *progress, const char *spec,
                                const mr_dataset_options *options, mr_dataset **dataset_out,
                                mr_error *error)
{
    mr_dataset_options shown = MR_DATASET_OPTIONS_INIT;

    if (options != NULL)
        shown = *options;
    mr_progress_init(progress);
    shown.progress = mr_progress_files;
    shown.user = progress;
    mr_status status = mr_dataset_open(spec, &shown, dataset_out, error);
    mr_progress_clear(progress);
    return status;
}
