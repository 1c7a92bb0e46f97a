/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace transform: checks the text of a transform, and prints its long form and its passes over
 * the pixels. The long form is exactly the first line, for scripts. No dataset is opened.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/loader.h>

#include "tools/arg_list.h"
#include "tools/arg_value.h"
#include "tools/command.h"
#include "tools/feed.h"
#include "tools/say.h"

#define NOT_GIVEN UINT64_MAX
enum { SIDE_MAX = 65535, SAMPLE_BYTES = 1 << 16 };

struct transform_args {
    const char *text;
    mr_loader_options loader; /* dtype and layout */
    uint32_t width;
    uint32_t height;
    uint64_t index; /* of a sample to show */
    uint64_t epoch;
    uint64_t seed;
};

static void parse_size(struct argp_state *state, const char *value)
{
    struct transform_args *args = state->input;

    mr_arg_value_size(state, "size", value, SIDE_MAX, &args->width, &args->height);
}

static const struct mr_arg list[] = {
    {"size", "WxH", "Size of the example image (default 500x375)", MR_ARG_CALL(parse_size)},
    {"dtype", "u8|f32|f16|bf16", "Type of the images' elements (default u8)",
     MR_ARG_FIELD(offsetof(struct transform_args, loader), dtype)},
    {"layout", "nchw|nhwc", "Layout of the images (default nchw)",
     MR_ARG_FIELD(offsetof(struct transform_args, loader), layout)},
    {"index", "I",
     "Also print the calls of this sample, as if its image had the size of the example (default: "
     "none)",
     MR_ARG_U64(struct transform_args, index, 0, INT64_MAX)},
    {"epoch", "E", "Epoch of that sample (default 0)",
     MR_ARG_U64(struct transform_args, epoch, 0, UINT64_MAX)},
    {"seed", "S", "Seed of that sample (default 0)",
     MR_ARG_U64(struct transform_args, seed, 0, UINT64_MAX)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct transform_args *args = state->input;

    switch (key) {
    case ARGP_KEY_ARG: mr_arg_list_take(state, &args->text, NULL, value); return 0;
    case ARGP_KEY_END:
        if (args->text == NULL)
            argp_error(state, "TEXT is missing");
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static mr_status describe_passes(const mr_transform *transform, const struct transform_args *args,
                                 char **text_out, mr_error *error)
{
    size_t len = 0;
    mr_status status = MR_OK;

    *text_out = NULL;
    for (int i = 0; i < 2 && status == MR_OK; i++) { /* first the length, then the text */
        if (i == 1 && (*text_out = malloc(len + 1)) == NULL)
            break;
        status = mr_transform_passes(transform, args->width, args->height, args->loader.dtype,
                                     args->loader.layout, *text_out,
                                     *text_out != NULL ? len + 1 : 0, &len, error);
    }
    return status;
}

/* Print the calls of a sample, one per line. */
static int print_sample(const mr_transform *transform, const struct transform_args *args)
{
    char words[SAMPLE_BYTES];
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    mr_error error = {0};

    options.seed = args->seed;
    options.epoch = args->epoch;
    options.index = (int64_t)args->index;
    options.width = args->width;
    options.height = args->height;
    options.form = MR_EXPLAIN_WORDS;
    mr_status status = mr_transform_explain(transform, &options, words, sizeof words, NULL, &error);
    if (status != MR_OK)
        return mr_say_status(status, &error);
    printf("\nindex %" PRIu64 " of epoch %" PRIu64 " with seed %" PRIu64 ":\n", args->index,
           args->epoch, args->seed);
    for (const char *at = words; *at != '\0';) { /* after calls ", ", after pictures "; " */
        size_t len = 0;
        while (at[len] != '\0' && !((at[len] == ',' || at[len] == ';') && at[len + 1] == ' '))
            len++;
        printf("  %.*s\n", (int)len, at);
        at += at[len] != '\0' ? len + 2 : len;
    }
    if (words[0] == '\0')
        printf("  nothing\n");
    return MR_EXIT_OK;
}

static int print_transform(const mr_transform *transform, const struct transform_args *args)
{
    char *text = mr_feed_format_transform(transform), *passes = NULL;
    mr_error error = {0};
    int exit_status = MR_EXIT_OK;
    mr_status status = describe_passes(transform, args, &passes, &error);

    if (status != MR_OK) {
        exit_status = mr_say_status(status, &error);
    } else if (text == NULL || passes == NULL) {
        mr_say_error("out of memory");
        exit_status = MR_EXIT_FAILED;
    } else {
        printf("%s\n\n%s", text, passes);
        exit_status = args->index != NOT_GIVEN ? print_sample(transform, args) : MR_EXIT_OK;
    }
    free(text);
    free(passes);
    return exit_status;
}

int mr_cmd_transform_run(int argc, char **argv)
{
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = "TEXT",
        .doc = "Check the text of a transform, and print its long form and its passes over the "
               "pixels. Shares and means are of 1000 draws."
               "\v"
               "Example: check a view of SimCLR\n"
               "  millrace transform --dtype f32 \\\n"
               "    'train:224+random_apply(color_jitter(.8,.8,.8,.2),.8)'",
    };
    struct transform_args args = {
        .loader = MR_LOADER_OPTIONS_INIT, .width = 500, .height = 375, .index = NOT_GIVEN};
    mr_transform *transform;
    mr_error error = {0};

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    mr_status status = mr_transform_parse(args.text, &transform, &error);
    if (status != MR_OK)
        return mr_say_status(status, &error);
    int exit_status = print_transform(transform, &args);
    mr_transform_destroy(transform);
    return exit_status;
}
