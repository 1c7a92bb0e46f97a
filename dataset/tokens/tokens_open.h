/* SPDX-License-Identifier: Apache-2.0 */
/* tokens:FILE,...: rows of token ids, cut from long files. */
#ifndef DATASET_TOKENS_TOKENS_OPEN_H
#define DATASET_TOKENS_TOKENS_OPEN_H

#include "dataset/kind.h"

mr_kind_open_fn mr_tokens_open;

#endif
