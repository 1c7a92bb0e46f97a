# SPDX-License-Identifier: Apache-2.0
# What a wheel has beside the package's own files: the library in millrace/lib, the command in millrace/bin.
#
# MILLRACE_LICENSES is a folder with the licences of the libraries that are linked into them.
#
# A wheel has no symbolic links, so the library's file has the name that the package opens.
set_target_properties(millrace_shared PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
install(TARGETS millrace_shared LIBRARY DESTINATION millrace/lib COMPONENT python NAMELINK_SKIP)
if(MILLRACE_BUILD_TOOLS)
  install(TARGETS millrace RUNTIME DESTINATION millrace/bin COMPONENT python)
endif()
if(MILLRACE_LICENSES)
  install(DIRECTORY ${MILLRACE_LICENSES}/ DESTINATION millrace/licenses COMPONENT python)
endif()
