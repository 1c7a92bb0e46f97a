/* SPDX-License-Identifier: Apache-2.0 */
/* millrace preview in a build without libgd. */
#include "tools/command.h"
#include "tools/say.h"

int mr_cmd_preview_run(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    mr_say_error(
        "this build has no libgd (Debian package libgd-dev), which draws the sheet; in Python, "
        "millrace.preview(loader).write(\"page.html\") needs none; pip install of the source "
        "package uses this machine's libgd");
    return MR_EXIT_FAILED;
}
