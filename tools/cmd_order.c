/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace order: prints the indices of one rank in one epoch, one per line. Millions of lines are
 * usual, so they are formatted here, without stdio. If the reader closes the pipe, SIGPIPE ends the
 * command; this is not an error.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/arg_list.h"
#include "tools/command.h"
#include "tools/sampler_args.h"
#include "tools/say.h"

#define NOT_GIVEN UINT64_MAX
enum { BLOCK_BYTES = 1 << 16, LINE_MAX_BYTES = 24 };

struct order_args {
    mr_loader_options loader;
    uint64_t n_samples;
};

static const struct mr_arg list[] = {
    {"samples", "N", "Number of samples in the dataset (required)",
     MR_ARG_U64(struct order_args, n_samples, 0, (uint64_t)1 << 40)},
    {"batch-size", "B", "With --rank-slices: samples in a batch (default 64)",
     MR_ARG_FIELD(offsetof(struct order_args, loader), batch_size)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct order_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->loader; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not an option", value); return 0;
    case ARGP_KEY_END:
        if (args->n_samples == NOT_GIVEN)
            argp_error(state, "--samples is missing");
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

/* Write value (0 or more) and a newline. Returns the number of bytes, at most LINE_MAX_BYTES. */
static size_t format_line(int64_t value, char *out)
{
    char digits[LINE_MAX_BYTES];
    size_t at = sizeof digits;

    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

/* Print why this rank has no sample although the dataset has some. */
static void explain_empty(const mr_sampler_options *sampler)
{
    uint32_t world_size = sampler->world_size > 0 ? sampler->world_size : 1;

    if (sampler->repeat > 0)
        mr_say_error("no index: --repeat uses a multiple of 256 samples, and of %" PRId64
                     " this leaves too few for --world-size %" PRIu32 "%s",
                     sampler->n_samples, world_size,
                     sampler->n_samples < 256 ? "; --repeat-form timm accepts fewer" : "");
    else
        mr_say_error("no index: %" PRId64 " samples are fewer than --world-size %" PRIu32
                     ", and --tail drop drops them",
                     sampler->n_samples, world_size);
}

static int print_order(const mr_sampler *sampler)
{
    char block[BLOCK_BYTES];
    int64_t n = mr_sampler_length(sampler);
    size_t used = 0;

    for (int64_t i = 0; i < n; i++) {
        used += format_line(mr_sampler_at(sampler, i), block + used);
        if (used > sizeof block - LINE_MAX_BYTES) {
            if (!mr_say_write(STDOUT_FILENO, "stdout", block, used))
                return MR_EXIT_FAILED;
            used = 0;
        }
    }
    return mr_say_write(STDOUT_FILENO, "stdout", block, used) ? MR_EXIT_OK : MR_EXIT_FAILED;
}

int mr_cmd_order_run(int argc, char **argv)
{
    struct argp_child children[] = {{mr_sampler_args_argp(), 0, "Order and shard:", 0}, {0}};
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .doc = "Print the dataset indices that one rank sees in one epoch, one per line."
               "\v"
               "Example: the second of four ranks in epoch 3 of ImageNet\n"
               "  millrace order --samples 1281167 --world-size 4 --rank 1 --epoch 3",
        .children = children,
    };
    struct order_args args = {.loader = MR_LOADER_OPTIONS_INIT, .n_samples = NOT_GIVEN};
    mr_sampler_options sampler_options;
    mr_sampler *sampler;
    mr_error error;
    mr_status status;

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    sampler_options = mr_sampler_args_options(&args.loader, (int64_t)args.n_samples);
    status = mr_sampler_create(&sampler_options, &sampler, &error);
    if (status < 0)
        return mr_say_status(status, &error);
    if (mr_sampler_length(sampler) == 0 && args.n_samples > 0)
        explain_empty(&sampler_options);
    int exit_status = print_order(sampler);
    mr_sampler_destroy(sampler);
    return exit_status;
}
