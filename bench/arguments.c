/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line with argp. */
#include "bench/arguments.h"

#include "bench/engine.h"

#include <argp.h>
#include <stdlib.h>

static uint64_t parse_number(struct argp_state *state, const char *text, uint64_t most)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || value < 1 || value > most)
        argp_error(state, "%s is not a number from 1 to %llu", text, (unsigned long long)most);
    return value;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct mr_arguments *arguments = state->input;
    switch (key) {
    case 'd': arguments->data = text; break;
    case 'j': arguments->json = text; break;
    case 'i': arguments->max_photos = parse_number(state, text, 1000000); break;
    case 'r':
        arguments->n_repeats = (uint32_t)parse_number(state, text, MR_ENGINE_MAX_REPEATS);
        break;
    case 'e': arguments->n_epochs = (uint32_t)parse_number(state, text, 1000); break;
    case 's': arguments->strict = true; break;
    case ARGP_KEY_ARG: argp_error(state, "%s is not an option", text); break;
    case ARGP_KEY_END:
        if (!arguments->data)
            argp_error(state, "--data is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void mr_arguments_parse(int argc, char **argv, const char *doc, struct mr_arguments *arguments_out)
{
    static const struct argp_option options[] = {
        {"data", 'd', "SPEC", 0, "folder of photographs, or of class folders of them, or list:FILE",
         0},
        {"images", 'i', "N", 0, "at most N photographs (1000)", 0},
        {"repeats", 'r', "N", 0, "measured rounds (5)", 0},
        {"epochs", 'e', "N", 0, "epochs of one measured run of a loader (2)", 0},
        {"json", 'j', "FILE", 0, "also write the figures to FILE", 0},
        {"strict", 's', NULL, 0, "exit with 1 if an aim is missed", 0},
        {0},
    };
    const struct argp argp = {.options = options, .parser = parse_option, .doc = doc};
    *arguments_out = (struct mr_arguments){.max_photos = 1000, .n_repeats = 5, .n_epochs = 2};
    argp_err_exit_status = 2;
    if (argp_parse(&argp, argc, argv, 0, NULL, arguments_out) != 0)
        exit(2);
}
