/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the options of a command by their list. The key of an option is FIRST_KEY plus its index
 * in the list.
 */
#include "tools/arg_list.h"

enum { FIRST_KEY = 256 }; /* no option is a single letter */

struct argp_option *mr_arg_list_options(const struct mr_arg *list, struct argp_option *options_out)
{
    int i = 0;

    for (; list[i].help != NULL; i++)
        options_out[i] = (struct argp_option){.name = list[i].name,
                                              .key = list[i].name != NULL ? FIRST_KEY + i : 0,
                                              .arg = list[i].value,
                                              .doc = list[i].help,
                                              .group = list[i].group};
    options_out[i] = (struct argp_option){0};
    return options_out;
}

static void store_value(struct argp_state *state, const struct mr_arg *arg, const char *value)
{
    void *to = (char *)state->input + arg->offset;

    switch (arg->type) {
    case MR_ARG_TYPE_CALL: arg->call(state, value); break;
    case MR_ARG_TYPE_SWITCH: *(bool *)to = true; break;
    case MR_ARG_TYPE_TEXT: *(const char **)to = value; break;
    case MR_ARG_TYPE_PATH:
        *(const char **)to = mr_arg_value_path(state, arg->name, value, arg->word);
        break;
    case MR_ARG_TYPE_U32:
        *(uint32_t *)to = (uint32_t)mr_arg_value_number(state, arg->name, value, arg->lo, arg->hi);
        break;
    case MR_ARG_TYPE_U64:
        *(uint64_t *)to = mr_arg_value_number(state, arg->name, value, arg->lo, arg->hi);
        break;
    case MR_ARG_TYPE_BYTES:
        *(uint64_t *)to = mr_arg_value_bytes(state, arg->name, value, arg->lo);
        break;
    case MR_ARG_TYPE_CHOICE:
        *(unsigned *)to = (unsigned)mr_arg_value_choice(state, arg->name, value, arg->choices);
        break;
    case MR_ARG_TYPE_FIELD: mr_arg_value_field(state, arg->name, arg->word, value, to); break;
    }
}

error_t mr_arg_list_parse(struct argp_state *state, const struct mr_arg *list, int key,
                          const char *value)
{
    for (int i = 0; list[i].help != NULL; i++) {
        if (list[i].name != NULL && key == FIRST_KEY + i) {
            store_value(state, &list[i], value);
            return 0;
        }
    }
    return ARGP_ERR_UNKNOWN;
}

void mr_arg_list_take(struct argp_state *state, const char **first, const char **second,
                      const char *value)
{
    if (*first == NULL)
        *first = value;
    else if (second != NULL && *second == NULL)
        *second = value;
    else
        argp_error(state, "unexpected argument '%s'", value);
}
