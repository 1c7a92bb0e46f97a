/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of an object store to ListObjectsV2. */
#ifndef DATASET_REMOTE_LISTING_LISTING_XML_H
#define DATASET_REMOTE_LISTING_LISTING_XML_H

#include "dataset/remote/listing/listing_page.h"

/*
 * Append the objects and the common prefixes, and set the token of the next page. Returns MR_OK;
 * MR_ERR_DAMAGED with what is wrong, without the URL; MR_ERR_UNSUPPORTED: a build without expat.
 */
mr_status mr_listing_xml_read(const char *bytes, size_t len, struct mr_listing_page *page,
                              mr_error *error);

#endif
