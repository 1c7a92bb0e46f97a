/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libmillrace-dist takes from libmillrace.so beside the public functions. It has no copy of
 * base/, so that mr_log_set() holds for both libraries. These symbols lie in the version node
 * MILLRACE_PRIVATE_0.1 (cmake/millrace.map) and may change with every version.
 */
#ifndef BASE_EXPORT_H
#define BASE_EXPORT_H

#define MR_BASE_EXPORT __attribute__((visibility("default")))

#endif
