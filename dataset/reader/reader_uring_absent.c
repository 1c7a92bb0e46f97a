/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces reader_uring.c in a build without liburing: creating this reader fails. */
#include "dataset/reader/reader_impl.h"

static mr_status refuse_uring(struct mr_reader *reader, mr_error *error)
{
    (void)reader;
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "io_uring: this build does not include it");
}

const struct mr_reader_ops mr_reader_uring_ops = {
    .name = "io_uring",
    .create = refuse_uring,
};
