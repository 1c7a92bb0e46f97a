/* SPDX-License-Identifier: Apache-2.0 */
/* Names the annotation and the line in errors. */
#include "dataset/annotations/annotation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

mr_status mr_annotation_fail(const struct mr_annotation *annotation, uint64_t line, mr_error *error,
                             const char *what, ...)
{
    const struct mr_catalog *catalog = annotation->catalog;
    struct mr_extent members[MR_MAX_MEMBERS];
    char which[MR_CATALOG_DESCRIPTION], where[32] = "", text[256];
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    mr_catalog_members(catalog, annotation->index, members);
    mr_catalog_describe_file(catalog, annotation->index,
                             members[mr_catalog_kind(catalog)->boxes - 1].file, which);
    if (line > 0)
        snprintf(where, sizeof where, ", line %" PRIu64, line);
    return mr_error_set(error, MR_ERR_DAMAGED, "%s%s: %s", which, where, text);
}
