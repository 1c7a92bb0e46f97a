/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of `millrace`: each parses its own arguments, as argp does, and returns the exit
 * status of the program.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/say.h"

struct mr_command {
    const char *name;
    const char *title; /* "millrace NAME": stands before messages and in the help */
    const char *summary;
    int (*run)(int argc, char **argv);
};

/*
 * argp_parse(), but a wrong option is answered by the one that was perhaps meant, and -h is --help.
 * flags: 0 or ARGP_IN_ORDER. False where the input cannot be used; a wrong call ends the program.
 */
bool mr_command_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

int mr_cmd_order_run(int argc, char **argv);
int mr_cmd_export_run(int argc, char **argv);
int mr_cmd_bench_run(int argc, char **argv);
int mr_cmd_tune_run(int argc, char **argv);
int mr_cmd_preview_run(int argc, char **argv);
int mr_cmd_transform_run(int argc, char **argv);
int mr_cmd_list_run(int argc, char **argv);
int mr_cmd_cache_run(int argc, char **argv);
int mr_cmd_launch_run(int argc, char **argv);
int mr_cmd_pack_run(int argc, char **argv);
int mr_cmd_check_run(int argc, char **argv);
int mr_cmd_unpack_run(int argc, char **argv);

#endif
