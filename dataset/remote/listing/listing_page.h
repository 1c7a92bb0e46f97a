/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page of a listing: what an object store or a web server says is in a folder. listing_xml.c
 * and listing_html.c read pages.
 */
#ifndef DATASET_REMOTE_LISTING_LISTING_PAGE_H
#define DATASET_REMOTE_LISTING_LISTING_PAGE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/error.h"

enum { MR_LISTING_TOKEN = 2048, MR_LISTING_MAX_PAGE = 64 << 20 };

struct mr_listing_item {
    size_t name;   /* in texts: the key, or what a link names */
    size_t etag;   /* in texts: as it was sent, "" if it was not */
    uint64_t size; /* MR_LEN_UNKNOWN: not stated */
    bool is_folder;
};

/* A struct of zeros is empty. */
struct mr_listing_page {
    struct mr_bytes items;        /* struct mr_listing_item */
    struct mr_bytes texts;        /* NUL-terminated */
    char token[MR_LISTING_TOKEN]; /* names the next page; "": this is the last one */
};

/* Append an item. Texts of given lengths, which may hold any byte but zero. */
mr_status mr_listing_page_add(struct mr_listing_page *page, const struct mr_listing_item *item,
                              const char *name, const char *etag, mr_error *error);
const struct mr_listing_item *mr_listing_page_items(const struct mr_listing_page *page,
                                                    size_t *n_out);
const char *mr_listing_page_text(const struct mr_listing_page *page, size_t at);
/* Make it empty, and keep the memory. */
void mr_listing_page_clear(struct mr_listing_page *page);
void mr_listing_page_fini(struct mr_listing_page *page);

/*
 * Undo %XX in place, and + for a space if plus is set. False: an escape is wrong or stands for a
 * zero byte.
 */
bool mr_listing_page_decode(char *text, bool plus);

#endif
