/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a dataset and counts its files on the live line. */
#include "tools/shown_dataset.h"

#include <string.h>
#include <strings.h>

typedef mr_status open_fn(const char *spec, const mr_dataset_options *options,
                          mr_dataset **dataset_out, mr_error *error);

static mr_status open_shown(open_fn *open, struct mr_progress *progress, const char *spec,
                            const mr_dataset_options *options, mr_dataset **dataset_out,
                            mr_error *error)
{
    mr_dataset_options shown = MR_DATASET_OPTIONS_INIT;

    if (options != NULL)
        shown = *options;
    mr_progress_init(progress);
    shown.progress = mr_progress_files;
    shown.user = progress;
    mr_status status = open(spec, &shown, dataset_out, error);
    mr_progress_clear(progress);
    return status;
}

mr_status mr_shown_dataset_open(struct mr_progress *progress, const char *spec,
                                const mr_dataset_options *options, mr_dataset **dataset_out,
                                mr_error *error)
{
    return open_shown(mr_dataset_open, progress, spec, options, dataset_out, error);
}

mr_status mr_shown_dataset_list(struct mr_progress *progress, const char *url,
                                const mr_dataset_options *options, mr_dataset **dataset_out,
                                mr_error *error)
{
    return open_shown(mr_dataset_from_store, progress, url, options, dataset_out, error);
}

bool mr_shown_dataset_is_url(const char *text)
{
    static const char *const schemes[] = {"http://", "https://", "s3://", "gs://", "hf://"};

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncasecmp(text, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}
