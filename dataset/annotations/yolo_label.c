/* SPDX-License-Identifier: Apache-2.0 */
/* Parses label files of darknet. Numbers are those of fscanf's %f in the C locale. */
#include "dataset/annotations/yolo_label.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/dataset.h>

enum { MAX_NUMBER = 63, N_COORDINATES = 4 };

/* The rest of a line. */
struct line {
    const char *next;
    const char *end;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_spaces(struct line *line)
{
    while (line->next < line->end && is_space(*line->next))
        line->next++;
}

/* Copy the next word. False: there is none, it is too long or not the start of a number. */
static bool take_word(struct line *line, char word_out[MAX_NUMBER + 1])
{
    size_t n = 0;
    skip_spaces(line);
    while (line->next < line->end && !is_space(*line->next) && n < MAX_NUMBER)
        word_out[n++] = *line->next++;
    word_out[n] = '\0';
    return n > 0 && (line->next == line->end || is_space(*line->next)) &&
           strspn(word_out, "+-.0123456789eE") == n;
}

static bool take_class(struct line *line, int64_t *class_out)
{
    char word[MAX_NUMBER + 1], *end;
    if (!take_word(line, word))
        return false;
    long value = strtol(word, &end, 10);
    *class_out = value;
    return *end == '\0' && value >= 0 && value <= INT32_MAX;
}

static bool take_float(struct line *line, locale_t c_locale, float *value_out)
{
    char word[MAX_NUMBER + 1], *end;
    if (!take_word(line, word))
        return false;
    *value_out = strtof_l(word, &end, c_locale);
    return *end == '\0' && isfinite(*value_out);
}

static bool parse_row(struct line line, locale_t c_locale, struct mr_box_row *row)
{
    float *out[N_COORDINATES] = {&row->x1, &row->y1, &row->x2, &row->y2};
    if (!take_class(&line, &row->label))
        return false;
    for (int i = 0; i < N_COORDINATES; i++)
        if (!take_float(&line, c_locale, out[i]))
            return false;
    skip_spaces(&line);
    return line.next == line.end && row->x2 >= 0 && row->y2 >= 0;
}

static mr_status parse_lines(const struct mr_annotation *annotation, locale_t c_locale,
                             struct mr_box_list *list, mr_error *error)
{
    const char *next = (const char *)annotation->bytes, *end = next + annotation->len;
    const struct mr_catalog *catalog = annotation->catalog;
    bool is_darknet = mr_catalog_kind(catalog)->annotations == MR_ANNOTATIONS_DARKNET;
    int64_t n_classes = is_darknet ? mr_catalog_n_classes(catalog) : 0;
    for (uint64_t number = 1; next < end; number++) {
        const char *stop = memchr(next, '\n', (size_t)(end - next));
        struct line line = {next, stop ? stop : end};
        next = stop ? stop + 1 : end;
        skip_spaces(&line);
        if (line.next == line.end)
            continue;
        struct mr_box_row *row;
        mr_status status = mr_box_list_add(list, &row, error);
        if (status < 0)
            return status;
        if (!parse_row(line, c_locale, row))
            return mr_annotation_fail(
                annotation, number, error, "'%.*s' is not a class and x, y, width, height",
                (int)(line.end - line.next < 100 ? line.end - line.next : 100), line.next);
        if (n_classes > 0 && row->label >= n_classes)
            return mr_annotation_fail(annotation, number, error,
                                      "class %" PRId64 " is not below %" PRId64, row->label,
                                      n_classes);
    }
    return MR_OK;
}

mr_status mr_yolo_label_parse(const struct mr_annotation *annotation, struct mr_box_list *list,
                              mr_error *error)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot make the C locale");
    list->is_relative = 1;
    mr_status status = parse_lines(annotation, c_locale, list, error);
    freelocale(c_locale);
    return status;
}
