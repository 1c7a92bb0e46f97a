# SPDX-License-Identifier: Apache-2.0
# The paths of installed files. Included before the rooms, because the loader contains one of them.

include(GNUInstallDirs)
# The rooms use this option too, so it comes before them.
option(MILLRACE_INSTALL "Install the library, the headers, the command and the manual"
       ${PROJECT_IS_TOP_LEVEL})

# The worker helper is embedded in the library and started from a memfd. If exec from a memfd is
# forbidden, an installed copy is used: one in the folder of the library or the program, or else
# this one.
set(MILLRACE_WORKER_PATH "${CMAKE_INSTALL_FULL_LIBEXECDIR}/millrace/millrace-worker"
    CACHE STRING "Absolute path of the installed worker helper")
