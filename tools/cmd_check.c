/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace check: finds damaged samples. They are the result, so all of them are printed on stdout;
 * stderr is for failures of the check itself.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/arg_list.h"
#include "tools/command.h"
#include "tools/image_files.h"
#include "tools/pack_watch.h"
#include "tools/say.h"
#include "tools/server_report.h"
#include "tools/shown_dataset.h"

enum { MAX_WORKERS = 256, NAME_BYTES = 4096 };

struct check_args {
    const char *path;
    mr_pack_options pack;
    uint32_t connections;
};

struct check {
    struct mr_pack_watch watch; /* first: callbacks of both get this pointer */
    const mr_dataset *dataset;
    const char *root; /* for a folder of files: the start of their names; NULL otherwise.
                         shown_root: the path that the user gave */
    const char *shown_root;
};

static const struct mr_arg list[] = {
    {"workers", "N", "Threads (default: the CPUs that this process may use)",
     MR_ARG_U32(struct check_args, pack.num_workers, 1, MAX_WORKERS)},
    {"max-pixels", "N", "Treat larger images as damaged (default 178956970)",
     MR_ARG_U64(struct check_args, pack.max_pixels, 1, UINT64_MAX)},
    {"jpeg", "auto|stock", MR_PACK_WATCH_JPEG_HELP,
     MR_ARG_CHOICE(struct check_args, pack.jpeg_decoder, mr_pack_watch_decoders)},
    {"connections", "N", "URL: measure the rate over N connections (default 32)",
     MR_ARG_U32(struct check_args, connections, 1, 1024)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct check_args *args = state->input;

    switch (key) {
    case ARGP_KEY_ARG: mr_arg_list_take(state, &args->path, NULL, value); return 0;
    case ARGP_KEY_END:
        if (args->path == NULL)
            argp_error(state, "PATH is missing");
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

/*
 * Print the file's path, beginning with the folder as the user wrote it. There is no index, because
 * it means nothing for a folder.
 */
static void print_file(const struct check *check, int64_t index, const char *text)
{
    char name[NAME_BYTES] = "", shown[2 * NAME_BYTES];
    size_t len = strlen(check->root);

    if (mr_dataset_name(check->dataset, index, name, sizeof name) == 0 ||
        strncmp(name, check->root, len) != 0)
        len = 0;
    snprintf(shown, sizeof shown, "%s%s", len > 0 ? check->shown_root : "", name + len);
    mr_pack_watch_line(stdout, shown, text);
}

static void on_damage(void *user, int64_t index, const char *name, const char *text)
{
    struct check *check = user;

    mr_progress_clear(&check->watch.progress);
    if (check->root != NULL)
        print_file(check, index, text);
    else
        mr_pack_watch_line(stdout, name, text);
}

static int run_check(struct check *check, struct check_args *args, mr_dataset *dataset)
{
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error = {0};

    mr_pack_watch_begin(&check->watch, &args->pack);
    args->pack.notice = on_damage;
    mr_status status = mr_dataset_check(dataset, &args->pack, &report, &error);
    int exit_status = mr_pack_watch_end(&check->watch, status, &error);
    if (exit_status != MR_EXIT_OK)
        return exit_status;
    printf("%s: %" PRIu64 " of %" PRIu64 " samples damaged, ", args->path, report.n_damaged,
           report.n_samples);
    if (report.n_marked > 0)
        printf("%" PRIu64 " with an index, ", report.n_marked);
    printf("read %s in %.1f s\n", mr_pack_watch_bytes(report.bytes_read).text, report.seconds);
    return report.n_damaged > 0 ? MR_EXIT_FAILED : MR_EXIT_OK;
}

static int check_path(struct check_args *args)
{
    struct check check = {.watch = {.verb = "checking"}};
    struct mr_image_files files = {0};
    mr_dataset *dataset;
    int exit_status;

    if (mr_pack_watch_is_folder(args->path))
        exit_status = mr_image_files_open(&files, args->path, &check.watch.progress, &dataset);
    else
        exit_status = mr_pack_watch_open(&check.watch, args->path, NULL, &dataset);
    if (exit_status != MR_EXIT_OK)
        return exit_status;
    check.dataset = dataset;
    check.root = files.root;
    check.shown_root = args->path;
    exit_status = run_check(&check, args, dataset);
    if (exit_status == MR_EXIT_OK && files.n_unread > 0)
        exit_status = MR_EXIT_FAILED;
    mr_dataset_destroy(dataset);
    mr_image_files_close(&files);
    return exit_status;
}

int mr_cmd_check_run(int argc, char **argv)
{
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = "PATH|URL",
        .doc =
            "Decode every sample, its boxes and its mask, and list the damaged ones with the "
            "decoder's message. For a "
            "pack, also verify every byte, and compare the indexes of JPEG files with newly "
            "made ones. PATH is a SPEC, a pack's folder, or any other folder: all image files "
            "in it and its subfolders are checked. The exit status is 1 if a sample is damaged "
            "or a folder cannot be read. Of a URL (http, https, s3, gs, hf) find out what works "
            "with its server: ranges, ETags, connections, delay and rate. With a slash at its end, "
            "the first file that is listed below it is read. The exit status is 0 only if a loader "
            "can use the server."
            "\v"
            "Example:\n"
            "  millrace check --workers 8 photos\n"
            "  millrace check pack:train-pack\n"
            "  millrace check s3://bucket/train-000.tar",
    };
    struct check_args args = {.pack = MR_PACK_OPTIONS_INIT};

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    return mr_shown_dataset_is_url(args.path) ? mr_server_report_run(args.path, args.connections)
                                              : check_path(&args);
}
