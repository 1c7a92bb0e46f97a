# SPDX-License-Identifier: Apache-2.0
# The rooms' objects become one library, shared and static, and what is installed.
#
# Easy to get wrong: the static library's own dependencies are not targets of this build but are found again on the user's
# machine (millraceConfig.cmake, millrace.pc), so nothing named mr_dep_* may reach the exported targets.

set(MR_PUBLIC_HEADERS batch dataset group launch loader metrics millrace pack run sampler status transform)
list(TRANSFORM MR_PUBLIC_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/millrace/)
list(TRANSFORM MR_PUBLIC_HEADERS APPEND .h)

set(mr_objects "")
foreach(room base sampler dataset transforms pinned devices packer packs cache_worker cache rendezvous launch group loader)
  if(TARGET mr_${room})
    list(APPEND mr_objects $<TARGET_OBJECTS:mr_${room}>)
  endif()
endforeach()

if(MR_CUDA)
  mr_cuda_kernel(finish_cuda ${PROJECT_SOURCE_DIR}/pinned/finish_cuda.cu)
  list(APPEND mr_objects $<TARGET_OBJECTS:mr_tables_cuda> ${CMAKE_CURRENT_BINARY_DIR}/finish_cuda.o)
else()
  list(APPEND mr_objects $<TARGET_OBJECTS:mr_tables_host>)
endif()

# Outside libraries of the whole, and their pkg-config names for whoever links libmillrace.a.
# The shared library always takes them shared: Debian's archives are not position-independent.
set(mr_outside Threads::Threads m)
set(mr_outside_shared Threads::Threads m)
set(MR_PC_REQUIRES "")
set(MR_PC_LIBS_PRIVATE "-pthread -lm")
if(MR_CUDA)
  list(APPEND mr_outside CUDA::cudart_static)
  list(APPEND mr_outside_shared CUDA::cudart_static)
  string(PREPEND MR_PC_LIBS_PRIVATE "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt ")
endif()
foreach(module libjpeg libpng zlib liburing)
  if(TARGET mr_dep_${module})
    string(TOUPPER ${module} mr_prefix)
    list(APPEND mr_outside mr_dep_${module})
    list(APPEND mr_outside_shared PkgConfig::${mr_prefix})
    list(APPEND MR_PC_REQUIRES ${module})
  endif()
endforeach()

add_library(millrace_shared SHARED ${mr_objects})
add_library(millrace::millrace ALIAS millrace_shared)
set_target_properties(
  millrace_shared PROPERTIES OUTPUT_NAME millrace EXPORT_NAME millrace VERSION ${PROJECT_VERSION}
                             SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C)
target_link_libraries(millrace_shared PRIVATE mr_flags ${mr_outside_shared})
if(NOT MILLRACE_SANITIZE)
  target_link_options(millrace_shared PRIVATE -Wl,--no-undefined)
endif()

if(MR_CUDA)
  # A program may have a runtime of its own: ours stays inside.
  target_link_options(millrace_shared PRIVATE -Wl,--exclude-libs,libcudart_static.a)
endif()

add_library(millrace_static STATIC ${mr_objects})
add_library(millrace::millrace_static ALIAS millrace_static)
set_target_properties(millrace_static PROPERTIES OUTPUT_NAME millrace LINKER_LANGUAGE C)
target_link_libraries(millrace_static INTERFACE "$<BUILD_INTERFACE:${mr_outside}>"
                                                "$<INSTALL_INTERFACE:millrace::millrace_dependencies>")
if(MILLRACE_SANITIZE)
  target_link_options(millrace_static INTERFACE $<BUILD_INTERFACE:-fsanitize=${MILLRACE_SANITIZE}>)
endif()
if(MR_CUDA)
  add_dependencies(millrace_shared mr_kernel_finish_cuda)
  add_dependencies(millrace_static mr_kernel_finish_cuda)
endif()

foreach(library millrace_shared millrace_static)
  target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# Programs that are installed beside the library find it wherever the whole is moved to.
file(RELATIVE_PATH mr_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN/${mr_bin_to_lib}")

include(Man)

if(NOT MILLRACE_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(MR_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
install(TARGETS millrace_shared millrace_static EXPORT millraceTargets)
install(EXPORT millraceTargets NAMESPACE millrace:: DESTINATION ${MR_CONFIG_DIR})
install(FILES ${MR_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace)
if(TARGET millrace-worker)
  install(TARGETS millrace-worker DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/millrace)
endif()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/millraceConfig.cmake.in ${PROJECT_BINARY_DIR}/millraceConfig.cmake
  INSTALL_DESTINATION ${MR_CONFIG_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/millraceConfig.cmake ${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake
        DESTINATION ${MR_CONFIG_DIR})

list(JOIN MR_PC_REQUIRES ", " MR_PC_REQUIRES_TEXT)
file(RELATIVE_PATH MR_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" MR_PC_TO_PREFIX "${MR_PC_TO_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/millrace.pc.in ${PROJECT_BINARY_DIR}/millrace.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/millrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# As they lie in the tree, because they point to each other; docs/formats.md is also what libmillrace(3) refers to.
foreach(document README.md CHANGELOG.md LICENSE docs/cache.md docs/choosing.md docs/design.md docs/formats.md
        docs/gpu.md docs/pack-format.md docs/plug-in.md docs/training.md bench/METHOD.md)
  cmake_path(GET document PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/decisions DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
file(GLOB mr_examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/examples/*.cu
     ${PROJECT_SOURCE_DIR}/examples/*.h)
list(FILTER mr_examples EXCLUDE REGEX "/make_patches.c$") # not about millrace
install(FILES ${mr_examples} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
