/* SPDX-License-Identifier: Apache-2.0 */
/* A small picture, decoded as a JPEG and out of tiles: are the pixels the same on this machine? */
#ifndef TRANSFORMS_PACKED_SELFTEST_H
#define TRANSFORMS_PACKED_SELFTEST_H

#include "base/error.h"

/* MR_ERR_UNSUPPORTED where they are not, MR_ERR_NO_MEMORY. Takes about half a millisecond. */
mr_status mr_packed_selftest_run(mr_error *error);

#endif
