/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses annotation files of COCO by libyajl, a piece at a time: {"images": [{...}],
 * "annotations": [{...}], "categories": [{...}]}. Every other value is passed over, however deep it
 * is.
 */
#include "dataset/annotations/coco_json.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yajl_parse.h>

#include "dataset/extent.h"
#include "dataset/file.h"

enum { PIECE_BYTES = 1 << 18, MAX_NUMBER = 63, N_SIDES = 4 };

enum place { BEFORE, TOP, SECTION, ITEM, BOX, AFTER };

enum section { IMAGES, ANNOTATIONS, CATEGORIES, N_SECTIONS, OTHER_SECTION = N_SECTIONS };
static const char *const sections[N_SECTIONS] = {"images", "annotations", "categories"};

enum field {
    ID,
    FILE_NAME,
    WIDTH,
    HEIGHT,
    IMAGE_ID,
    CATEGORY_ID,
    IS_CROWD,
    AREA,
    BBOX,
    NAME,
    N_FIELDS,
    OTHER_FIELD = N_FIELDS
};
static const char *const fields[N_FIELDS] = {"id",       "file_name",   "width",   "height",
                                             "image_id", "category_id", "iscrowd", "area",
                                             "bbox",     "name"};
#define BIT(field) (1u << (field))
/* The fields that an item has, and those that it must have. */
static const uint32_t known[N_SECTIONS] = {BIT(ID) | BIT(FILE_NAME) | BIT(WIDTH) | BIT(HEIGHT),
                                           BIT(ID) | BIT(IMAGE_ID) | BIT(CATEGORY_ID) |
                                               BIT(IS_CROWD) | BIT(AREA) | BIT(BBOX),
                                           BIT(ID) | BIT(NAME)};
static const uint32_t needed[N_SECTIONS] = {
    BIT(ID) | BIT(FILE_NAME), BIT(IMAGE_ID) | BIT(CATEGORY_ID) | BIT(BBOX), BIT(ID) | BIT(NAME)};

struct parse {
    struct mr_coco_table *table;
    mr_error error; /* of a callback; its text has no position yet */
    mr_status status;
    locale_t c_locale;
    enum place place;
    uint32_t n_passed; /* depth of arrays and objects that are passed over */
    enum section section;
    uint32_t has_sections; /* bits */
    enum field field;
    uint32_t has_fields; /* bits */
    int64_t integers[N_FIELDS];
    double area, box[N_SIDES];
    uint32_t n_sides;
    uint64_t name; /* offset of the item's name */
};

static int fail_parse(struct parse *parse, const char *what, const char *which)
{
    parse->status = mr_error_set(&parse->error, MR_ERR_DAMAGED, "%s %s", which, what);
    return 0;
}

static int keep_status(struct parse *parse, mr_status status)
{
    parse->status = status;
    return status == MR_OK;
}

/* Is the value that begins here passed over? Otherwise it is a value of a known field or section.
 */
static bool passes_over(const struct parse *parse)
{
    return parse->n_passed > 0 || (parse->place == TOP && parse->section == OTHER_SECTION) ||
           (parse->place == ITEM && parse->field == OTHER_FIELD);
}

/* The id of an annotation only tells it from others. Python takes any value. */
static bool is_box_id(const struct parse *parse)
{
    return parse->place == ITEM && parse->section == ANNOTATIONS && parse->field == ID;
}

static const char *name_value(const struct parse *parse)
{
    switch (parse->place) {
    case ITEM:
    case BOX: return fields[parse->field];
    case TOP:
    case SECTION: return sections[parse->section];
    default: return "the file";
    }
}

static int start_map(void *user)
{
    struct parse *parse = user;
    if (passes_over(parse)) {
        parse->n_passed++;
    } else if (parse->place == BEFORE) {
        parse->place = TOP;
    } else if (parse->place == SECTION) {
        parse->place = ITEM;
        parse->has_fields = 0;
        memset(parse->integers, 0, sizeof parse->integers);
    } else {
        return fail_parse(parse, "is an object", name_value(parse));
    }
    return 1;
}

static int start_array(void *user)
{
    struct parse *parse = user;
    if (passes_over(parse)) {
        parse->n_passed++;
    } else if (parse->place == TOP) {
        if (parse->has_sections & BIT(parse->section))
            return fail_parse(parse, "is there twice", name_value(parse));
        parse->has_sections |= BIT(parse->section);
        parse->place = SECTION;
    } else if (parse->place == ITEM && parse->field == BBOX) {
        parse->place = BOX;
        parse->n_sides = 0;
    } else {
        return fail_parse(parse, "is an array", name_value(parse));
    }
    return 1;
}

static bool is_text(const unsigned char *bytes, size_t len, const char *text)
{
    return strlen(text) == len && memcmp(bytes, text, len) == 0;
}

static int take_key(void *user, const unsigned char *key, size_t len)
{
    struct parse *parse = user;
    if (parse->n_passed > 0)
        return 1;
    if (parse->place == TOP) {
        parse->section = 0;
        while (parse->section < N_SECTIONS && !is_text(key, len, sections[parse->section]))
            parse->section++;
        return 1;
    }
    parse->field = 0;
    while (parse->field < N_FIELDS && !((known[parse->section] & BIT(parse->field)) &&
                                        is_text(key, len, fields[parse->field])))
        parse->field++;
    return 1;
}

static int add_image(struct parse *parse)
{
    struct mr_coco_image image = {.id = parse->integers[ID], .name = parse->name};
    const int64_t *integers = parse->integers;
    if (integers[WIDTH] >= 0 && integers[WIDTH] <= INT32_MAX)
        image.width = (uint32_t)integers[WIDTH];
    if (integers[HEIGHT] >= 0 && integers[HEIGHT] <= INT32_MAX)
        image.height = (uint32_t)integers[HEIGHT];
    return keep_status(parse,
                       mr_bytes_append(&parse->table->images, &image, sizeof image, &parse->error));
}

/*
 * torchvision makes a tensor of float32 of x, y, width and height, and adds in float32.
 */
static int add_box(struct parse *parse)
{
    float x = (float)parse->box[0], y = (float)parse->box[1];
    struct mr_coco_box box = {.image = parse->integers[IMAGE_ID],
                              .row = {.x1 = x,
                                      .y1 = y,
                                      .x2 = x + (float)parse->box[2],
                                      .y2 = y + (float)parse->box[3],
                                      .is_crowd = parse->integers[IS_CROWD] != 0,
                                      .label = parse->integers[CATEGORY_ID]},
                              .is_thin = parse->box[2] <= 1 || parse->box[3] <= 1};
    mr_box_row_set_area(&box.row);
    if (parse->has_fields & BIT(AREA))
        box.row.area = (float)parse->area;
    struct mr_coco_box_id id = {parse->integers[ID], mr_coco_table_n_boxes(parse->table)};
    if ((parse->has_fields & BIT(ID)) &&
        !keep_status(parse, mr_bytes_append(&parse->table->box_ids, &id, sizeof id, &parse->error)))
        return 0;
    return keep_status(parse,
                       mr_bytes_append(&parse->table->boxes, &box, sizeof box, &parse->error));
}

static int add_category(struct parse *parse)
{
    struct mr_coco_category category = {.id = parse->integers[ID], .name = parse->name};
    return keep_status(parse, mr_bytes_append(&parse->table->categories, &category, sizeof category,
                                              &parse->error));
}

static int end_item(struct parse *parse)
{
    uint32_t missing = needed[parse->section] & ~parse->has_fields;
    parse->place = SECTION;
    for (int field = 0; field < N_FIELDS; field++)
        if (missing & BIT(field))
            return fail_parse(parse, "is missing", fields[field]);
    switch (parse->section) {
    case IMAGES: return add_image(parse);
    case ANNOTATIONS: return add_box(parse);
    default: return add_category(parse);
    }
}

static int end_map(void *user)
{
    struct parse *parse = user;
    if (parse->n_passed > 0) {
        parse->n_passed--;
        return 1;
    }
    if (parse->place == ITEM)
        return end_item(parse);
    parse->place = AFTER;
    return 1;
}

static int end_array(void *user)
{
    struct parse *parse = user;
    if (parse->n_passed > 0) {
        parse->n_passed--;
        return 1;
    }
    if (parse->place == SECTION) {
        parse->place = TOP;
        return 1;
    }
    parse->place = ITEM;
    parse->has_fields |= BIT(BBOX);
    return parse->n_sides == N_SIDES ? 1 : fail_parse(parse, "has not four numbers", "bbox");
}

/* Some tools write whole numbers as 640.0. */
static bool parse_integer(const struct parse *parse, const char *text, int64_t *value_out)
{
    char *end;
    errno = 0;
    *value_out = strtoll(text, &end, 10);
    if (*end == '\0')
        return errno == 0;
    double value = strtod_l(text, NULL, parse->c_locale);
    if (!(value == floor(value) && fabs(value) < (double)(INT64_C(1) << 53)))
        return false;
    *value_out = (int64_t)value;
    return true;
}

static int take_number(void *user, const char *bytes, size_t len)
{
    struct parse *parse = user;
    char text[MAX_NUMBER + 1];
    if (passes_over(parse))
        return 1;
    bool is_box = parse->place == BOX;
    if (len > MAX_NUMBER || (!is_box && parse->place != ITEM))
        return fail_parse(parse, "is a number", name_value(parse));
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (is_box || parse->field == AREA) {
        double value = strtod_l(text, NULL, parse->c_locale);
        if (!isfinite((float)value) || (is_box && parse->n_sides == N_SIDES))
            return fail_parse(parse, "has a number too many, or one beyond float32",
                              name_value(parse));
        *(is_box ? &parse->box[parse->n_sides++] : &parse->area) = value;
    } else if (parse->field == FILE_NAME || parse->field == NAME || parse->field == BBOX ||
               !parse_integer(parse, text, &parse->integers[parse->field])) {
        return is_box_id(parse)
                   ? 1
                   : fail_parse(parse, "is a number of the wrong kind", name_value(parse));
    }
    if (!is_box)
        parse->has_fields |= BIT(parse->field);
    return 1;
}

static int take_string(void *user, const unsigned char *bytes, size_t len)
{
    struct parse *parse = user;
    if (passes_over(parse) || is_box_id(parse))
        return 1;
    bool is_name = parse->place == ITEM && (parse->field == FILE_NAME || parse->field == NAME);
    if (!is_name)
        return fail_parse(parse, "is a string", name_value(parse));
    if (memchr(bytes, '\0', len) || len >= MR_CATALOG_PATH || (len == 0 && parse->field != NAME))
        return fail_parse(parse, "is empty, too long or has a zero byte", name_value(parse));
    struct mr_bytes *names = &parse->table->names;
    parse->name = names->len;
    parse->has_fields |= BIT(parse->field);
    mr_status status = mr_bytes_append(names, bytes, len, &parse->error);
    return keep_status(parse, status < 0 ? status : mr_bytes_append(names, "", 1, &parse->error));
}

/* A field that an item may lack is missing if it is null. */
static int take_null(void *user)
{
    struct parse *parse = user;
    if (passes_over(parse))
        return 1;
    if (parse->place != ITEM || (needed[parse->section] & BIT(parse->field)))
        return fail_parse(parse, "is null", name_value(parse));
    parse->has_fields &= ~BIT(parse->field);
    parse->integers[parse->field] = 0;
    return 1;
}

static int take_boolean(void *user, int value)
{
    (void)value;
    struct parse *parse = user;
    return passes_over(parse) ? 1 : fail_parse(parse, "is true or false", name_value(parse));
}

/* The line of a byte of the file. */
static uint64_t count_lines(int fd, uint64_t end, uint8_t *piece)
{
    uint64_t line = 1;
    size_t n = 1;
    for (uint64_t at = 0; at < end && n > 0; at += n) {
        size_t wanted = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        if (mr_file_read_at(fd, at, piece, wanted, &n) != 0)
            break;
        for (size_t i = 0; i < n; i++)
            line += piece[i] == '\n';
    }
    return line;
}

/* byte: where the parser stopped. */
static mr_status report_error(yajl_handle parser, struct parse *parse, int fd, const char *path,
                              uint64_t byte, uint8_t *piece, mr_error *error)
{
    if (parse->status < 0 && parse->status != MR_ERR_DAMAGED) {
        mr_error_copy(error, &parse->error);
        return parse->status;
    }
    char *text = NULL;
    if (parse->status == MR_OK)
        text = (char *)yajl_get_error(parser, 0, NULL, 0);
    const char *what = parse->status < 0 ? parse->error.text : text ? text : "parse error";
    mr_status status =
        mr_error_set(error, MR_ERR_DAMAGED, "%s, line %" PRIu64 ", byte %" PRIu64 ": %.*s", path,
                     count_lines(fd, byte, piece), byte, (int)strcspn(what, "\n"), what);
    if (text)
        yajl_free_error(parser, (unsigned char *)text);
    return status;
}

static mr_status parse_pieces(yajl_handle parser, struct parse *parse, int fd, const char *path,
                              uint8_t *piece, mr_error *error)
{
    size_t n;
    for (uint64_t at = 0;; at += n) {
        int rc = mr_file_read_at(fd, at, piece, PIECE_BYTES, &n);
        if (rc < 0)
            return mr_error_os(error, MR_ERR_IO, -rc, "cannot read %s", path);
        yajl_status good = n > 0 ? yajl_parse(parser, piece, n) : yajl_complete_parse(parser);
        if (good != yajl_status_ok)
            return report_error(parser, parse, fd, path,
                                n > 0 ? at + yajl_get_bytes_consumed(parser) : at, piece, error);
        if (n == 0)
            return MR_OK;
    }
}

static mr_status check_sections(const struct parse *parse, const char *path, mr_error *error)
{
    for (int i = 0; i < N_SECTIONS; i++)
        if (i != CATEGORIES && !(parse->has_sections & BIT(i)))
            return mr_error_set(error, MR_ERR_DAMAGED, "%s has no array '%s'", path, sections[i]);
    return MR_OK;
}

mr_status mr_coco_json_parse(int fd, const char *path, struct mr_coco_table *table_out,
                             mr_error *error)
{
    static const yajl_callbacks callbacks = {.yajl_null = take_null,
                                             .yajl_boolean = take_boolean,
                                             .yajl_number = take_number,
                                             .yajl_string = take_string,
                                             .yajl_start_map = start_map,
                                             .yajl_map_key = take_key,
                                             .yajl_end_map = end_map,
                                             .yajl_start_array = start_array,
                                             .yajl_end_array = end_array};
    struct parse parse = {.table = table_out, .c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    uint8_t *piece = malloc(PIECE_BYTES);
    yajl_handle parser = yajl_alloc(&callbacks, NULL, &parse);
    mr_status status = piece && parser && parse.c_locale != (locale_t)0
                           ? MR_OK
                           : mr_error_memory(error, PIECE_BYTES);
    if (status == MR_OK)
        status = parse_pieces(parser, &parse, fd, path, piece, error);
    if (status == MR_OK)
        status = check_sections(&parse, path, error);
    if (parser)
        yajl_free(parser);
    free(piece);
    if (parse.c_locale != (locale_t)0)
        freelocale(parse.c_locale);
    return status;
}
