/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks the functions that libmillrace-dist uses from libmillrace.so beside the public ones.
 * libmillrace-dist has no copy of base/, so mr_log_set() applies to both libraries. These symbols
 * are in the version node MILLRACE_PRIVATE_0.1 (cmake/millrace.map) and may change with every
 * version.
 */
#ifndef BASE_EXPORT_H
#define BASE_EXPORT_H

#define MR_BASE_EXPORT __attribute__((visibility("default")))

#endif
