/* SPDX-License-Identifier: Apache-2.0 */
/* The items of a page, and escapes in names. */
#include "dataset/remote/listing/listing_page.h"

#include <string.h>

mr_status mr_listing_page_add(struct mr_listing_page *page, const struct mr_listing_item *item,
                              const char *name, const char *etag, mr_error *error)
{
    struct mr_listing_item added = *item;
    added.name = page->texts.len;
    mr_status status = mr_bytes_append(&page->texts, name, strlen(name) + 1, error);
    added.etag = page->texts.len;
    if (status == MR_OK)
        status = mr_bytes_append(&page->texts, etag, strlen(etag) + 1, error);
    return status < 0 ? status : mr_bytes_append(&page->items, &added, sizeof added, error);
}

const struct mr_listing_item *mr_listing_page_items(const struct mr_listing_page *page,
                                                    size_t *n_out)
{
    *n_out = page->items.len / sizeof(struct mr_listing_item);
    return (const struct mr_listing_item *)(const void *)page->items.data;
}

const char *mr_listing_page_text(const struct mr_listing_page *page, size_t at)
{
    return (const char *)page->texts.data + at;
}

void mr_listing_page_clear(struct mr_listing_page *page)
{
    page->items.len = page->texts.len = 0;
    page->token[0] = '\0';
}

void mr_listing_page_fini(struct mr_listing_page *page)
{
    mr_bytes_fini(&page->items);
    mr_bytes_fini(&page->texts);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char low = (char)(c | 32);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

bool mr_listing_page_decode(char *text, bool plus)
{
    char *out = text;
    for (; *text; text++) {
        char c = plus && *text == '+' ? ' ' : *text;
        if (c == '%') {
            int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);
            if (low < 0 || (high == 0 && low == 0))
                return false;
            c = (char)(high << 4 | low);
            text += 2;
        }
        *out++ = c;
    }
    *out = '\0';
    return true;
}
