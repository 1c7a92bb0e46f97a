/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the values of options. strtoull() accepts "-1", " 7" and ""; strtod() accepts "inf" and
 * "0x1", and in some locales a decimal comma. So the characters are checked too, and the command
 * never calls setlocale().
 */
#include "tools/arg_value.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Parse the number at the start of text. *end_out: the first character after it. */
static bool read_number(const char *text, uint64_t lo, uint64_t hi, const char **end_out,
                        uint64_t *value_out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value_out = strtoull(text, &end, 10);
    *end_out = end;
    return errno == 0 && *value_out >= lo && *value_out <= hi;
}

uint64_t mr_arg_value_number(struct argp_state *state, const char *option, const char *text,
                             uint64_t lo, uint64_t hi)
{
    uint64_t value = 0;
    const char *end = "";

    if (!read_number(text, lo, hi, &end, &value) || *end != '\0')
        argp_error(state, "--%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, option, text,
                   lo, hi);
    return value;
}

uint64_t mr_arg_value_bytes(struct argp_state *state, const char *option, const char *text,
                            uint64_t lo)
{
    static const char suffixes[] = "KMGT";
    uint64_t value = 0;
    const char *end = "";
    bool good = read_number(text, 0, UINT64_MAX, &end, &value);

    if (good && *end != '\0') {
        char upper = (char)(*end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
        const char *at = strchr(suffixes, upper);
        unsigned shift = at != NULL ? 10 * (unsigned)(at - suffixes + 1) : 0;
        good = at != NULL && end[1] == '\0' && value <= UINT64_MAX >> shift;
        value = good ? value << shift : 0;
    }
    if (!good || value < lo)
        argp_error(state,
                   "--%s: '%s' is not a number of bytes of at least %" PRIu64
                   " (K, M, G or T may follow it)",
                   option, text, lo);
    return value;
}

size_t mr_arg_value_list(struct argp_state *state, const char *option, const char *text,
                         uint64_t lo, uint64_t hi, uint64_t *values_out, size_t n)
{
    const char *at = text;
    size_t count = 0;

    if (n == 1) {
        values_out[0] = mr_arg_value_number(state, option, text, lo, hi);
        return 1;
    }
    for (; count < n; at++) {
        if (!read_number(at, lo, hi, &at, &values_out[count]) || (*at != '\0' && *at != ','))
            argp_error(state,
                       "--%s: '%s' is not a list of numbers from %" PRIu64 " to %" PRIu64
                       " separated by commas",
                       option, text, lo, hi);
        count++;
        if (*at == '\0')
            return count;
    }
    argp_error(state, "--%s: '%s' has more than %zu numbers", option, text, n);
    return 0;
}

void mr_arg_value_size(struct argp_state *state, const char *option, const char *text, uint32_t hi,
                       uint32_t *width_out, uint32_t *height_out)
{
    uint64_t width = 0, height = 0;
    const char *end = "";

    if (!read_number(text, 1, hi, &end, &width) || (*end != 'x' && *end != 'X') ||
        !read_number(end + 1, 1, hi, &end, &height) || *end != '\0')
        argp_error(state, "--%s: '%s' is not WIDTHxHEIGHT, each from 1 to %" PRIu32, option, text,
                   hi);
    *width_out = (uint32_t)width;
    *height_out = (uint32_t)height;
}

static bool read_real(const char *text, const char **end_out, double *value_out)
{
    char *end;

    *value_out = strtod(text, &end);
    *end_out = end;
    return end != text && end <= text + strspn(text, "+-.0123456789eE") && isfinite(*value_out);
}

double mr_arg_value_real(struct argp_state *state, const char *option, const char *text, double lo,
                         double hi)
{
    double value = 0;
    const char *end = "";

    if (!read_real(text, &end, &value) || *end != '\0' || value < lo || value > hi)
        argp_error(state, "--%s: '%s' is not a number from %g to %g", option, text, lo, hi);
    return value;
}

unsigned mr_arg_value_channels(struct argp_state *state, const char *option, const char *text,
                               double above, double values_out[3])
{
    const char *at = text;
    unsigned count = 0;
    bool good = true, more = true;

    for (; good && more && count < 3; at++) {
        good = read_real(at, &at, &values_out[count]) && values_out[count] > above &&
               (*at == '\0' || *at == ',');
        more = good && *at == ',';
        count++;
    }
    if (!good || more || count == 2)
        argp_error(state, "--%s: '%s' is not one number, or three separated by commas%s", option,
                   text, above >= 0 ? ", each above 0" : "");
    return count;
}

int mr_arg_value_choice(struct argp_state *state, const char *option, const char *text,
                        const struct mr_arg_choice *choices)
{
    char names[256] = "";
    size_t used = 0;

    for (const struct mr_arg_choice *c = choices; c->name != NULL; c++) {
        if (strcasecmp(text, c->name) == 0)
            return c->value;
        int n = snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", c->name);
        if (n > 0 && (size_t)n < sizeof names - used)
            used += (size_t)n;
    }
    argp_error(state, "--%s: '%s' is none of %s", option, text, names);
    return 0;
}

void mr_arg_value_field(struct argp_state *state, const char *option, const char *field,
                        const char *text, mr_loader_options *loader)
{
    mr_error error;

    if (mr_loader_options_set(loader, field, text != NULL ? text : "true", &error) < 0)
        /* the error begins with "field:" */
        argp_error(state, "--%s%s", option, error.text + strlen(field));
}

const char *mr_arg_value_path(struct argp_state *state, const char *option, const char *text,
                              const char *extension)
{
    size_t len = strlen(text), tail = strlen(extension);

    if (len <= tail || strcmp(text + len - tail, extension) != 0 || text[len - tail - 1] == '/')
        argp_error(state, "--%s: '%s' is not a file name ending in %s", option, text, extension);
    return text;
}
