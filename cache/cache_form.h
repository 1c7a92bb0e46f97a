/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a cache: coefficients of images (dct), or indexes of their files (marks).
 * Coefficients decode faster and take more room than the files. An index takes a fortieth of its
 * file, and the file is read too.
 */
#ifndef CACHE_CACHE_FORM_H
#define CACHE_CACHE_FORM_H

#include "dataset/catalog.h"

#include <stdbool.h>

/*
 * Check that entries of this encoding can be made and decoded here. Returns MR_OK;
 * MR_ERR_UNSUPPORTED with the reason; MR_ERR_NO_MEMORY.
 */
mr_status mr_cache_form_check(uint32_t encoding, bool stock_jpeg, mr_error *error);

/*
 * Estimate how many bytes the coefficients of all samples will take. The estimate uses the sizes of
 * some files, the same files in every process. 0 if none can be read.
 */
uint64_t mr_cache_form_estimate(const struct mr_catalog *catalog);

#endif
