/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the reader of remote files in a program without libcurl. */
#include "dataset/reader_impl.h"

static mr_status refuse(struct mr_reader *reader, mr_error *error)
{
    (void)reader;
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "reading URLs needs a build with libcurl (package libcurl4-openssl-dev)");
}

const struct mr_reader_ops mr_reader_remote_ops = {.name = "http", .create = refuse};
