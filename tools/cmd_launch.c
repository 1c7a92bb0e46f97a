/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace launch: starts a program as the ranks of this machine. SIGXFSZ, which this command ignores for its own
 * files, is set back, because the program would inherit it. The first word that is not an option ends the options, so
 * that the program's own options reach the program, with or without "--".
 */
#include <argp.h>
#include <signal.h>
#include <string.h>

#include <millrace/batch.h>
#include <millrace/launch.h>

#include "tools/arg_value.h"
#include "tools/command.h"
#include "tools/say.h"

enum { KEY_NPROC = 256, KEY_NNODES, KEY_NODE_RANK, KEY_RENDEZVOUS, KEY_LOG_DIR, KEY_NO_PREFIX };
enum { MAX_NODES = 65536 };

struct launch_args {
    mr_launch_options launch;
    bool per_gpu;
    char **program;
};

static const struct argp_option options[] = {
    {"nproc", KEY_NPROC, "N|gpu", 0, "Ranks on this machine, 1 to 256, or one for each GPU (needed)", 0},
    {"nnodes", KEY_NNODES, "M", 0, "Machines (default 1)", 0},
    {"node-rank", KEY_NODE_RANK, "R", 0, "This machine, 0 to M - 1 (default 0)", 0},
    {"rendezvous", KEY_RENDEZVOUS, "HOST:PORT", 0,
     "Where rank 0 will listen; needed with several machines (default 127.0.0.1 and a free port)", 0},
    {"log-dir", KEY_LOG_DIR, "DIR", 0, "Write the output of each rank to DIR/rank-N.log (default: print it here)", 0},
    {"no-prefix", KEY_NO_PREFIX, NULL, 0,
     "Let the ranks use this command's stdout and stderr; their lines have no numbers", 0},
    {0}};

static void take_nproc(struct launch_args *args, struct argp_state *state, const char *value)
{
    args->per_gpu = strcmp(value, "gpu") == 0;
    args->launch.nproc = args->per_gpu ? 1 : (uint32_t)mr_arg_value_number(state, "nproc", value, 1, MR_MAX_PROCS);
}

static void check_args(const struct launch_args *args, struct argp_state *state)
{
    const mr_launch_options *o = &args->launch;
    uint32_t nnodes = o->nnodes ? o->nnodes : 1;

    if (o->nproc == 0)
        argp_error(state, "--nproc is missing");
    else if (args->program == NULL)
        argp_error(state, "the program is missing");
    else if (nnodes > 1 && o->rendezvous == NULL)
        argp_error(state, "--rendezvous is missing: --nnodes is %u", nnodes);
    else if (o->node_rank >= nnodes)
        argp_error(state, "--node-rank %u is not below --nnodes %u", o->node_rank, nnodes);
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct launch_args *args = state->input;

    switch (key) {
    case KEY_NPROC: take_nproc(args, state, value); return 0;
    case KEY_NNODES:
        args->launch.nnodes = (uint32_t)mr_arg_value_number(state, "nnodes", value, 1, MAX_NODES);
        return 0;
    case KEY_NODE_RANK:
        args->launch.node_rank = (uint32_t)mr_arg_value_number(state, "node-rank", value, 0, MAX_NODES - 1);
        return 0;
    case KEY_RENDEZVOUS: args->launch.rendezvous = value; return 0;
    case KEY_LOG_DIR: args->launch.log_dir = value; return 0;
    case KEY_NO_PREFIX: args->launch.no_prefix = true; return 0;
    case ARGP_KEY_ARG:
        args->program = &state->argv[state->next - 1];
        state->next = state->argc; /* the rest is the program's */
        return 0;
    case ARGP_KEY_END: check_args(args, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void say_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    (void)level;
    mr_say_error("%s", line);
}

/* Returns MR_EXIT_OK with as many ranks as there are GPUs. */
static int count_gpus(struct launch_args *args)
{
    mr_error error = {.index = MR_NO_INDEX};
    uint32_t n = mr_device_count(MR_DEVICE_CUDA, &error);

    if (n == 0) {
        mr_say_error("--nproc gpu: %s", error.text[0] != '\0' ? error.text : "there is no GPU");
        return MR_EXIT_FAILED;
    }
    args->launch.nproc = n;
    return MR_EXIT_OK;
}

static int launch_program(struct launch_args *args)
{
    const struct sigaction action = {.sa_handler = SIG_DFL};
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    mr_error error;

    if (args->per_gpu && count_gpus(args) != MR_EXIT_OK)
        return MR_EXIT_FAILED;
    sigaction(SIGXFSZ, &action, NULL);
    mr_log_set(say_line, NULL);
    mr_status status = mr_launch(&args->launch, args->program, &result, &error);
    return status < 0 ? mr_say_status(status, &error) : result.exit_status;
}

int mr_cmd_launch_run(int argc, char **argv)
{
    const struct argp argp = {
        options,
        parse_option,
        "[--] PROGRAM [ARGUMENT...]",
        "Run a program as the ranks of a process group on this machine: with RANK, WORLD_SIZE, "
        "LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and MR_RUN_ID set."
        "\v"
        "SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the ranks, which may save their state and end "
        "by "
        "themselves. A second SIGINT or SIGTERM, a fifth of a second later or more, kills the ranks.\n\n"
        "Exit status: 0 if all ranks ended with 0, otherwise that of the rank that failed first "
        "(128 + signal if a signal killed it, 127 if the program does not exist, 126 if it cannot "
        "be run); 1 if no rank could be started, 2 if the call is wrong.\n\n"
        "Examples: four ranks here; this machine's two ranks of four\n"
        "  millrace launch --nproc 4 -- ./train --epochs 3\n"
        "  millrace launch --nproc 2 --nnodes 2 --rendezvous a:29500 ./train",
        NULL,
        NULL,
        NULL};
    struct launch_args args = {.launch = MR_LAUNCH_OPTIONS_INIT};

    if (!mr_command_parse(&argp, argc, argv, ARGP_IN_ORDER, &args))
        return MR_EXIT_FAILED;
    return launch_program(&args);
}
