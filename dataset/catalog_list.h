/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a sample in a list file, unparsed. */
#ifndef DATASET_CATALOG_LIST_H
#define DATASET_CATALOG_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct mr_catalog;
struct mr_list_line;

/* The line of a sample. False: the catalog is not of a list, or the line was overwritten. */
bool mr_catalog_list_line(const struct mr_catalog *catalog, int64_t index,
                          struct mr_list_line *line_out);

#endif
