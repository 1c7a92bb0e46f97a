# SPDX-License-Identifier: Apache-2.0
# Make the manual pages from docs/man/*.scd with scdoc. libmillrace.3 takes its reference from the comments of the public
# headers, so there is only one text to maintain.

find_program(SCDOC scdoc)
find_program(AWK awk)
set(MR_MAN_PAGES "")
if(SCDOC AND AWK)
  set(mr_man_dir ${PROJECT_SOURCE_DIR}/docs/man)
  foreach(page millrace.1 libmillrace.3)
    if(NOT EXISTS ${mr_man_dir}/${page}.scd)
      continue()
    endif()
    set(sources "")
    if(page STREQUAL libmillrace.3)
      set(sources ${MR_PUBLIC_HEADERS} ${PROJECT_SOURCE_DIR}/examples/first_batch.c)
    endif()
    set(out ${PROJECT_BINARY_DIR}/docs/man/${page})
    add_custom_command(
      OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs/man
      COMMAND sh -c "'${AWK}' -f '${mr_man_dir}/reference.awk' \"$@\" >'${out}.scd'" sh ${mr_man_dir}/${page}.scd
              ${sources}
      COMMAND sh -c "'${SCDOC}' <'${out}.scd' >'${out}'"
      DEPENDS ${mr_man_dir}/${page}.scd ${mr_man_dir}/reference.awk ${sources}
      COMMENT "Manual page ${page}"
      VERBATIM)
    list(APPEND MR_MAN_PAGES ${out})
    if(MILLRACE_INSTALL)
      string(REGEX MATCH "[0-9]$" section ${page})
      install(FILES ${out} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endif()
  endforeach()
  add_custom_target(millrace_man ALL DEPENDS ${MR_MAN_PAGES})
endif()
