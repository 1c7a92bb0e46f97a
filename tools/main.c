/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a subcommand of millrace, found in a table.
 * Invariant: this parser handles the options before the subcommand's name. Those after it belong to
 * the subcommand, so parsing stops at the first word.
 */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/status.h>

#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/say.h"

static const struct mr_command commands[] = {
    {"order", "millrace order", "print the indices of one rank in one epoch", mr_cmd_order_run},
    {"list", "millrace list", "count a dataset's classes, formats and sizes; save it as a list",
     mr_cmd_list_run},
    {"export", "millrace export", "write what a training loop receives as NumPy files",
     mr_cmd_export_run},
    {"bench", "millrace bench", "measure the throughput for each number of workers",
     mr_cmd_bench_run},
    {"tune", "millrace tune", "find the smallest sufficient number of workers and what limits it",
     mr_cmd_tune_run},
    {"preview", "millrace preview", "draw a contact sheet of one batch", mr_cmd_preview_run},
    {"transform", "millrace transform", "check the text of a transform and print its passes",
     mr_cmd_transform_run},
    {"pack", "millrace pack", "make a pack of image files: the same pixels, decoded faster",
     mr_cmd_pack_run},
    {"check", "millrace check", "decode all samples and list the damaged ones", mr_cmd_check_run},
    {"unpack", "millrace unpack", "write the samples of a pack to files", mr_cmd_unpack_run},
    {"cache", "millrace cache", "print what a loader's cache holds, or empty it", mr_cmd_cache_run},
    {"launch", "millrace launch", "run a program as the ranks of a process group",
     mr_cmd_launch_run},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

struct main_args {
    int command_at; /* index of the subcommand's name in argv, 0: none */
};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "millrace %s\n%s\n", mr_version(), mr_features());
}

/*
 * Insert the list of subcommands between the usage line and the options. argp frees the returned
 * text.
 */
static char *add_commands(int key, const char *text, void *input)
{
    char *help = NULL;
    size_t len;

    (void)input;
    if (key != ARGP_KEY_HELP_PRE_DOC)
        return (char *)text;
    FILE *stream = open_memstream(&help, &len);
    if (stream == NULL)
        return (char *)text;
    fprintf(stream, "%s\n\nCommands:\n", text);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(stream, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(stream, "  help      explain a command: millrace help COMMAND\n  version   print "
                    "version and features\n");
    return fclose(stream) == 0 ? help : (char *)text;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct main_args *args = state->input;

    (void)value;
    switch (key) {
    case ARGP_KEY_ARG:
        args->command_at = state->next - 1;
        state->next = state->argc; /* the rest belongs to the subcommand */
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "a command is missing"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int refuse_command(const char *word)
{
    const char *names[N_COMMANDS + 2] = {"help", "version"};

    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i + 2] = commands[i].name;
    const char *nearest = mr_nearest_name(word, names, N_COMMANDS + 2);
    if (nearest != NULL)
        mr_say_error("'%s' is not a command; did you mean '%s'?", word, nearest);
    else
        mr_say_error("'%s' is not a command; `millrace --help' lists them", word);
    return MR_EXIT_USAGE;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static const struct mr_command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int run_command(const struct mr_command *command, int argc, char **argv)
{
    char title[32];

    snprintf(title, sizeof title, "%s", command->title);
    program_invocation_name = program_invocation_short_name = (char *)command->title;
    argv[0] = title;
    int exit_status = mr_say_finish(command->run(argc, argv));
    mr_interrupt_raise();
    return exit_status;
}

/* `millrace help [COMMAND]` is the same as `millrace [COMMAND] --help`. */
static int run_help(const struct argp *argp, int argc, char **argv)
{
    char help[] = "--help";
    char *rest[] = {program_invocation_name, help, NULL};
    struct main_args args = {0};

    if (argc < 2 || is_help(argv[1])) {
        mr_command_parse(argp, 2, rest, ARGP_IN_ORDER, &args);
        return mr_say_finish(MR_EXIT_OK);
    }
    const struct mr_command *command = find_command(argv[1]);
    if (command == NULL || (argc > 2 && !is_help(argv[2])))
        return refuse_command(command == NULL ? argv[1] : argv[2]);
    return run_command(command, 2, rest);
}

int main(int argc, char **argv)
{
    static char name[] = "millrace";
    const struct argp argp = {
        .parser = parse_option,
        .args_doc = "COMMAND [OPTION...]",
        .doc = "Make batches of training samples, in order, in worker processes."
               "\v"
               "Example:\n"
               "  millrace bench imagefolder:photos --workers 0,1,2,4\n\n"
               "Exit status: 0 success, 1 the data or the work failed, 2 wrong usage.",
        .help_filter = add_commands,
    };
    struct main_args args = {0};

    mr_interrupt_init();
    argp_err_exit_status = MR_EXIT_USAGE;
    argp_program_version_hook = print_version;
    program_invocation_name = program_invocation_short_name = name;
    if (argc > 0)
        argv[0] = name;
    if (!mr_command_parse(&argp, argc, argv, ARGP_IN_ORDER, &args) || args.command_at == 0)
        return MR_EXIT_USAGE;

    const char *word = argv[args.command_at];
    const struct mr_command *command = find_command(word);
    if (strcmp(word, "help") == 0)
        return run_help(&argp, argc - args.command_at, argv + args.command_at);
    if (strcmp(word, "version") == 0) {
        print_version(stdout, NULL);
        return mr_say_finish(MR_EXIT_OK);
    }
    if (command == NULL)
        return refuse_command(word);
    return run_command(command, argc - args.command_at, argv + args.command_at);
}
