# SPDX-License-Identifier: Apache-2.0
# The nccl module. Its objects are also built where only tests are: those link them with doubles of NCCL and of CUDA.
#
# Easy to get wrong: NCCL leaves threads behind, so the module may never leave the process again, whoever closes it:
# nodelete. And the program may have a CUDA runtime of its own: ours stays inside.

include(Nccl)

if(MR_NCCL OR MILLRACE_BUILD_TESTS)
  add_library(
    mr_nccl_objects OBJECT
    nccl_adds.c nccl_aside.c nccl_call.c nccl_comm.c nccl_engine.c nccl_issue.c nccl_pool.c nccl_ranks.c
    ${PROJECT_SOURCE_DIR}/pinned/cuda_call.c ${PROJECT_SOURCE_DIR}/pinned/cuda_find.c)
  target_link_libraries(mr_nccl_objects PUBLIC mr_flags mr_nccl_api)
endif()

# mr_nccl_module(name LIBS ...): mr_nccl_objects as a module; LIBS bring NCCL, the CUDA runtime and the kernels.
function(mr_nccl_module name)
  cmake_parse_arguments(MODULE "" "" "LIBS" ${ARGN})
  add_library(${name} MODULE $<TARGET_OBJECTS:mr_nccl_objects>)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME millrace-nccl LINKER_LANGUAGE C
                                           LINK_DEPENDS ${PROJECT_SOURCE_DIR}/comm/nccl.map)
  target_link_libraries(${name} PRIVATE mr_flags ${MODULE_LIBS} mr_base Threads::Threads)
  target_link_options(${name} PRIVATE -Wl,-z,nodelete -Wl,--version-script=${PROJECT_SOURCE_DIR}/comm/nccl.map)
endfunction()

if(NOT MR_NCCL)
  return()
endif()

mr_cuda_kernel(nccl_sums ${CMAKE_CURRENT_SOURCE_DIR}/nccl_sums.cu)
mr_nccl_module(mr_nccl_module LIBS ${CMAKE_CURRENT_BINARY_DIR}/nccl_sums.o CUDA::cudart_static ${MR_NCCL_LIBRARY})
add_dependencies(mr_nccl_module mr_kernel_nccl_sums)
set_target_properties(mr_nccl_module PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}) # beside libmillrace.so
set_property(TARGET mr_nccl_module APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/nccl_sums.o)
target_link_options(mr_nccl_module PRIVATE -Wl,--exclude-libs,libcudart_static.a)
if(NOT MILLRACE_SANITIZE)
  target_link_options(mr_nccl_module PRIVATE -Wl,--no-undefined)
endif()

# The option itself comes after the rooms, in cmake/Library.cmake.
if(MILLRACE_INSTALL)
  install(TARGETS mr_nccl_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
