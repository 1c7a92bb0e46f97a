/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces listing_xml.c in a build without expat. */
#include "dataset/remote/listing/listing_xml.h"

mr_status mr_listing_xml_read(const char *bytes, size_t len, struct mr_listing_page *page,
                              mr_error *error)
{
    (void)bytes, (void)len, (void)page;
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "its listing is XML, but this build has no expat");
}
