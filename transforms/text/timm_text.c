/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections joined by '-', split as in timm: a name, and from its first digit on a value. timm drops
 * sections that it cannot split; here they are refused.
 */
#include "transforms/text/timm_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const families[] = {
    [MR_TIMM_RAND] = "rand", [MR_TIMM_ORIGINAL] = "original", [MR_TIMM_ORIGINAL_R] = "originalr",
    [MR_TIMM_V0] = "v0",     [MR_TIMM_V0_R] = "v0r",          [MR_TIMM_3A] = "3a"};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* The names after a t; the first two sets have none. */
static const char *const sets[] = {[MR_TIMM_USUAL] = "",
                                   [MR_TIMM_INCREASING] = "",
                                   [MR_TIMM_WEIGHTED] = "weights",
                                   [MR_TIMM_SET_3A] = "3a",
                                   [MR_TIMM_SET_3AW] = "3aw"};
enum { N_SETS = sizeof sets / sizeof *sets };

/* A section with a number. */
struct section {
    const char *key;
    uint32_t place; /* index in the values */
    bool is_whole;
    double lo;
    double hi;
    double usual;
};

static const struct section sections[] = {{"mstd", MR_TIMM_STD, false, 0, 1000, 0},
                                          {"m", MR_TIMM_MAGNITUDE, true, 0, 1000, 10},
                                          {"n", MR_TIMM_CALLS, true, 1, MR_IMAGE_MAX_CALLS, 2},
                                          {"p", MR_TIMM_CHANCE, false, 0, 1, 0.5},
                                          {"mmax", MR_TIMM_MOST, true, 0, 1000, 10},
                                          {"inc", MR_TIMM_SET, true, 0, 1, MR_TIMM_USUAL}};
enum { N_SECTIONS = sizeof sections / sizeof *sections };

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

static mr_status refuse_policy(struct mr_text_parser *p, const char *place)
{
    return mr_text_parser_fail_at(
        p, place, "policy: rand-..., original, originalr, v0, v0r or 3a is expected, in quotes");
}

static mr_status read_value(struct mr_text_parser *p, const char *text, size_t len,
                            const struct section *section, double *value_out)
{
    char digits[32], words[100], *end = digits;
    if (len < sizeof digits && strspn(text, "0123456789.") >= len) {
        memcpy(digits, text, len);
        digits[len] = '\0';
        *value_out = strtod(digits, &end);
    }
    if (end != digits && !*end && *value_out >= section->lo && *value_out <= section->hi &&
        (!section->is_whole || *value_out == floor(*value_out)))
        return MR_OK;
    snprintf(words, sizeof words, "policy: %s: a%s number from %g to %g is expected", section->key,
             section->is_whole ? " whole" : "", section->lo, section->hi);
    return mr_text_parser_fail_at(p, text, words);
}

/* Read a set's name after the t. It overrides inc. */
static mr_status read_set(struct mr_text_parser *p, const char *text, size_t len, double *values)
{
    for (uint32_t i = MR_TIMM_WEIGHTED; i < N_SETS; i++) {
        if (is_word(text, len, sets[i])) {
            values[MR_TIMM_SET] = i;
            return MR_OK;
        }
    }
    return mr_text_parser_fail_at(p, text, "policy: weights, 3a or 3aw is expected after t");
}

static mr_status read_section(struct mr_text_parser *p, const char *text, size_t len,
                              double *values)
{
    bool is_rand = values[MR_TIMM_FAMILY] == MR_TIMM_RAND;
    size_t len_key = 0;
    if (is_rand && len > 0 && *text == 't')
        return read_set(p, text + 1, len - 1, values);
    while (len_key < len && (text[len_key] < '0' || text[len_key] > '9'))
        len_key++;
    for (uint32_t i = 0; i < (is_rand ? N_SECTIONS : 1u); i++) {
        const struct section *section = &sections[i];
        double value = 0.0;
        if (!is_word(text, len_key, section->key))
            continue;
        mr_status status = read_value(p, text + len_key, len - len_key, section, &value);
        if (section->place == MR_TIMM_SET) /* a set with a name stays */
            value = values[MR_TIMM_SET] > MR_TIMM_INCREASING ? values[MR_TIMM_SET] : value;
        if (section->place == MR_TIMM_MOST)
            value = value > 0.0 ? value : section->usual;
        values[section->place] = value;
        return status;
    }
    return mr_text_parser_fail_at(
        p, text,
        is_rand ? "policy: a section of rand is like m9, n2, p0.5, mstd0.5, mmax10, inc1 "
                  "or tweights"
                : "policy: mstd and a number, as in mstd0.5, is expected after the name");
}

static void set_usual(double *values, uint32_t family)
{
    for (uint32_t i = 0; i < N_SECTIONS; i++)
        values[sections[i].place] = sections[i].usual;
    values[MR_TIMM_FAMILY] = family;
    if (family == MR_TIMM_3A)
        values[MR_TIMM_CALLS] = 1;
}

mr_status mr_timm_text_read(struct mr_text_parser *p, const struct mr_text_arg *arg,
                            double values_out[MR_TIMM_N_VALUES])
{
    uint32_t family = 0;
    if (!arg->string)
        return refuse_policy(p, arg->place);
    const char *text = arg->string, *end = text + arg->string_len;
    size_t len = strcspn(text, "-");
    len = len < arg->string_len ? len : arg->string_len;
    while (family < N_FAMILIES && !is_word(text, len, families[family]))
        family++;
    if (family == N_FAMILIES)
        return refuse_policy(p, arg->place);
    set_usual(values_out, family);
    mr_status status = MR_OK;
    while (text + len < end && status == MR_OK) {
        text += len + 1;
        len = strcspn(text, "-");
        len = len < (size_t)(end - text) ? len : (size_t)(end - text);
        status = read_section(p, text, len, values_out);
    }
    return status;
}

/* Write the sections that are not the default, and the magnitude. */
void mr_timm_text_put(struct mr_text_writer *w, const double values[MR_TIMM_N_VALUES])
{
    uint32_t set = (uint32_t)values[MR_TIMM_SET];
    bool is_rand = values[MR_TIMM_FAMILY] == MR_TIMM_RAND;
    mr_text_writer_put(w, "\"%s", families[(size_t)values[MR_TIMM_FAMILY]]);
    if (is_rand)
        mr_text_writer_put(w, "-m%.0f", values[MR_TIMM_MAGNITUDE]);
    for (uint32_t i = 0; i < (is_rand ? N_SECTIONS : 1u); i++) {
        const struct section *section = &sections[i];
        double value = values[section->place];
        if (value == section->usual || section->place == MR_TIMM_MAGNITUDE ||
            section->place == MR_TIMM_SET)
            continue;
        mr_text_writer_put(w, "-%s", section->key);
        mr_text_writer_put_double(w, value);
    }
    if (set > MR_TIMM_INCREASING)
        mr_text_writer_put(w, "-t%s", sets[set]);
    else if (set == MR_TIMM_INCREASING)
        mr_text_writer_put(w, "-inc1");
    mr_text_writer_put(w, "\"");
}
