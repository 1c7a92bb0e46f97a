/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the option names before argp parses them, because getopt's message about an unknown option
 * cannot be extended with a suggestion. Any prefix of a known option passes; argp decides whether
 * it is ambiguous.
 */
#include "tools/command.h"

#include <stdlib.h>
#include <string.h>

#include <millrace/status.h>

#include "tools/say.h"

enum { MAX_OPTIONS = 128 };

struct known {
    const char *names[MAX_OPTIONS];
    bool has_value[MAX_OPTIONS];
    size_t n;
};

static void add_name(struct known *known, const char *name, bool has_value)
{
    if (known->n < MAX_OPTIONS) {
        known->names[known->n] = name;
        known->has_value[known->n++] = has_value;
    }
}

/* Collect the options of argp and its children, which nest three deep. */
static void collect_names(struct known *known, const struct argp *argp)
{
    for (const struct argp_option *o = argp->options;
         o != NULL && (o->name != NULL || o->doc != NULL); o++)
        if (o->name != NULL)
            add_name(known, o->name, o->arg != NULL);
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL;
         child++)
        collect_names(known, child->argp);
}

/* The index of the option that is `name` or begins with it; known->n: there is none. */
static size_t find_name(const struct known *known, const char *name, size_t len)
{
    size_t found = known->n;

    for (size_t i = 0; i < known->n; i++) {
        if (strncmp(known->names[i], name, len) != 0)
            continue;
        if (known->names[i][len] == '\0')
            return i;
        found = i;
    }
    return found;
}

static void refuse_option(const struct known *known, const char *name, size_t len)
{
    char word[64] = "";
    const char *nearest = NULL;

    if (len < sizeof word) {
        memcpy(word, name, len);
        nearest = mr_nearest_name(word, known->names, known->n);
    }
    if (nearest != NULL)
        mr_say_error("--%.*s is not an option; did you mean --%s?", (int)len, name, nearest);
    else
        mr_say_error("--%.*s is not an option; --help lists them", (int)len, name);
    exit(MR_EXIT_USAGE);
}

bool mr_command_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    static char help[] = "--help";
    struct known known = {.n = 0};

    collect_names(&known, argp);
    add_name(&known, "help", false);
    add_name(&known, "usage", false);
    add_name(&known, "version", false);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i] + 2;
        size_t len = strncmp(argv[i], "--", 2) == 0 ? strcspn(name, "=") : 0;
        if (strcmp(argv[i], "-h") == 0)
            argv[i] = help;
        else if (len == 0 && argv[i][0] != '-' && (flags & ARGP_IN_ORDER) != 0)
            break; /* the rest belongs to the subcommand or the program */
        if (len == 0)
            continue;
        size_t found = find_name(&known, name, len);
        if (found == known.n)
            refuse_option(&known, name, len);
        else if (known.has_value[found] && name[len] == '\0')
            i++; /* the value */
    }
    return argp_parse(argp, argc, argv, flags, NULL, input) == 0;
}
