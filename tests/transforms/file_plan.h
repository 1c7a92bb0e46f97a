/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TRANSFORMS_FILE_PLAN_H
#define TESTS_TRANSFORMS_FILE_PLAN_H

#include "transforms/plan.h"

/* The plan of a transform for image files, u8 and nchw. The test fails if there is none. */
struct mr_plan file_plan(const char *text);

#endif
