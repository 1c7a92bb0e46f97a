/* SPDX-License-Identifier: Apache-2.0 */
/* Reads names, numbers and arguments. Numbers are read in the locale that the caller has set. */
#include "transforms/text/text_parser.h"

#include "base/words.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message shows only the part of a longer text that is around the error. */
enum { MAX_SHOWN = 200 };

mr_status mr_text_parser_fail_at(struct mr_text_parser *p, const char *place, const char *words)
{
    if (p->outer) {
        char longer[800];
        snprintf(longer, sizeof longer, "in %s: %.700s", p->outer_item->name, words);
        return mr_text_parser_fail_at(p->outer, p->outer_item->place, longer);
    }
    size_t at = (size_t)(place - p->text);
    const char *shown = at < MAX_SHOWN ? p->text : place - MAX_SHOWN / 2;
    return mr_error_set(p->error, MR_ERR_INVALID, "transform \"%s%.*s%s\", character %zu: %s",
                        shown > p->text ? "..." : "", MAX_SHOWN, shown,
                        strlen(shown) > MAX_SHOWN ? "..." : "", at + 1, words);
}

void mr_text_parser_skip_blanks(struct mr_text_parser *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

bool mr_text_parser_take(struct mr_text_parser *p, char c)
{
    mr_text_parser_skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    mr_text_parser_skip_blanks(p);
    return true;
}

bool mr_text_parser_is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

mr_status mr_text_parser_read_name(struct mr_text_parser *p, char name_out[MR_TEXT_MAX_NAME])
{
    size_t len = 0;
    while (mr_text_parser_is_name(p->at[len]) || (len > 0 && isdigit((unsigned char)p->at[len])))
        len++;
    if (len == 0 || len >= MR_TEXT_MAX_NAME)
        return mr_text_parser_fail_at(p, p->at,
                                      len ? "the name is too long" : "a name is expected");
    memcpy(name_out, p->at, len);
    name_out[len] = '\0';
    p->at += len;
    return MR_OK;
}

mr_status mr_text_parser_read_whole(struct mr_text_parser *p, uint32_t lo, uint32_t hi,
                                    uint32_t *out)
{
    char words[64], *end = NULL;
    unsigned long value = isdigit((unsigned char)*p->at) ? strtoul(p->at, &end, 10) : 0;
    if (!end || value < lo || value > hi) {
        snprintf(words, sizeof words, "a number from %u to %u is expected", lo, hi);
        return mr_text_parser_fail_at(p, p->at, words);
    }
    p->at = end;
    *out = (uint32_t)value;
    return MR_OK;
}

/* Digits, sign, point and exponent only: strtod() would take "nan" and hexadecimal too. */
static mr_status read_number(struct mr_text_parser *p, double *value_out)
{
    size_t len = strspn(p->at, "0123456789.eE+-");
    char digits[64];
    const char *start = *p->at == '-' ? p->at + 1 : p->at;
    if (!isdigit((unsigned char)*start) && *start != '.')
        return mr_text_parser_fail_at(p, p->at, "a number is expected");
    if (len >= sizeof digits)
        len = sizeof digits - 1;
    memcpy(digits, p->at, len);
    digits[len] = '\0';
    char *end;
    *value_out = strtod(digits, &end);
    if (end == digits || !isfinite(*value_out))
        return mr_text_parser_fail_at(p, p->at, "a number is expected");
    p->at += end - digits;
    return MR_OK;
}

static mr_status read_values(struct mr_text_parser *p, struct mr_text_arg *arg)
{
    do {
        if (arg->n_values == MR_TEXT_MAX_VALUES)
            return mr_text_parser_fail_at(p, p->at, "at most sixteen values are possible here");
        mr_status status = read_number(p, &arg->values[arg->n_values]);
        if (status != MR_OK)
            return status;
        arg->n_values++;
    } while (mr_text_parser_take(p, ':'));
    return MR_OK;
}

/* Up to the next quote of the same kind. */
static mr_status read_string(struct mr_text_parser *p, struct mr_text_arg *arg)
{
    const char *end = strchr(p->at + 1, *p->at);
    if (!end)
        return mr_text_parser_fail_at(p, p->at, "the closing quote is missing");
    arg->string = p->at + 1;
    arg->string_len = (size_t)(end - arg->string);
    p->at = end + 1;
    mr_text_parser_skip_blanks(p);
    return MR_OK;
}

/* The content of an argument, after its name or without a name. */
static mr_status read_content(struct mr_text_parser *p, struct mr_text_arg *arg)
{
    return *p->at == '"' || *p->at == '\'' ? read_string(p, arg) : read_values(p, arg);
}

mr_status mr_text_parser_read_arg(struct mr_text_parser *p, struct mr_text_item *item)
{
    if (item->n_args == MR_TEXT_MAX_ARGS)
        return mr_text_parser_fail_at(p, p->at, "too many arguments");
    struct mr_text_arg *arg = &item->args[item->n_args++];
    *arg = (struct mr_text_arg){.place = p->at};
    if (!mr_text_parser_is_name(*p->at))
        return read_content(p, arg);
    mr_status status = mr_text_parser_read_name(p, arg->name);
    if (status != MR_OK || !mr_text_parser_take(p, '='))
        return status;
    return mr_text_parser_is_name(*p->at) ? mr_text_parser_read_name(p, arg->word)
                                          : read_content(p, arg);
}

mr_status mr_text_parser_read_args(struct mr_text_parser *p, struct mr_text_item *item)
{
    if (mr_text_parser_take(p, ':')) {
        struct mr_text_arg *arg = &item->args[item->n_args++];
        arg->place = p->at;
        return read_values(p, arg);
    }
    if (!mr_text_parser_take(p, '(') || mr_text_parser_take(p, ')'))
        return MR_OK;
    do {
        mr_status status = mr_text_parser_read_arg(p, item);
        if (status != MR_OK)
            return status;
    } while (mr_text_parser_take(p, ','));
    return mr_text_parser_take(p, ')') ? MR_OK
                                       : mr_text_parser_fail_at(p, p->at, "',' or ')' is expected");
}

struct mr_text_arg *mr_text_parser_take_arg(struct mr_text_item *item, const char *name)
{
    for (uint32_t i = 0; i < item->n_args; i++) {
        if (!item->args[i].used && mr_word_is(item->args[i].name, name)) {
            item->args[i].used = true;
            return &item->args[i];
        }
    }
    return NULL;
}

mr_status mr_text_parser_take_flag(struct mr_text_parser *p, struct mr_text_item *item,
                                   const char *name, bool *flag_out)
{
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, name);
    *flag_out = arg != NULL;
    return arg && (arg->n_values || *arg->word)
               ? mr_text_parser_fail_at(p, arg->place, "this word takes no value")
               : MR_OK;
}

mr_status mr_text_parser_refuse_word(struct mr_text_parser *p, const char *place, const char *start,
                                     const char *word, const char *const *names, size_t n)
{
    enum { LAST = sizeof ", ...", FEW = 10 };
    char words[700];
    const char *nearest = mr_nearest_name(word, names, n);
    size_t used = (size_t)snprintf(words, sizeof words, "%s", start);
    if (nearest)
        used +=
            (size_t)snprintf(words + used, sizeof words - used, " (did you mean '%s'?)", nearest);
    if (nearest && n > FEW)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        if (used + strlen("; there are ") + strlen(names[i]) + LAST > sizeof words) {
            snprintf(words + used, sizeof words - used, ", ...");
            break;
        }
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s",
                                 i > 0 ? ", " : "; there are ", names[i]);
    }
    return mr_text_parser_fail_at(p, place, words);
}

mr_status mr_text_parser_take_choice(struct mr_text_parser *p, struct mr_text_item *item,
                                     const struct mr_text_arg *arg, const char *const *words,
                                     uint32_t n, const char *refusal, uint32_t *place_out)
{
    for (uint32_t i = 0; i < n; i++) {
        bool found = arg && mr_word_is(arg->word, words[i]);
        mr_status status = arg ? MR_OK : mr_text_parser_take_flag(p, item, words[i], &found);
        if (found)
            *place_out = i;
        if (found || status != MR_OK)
            return status;
    }
    return arg ? mr_text_parser_refuse_word(p, arg->place, refusal, arg->word, words, n) : MR_OK;
}

mr_status mr_text_parser_refuse_unused(struct mr_text_parser *p, const struct mr_text_item *item,
                                       const char *known)
{
    char words[400], name[MR_TEXT_MAX_NAME + 2] = "this argument";
    uint32_t k = 0;
    while (k < item->n_args && item->args[k].used)
        k++;
    if (k == item->n_args)
        return MR_OK;
    if (*item->args[k].name)
        snprintf(name, sizeof name, "'%s'", item->args[k].name);
    snprintf(words, sizeof words, "%s is unknown or given twice%s", name, known);
    return mr_text_parser_fail_at(p, item->args[k].place, words);
}
