/* SPDX-License-Identifier: Apache-2.0 */
/* Appends words, numbers and JSON's strings to a text. */
#include "base/text_writer.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mr_text_writer_begin(struct mr_text_writer *w, char *text_out, size_t size)
{
    *w = (struct mr_text_writer){.text = text_out, .size = text_out ? size : 0};
    if (w->size)
        text_out[0] = '\0';
    w->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    w->before = w->c_locale ? uselocale(w->c_locale) : (locale_t)0;
}

void mr_text_writer_end(struct mr_text_writer *w)
{
    if (!w->c_locale)
        return;
    uselocale(w->before);
    freelocale(w->c_locale);
}

void mr_text_writer_put(struct mr_text_writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = w->len < w->size ? w->size - w->len : 0;
    int n = vsnprintf(room ? w->text + w->len : NULL, room, format, args);
    va_end(args);
    w->len += n > 0 ? (size_t)n : 0;
}

void mr_text_writer_put_double(struct mr_text_writer *w, double value)
{
    char digits[40];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    mr_text_writer_put(w, "%s", digits);
}

void mr_text_writer_put_json_number(struct mr_text_writer *w, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", value);
    mr_text_writer_put(w, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

/* Number of bytes of the character at s; 0 if the bytes are not UTF-8 (RFC 3629). */
static size_t measure_character(const unsigned char *s)
{
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool is_outside = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return is_overlong || is_outside ? 0 : n;
}

void mr_text_writer_put_json_string(struct mr_text_writer *w, const char *string)
{
    mr_text_writer_put(w, "\"");
    for (const unsigned char *s = (const unsigned char *)string; *s;) {
        size_t n = measure_character(s);
        if (n == 0)
            mr_text_writer_put(w, "\\udc%02x", *s);
        else if (*s == '"' || *s == '\\')
            mr_text_writer_put(w, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            mr_text_writer_put(w, "\\u%04x", *s);
        else
            mr_text_writer_put(w, "%.*s", (int)n, (const char *)s);
        s += n ? n : 1;
    }
    mr_text_writer_put(w, "\"");
}
