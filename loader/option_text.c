/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options by name: converts values from and to text by the table, for bindings, configuration files
 * and the command.
 *
 * Invariant: the caller's struct is written last, when nothing can fail any more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "loader/option_table.h"

/*
 * Our word for another library's, with or without that library's name in front ("torch.float32");
 * NULL if there is none.
 */
static const char *find_alias(const struct mr_option *option, const char *text)
{
    const char *dot = strrchr(text, '.');
    for (const struct mr_option_alias *a = option->aliases; a && a->theirs; a++)
        if (mr_word_is(dot ? dot + 1 : text, a->theirs))
            return a->ours;
    return NULL;
}

static mr_status refuse_number(const struct mr_option *option, const char *text, mr_error *error)
{
    if (option->is_bytes)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "%s: '%s' is not a number of bytes of at least %llu (K, M, G or T may follow it)",
            option->name, text, (unsigned long long)option->lo);
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s: '%s' is not a number from %llu to %llu%s%s%s, nor 'default'",
                        option->name, text, (unsigned long long)option->lo,
                        (unsigned long long)option->hi, option->words ? ", nor '" : "",
                        option->words ? option->words->word : "", option->words ? "'" : "");
}

static mr_status refuse_word(const struct mr_option *option, const char *text, mr_error *error)
{
    char words[128] = "";
    for (uint32_t i = 0; option->words[i].word && (option->n_named == 0 || i < option->n_named);
         i++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s", used > 0 ? ", " : "",
                 option->words[i].word);
    }
    return mr_error_set(error, MR_ERR_INVALID, "%s: '%s' is none of %s", option->name, text, words);
}

/* strtoull() would accept " 7" and "-1". */
static bool parse_number(const char *text, bool is_bytes, uint64_t *value_out)
{
    static const char suffixes[] = "kmgt";
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value_out = strtoull(text, &end, 10);
    if (errno != 0 || *end == '\0')
        return errno == 0;
    const char *suffix = is_bytes ? strchr(suffixes, mr_word_lower(*end)) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    if (!suffix || end[1] != '\0' || *value_out > UINT64_MAX >> shift)
        return false;
    *value_out <<= shift;
    return true;
}

static mr_status parse_value(const struct mr_option *option, const char *text, uint64_t *value_out,
                             mr_error *error)
{
    const char *ours = find_alias(option, text);
    for (const struct mr_option_word *w = option->words; w && w->word; w++) {
        if (mr_word_is(ours ? ours : text, w->word)) {
            *value_out = w->value;
            return MR_OK;
        }
    }
    *value_out = 0;
    if (mr_word_is(text, "default"))
        return MR_OK;
    if (option->hi == 0)
        return refuse_word(option, text, error);
    if (!parse_number(text, option->is_bytes, value_out) || *value_out < option->lo ||
        *value_out > option->hi)
        return refuse_number(option, text, error);
    return MR_OK;
}

static mr_status parse_bool(const struct mr_option *option, const char *text, bool *on_out,
                            mr_error *error)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (mr_word_is(text, words[i])) {
            *on_out = i % 2 == 1;
            return MR_OK;
        }
    }
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s: '%s' is none of true, false, yes, no, on, off, 1, 0", option->name,
                        text);
}

static mr_status refuse_list(const struct mr_option *option, mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s: a list has no text form; use the field of mr_loader_options",
                        option->name);
}

/* The bytes of the field's new value. */
union field {
    bool on;
    uint32_t u32;
    uint64_t u64;
    const char *text;
};

static size_t size_field(enum mr_option_type type)
{
    static const size_t sizes[] = {
        [MR_OPTION_BOOL] = sizeof(bool),         [MR_OPTION_I32] = sizeof(uint32_t),
        [MR_OPTION_U32] = sizeof(uint32_t),      [MR_OPTION_U64] = sizeof(uint64_t),
        [MR_OPTION_TEXT] = sizeof(const char *), [MR_OPTION_LIST] = 0};
    return sizes[type];
}

static mr_status parse_field(const struct mr_option *option, const char *text,
                             union field *field_out, mr_error *error)
{
    uint64_t number = 0;
    mr_status status = MR_OK;
    switch (option->type) {
    case MR_OPTION_BOOL: return parse_bool(option, text, &field_out->on, error);
    case MR_OPTION_TEXT: field_out->text = text; return MR_OK;
    case MR_OPTION_I32:
    case MR_OPTION_U32:
        status = parse_value(option, text, &number, error);
        field_out->u32 = (uint32_t)number;
        return status;
    case MR_OPTION_U64: return parse_value(option, text, &field_out->u64, error);
    case MR_OPTION_LIST: break;
    }
    return refuse_list(option, error);
}

mr_status mr_loader_options_set(mr_loader_options *options, const char *name, const char *value,
                                mr_error *error)
{
    if (!options || !name || !value)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL",
                            !options ? "options"
                            : !name  ? "name"
                                     : "value");
    const struct mr_option *option = mr_option_table_find(name, error);
    if (!option)
        return MR_ERR_INVALID;
    union field field = {0};
    size_t len = size_field(option->type);
    mr_status status = parse_field(option, value, &field, error);
    if (status != MR_OK)
        return status;
    if (options->struct_size < option->offset + len)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s: the struct_size %zu of the options ends before it", name,
                            options->struct_size);
    memcpy((char *)options + option->offset, &field, len);
    return MR_OK;
}

/* A number that has a word becomes that word. Zero becomes "default" unless zero is a value. */
static const char *format_number(const struct mr_option *option, uint64_t value,
                                 char digits_out[24])
{
    for (const struct mr_option_word *w = option->words; w && w->word; w++)
        if (w->value == value)
            return w->word;
    if (value == 0 && (option->hi == 0 || option->lo > 0))
        return "default";
    snprintf(digits_out, 24, "%llu", (unsigned long long)value);
    return digits_out;
}

/* The text of a field, in the field itself or in digits_out; NULL for a list. */
static const char *format_field(const struct mr_option *option, const union field *field,
                                char digits_out[24])
{
    switch (option->type) {
    case MR_OPTION_BOOL: return field->on ? "true" : "false";
    case MR_OPTION_TEXT: return field->text ? field->text : "";
    case MR_OPTION_I32:
    case MR_OPTION_U32: return format_number(option, field->u32, digits_out);
    case MR_OPTION_U64: return format_number(option, field->u64, digits_out);
    case MR_OPTION_LIST: break;
    }
    return NULL;
}

mr_status mr_loader_options_get(const mr_loader_options *options, const char *name, char *text_out,
                                size_t size, size_t *len_out, mr_error *error)
{
    if (!options || !name)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL", !options ? "options" : "name");
    const struct mr_option *option = mr_option_table_find(name, error);
    if (!option)
        return MR_ERR_INVALID;
    union field field = {0};
    char digits[24];
    size_t len = size_field(option->type);
    /* otherwise the caller's version has no such field: the default */
    if (options->struct_size >= option->offset + len)
        memcpy(&field, (const char *)options + option->offset, len);
    const char *text = format_field(option, &field, digits);
    if (!text)
        return refuse_list(option, error);
    if (text_out && size > 0)
        snprintf(text_out, size, "%s", text);
    if (len_out)
        *len_out = strlen(text);
    return MR_OK;
}
