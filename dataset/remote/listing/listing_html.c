/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the links <a href="..."> of a page.
 *
 * Invariant: the text may be hostile, and has no NUL at its end. Nothing is read past end.
 */
#include "dataset/remote/listing/listing_html.h"

#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "dataset/extent.h"
#include "dataset/remote/url.h"

struct cursor {
    const char *at, *end;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

static void skip_spaces(struct cursor *c)
{
    while (c->at < c->end && is_space(*c->at))
        c->at++;
}

/* Copy up to one of these characters, or to the end; what does not fit is dropped. */
static size_t take_until(struct cursor *c, const char *stops, char *out, size_t size)
{
    size_t len = 0;
    for (; c->at < c->end && !(*c->at && strchr(stops, *c->at)); c->at++, len++)
        if (len + 1 < size)
            out[len] = *c->at;
    out[len < size ? len : 0] = '\0'; /* a name that was cut is no name */
    return len;
}

/* Read the value of an attribute after its "=". */
static void take_value(struct cursor *c, char *out, size_t size)
{
    skip_spaces(c);
    char quote = c->at < c->end ? *c->at : '\0';
    if (quote == '"' || quote == '\'') {
        c->at++;
        take_until(c, quote == '"' ? "\"" : "'", out, size);
        c->at += c->at < c->end;
    } else {
        take_until(c, " \t\r\n\f>", out, size);
    }
}

/* Move past the attributes of a tag and its ">". href_out is "" if it has none. */
static void take_attributes(struct cursor *c, char href_out[MR_CATALOG_PATH])
{
    char name[16], value[MR_CATALOG_PATH];
    href_out[0] = '\0';
    for (;;) {
        while (c->at < c->end && (is_space(*c->at) || *c->at == '/'))
            c->at++;
        if (c->at >= c->end || *c->at == '>')
            break;
        if (take_until(c, " \t\r\n\f=>/", name, sizeof name) == 0)
            c->at++; /* a "=" without a name */
        skip_spaces(c);
        if (c->at >= c->end || *c->at != '=')
            continue;
        c->at++;
        take_value(c, value, sizeof value);
        if (mr_word_is(name, "href") && !*href_out)
            memcpy(href_out, value, strlen(value) + 1);
    }
    c->at += c->at < c->end;
}

/* The byte that a character reference stands for; NUL: none that a URL has. */
static char find_character(const char *name)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].c;
    char *end;
    bool hex = name[0] == '#' && (name[1] | 32) == 'x';
    unsigned long c = name[0] == '#' ? strtoul(name + 1 + hex, &end, hex ? 16 : 10) : 0;
    return name[0] == '#' && *end == '\0' && c < 128 ? (char)c : '\0';
}

/* Undo &amp; and the like in place. */
static void unescape(char *text)
{
    char *out = text, name[8];
    for (; *text; text++) {
        size_t len = *text == '&' ? strcspn(text, ";") : 0;
        char c = '\0';
        if (len > 1 && text[len] && len - 1 < sizeof name) {
            memcpy(name, text + 1, len - 1);
            name[len - 1] = '\0';
            c = find_character(name);
        }
        *out++ = c ? c : *text;
        text += c ? len : 0;
    }
    *out = '\0';
}

/* The part of a link that is below the folder; NULL: it leads elsewhere. */
static const char *find_name(const char *folder, char *href, char url[MR_CATALOG_PATH])
{
    while (strncmp(href, "./", 2) == 0)
        href += 2;
    size_t len = strlen(folder);
    size_t scheme = strcspn(href, ":/?#");
    if (!*href || strpbrk(href, "?#") || (href[scheme] == ':' && !mr_url_is(href)) ||
        strncmp(href, "//", 2) == 0 || mr_url_join(folder, href, url, MR_CATALOG_PATH) < 0 ||
        strncmp(url, folder, len) != 0)
        return NULL;
    const char *name = url + len;
    size_t first = strcspn(name, "/"); /* a link to what is deeper is that folder's */
    if (first == 0 || (name[first] && name[first + 1]) || strcmp(name, "../") == 0 ||
        strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
        return NULL;
    return name;
}

/* Is it the item before once more? An icon may be a link too. */
static bool is_repeated(const struct mr_listing_page *page, const char *name)
{
    size_t n;
    const struct mr_listing_item *items = mr_listing_page_items(page, &n);
    return n > 0 && strcmp(mr_listing_page_text(page, items[n - 1].name), name) == 0;
}

static mr_status take_link(const char *folder, char *href, struct mr_listing_page *page,
                           mr_error *error)
{
    char url[MR_CATALOG_PATH];
    unescape(href);
    const char *name = find_name(folder, href, url);
    if (!name || is_repeated(page, name))
        return MR_OK;
    const struct mr_listing_item item = {.size = MR_LEN_UNKNOWN,
                                         .is_folder = name[strlen(name) - 1] == '/'};
    return mr_listing_page_add(page, &item, name, "", error);
}

mr_status mr_listing_html_read(const char *folder, const char *bytes, size_t len,
                               struct mr_listing_page *page, mr_error *error)
{
    struct cursor c = {bytes, bytes + len};
    char tag[8], href[MR_CATALOG_PATH];
    mr_status status = MR_OK;
    while (status == MR_OK && (c.at = memchr(c.at, '<', (size_t)(c.end - c.at)))) {
        c.at++;
        if (c.end - c.at >= 3 && memcmp(c.at, "!--", 3) == 0) {
            const char *end = memmem(c.at, (size_t)(c.end - c.at), "-->", 3);
            c.at = end ? end : c.end;
            continue;
        }
        take_until(&c, " \t\r\n\f>/", tag, sizeof tag);
        take_attributes(&c, href);
        if (mr_word_is(tag, "a"))
            status = take_link(folder, href, page, error);
    }
    return status;
}
