/* SPDX-License-Identifier: Apache-2.0 */
/* check of a URL: what works with this server, and how fast it is. */
#ifndef TOOLS_SERVER_REPORT_H
#define TOOLS_SERVER_REPORT_H

#include <stdint.h>

/* Returns the exit status: MR_EXIT_OK if a loader can read the object. */
int mr_server_report_run(const char *url, uint32_t n_connections);

#endif
