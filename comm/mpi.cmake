# SPDX-License-Identifier: Apache-2.0
# The MPI module: where no MPI is found, MR_MPI_MISSING says what to install and the rest is built without.
#
# Easy to get wrong: MPI leaves threads and an exit handler behind, so the module may never leave the process again, whoever
# closes it: nodelete.

find_package(MPI QUIET COMPONENTS C)
set(MR_MPI_MISSING "")
set(MR_MPI_TEXT "")
if(MPI_C_FOUND)
  set(MR_MPI_TEXT "MPI ${MPI_C_VERSION}")
else()
  set(MR_MPI_MISSING "package libopenmpi-dev")
endif()
set(MR_MPI_MISSING "${MR_MPI_MISSING}" CACHE INTERNAL "What the mpi module lacks")
set(MR_MPI_TEXT "${MR_MPI_TEXT}" CACHE INTERNAL "The MPI of the mpi module")
if(MR_MPI_MISSING)
  return()
endif()

# mr_mpi_module(target definitions...): tests build it a second time, with small parts.
function(mr_mpi_module name)
  set(sources mpi_call.c mpi_carry.c mpi_engine.c mpi_process.c mpi_ranks.c mpi_reduce.c mpi_short.c)
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/comm/)
  add_library(${name} MODULE ${sources})
  target_link_libraries(${name} PRIVATE mr_flags mr_base MPI::MPI_C Threads::Threads m)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  target_link_options(${name} PRIVATE -Wl,-z,nodelete)
  if(NOT MILLRACE_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()

mr_mpi_module(mr_mpi_module)
set_target_properties(mr_mpi_module PROPERTIES OUTPUT_NAME millrace-mpi
                                               LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}) # beside libmillrace.so
set_source_files_properties(mpi_reduce.c PROPERTIES COMPILE_OPTIONS -O3)

if(MILLRACE_INSTALL)
  install(TARGETS mr_mpi_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
