/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/transforms/file_plan.h"

#include "transforms/plan_compile.h"
#include "transforms/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct mr_plan file_plan(const char *text)
{
    static const struct mr_sample_kind files = {.encoded = 1, .picture = 1};
    struct mr_plan plan = {0};
    mr_transform *transform;
    mr_error error;
    if (mr_transform_parse(text, &transform, &error) != MR_OK ||
        mr_plan_compile(transform, &files, MR_U8, MR_NCHW, &plan, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_transform_destroy(transform);
    return plan;
}
