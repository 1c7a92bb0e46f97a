/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of `millrace`. Each parses its own arguments with argp and returns the program's
 * exit status.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/say.h"

struct mr_command {
    const char *name;
    const char *title; /* "millrace NAME", printed before messages and in the help */
    const char *summary;
    int (*run)(int argc, char **argv);
};

/*
 * Like argp_parse(), but -h means --help, and the message about an unknown option suggests a
 * similar one. flags: 0 or ARGP_IN_ORDER. False if argp_parse() failed; wrong usage ends the
 * program.
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
