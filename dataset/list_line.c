/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses lines of list files.
 *
 * Invariant: the file can be overwritten while it is mapped, so a line can contain anything.
 * Nothing here reads past the given length. Numbers are read in the C locale, whatever locale the
 * program has set.
 */
#include "dataset/list_line.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBER = 63 }; /* characters of one number */

bool mr_list_line_split(const char *line, size_t len, struct mr_list_line *line_out)
{
    const char *tab = memchr(line, '\t', len);
    if (!tab)
        return false;
    const char *label = tab + 1, *end = line + len - (line[len - 1] == '\r');
    *line_out = (struct mr_list_line){.path = line, .path_len = (size_t)(tab - line)};
    for (tab = label; tab < end && *tab != '\t';) /* a label is usually short */
        tab++;
    line_out->label = label;
    line_out->label_len = (size_t)(tab - label);
    if (tab < end) {
        line_out->further = tab + 1;
        line_out->further_len = (size_t)(end - tab) - 1;
    }
    return true;
}

uint64_t mr_list_line_n_further(const struct mr_list_line *line)
{
    uint64_t n = line->further != NULL;
    for (size_t i = 0; i < line->further_len; i++)
        n += line->further[i] == '\t';
    return n;
}

bool mr_list_line_further(const struct mr_list_line *line, uint64_t k,
                          struct mr_list_line *line_out)
{
    if (!line->further)
        return false;
    const char *field = line->further, *end = field + line->further_len, *tab;
    while ((tab = memchr(field, '\t', (size_t)(end - field))) && k > 0) {
        field = tab + 1;
        k--;
    }
    if (k > 0)
        return false;
    *line_out =
        (struct mr_list_line){.path = field, .path_len = (size_t)((tab ? tab : end) - field)};
    return true;
}

/* In quotes, without control characters: it becomes a header of a request. */
static bool is_etag(const char *text, size_t len)
{
    for (size_t i = 1; i + 1 < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == '"' || text[i] == 0x7f)
            return false;
    return len >= 2 && text[0] == '"' && text[len - 1] == '"';
}

bool mr_list_line_version(const struct mr_list_line *field, struct mr_object_version *version_out)
{
    static const char size[] = "size=", etag[] = " etag=";
    const char *at = field->path + strlen(size), *end = field->path + field->path_len;
    struct mr_object_version version = {0};
    if (field->path_len <= strlen(size) || memcmp(field->path, size, strlen(size)) != 0 ||
        *at < '0' || *at > '9')
        return false;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (version.size > (INT64_MAX - 9) / 10)
            return false;
        version.size = version.size * 10 + (uint64_t)(*at - '0');
    }
    if (at < end) {
        size_t len = (size_t)(end - at);
        if (len <= strlen(etag) || memcmp(at, etag, strlen(etag)) != 0)
            return false;
        at += strlen(etag);
        len -= strlen(etag);
        if (len >= sizeof version.etag || !is_etag(at, len))
            return false;
        memcpy(version.etag, at, len);
    }
    *version_out = version;
    return true;
}

static int unescape_char(char c)
{
    switch (c) {
    case 't': return '\t';
    case 'n': return '\n';
    case '\\': return '\\';
    default: return -1;
    }
}

int mr_list_line_path(const struct mr_list_line *line, char path_out[MR_CATALOG_PATH])
{
    size_t n = 0;
    for (size_t i = 0; i < line->path_len; i++) {
        int c = (unsigned char)line->path[i];
        if (c == '\\')
            c = ++i < line->path_len ? unescape_char(line->path[i]) : -1;
        if (c <= 0)
            return -EINVAL;
        if (n == MR_CATALOG_PATH - 1)
            return -ENAMETOOLONG;
        path_out[n++] = (char)c;
    }
    path_out[n] = '\0';
    return n > 0 ? 0 : -EINVAL;
}

/* The letter that follows the backslash in the escape of c; NUL if c needs no escape. */
static char find_escape(char c)
{
    return c == '\t' ? 't' : c == '\n' ? 'n' : c == '\\' ? '\\' : '\0';
}

size_t mr_list_line_escape(const char *name, char *text_out)
{
    size_t len = 0;
    for (const char *c = name; *c; c++) {
        char escape = find_escape(*c);
        if (text_out && escape)
            text_out[len] = '\\';
        len += escape != '\0';
        if (text_out)
            text_out[len] = escape ? escape : *c;
        len++;
    }
    return len;
}

size_t mr_list_line_write_path(const char *path, char *text_out)
{
    static const char before_hash[] = "./";
    size_t len = *path == '#' ? strlen(before_hash) : 0;
    if (text_out)
        memcpy(text_out, before_hash, len);
    return len + mr_list_line_escape(path, text_out ? text_out + len : NULL);
}

/* A cursor over the numbers of a label. */
struct numbers {
    const char *next;
    const char *end;
    bool after_comma; /* a number must follow */
};

static void skip_spaces(struct numbers *numbers)
{
    while (numbers->next < numbers->end && *numbers->next == ' ')
        numbers->next++;
}

/*
 * Returns 1 with the text of the next number, 0 at the end, -1 if two commas meet or the label ends
 * with one.
 */
static int next_number(struct numbers *numbers, const char **text_out, size_t *len_out)
{
    skip_spaces(numbers);
    if (numbers->next == numbers->end)
        return numbers->after_comma ? -1 : 0;
    const char *start = numbers->next;
    while (numbers->next < numbers->end && *numbers->next != ' ' && *numbers->next != ',')
        numbers->next++;
    *text_out = start;
    *len_out = (size_t)(numbers->next - start);
    skip_spaces(numbers);
    numbers->after_comma = numbers->next < numbers->end && *numbers->next == ',';
    if (numbers->after_comma)
        numbers->next++;
    return *len_out > 0 && *len_out <= MAX_NUMBER ? 1 : -1;
}

enum integer { NOT_INTEGER, INTEGER, HUGE_INTEGER };

static enum integer parse_integer(const char *text, size_t len, int64_t *value_out)
{
    size_t i = text[0] == '-' || text[0] == '+';
    bool negative = text[0] == '-', fits = true;
    int64_t value = 0;
    if (i == len)
        return NOT_INTEGER;
    for (; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9)
            return NOT_INTEGER;
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, negative ? -(int64_t)digit : (int64_t)digit, &value);
    }
    *value_out = value;
    return fits ? INTEGER : HUGE_INTEGER;
}

/*
 * Only decimal numbers. Refuses a finite number that is too large for a double, or for a float if
 * single is set.
 */
static bool parse_float(const char *text, size_t len, bool single, locale_t c_locale,
                        double *value_out)
{
    char buffer[MAX_NUMBER + 1], *end;
    memcpy(buffer, text, len);
    buffer[len] = '\0';
    if (strpbrk(buffer, "xXpP()\t\n\v\f\r"))
        return false;
    double value =
        single ? (double)strtof_l(buffer, &end, c_locale) : strtod_l(buffer, &end, c_locale);
    if (end != buffer + len || (isinf(value) && !strpbrk(buffer, "iI")))
        return false;
    *value_out = value;
    return true;
}

bool mr_list_line_label_form(const struct mr_list_line *line, locale_t c_locale,
                             struct mr_label_form *form_out)
{
    struct numbers numbers = {.next = line->label, .end = line->label + line->label_len};
    struct mr_label_form form = {0};
    const char *text;
    size_t len;
    int rc;
    while ((rc = next_number(&numbers, &text, &len)) == 1) {
        int64_t integer;
        double real;
        enum integer kind = parse_integer(text, len, &integer);
        if (kind != INTEGER && !parse_float(text, len, true, c_locale, &real)) {
            if (!parse_float(text, len, false, c_locale, &real))
                return false;
            form.is_wide = true;
        }
        form.is_float |= kind == NOT_INTEGER;
        form.is_huge |= kind == HUGE_INTEGER;
        if (form.n++ == UINT32_MAX)
            return false;
    }
    *form_out = form;
    return rc == 0 && form.n > 0;
}

static bool store_integer(int64_t value, mr_dtype dtype, unsigned char *out)
{
    switch (dtype) {
    case MR_I64: memcpy(out, &value, 8); return true;
    case MR_I32:
        memcpy(out, &(int32_t){(int32_t)value}, 4);
        return value >= INT32_MIN && value <= INT32_MAX;
    case MR_U32:
        memcpy(out, &(uint32_t){(uint32_t)value}, 4);
        return value >= 0 && value <= UINT32_MAX;
    case MR_I16:
        memcpy(out, &(int16_t){(int16_t)value}, 2);
        return value >= INT16_MIN && value <= INT16_MAX;
    case MR_U16:
        memcpy(out, &(uint16_t){(uint16_t)value}, 2);
        return value >= 0 && value <= UINT16_MAX;
    case MR_I8:
        memcpy(out, &(int8_t){(int8_t)value}, 1);
        return value >= INT8_MIN && value <= INT8_MAX;
    case MR_U8: memcpy(out, &(uint8_t){(uint8_t)value}, 1); return value >= 0 && value <= UINT8_MAX;
    default: return false;
    }
}

static bool store_number(const char *text, size_t len, mr_dtype dtype, locale_t c_locale,
                         unsigned char *out)
{
    if (dtype == MR_F32 || dtype == MR_F64) {
        double real;
        if (!parse_float(text, len, dtype == MR_F32, c_locale, &real))
            return false;
        if (dtype == MR_F64)
            memcpy(out, &real, 8);
        else
            memcpy(out, &(float){(float)real}, 4);
        return true;
    }
    int64_t integer;
    return parse_integer(text, len, &integer) == INTEGER && store_integer(integer, dtype, out);
}

bool mr_list_line_label(const struct mr_list_line *line, mr_dtype dtype, uint32_t n,
                        locale_t c_locale, void *out)
{
    struct numbers numbers = {.next = line->label, .end = line->label + line->label_len};
    const char *text;
    size_t len;
    for (uint32_t i = 0; i < n; i++) {
        if (next_number(&numbers, &text, &len) != 1 ||
            !store_number(text, len, dtype, c_locale,
                          (unsigned char *)out + i * mr_dtype_size(dtype)))
            return false;
    }
    return next_number(&numbers, &text, &len) == 0;
}
