/* SPDX-License-Identifier: Apache-2.0 */
/* Opens engines, each a shared object: libmillrace-NAME.so. */
#ifndef DIST_GROUP_MODULE_H
#define DIST_GROUP_MODULE_H

#include "dist/group/engine_table.h"

/*
 * Open the module of an engine. Searches the folders of MR_MODULE_PATH (separated by ':'), the
 * folder of the object that holds this function, then the dynamic linker's folders. The first file
 * found is used.
 *
 * name  lower-case letters and digits. Returns MR_OK; MR_ERR_UNSUPPORTED names the folders that
 * were searched, or why the file that was found cannot be used. Ownership: *table_out is valid
 * until the process ends, because engines leave threads and exit handlers.
 */
mr_status mr_module_open(const char *name, const struct mr_engine_table **table_out,
                         mr_error *error);

/* Engines get this as setup->fail. */
int32_t mr_module_fail(mr_error *error, int32_t status, const char *format, ...) MR_PRINTF(3, 4);

#endif
