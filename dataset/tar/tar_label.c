/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds integers in texts. JSON is skipped over, not built into a tree: only one field of the
 * outermost object is needed.
 */
#include "dataset/tar/tar_label.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool mr_tar_label_integer(const char *text, size_t len, int64_t *value_out)
{
    const char *end = text + len;
    int64_t value = 0;
    while (text < end && is_space(*text))
        text++;
    while (end > text && is_space(end[-1]))
        end--;
    bool negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+'))
        text++;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value))
            return false;
        int digit = *text - '0';
        if (__builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *value_out = value;
    return true;
}

struct cursor {
    const char *at;
    const char *end;
};

static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->end && is_space(*cursor->at))
        cursor->at++;
}

/* The next byte that is not white space; NUL at the end. */
static char peek_byte(struct cursor *cursor)
{
    skip_space(cursor);
    return cursor->at < cursor->end ? *cursor->at : '\0';
}

static bool take_byte(struct cursor *cursor, char byte)
{
    if (peek_byte(cursor) != byte || byte == '\0')
        return false;
    cursor->at++;
    return true;
}

/* Read a string: the text between the quotes, with escapes unchanged. */
static bool take_string(struct cursor *cursor, struct cursor *string_out)
{
    if (!take_byte(cursor, '"'))
        return false;
    string_out->at = cursor->at;
    for (; cursor->at < cursor->end && *cursor->at != '"'; cursor->at++)
        if (*cursor->at == '\\' && ++cursor->at == cursor->end)
            return false;
    if (cursor->at == cursor->end)
        return false;
    string_out->end = cursor->at++;
    return true;
}

/* Read a number or a word, up to a byte that may follow a value. */
static bool take_scalar(struct cursor *cursor, struct cursor *scalar_out)
{
    skip_space(cursor);
    scalar_out->at = cursor->at;
    while (cursor->at < cursor->end && !is_space(*cursor->at) && !strchr(",:]}[{\"", *cursor->at))
        cursor->at++;
    scalar_out->end = cursor->at;
    return scalar_out->end > scalar_out->at;
}

/* Skip an array or object by its brackets. Its content is not checked. */
static bool skip_nested(struct cursor *cursor)
{
    char closing[MAX_DEPTH];
    int depth = 0;
    struct cursor string;
    do {
        char byte = peek_byte(cursor);
        if (byte == '\0' || ((byte == '[' || byte == '{') && depth == MAX_DEPTH))
            return false;
        if (byte == '"') {
            if (!take_string(cursor, &string))
                return false;
            continue;
        }
        if (byte == '[' || byte == '{')
            closing[depth++] = byte == '[' ? ']' : '}';
        else if ((byte == ']' || byte == '}') && closing[--depth] != byte)
            return false;
        cursor->at++;
    } while (depth > 0);
    return true;
}

/* Read a value. For an integer, sets *is_integer_out and *value_out. */
static bool take_value(struct cursor *cursor, bool *is_integer_out, int64_t *value_out)
{
    struct cursor scalar;
    char byte = peek_byte(cursor);
    *is_integer_out = false;
    if (byte == '"')
        return take_string(cursor, &scalar);
    if (byte == '[' || byte == '{')
        return skip_nested(cursor);
    if (!take_scalar(cursor, &scalar))
        return false;
    *is_integer_out = *scalar.at != '+' &&
                      mr_tar_label_integer(scalar.at, (size_t)(scalar.end - scalar.at), value_out);
    return true;
}

bool mr_tar_label_json(const char *text, size_t len, const char *field, int64_t *value_out)
{
    struct cursor cursor = {.at = text, .end = text + len}, key;
    bool found = false, is_integer;
    if (!take_byte(&cursor, '{'))
        return false;
    if (take_byte(&cursor, '}'))
        return false;
    do {
        int64_t value;
        if (!take_string(&cursor, &key) || !take_byte(&cursor, ':') ||
            !take_value(&cursor, &is_integer, &value))
            return false;
        size_t key_len = (size_t)(key.end - key.at);
        if (key_len != strlen(field) || memcmp(key.at, field, key_len) != 0)
            continue;
        found = is_integer;
        if (is_integer)
            *value_out = value;
    } while (take_byte(&cursor, ','));
    return take_byte(&cursor, '}') && found;
}
