# SPDX-License-Identifier: Apache-2.0
# The files of a wheel in addition to the package's own: the library in millrace/lib, the command in
# millrace/bin, the worker helpers for machines where programs cannot be started from memory, and
# the licences of the linked libraries (MILLRACE_LICENSES, a folder).
#
# Invariant: a wheel cannot have symbolic links, so the library's file has the name that the package
# opens.

set(MILLRACE_LICENSES "" CACHE PATH "Licences of the libraries that are linked into the wheel")

set_target_properties(millrace_shared PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
install(TARGETS millrace_shared LIBRARY DESTINATION millrace/lib COMPONENT python NAMELINK_SKIP)
install(TARGETS millrace RUNTIME DESTINATION millrace/bin COMPONENT python)
install(PROGRAMS ${MR_WORKER_IMAGE} DESTINATION millrace/libexec/millrace COMPONENT python
        RENAME millrace-worker)
if(MR_REMOTE_WORKER_IMAGE)
  install(PROGRAMS ${MR_REMOTE_WORKER_IMAGE} DESTINATION millrace/libexec/millrace
          COMPONENT python RENAME millrace-worker-remote)
endif()
if(MILLRACE_LICENSES)
  install(DIRECTORY ${MILLRACE_LICENSES}/ DESTINATION millrace/licenses COMPONENT python)
endif()
