/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses Slurm's short forms. A comma inside a bracket does not end a host, "01-03" keeps its zeros, and a name may
 * have several brackets, anywhere.
 */
#include "dist/rendezvous/hostlist.h"

#include <string.h>

/* At the place of the list that is read next. */
struct cursor {
    const char *list;
    const char *at;
    mr_error *error;
};

static mr_status fail_syntax(const struct cursor *in, const char *what)
{
    return mr_error_set(in->error, MR_ERR_INVALID, "%s at byte %td of \"%s\"", what, in->at - in->list, in->list);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_of_a_name(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
}

/* Digits as they are written: width counts the zeros before them. */
static mr_status read_number(struct cursor *in, uint32_t *number_out, uint32_t *width_out)
{
    uint32_t number = 0, width = 0;
    while (is_digit(*in->at)) {
        if (++width > 9)
            return fail_syntax(in, "a number of more than 9 digits");
        number = number * 10 + (uint32_t)(*in->at++ - '0');
    }
    if (width == 0)
        return fail_syntax(in, "no number");
    *number_out = number;
    *width_out = width;
    return MR_OK;
}

/* One of the ranges in a bracket: "7" or "01-03". */
struct range {
    uint32_t first;
    uint32_t count;
    uint32_t width;
};

static mr_status read_range(struct cursor *in, struct range *range_out)
{
    uint32_t last, width;
    mr_status status = read_number(in, &range_out->first, &range_out->width);
    last = range_out->first;
    if (status == MR_OK && *in->at == '-') {
        in->at++;
        status = read_number(in, &last, &width);
    }
    if (status != MR_OK)
        return status;
    if (last < range_out->first)
        return fail_syntax(in, "a range that runs backwards");
    range_out->count = last - range_out->first + 1;
    return MR_OK;
}

/* A bracket, from behind its '['. Finds the index-th of its numbers where index is below how many it has. */
static mr_status read_bracket(struct cursor *in, uint32_t index, struct range *number_out, uint32_t *count_out)
{
    uint32_t count = 0;
    for (;;) {
        struct range range;
        mr_status status = read_range(in, &range);
        if (status != MR_OK)
            return status;
        if (range.count > MR_HOSTLIST_MAX - count)
            return fail_syntax(in, "too many hosts");
        if (index >= count && index - count < range.count)
            *number_out = (struct range){range.first + (index - count), 1, range.width};
        count += range.count;
        if (*in->at == ']')
            break;
        if (*in->at != ',')
            return fail_syntax(in, "a bracket that is not closed");
        in->at++;
    }
    in->at++;
    *count_out = count;
    return MR_OK;
}

/* How many hosts the term at the cursor stands for; the cursor moves behind it. */
static mr_status count_term(struct cursor *in, uint32_t *count_out)
{
    const char *begin = in->at;
    uint64_t count = 1;
    while (*in->at && *in->at != ',') {
        if (*in->at == '[') {
            struct range unused;
            uint32_t n;
            in->at++;
            mr_status status = read_bracket(in, 0, &unused, &n);
            if (status != MR_OK)
                return status;
            count *= n;
            if (count > MR_HOSTLIST_MAX)
                return fail_syntax(in, "too many hosts");
        } else if (is_of_a_name(*in->at)) {
            in->at++;
        } else {
            return fail_syntax(in, "a character that no host name has");
        }
    }
    if (in->at == begin)
        return fail_syntax(in, "no host");
    *count_out = (uint32_t)count;
    return MR_OK;
}

static bool append_char(char *host, size_t *len, char c)
{
    if (*len + 1 >= MR_HOSTLIST_HOST)
        return false;
    host[(*len)++] = c;
    host[*len] = '\0';
    return true;
}

static bool append_number(char *host, size_t *len, const struct range *number)
{
    char digits[16];
    uint32_t n = 0, value = number->first;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    while (n < number->width && n < sizeof digits)
        digits[n++] = '0';
    bool fits = true;
    while (n > 0)
        fits = append_char(host, len, digits[--n]) && fits;
    return fits;
}

/* Spell the index-th of count hosts of a term that count_term() found good. */
static mr_status spell_host(struct cursor *in, uint32_t index, uint32_t count, char *host)
{
    size_t len = 0;
    bool fits = true;
    host[0] = '\0';
    while (*in->at && *in->at != ',') {
        if (*in->at != '[') {
            fits = append_char(host, &len, *in->at++) && fits;
            continue;
        }
        struct cursor again = {in->list, ++in->at, in->error};
        struct range number = {0};
        uint32_t n;
        mr_status status = read_bracket(&again, 0, &number, &n);
        if (status != MR_OK)
            return status;
        count /= n; /* what the brackets behind this one make */
        status = read_bracket(in, index / count, &number, &n);
        if (status != MR_OK)
            return status;
        index %= count;
        fits = append_number(host, &len, &number) && fits;
    }
    return fits ? MR_OK : fail_syntax(in, "a host name that is too long");
}

mr_status mr_hostlist_at(const char *list, uint32_t index, char *host_out, uint32_t *count_out, mr_error *error)
{
    struct cursor in = {list, list, error};
    char host[MR_HOSTLIST_HOST] = "";
    uint32_t total = 0;
    for (;;) {
        struct cursor term = in;
        uint32_t count = 0;
        mr_status status = count_term(&in, &count);
        if (status == MR_OK && index >= total && index - total < count)
            status = spell_host(&term, index - total, count, host);
        if (status != MR_OK)
            return status;
        if (count > MR_HOSTLIST_MAX - total)
            return fail_syntax(&in, "too many hosts");
        total += count;
        if (*in.at == '\0')
            break;
        in.at++;
    }
    if (index >= total)
        return mr_error_set(error, MR_ERR_INVALID, "\"%s\" has %u hosts and none of number %u", list, total, index);
    memcpy(host_out, host, sizeof host);
    if (count_out)
        *count_out = total;
    return MR_OK;
}

/* "2(x3)" or "2". */
static mr_status read_tasks(struct cursor *in, uint32_t *tasks_out, uint32_t *times_out)
{
    uint32_t width;
    *times_out = 1;
    mr_status status = read_number(in, tasks_out, &width);
    if (status != MR_OK || *in->at != '(')
        return status;
    if (in->at[1] != 'x')
        return fail_syntax(in, "a bracket without its x");
    in->at += 2;
    status = read_number(in, times_out, &width);
    if (status != MR_OK)
        return status;
    if (*in->at != ')')
        return fail_syntax(in, "a bracket that is not closed");
    in->at++;
    return MR_OK;
}

mr_status mr_hostlist_tasks(const char *counts, uint32_t index, uint32_t *tasks_out, uint64_t *sum_out, mr_error *error)
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
        return mr_error_set(error, MR_ERR_INVALID, "\"%s\" has %u nodes and none of number %u", counts, nodes, index);
    *tasks_out = found;
    *sum_out = sum;
    return MR_OK;
}
