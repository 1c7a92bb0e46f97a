/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace list: prints what a dataset holds. A file without an image header is listed, and the
 * work continues; only a file that cannot be read makes the command fail. The list is saved before
 * the samples are counted, so a dataset that cannot be saved as a list is refused at once.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/arg_list.h"
#include "tools/census.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/loader_args.h"
#include "tools/say.h"
#include "tools/shown_dataset.h"

struct list_args {
    const char *data;
    char spec[MR_PACK_WATCH_SPEC_BYTES];
    const char *save;
    bool no_inspect;
    bool all_classes;
    mr_dataset_options options;
};

static const struct mr_arg list[] = {
    {"data", "SPEC", MR_LOADER_ARGS_DATA_HELP, MR_ARG_TEXT(struct list_args, data)},
    {"save", "FILE", "Write paths and labels to FILE, for list:FILE",
     MR_ARG_TEXT(struct list_args, save)},
    {"classes", NULL, "Print all classes, even if there are more than 20",
     MR_ARG_SWITCH(struct list_args, all_classes)},
    {"no-inspect", NULL, "Do not open the samples; boxes, formats and sizes are not printed",
     MR_ARG_SWITCH(struct list_args, no_inspect)},
    {"allow-empty-classes", NULL, "imagefolder, URL: accept a class without an image",
     MR_ARG_SWITCH(struct list_args, options.allow_empty_classes)},
    {"no-classes", NULL, "URL: all images below it, with the label 0",
     MR_ARG_SWITCH(struct list_args, options.no_classes)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct list_args *args = state->input;

    switch (key) {
    case ARGP_KEY_ARG: mr_arg_list_take(state, &args->data, NULL, value); return 0;
    case ARGP_KEY_END:
        args->data = mr_loader_args_check_data(args->data, args->spec, state);
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

/*
 * A SPEC of a kind that cannot be saved as a list is wrong usage; a dataset without samples is not.
 */
static int save_list(mr_dataset *dataset, const char *path)
{
    mr_error error = {0};
    mr_status status;

    mr_interrupt_hold();
    status = mr_dataset_save_list(dataset, path, &error);
    mr_interrupt_release();
    if (status == MR_OK)
        return MR_EXIT_OK;
    int exit_status = mr_say_status(status, &error);
    return status == MR_ERR_UNSUPPORTED && mr_dataset_n_samples(dataset) > 0 ? MR_EXIT_USAGE
                                                                             : exit_status;
}

static int list_dataset(mr_dataset *dataset, const struct list_args *args,
                        struct mr_progress *progress)
{
    int exit_status = args->save != NULL ? save_list(dataset, args->save) : MR_EXIT_OK;

    if (exit_status != MR_EXIT_OK)
        return exit_status;
    printf("%s: %" PRId64 " samples", args->data, mr_dataset_n_samples(dataset));
    if (mr_dataset_n_classes(dataset) > 0)
        printf(", %" PRIu32 " classes", mr_dataset_n_classes(dataset));
    printf("\n");
    exit_status = mr_census_classes(dataset, args->all_classes, stdout);
    if (!args->no_inspect) {
        int boxes_status = mr_census_boxes(dataset, args->all_classes, progress, stdout);
        int samples_status = mr_census_samples(dataset, progress, stdout);
        exit_status = exit_status == MR_EXIT_OK ? boxes_status : exit_status;
        exit_status = exit_status == MR_EXIT_OK ? samples_status : exit_status;
    }
    if (args->save != NULL)
        printf("\nsaved: %s\n", args->save);
    return exit_status;
}

int mr_cmd_list_run(int argc, char **argv)
{
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = MR_LOADER_ARGS_DOC,
        .doc = "Count a dataset's samples and boxes per class, the samples' formats and sizes, and "
               "list the samples without a header of an image that can be decoded. Of a URL "
               "(s3://BUCKET/PREFIX/, gs://BUCKET/PREFIX/, or the page of a web server that lists "
               "a folder) the images below it are counted and saved, and none is opened."
               "\v"
               "Example: list a folder once, and train from the saved list\n"
               "  millrace list imagefolder:train --save train.list\n"
               "  millrace bench list:train.list\n"
               "  millrace list s3://bucket/train/ --save train.list",
    };
    struct list_args args = {.options = MR_DATASET_OPTIONS_INIT};
    struct mr_progress progress;
    mr_dataset *dataset;
    mr_error error = {0};

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    bool is_url = mr_shown_dataset_is_url(args.data);
    args.no_inspect |= is_url; /* that would be a request for each sample */
    mr_status status = (is_url ? mr_shown_dataset_list : mr_shown_dataset_open)(
        &progress, args.data, &args.options, &dataset, &error);
    if (status < 0)
        return mr_say_status(status, &error);
    int exit_status = list_dataset(dataset, &args, &progress);
    mr_dataset_destroy(dataset);
    return exit_status;
}
