# SPDX-License-Identifier: Apache-2.0
# Make the manual pages. awk makes a page for each function and type from the comments of the public
# headers, and the reference in libmillrace.3. The two overviews, docs/man/*.scd, also need scdoc.

find_program(SCDOC scdoc)
find_program(AWK awk)
set(MR_MAN_PAGES "")
set(mr_man_dir ${PROJECT_SOURCE_DIR}/docs/man)
set(mr_man_out ${PROJECT_BINARY_DIR}/docs/man)

# CMake does not know the names of these pages, so their folder is made again each time and a stamp
# file represents it.
if(AWK)
  add_custom_command(
    OUTPUT ${mr_man_out}/man3.stamp
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${mr_man_out}/man3
    COMMAND ${CMAKE_COMMAND} -E make_directory ${mr_man_out}/man3
    COMMAND ${AWK} -v out=${mr_man_out}/man3 -v version=${PROJECT_VERSION}
            -f ${mr_man_dir}/headers.awk -f ${mr_man_dir}/pages.awk ${MR_PUBLIC_HEADERS}
    COMMAND ${CMAKE_COMMAND} -E touch ${mr_man_out}/man3.stamp
    DEPENDS ${mr_man_dir}/headers.awk ${mr_man_dir}/pages.awk ${MR_PUBLIC_HEADERS}
    COMMENT "Manual pages of functions and types"
    VERBATIM)
  list(APPEND MR_MAN_PAGES ${mr_man_out}/man3.stamp)
  if(MILLRACE_INSTALL)
    install(DIRECTORY ${mr_man_out}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
  endif()
endif()

if(AWK)
  foreach(page millrace.1 libmillrace.3)
    if(NOT EXISTS ${mr_man_dir}/${page}.scd)
      continue()
    endif()
    set(sources ${PROJECT_SOURCE_DIR}/tools/loader_args.c
        ${PROJECT_SOURCE_DIR}/tools/sampler_args.c)
    if(page STREQUAL libmillrace.3)
      set(sources ${MR_PUBLIC_HEADERS} ${PROJECT_SOURCE_DIR}/examples/first_batch.c)
    endif()
    set(out ${mr_man_out}/${page})
    set(write "'${AWK}' -f '${mr_man_dir}/headers.awk' -f '${mr_man_dir}/reference.awk' \"$@\"")
    add_custom_command(
      OUTPUT ${out}.scd
      COMMAND ${CMAKE_COMMAND} -E make_directory ${mr_man_out}
      COMMAND sh -c "${write} >'${out}.scd'"
        sh ${mr_man_dir}/${page}.scd ${sources}
      DEPENDS ${mr_man_dir}/${page}.scd ${mr_man_dir}/headers.awk ${mr_man_dir}/reference.awk
              ${sources}
      VERBATIM)
    list(APPEND MR_MAN_PAGES ${out}.scd)
    if(NOT SCDOC)
      continue()
    endif()
    add_custom_command(
      OUTPUT ${out}
      COMMAND sh -c "'${SCDOC}' <'${out}.scd' >'${out}'"
      DEPENDS ${out}.scd
      COMMENT "Manual page ${page}"
      VERBATIM)
    list(APPEND MR_MAN_PAGES ${out})
    if(MILLRACE_INSTALL)
      string(REGEX MATCH "[0-9]$" section ${page})
      install(FILES ${out} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endif()
  endforeach()
endif()
add_custom_target(millrace_man ALL DEPENDS ${MR_MAN_PAGES})
