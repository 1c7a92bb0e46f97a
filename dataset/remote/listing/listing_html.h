/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a web server that lists a folder, as nginx, Apache and Python's http.server make it.
 */
#ifndef DATASET_REMOTE_LISTING_LISTING_HTML_H
#define DATASET_REMOTE_LISTING_LISTING_HTML_H

#include "dataset/remote/listing/listing_page.h"

/*
 * Append what the links of the page name below its folder: files, and folders, which end with a
 * slash. Names keep the escapes of URLs. Links to other places are passed over. Text that is not
 * HTML has no links.
 *
 * folder  the URL of the page, which ends with a slash
 */
mr_status mr_listing_html_read(const char *folder, const char *bytes, size_t len,
                               struct mr_listing_page *page, mr_error *error);

#endif
