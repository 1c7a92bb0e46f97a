/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace launch: starts a program as the ranks of this machine. This command ignores SIGXFSZ for
 * its own files; the default is restored, because the program would inherit it. The first word that
 * is not an option ends the options, so the program's own options reach the program, with or
 * without "--".
 */
#include <argp.h>
#include <signal.h>
#include <string.h>

#include <millrace/batch.h>
#include <millrace/launch.h>

#include "tools/arg_list.h"
#include "tools/arg_value.h"
#include "tools/command.h"
#include "tools/say.h"

enum { MAX_NODES = 65536 };

struct launch_args {
    mr_launch_options launch;
    bool per_gpu;
    char **program;
};

static void parse_nproc(struct argp_state *state, const char *value)
{
    struct launch_args *args = state->input;

    args->per_gpu = strcmp(value, "gpu") == 0;
    args->launch.nproc =
        args->per_gpu ? 1 : (uint32_t)mr_arg_value_number(state, "nproc", value, 1, MR_MAX_PROCS);
}

static const struct mr_arg list[] = {
    {"nproc", "N|gpu", "Ranks on this machine, 1 to 256, or one per GPU (required)",
     MR_ARG_CALL(parse_nproc)},
    {"nnodes", "M", "Number of machines (default 1)",
     MR_ARG_U32(struct launch_args, launch.nnodes, 1, MAX_NODES)},
    {"node-rank", "R", "Number of this machine, 0 to M - 1 (default 0)",
     MR_ARG_U32(struct launch_args, launch.node_rank, 0, MAX_NODES - 1)},
    {"rendezvous", "HOST:PORT",
     "Address where rank 0 listens; required with several machines (default 127.0.0.1 and a free "
     "port)",
     MR_ARG_TEXT(struct launch_args, launch.rendezvous)},
    {"log-dir", "DIR", "Write the output of each rank to DIR/rank-N.log (default: print it here)",
     MR_ARG_TEXT(struct launch_args, launch.log_dir)},
    {"no-prefix", NULL,
     "Let the ranks use this command's stdout and stderr, without rank numbers before the lines",
     MR_ARG_SWITCH(struct launch_args, launch.no_prefix)},
    {0},
};

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
    case ARGP_KEY_ARG:
        args->program = &state->argv[state->next - 1];
        state->next = state->argc; /* the rest belongs to the program */
        return 0;
    case ARGP_KEY_END: check_args(args, state); return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static void say_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    (void)level;
    mr_say_error("%s", line);
}

/* Set the number of ranks to the number of GPUs. Returns an exit status. */
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
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = "[--] PROGRAM [ARGUMENT...]",
        .doc =
            "Run a program as the ranks of a process group on this machine, with RANK, WORLD_SIZE, "
            "LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and MR_RUN_ID set."
            "\v"
            "SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the ranks, which may "
            "save their state and end by themselves. A second SIGINT or SIGTERM, a fifth of a "
            "second later or more, kills the ranks.\n\n"
            "Exit status: 0 if all ranks ended with 0, otherwise the status of the rank that "
            "failed first (128 + signal if a signal killed it, 127 if the program does not exist, "
            "126 if it cannot be run); 1 if no rank could be started, 2 for wrong usage.\n\n"
            "Examples: four ranks on this machine; this machine's two of four ranks\n"
            "  millrace launch --nproc 4 -- ./train --epochs 3\n"
            "  millrace launch --nproc 2 --nnodes 2 --rendezvous a:29500 ./train",
    };
    struct launch_args args = {.launch = MR_LAUNCH_OPTIONS_INIT};

    if (!mr_command_parse(&argp, argc, argv, ARGP_IN_ORDER, &args))
        return MR_EXIT_FAILED;
    return launch_program(&args);
}
