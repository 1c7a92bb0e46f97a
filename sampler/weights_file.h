/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and lengths from a file of numpy.save(). */
#ifndef SAMPLER_WEIGHTS_FILE_H
#define SAMPLER_WEIGHTS_FILE_H

#include <millrace/status.h>

/*
 * Read the n values of a .npy file of one dimension, of <f8, <f4, <i8 or <i4. what: "weights" or
 * "lengths", for messages. MR_ERR_IO, MR_ERR_INVALID.
 */
mr_status mr_weights_file_read(const char *path, const char *what, double *values_out, uint64_t n,
                               mr_error *error);

#endif
