/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ListBucketResult by expat. Keys come in the escapes of encoding-type=url, because XML
 * cannot have every byte; a store that does not know that parameter sends them as they are.
 *
 * Invariant: the text may be hostile. A document type declaration ends the parsing, so no entity is
 * ever expanded.
 */
#include "dataset/remote/listing/listing_xml.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "dataset/extent.h"

enum { ROOT_DEPTH = 1, FIELD_DEPTH = 2, INNER_DEPTH = 3 };

enum field { NO_FIELD, TRUNCATED, TOKEN, ENCODING, KEY, SIZE, ETAG, PREFIX };
static const struct {
    const char *parent; /* "": the root */
    const char *name;
    enum field field;
} fields[] = {{"", "IsTruncated", TRUNCATED},      {"", "NextContinuationToken", TOKEN},
              {"", "EncodingType", ENCODING},      {"Contents", "Key", KEY},
              {"Contents", "Size", SIZE},          {"Contents", "ETag", ETAG},
              {"CommonPrefixes", "Prefix", PREFIX}};

struct parse {
    XML_Parser parser;
    struct mr_listing_page *page;
    mr_error *error;
    mr_status status;
    uint32_t depth;
    char parent[16]; /* of the fields: "Contents", "CommonPrefixes" or another */
    enum field field;
    size_t len;
    char text[MR_CATALOG_PATH]; /* of the field */
    bool truncated, escaped;
    /* Of the object: */
    bool has_key;
    uint64_t size;
    char key[MR_CATALOG_PATH];
    char etag[128];
};

static void stop_parse(struct parse *parse, mr_status status)
{
    parse->status = status;
    XML_StopParser(parse->parser, XML_FALSE);
}

static void fail_parse(struct parse *parse, const char *what)
{
    stop_parse(parse, mr_error_set(parse->error, MR_ERR_DAMAGED, "line %lu of its listing: %s",
                                   (unsigned long)XML_GetCurrentLineNumber(parse->parser), what));
}

static void begin_field(struct parse *parse, const char *name)
{
    const char *parent = parse->depth == FIELD_DEPTH ? "" : parse->parent;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(parent, fields[i].parent) == 0 && strcmp(name, fields[i].name) == 0)
            parse->field = fields[i].field;
    parse->len = 0;
    parse->text[0] = '\0';
}

static void start_element(void *user, const char *name, const char **attributes)
{
    (void)attributes;
    struct parse *parse = user;
    if (parse->status < 0) /* expat may call once more after it was stopped */
        return;
    parse->depth++;
    if (parse->depth == ROOT_DEPTH && strcmp(name, "ListBucketResult") != 0) {
        char what[100];
        snprintf(what, sizeof what, "it is <%.60s>, not <ListBucketResult>", name);
        fail_parse(parse, what);
        return;
    }
    if (parse->field != NO_FIELD) {
        fail_parse(parse, "an element within a text");
        return;
    }
    if (parse->depth == FIELD_DEPTH) {
        snprintf(parse->parent, sizeof parse->parent, "%s", name);
        parse->has_key = false;
        parse->size = MR_LEN_UNKNOWN;
        parse->etag[0] = '\0';
    }
    if (parse->depth == FIELD_DEPTH || parse->depth == INNER_DEPTH)
        begin_field(parse, name);
}

static void take_size(struct parse *parse)
{
    uint64_t size = 0;
    for (const char *c = parse->text; *c; c++) {
        if (*c < '0' || *c > '9' || size > (INT64_MAX - 9) / 10) {
            fail_parse(parse, "a <Size> is not a number of bytes");
            return;
        }
        size = size * 10 + (uint64_t)(*c - '0');
    }
    parse->size = parse->len > 0 ? size : MR_LEN_UNKNOWN;
}

static void copy_text(struct parse *parse, char *out, size_t size)
{
    if (parse->len >= size)
        fail_parse(parse, "a text is too long");
    else
        memcpy(out, parse->text, parse->len + 1);
}

static void add_item(struct parse *parse, const char *name, bool is_folder)
{
    const struct mr_listing_item item = {.size = parse->size, .is_folder = is_folder};
    mr_status status = mr_listing_page_add(parse->page, &item, name, parse->etag, parse->error);
    if (status < 0)
        stop_parse(parse, status);
}

static void end_field(struct parse *parse)
{
    enum field field = parse->field;
    parse->field = NO_FIELD;
    switch (field) {
    case TRUNCATED: parse->truncated = strcmp(parse->text, "true") == 0; break;
    case TOKEN: copy_text(parse, parse->page->token, sizeof parse->page->token); break;
    case ENCODING: parse->escaped = strcmp(parse->text, "url") == 0; break;
    case SIZE: take_size(parse); break;
    case ETAG: copy_text(parse, parse->etag, sizeof parse->etag); break;
    case PREFIX: add_item(parse, parse->text, true); break;
    case KEY:
        copy_text(parse, parse->key, sizeof parse->key);
        parse->has_key = true;
        break;
    default: break;
    }
}

static void end_element(void *user, const char *name)
{
    struct parse *parse = user;
    if (parse->status < 0)
        return;
    if (parse->field != NO_FIELD)
        end_field(parse);
    if (parse->status == MR_OK && parse->depth == FIELD_DEPTH && strcmp(name, "Contents") == 0) {
        if (parse->has_key)
            add_item(parse, parse->key, false);
        else
            fail_parse(parse, "an object has no <Key>");
    }
    parse->depth--;
}

static void take_text(void *user, const char *text, int len)
{
    struct parse *parse = user;
    if (parse->field == NO_FIELD || parse->status < 0)
        return;
    if ((size_t)len >= sizeof parse->text - parse->len) {
        fail_parse(parse, "a text has more than 4095 bytes");
        return;
    }
    memcpy(parse->text + parse->len, text, (size_t)len);
    parse->len += (size_t)len;
    parse->text[parse->len] = '\0';
}

static void refuse_doctype(void *user, const char *name, const char *system, const char *public,
                           int has_internal)
{
    (void)name, (void)system, (void)public, (void)has_internal;
    fail_parse(user, "it has a document type declaration");
}

/* Names that XML cannot have come escaped. */
static mr_status decode_names(struct mr_listing_page *page, mr_error *error)
{
    size_t n;
    const struct mr_listing_item *items = mr_listing_page_items(page, &n);
    for (size_t i = 0; i < n; i++)
        if (!mr_listing_page_decode((char *)page->texts.data + items[i].name, true))
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "its listing has a key with a wrong escape: %.200s",
                                mr_listing_page_text(page, items[i].name));
    return MR_OK;
}

static mr_status run_parser(struct parse *parse, const char *bytes, size_t len)
{
    XML_Parser parser = parse->parser;
    XML_SetUserData(parser, parse);
    XML_SetElementHandler(parser, start_element, end_element);
    XML_SetCharacterDataHandler(parser, take_text);
    XML_SetStartDoctypeDeclHandler(parser, refuse_doctype);
    enum XML_Status good = XML_Parse(parser, bytes, (int)len, XML_TRUE);
    if (parse->status < 0)
        return parse->status;
    if (good != XML_STATUS_OK && XML_GetErrorCode(parser) == XML_ERROR_NO_MEMORY)
        return mr_error_memory(parse->error, len);
    if (good != XML_STATUS_OK)
        fail_parse(parse, XML_ErrorString(XML_GetErrorCode(parser)));
    else if (parse->truncated && !*parse->page->token)
        fail_parse(parse, "it is truncated and has no <NextContinuationToken>");
    if (!parse->truncated)
        parse->page->token[0] = '\0';
    return parse->status;
}

mr_status mr_listing_xml_read(const char *bytes, size_t len, struct mr_listing_page *page,
                              mr_error *error)
{
    struct parse parse = {.page = page, .error = error, .size = MR_LEN_UNKNOWN};
    if (len > MR_LISTING_MAX_PAGE)
        return mr_error_set(error, MR_ERR_DAMAGED, "its listing has %zu bytes, above the limit",
                            len);
    parse.parser = XML_ParserCreate(NULL);
    if (!parse.parser)
        return mr_error_memory(error, len);
    mr_status status = run_parser(&parse, bytes, len);
    XML_ParserFree(parse.parser);
    return status == MR_OK && parse.escaped ? decode_names(page, error) : status;
}
