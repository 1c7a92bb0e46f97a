/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line of bench and tune.
 * Invariant: the loader keeps pointers into the list of devices, so the struct must not move between parsing and
 * measuring.
 */
#include "tools/measure/bench_args.h"

#include <stdlib.h>
#include <string.h>

#include "tools/arg_value.h"
#include "tools/command.h"

enum { KEY_SECONDS = 1024, KEY_STEP, KEY_JSON, KEY_DEVICE, KEY_BUFFERS };

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Measuring:", -1},
    {"seconds", KEY_SECONDS, "S", 0,
     "Time to measure for each number of workers, after the first batch (default: bench 5, tune 2)", 0},
    {"step", KEY_STEP, "MS", 0, "Hold each batch for this many milliseconds, as a training step would (default 0)", 0},
    {"json", KEY_JSON, "FILE", 0, "Also write the results as JSON; - is stdout, and the table then goes to stderr", 0},
    {"device", KEY_DEVICE, "NAME[,NAME...]", 0,
     "Where batches arrive: host, cuda:N, cuda:local, auto, host:N (stands for a device); several names split each "
     "batch (default host)",
     0},
    {"buffers", KEY_BUFFERS, "N", 0, "Batches on a device at the same time, 2 to 64 (default 3)", 0},
    {0}};

/* One name is a device, several are devices to split batches over. */
static void parse_device(struct mr_bench_args *args, const char *value, struct argp_state *state)
{
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

static const struct mr_arg_field fields[] = {{KEY_BUFFERS, "buffers", "n_buffers"}, {0, NULL, NULL}};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct mr_bench_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->common; return 0;
    case KEY_SECONDS: args->how.seconds = mr_arg_value_real(state, "seconds", value, 0.01, 86400); return 0;
    case KEY_STEP: args->how.step_s = mr_arg_value_real(state, "step", value, 0, 60000) * 1e-3; return 0;
    case KEY_JSON: args->json = value; return 0;
    case KEY_DEVICE: parse_device(args, value, state); return 0;
    default: return mr_arg_value_field(state, fields, key, value, &args->common.loader) ? 0 : ARGP_ERR_UNKNOWN;
    }
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
    static const struct argp argp = {options, parse_option, NULL, NULL, children, NULL, NULL};

    children[0].argp = mr_loader_args_argp();
    return &argp;
}
