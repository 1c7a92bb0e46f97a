/* SPDX-License-Identifier: Apache-2.0 */
/* Opens engines, which are shared objects of their own: libmillrace-NAME.so. */
#ifndef DIST_GROUP_MODULE_H
#define DIST_GROUP_MODULE_H

#include "dist/group/engine_table.h"

/*
 * Open the module of an engine: in the folders of MR_MODULE_PATH (separated by ':'), beside the
 * object that holds this function, then wherever the dynamic linker looks. The first one that is
 * there decides.
 *
 * name  lower-case letters and digits.
 * Returns MR_OK; MR_ERR_UNSUPPORTED says where it was looked for, or why the one that is there
 * cannot be used.
 * Ownership: *table_out lives as long as the process: engines leave threads and exit handlers
 * behind.
 */
mr_status mr_module_open(const char *name, const struct mr_engine_table **table_out,
                         mr_error *error);

/* What engines get as setup->fail. */
int32_t mr_module_fail(mr_error *error, int32_t status, const char *format, ...) MR_PRINTF(3, 4);

#endif
