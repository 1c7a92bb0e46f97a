/* SPDX-License-Identifier: Apache-2.0 */
/* What this build is and has. */
#include <millrace/status.h>

const char *mr_version(void)
{
    return MR_VERSION;
}

const char *mr_features(void)
{
    return MR_FEATURES;
}
