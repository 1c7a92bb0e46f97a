/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses annotations of VOC by expat. Only the direct children of annotation/object and of its
 * bndbox count: a <part> of a person has a name and a box too.
 *
 * Invariant: the file may be hostile. A document type declaration ends the parsing, so no entity is
 * ever expanded.
 */
#include "dataset/annotations/voc_xml.h"

#include <errno.h>
#include <expat.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 256, N_SIDES = 4 };

/* Where the parser is. Elements that are not named here are passed over. */
enum place { OUTSIDE, ANNOTATION, OBJECT, BOX, FIELD };

struct parse {
    const struct mr_annotation *annotation;
    struct mr_box_list *list;
    mr_error *error;
    mr_status status;
    XML_Parser parser;
    locale_t c_locale;
    enum place place;
    uint32_t n_passed; /* depth below an element that is passed over */
    struct mr_box_row row;
    uint32_t n_sides; /* bit i: side i of the row is set */
    int64_t field;    /* which of the names below the text belongs to */
    size_t len;
    char text[TEXT_BYTES];
    bool has_root;
    bool has_name;
    uint64_t line; /* of the object */
};

enum field { NAME, DIFFICULT, XMIN, YMIN, XMAX, YMAX, N_FIELDS };
static const char *const fields[N_FIELDS] = {"name", "difficult", "xmin", "ymin", "xmax", "ymax"};

static void stop_parse(struct parse *parse, mr_status status)
{
    parse->status = status;
    XML_StopParser(parse->parser, XML_FALSE);
}

static void fail_field(struct parse *parse, const char *what)
{
    stop_parse(parse, mr_annotation_fail(parse->annotation, XML_GetCurrentLineNumber(parse->parser),
                                         parse->error, "<%s> is '%.100s', %s", fields[parse->field],
                                         parse->text, what));
}

static bool starts_field(struct parse *parse, const char *name)
{
    int first = parse->place == OBJECT ? NAME : XMIN,
        end = parse->place == OBJECT ? XMIN : N_FIELDS;
    for (int i = first; i < end; i++) {
        if (strcmp(name, fields[i]) != 0)
            continue;
        parse->field = i;
        parse->len = 0;
        parse->place = FIELD;
        return true;
    }
    return false;
}

static void start_element(void *user, const char *name, const char **attributes)
{
    (void)attributes;
    struct parse *parse = user;
    if (parse->status < 0) /* expat may call once more after it was stopped */
        return;
    if (parse->n_passed > 0) {
        parse->n_passed++;
    } else if (parse->place == OUTSIDE && strcmp(name, "annotation") == 0) {
        parse->place = ANNOTATION;
        parse->has_root = true;
    } else if (parse->place == ANNOTATION && strcmp(name, "object") == 0) {
        parse->place = OBJECT;
        parse->row = (struct mr_box_row){0};
        parse->n_sides = 0;
        parse->has_name = false;
        parse->line = XML_GetCurrentLineNumber(parse->parser);
    } else if (parse->place == OBJECT && strcmp(name, "bndbox") == 0) {
        parse->place = BOX;
    } else if ((parse->place != OBJECT && parse->place != BOX) || !starts_field(parse, name)) {
        parse->n_passed = 1;
    }
}

static void take_name(struct parse *parse)
{
    const struct mr_catalog *catalog = parse->annotation->catalog;
    uint32_t n = mr_catalog_n_classes(catalog), i = 0;
    while (i < n && strcmp(mr_catalog_class_name(catalog, i), parse->text) != 0)
        i++;
    parse->row.label = i;
    parse->has_name = true;
    if (i == n)
        fail_field(parse, "which is no class of the dataset");
}

static void take_side(struct parse *parse)
{
    static const size_t offsets[N_SIDES] = {
        offsetof(struct mr_box_row, x1), offsetof(struct mr_box_row, y1),
        offsetof(struct mr_box_row, x2), offsetof(struct mr_box_row, y2)};
    int64_t side = parse->field - XMIN;
    char *end;
    float value = strtof_l(parse->text, &end, parse->c_locale);
    if (!*parse->text || *end || !isfinite(value) ||
        strspn(parse->text, "+-.0123456789eE") != strlen(parse->text)) {
        fail_field(parse, "which is no number");
        return;
    }
    memcpy((char *)&parse->row + offsets[side], &value, sizeof value);
    parse->n_sides |= 1u << side;
}

/* The text without the white space around it, as parse_voc_xml() of torchvision has it. */
static void strip_text(struct parse *parse)
{
    static const char spaces[] = " \t\r\n";
    parse->text[parse->len] = '\0';
    size_t start = strspn(parse->text, spaces);
    while (parse->len > start && strchr(spaces, parse->text[parse->len - 1]))
        parse->text[--parse->len] = '\0';
    memmove(parse->text, parse->text + start, parse->len - start + 1);
}

static void end_field(struct parse *parse)
{
    strip_text(parse);
    parse->place = parse->field < XMIN ? OBJECT : BOX;
    if (parse->field == NAME)
        take_name(parse);
    else if (parse->field == DIFFICULT)
        parse->row.is_crowd = strcmp(parse->text, "1") == 0;
    else
        take_side(parse);
}

static void end_object(struct parse *parse)
{
    struct mr_box_row *row;
    parse->place = ANNOTATION;
    if (!parse->has_name || parse->n_sides != (1u << N_SIDES) - 1) {
        stop_parse(parse, mr_annotation_fail(parse->annotation, parse->line, parse->error,
                                             "the object lacks its name or a side of its bndbox"));
        return;
    }
    mr_box_row_set_area(&parse->row);
    mr_status status = mr_box_list_add(parse->list, &row, parse->error);
    if (status < 0)
        stop_parse(parse, status);
    else
        *row = parse->row;
}

static void end_element(void *user, const char *name)
{
    (void)name;
    struct parse *parse = user;
    if (parse->status < 0)
        return;
    if (parse->n_passed > 0)
        parse->n_passed--;
    else if (parse->place == FIELD)
        end_field(parse);
    else if (parse->place == OBJECT)
        end_object(parse);
    else
        parse->place = parse->place == BOX ? OBJECT : OUTSIDE;
}

static void take_text(void *user, const char *text, int len)
{
    struct parse *parse = user;
    if (parse->place != FIELD || parse->n_passed > 0 || parse->status < 0)
        return;
    size_t room = TEXT_BYTES - 1 - parse->len;
    size_t n = (size_t)len < room ? (size_t)len : room;
    memcpy(parse->text + parse->len, text, n);
    parse->len += n;
    parse->text[parse->len] = '\0';
    if ((size_t)len > room)
        fail_field(parse, "which is too long");
}

static void refuse_doctype(void *user, const char *name, const char *system, const char *public,
                           int has_internal)
{
    (void)name, (void)system, (void)public, (void)has_internal;
    struct parse *parse = user;
    stop_parse(parse, mr_annotation_fail(parse->annotation, XML_GetCurrentLineNumber(parse->parser),
                                         parse->error, "it has a document type declaration"));
}

static mr_status run_parser(struct parse *parse)
{
    const struct mr_annotation *annotation = parse->annotation;
    XML_Parser parser = parse->parser;
    XML_SetUserData(parser, parse);
    XML_SetElementHandler(parser, start_element, end_element);
    XML_SetCharacterDataHandler(parser, take_text);
    XML_SetStartDoctypeDeclHandler(parser, refuse_doctype);
    enum XML_Status good =
        XML_Parse(parser, (const char *)annotation->bytes, (int)annotation->len, XML_TRUE);
    if (parse->status < 0)
        return parse->status;
    if (good == XML_STATUS_OK)
        return parse->has_root
                   ? MR_OK
                   : mr_annotation_fail(annotation, 0, parse->error, "it has no <annotation>");
    enum XML_Error code = XML_GetErrorCode(parser);
    if (code == XML_ERROR_NO_MEMORY)
        return mr_error_memory(parse->error, annotation->len);
    return mr_annotation_fail(annotation, XML_GetCurrentLineNumber(parser), parse->error, "%s",
                              XML_ErrorString(code));
}

mr_status mr_voc_xml_parse(const struct mr_annotation *annotation, struct mr_box_list *list,
                           mr_error *error)
{
    struct parse parse = {.annotation = annotation, .list = list, .error = error};
    parse.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (parse.c_locale == (locale_t)0)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot make the C locale");
    parse.parser = XML_ParserCreate(NULL);
    parse.status = parse.parser ? MR_OK : mr_error_memory(error, annotation->len);
    if (parse.parser)
        parse.status = run_parser(&parse);
    XML_ParserFree(parse.parser);
    freelocale(parse.c_locale);
    return parse.status;
}
