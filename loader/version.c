/* SPDX-License-Identifier: Apache-2.0 */
/* The version and the features of this build. */
#include <millrace/status.h>

const char *mr_version(void)
{
    return MR_VERSION;
}

uint32_t mr_version_number(void)
{
    return MR_VERSION_NUMBER;
}

const char *mr_features(void)
{
    return MR_FEATURES;
}
