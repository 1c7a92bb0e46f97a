/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of a catalog of a mixture. mr_catalog_n_sources() of other catalogs is 0. */
#ifndef DATASET_CATALOG_MIX_H
#define DATASET_CATALOG_MIX_H

#include "dataset/catalog.h"
#include "dataset/catalog_format.h"

/* k is below mr_catalog_n_sources(). */
const struct mr_catalog_source *mr_catalog_mix_source(const struct mr_catalog *catalog, uint32_t k);
const struct mr_catalog *mr_catalog_mix_catalog(const struct mr_catalog *catalog, uint32_t k);

#endif
