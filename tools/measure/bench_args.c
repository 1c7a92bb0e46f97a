/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line of bench and tune.
 * Invariant: the loader's options point into the list of devices, so the struct must not move
 * between parsing and measuring.
 */
#include "tools/measure/bench_args.h"

#include <stdlib.h>
#include <string.h>

#include "tools/arg_list.h"
#include "tools/arg_value.h"
#include "tools/command.h"

static void parse_seconds(struct argp_state *state, const char *value)
{
    struct mr_bench_args *args = state->input;

    args->how.seconds = mr_arg_value_real(state, "seconds", value, 0.01, 86400);
}

static void parse_step(struct argp_state *state, const char *value)
{
    struct mr_bench_args *args = state->input;

    args->how.step_s = mr_arg_value_real(state, "step", value, 0, 60000) * 1e-3;
}

/* One name sets the device; several names set the devices that share each batch. */
static void parse_device(struct argp_state *state, const char *value)
{
    struct mr_bench_args *args = state->input;
    mr_loader_options *loader = &args->common.loader;
    uint32_t n = 0;

    free(args->device_names);
    args->device_names = strdup(value);
    if (args->device_names == NULL)
        argp_failure(state, MR_EXIT_FAILED, 0, "out of memory");
    char *rest = args->device_names;
    for (char *name; (name = strsep(&rest, ",")) != NULL; n++) {
        if (n == MR_MAX_DEVICES)
            argp_error(state, "--device: '%s' names more than %d devices", value, MR_MAX_DEVICES);
        args->devices[n] = name;
    }
    args->device = value;
    loader->device = n == 1 ? args->devices[0] : NULL;
    loader->devices = n == 1 ? NULL : args->devices;
    loader->n_devices = n == 1 ? 0 : n;
}

static const struct mr_arg list[] = {
    {.help = "Measuring:", .group = -1},
    {"seconds", "S",
     "Time to measure for each number of workers, after the first batch (default: bench 5, tune 2)",
     MR_ARG_CALL(parse_seconds)},
    {"step", "MS",
     "Hold each batch for this many milliseconds, as a training step would (default 0)",
     MR_ARG_CALL(parse_step)},
    {"json", "FILE",
     "Also write the results as JSON; with - they go to stdout and the table to stderr",
     MR_ARG_TEXT(struct mr_bench_args, json)},
    {"device", "NAME[,NAME...]",
     "Where batches arrive: host, cuda:N, cuda:local, auto, host:N (host memory in place of a "
     "device); several names split each batch (default host)",
     MR_ARG_CALL(parse_device)},
    {"buffers", "N", "Batches on a device at the same time, 2 to 64 (default 3)",
     MR_ARG_FIELD(offsetof(struct mr_bench_args, common.loader), n_buffers)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct mr_bench_args *args = state->input;

    if (key != ARGP_KEY_INIT)
        return mr_arg_list_parse(state, list, key, value);
    state->child_inputs[0] = &args->common;
    return 0;
}

void mr_bench_args_init(struct mr_bench_args *args, double seconds)
{
    *args = (struct mr_bench_args){.how.seconds = seconds};
    mr_loader_args_init(&args->common, MR_LOADER_ARGS_MAX_WORKERS);
}

void mr_bench_args_free(struct mr_bench_args *args)
{
    free(args->device_names);
    args->device_names = NULL;
}

const struct argp *mr_bench_args_argp(void)
{
    static struct argp_child children[] = {{NULL, 0, NULL, 0}, {0}};
    static struct argp_option options[sizeof list / sizeof *list];
    static const struct argp argp = {
        .options = options, .parser = parse_option, .children = children};

    mr_arg_list_options(list, options);
    children[0].argp = mr_loader_args_argp();
    return &argp;
}
