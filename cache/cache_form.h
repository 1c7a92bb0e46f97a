/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a cache: whether it keeps coefficients of images, or indexes (marks) of their files.
 * Coefficients decode faster and take more room than the files. An index is a fortieth of its file,
 * which is read beside it.
 */
#ifndef CACHE_CACHE_FORM_H
#define CACHE_CACHE_FORM_H

#include "dataset/catalog.h"

#include <stdbool.h>

/*
 * Can entries of this encoding be made and decoded here? MR_OK; MR_ERR_UNSUPPORTED with the reason;
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_cache_form_check(uint32_t encoding, bool stock_jpeg, mr_error *error);

/*
 * How many bytes the coefficients of all samples will take, about: from the sizes of some files
 * that are the same for every process. 0 where none can be looked at.
 */
uint64_t mr_cache_form_estimate(const struct mr_catalog *catalog);

#endif
