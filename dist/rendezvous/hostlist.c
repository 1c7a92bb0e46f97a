/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses Slurm's short forms. A name may have several brackets, anywhere. "01-03" keeps its leading
 * zeros.
 */
#include "dist/rendezvous/hostlist.h"

#include <string.h>

/* The list and the next character to read. */
struct cursor {
    const char *list;
    const char *at;
    mr_error *error;
};

static mr_status fail_syntax(const struct cursor *in, const char *what)
{
    return mr_error_set(in->error, MR_ERR_INVALID, "%s at byte %td of \"%s\"", what,
                        in->at - in->list, in->list);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
}

static size_t copy_while(struct cursor *in, bool (*accepts)(char c), char host[MR_HOSTLIST_HOST],
                         size_t len)
{
    while (accepts(*in->at) && len + 1 < MR_HOSTLIST_HOST)
        host[len++] = *in->at++;
    return len;
}

/* Takes the first number of each bracket, with its leading zeros. */
mr_status mr_hostlist_first(const char *list, char *host_out, mr_error *error)
{
    struct cursor in = {list, list, error};
    char host[MR_HOSTLIST_HOST] = "";
    size_t len = copy_while(&in, is_name_char, host, 0);
    while (*in.at == '[') {
        in.at++;
        if (!is_digit(*in.at))
            return fail_syntax(&in, "no number");
        len = copy_while(&in, is_digit, host, len);
        in.at += strcspn(in.at, "]");
        if (*in.at != ']')
            return fail_syntax(&in, "unclosed bracket");
        in.at++;
        len = copy_while(&in, is_name_char, host, len);
    }
    if (len == 0)
        return fail_syntax(&in, "no host");
    if (*in.at && *in.at != ',')
        return fail_syntax(&in, is_name_char(*in.at) ? "host name too long" : "invalid character");
    memcpy(host_out, host, sizeof host);
    return MR_OK;
}

static mr_status read_number(struct cursor *in, uint32_t *number_out)
{
    const char *begin = in->at;
    uint32_t number = 0;
    for (; is_digit(*in->at); in->at++) {
        if (in->at - begin >= 9)
            return fail_syntax(in, "a number of more than 9 digits");
        number = number * 10 + (uint32_t)(*in->at - '0');
    }
    if (in->at == begin)
        return fail_syntax(in, "no number");
    *number_out = number;
    return MR_OK;
}

/* "2(x3)" or "2". */
static mr_status read_tasks(struct cursor *in, uint32_t *tasks_out, uint32_t *times_out)
{
    *times_out = 1;
    mr_status status = read_number(in, tasks_out);
    if (status != MR_OK || *in->at != '(')
        return status;
    if (in->at[1] != 'x')
        return fail_syntax(in, "no x after the bracket");
    in->at += 2;
    status = read_number(in, times_out);
    if (status != MR_OK)
        return status;
    if (*in->at != ')')
        return fail_syntax(in, "unclosed bracket");
    in->at++;
    return MR_OK;
}

mr_status mr_hostlist_tasks(const char *counts, uint32_t index, uint32_t *tasks_out,
                            uint64_t *sum_out, mr_error *error)
{
    struct cursor in = {counts, counts, error};
    uint32_t found = 0, nodes = 0;
    uint64_t sum = 0;
    for (;;) {
        uint32_t tasks, times;
        mr_status status = read_tasks(&in, &tasks, &times);
        if (status != MR_OK)
            return status;
        if (times > MR_HOSTLIST_MAX - nodes)
            return fail_syntax(&in, "too many nodes");
        if (index >= nodes && index - nodes < times)
            found = tasks;
        nodes += times;
        sum += (uint64_t)tasks * times;
        if (*in.at == '\0')
            break;
        if (*in.at != ',')
            return fail_syntax(&in, "no comma");
        in.at++;
    }
    if (index >= nodes)
        return mr_error_set(error, MR_ERR_INVALID, "\"%s\" has %u nodes, but no node %u", counts,
                            nodes, index);
    *tasks_out = found;
    *sum_out = sum;
    return MR_OK;
}
