# SPDX-License-Identifier: Apache-2.0
# Make the libraries millrace and millrace-dist from the rooms' objects, each shared and static, and
# the install rules.
#
# Invariant: no target named mr_dep_* is among the exported targets. The static library's
# dependencies are searched again on the user's machine (millraceConfig.cmake, millrace-static.pc).

set(MR_PUBLIC_HEADERS
    batch
    cache
    dataset
    dist
    group
    launch
    loader
    metrics
    millrace
    pack
    run
    sampler
    status
    store
    transform)
list(TRANSFORM MR_PUBLIC_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/millrace/)
list(TRANSFORM MR_PUBLIC_HEADERS APPEND .h)

set(mr_objects "")
set(mr_rooms base sampler dataset_worker remote dataset transforms pinned devices packer packs
             cache_worker cache loader)
foreach(room ${mr_rooms})
  list(APPEND mr_objects $<TARGET_OBJECTS:mr_${room}>)
endforeach()
set(mr_dist_objects "")
foreach(room rendezvous launch group)
  list(APPEND mr_dist_objects $<TARGET_OBJECTS:mr_${room}>)
endforeach()

if(MR_CUDA)
  mr_cuda_kernel(finish_cuda ${PROJECT_SOURCE_DIR}/pinned/finish_cuda.cu)
  list(APPEND mr_objects $<TARGET_OBJECTS:mr_tables_cuda> ${CMAKE_CURRENT_BINARY_DIR}/finish_cuda.o)
else()
  list(APPEND mr_objects $<TARGET_OBJECTS:mr_tables_host>)
endif()

# The outside libraries, and their pkg-config names for programs that link libmillrace.a. The shared
# library uses pkg-config's libraries and not the archives of MILLRACE_STATIC_DEPS, because Debian's
# archives are not position-independent. In script/wheel, pkg-config names archives that are.
set(mr_outside Threads::Threads ${CMAKE_DL_LIBS} m)
set(mr_outside_shared Threads::Threads ${CMAKE_DL_LIBS} m)
set(MR_PC_REQUIRES "")
set(MR_PC_LIBS "-pthread -ldl -lm")
if(MR_CUDA)
  list(APPEND mr_outside CUDA::cudart_static)
  list(APPEND mr_outside_shared CUDA::cudart_static)
  string(PREPEND MR_PC_LIBS "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt ")
endif()
set(modules libjpeg libpng zlib liburing expat)
if(WEBP_FOUND)
  list(APPEND modules libwebpdemux libwebp)
endif()
if(LIBDEFLATE_FOUND)
  list(APPEND modules libdeflate)
endif()
if(TIFF_FOUND)
  list(PREPEND modules libtiff-4) # its archive needs the others
endif()
foreach(module ${modules})
  if(TARGET mr_dep_${module})
    string(TOUPPER ${module} mr_prefix)
    list(APPEND mr_outside mr_dep_${module})
    list(APPEND mr_outside_shared PkgConfig::${mr_prefix})
    list(APPEND MR_PC_REQUIRES ${module})
  endif()
endforeach()
# yajl.pc does not name yajl's archive, so programs get its name from us.
set(mr_yajl "")
if(TARGET mr_dep_yajl)
  list(APPEND mr_outside mr_dep_yajl)
  list(APPEND mr_outside_shared PkgConfig::YAJL)
  set(mr_yajl yajl)
  find_library(YAJL_ARCHIVE NAMES libyajl_s.a HINTS ${YAJL_LIBDIR})
  if(YAJL_ARCHIVE)
    set(mr_yajl yajl_s)
  endif()
  string(PREPEND MR_PC_LIBS "-l${mr_yajl} ")
endif()

# mr_library(name export map OBJECTS ... SHARED_LIBS ... STATIC_LIBS ... INSTALLED_LIBS ...): one
# library, shared and static, as the targets ${name}_shared and ${name}_static and, for users,
# millrace::${export} and millrace::${export}_static. SHARED_LIBS are linked into the shared
# library. STATIC_LIBS and INSTALLED_LIBS are what a program needs in addition to the static
# library, in this build and after installation.
function(mr_library name export map)
  cmake_parse_arguments(LIB "" "" "OBJECTS;SHARED_LIBS;STATIC_LIBS;INSTALLED_LIBS" ${ARGN})
  string(REPLACE "_" "-" file ${name})
  add_library(${name}_shared SHARED ${LIB_OBJECTS})
  add_library(${name}_static STATIC ${LIB_OBJECTS})
  add_library(millrace::${export} ALIAS ${name}_shared)
  add_library(millrace::${export}_static ALIAS ${name}_static)
  set_target_properties(
    ${name}_shared
    PROPERTIES OUTPUT_NAME ${file} EXPORT_NAME ${export} VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}
               LINKER_LANGUAGE C LINK_DEPENDS ${map} INSTALL_RPATH "$ORIGIN")
  set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${file} EXPORT_NAME ${export}_static
                        LINKER_LANGUAGE C)
  target_link_libraries(${name}_shared PRIVATE mr_flags PUBLIC ${LIB_SHARED_LIBS})
  target_link_options(${name}_shared PRIVATE -Wl,--version-script=${map})
  if(MILLRACE_SANITIZE)
    target_link_options(${name}_static INTERFACE $<BUILD_INTERFACE:-fsanitize=${MILLRACE_SANITIZE}>)
  else()
    target_link_options(${name}_shared PRIVATE -Wl,--no-undefined)
  endif()
  target_link_libraries(${name}_static INTERFACE "$<BUILD_INTERFACE:${LIB_STATIC_LIBS}>"
                                                 "$<INSTALL_INTERFACE:${LIB_INSTALLED_LIBS}>")
  foreach(library ${name}_shared ${name}_static)
    target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
endfunction()

mr_library(millrace millrace ${PROJECT_SOURCE_DIR}/cmake/millrace.map OBJECTS ${mr_objects}
           STATIC_LIBS ${mr_outside}
           INSTALLED_LIBS millrace::millrace_dependencies ${mr_yajl})
target_link_libraries(millrace_shared PRIVATE ${mr_outside_shared})
if(MR_CUDA)
  # A program may have another CUDA runtime; the map hides ours.
  add_dependencies(millrace_shared mr_kernel_finish_cuda)
  add_dependencies(millrace_static mr_kernel_finish_cuda)
endif()

# The process group has no copy of base/; it uses libmillrace's.
mr_library(
  millrace_dist dist ${PROJECT_SOURCE_DIR}/cmake/millrace-dist.map
  OBJECTS ${mr_dist_objects}
  SHARED_LIBS millrace_shared
  STATIC_LIBS millrace_static Threads::Threads ${CMAKE_DL_LIBS} m
  INSTALLED_LIBS millrace::millrace_static Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_libraries(millrace_dist_shared PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)

# Installed programs find the library relative to their own path, so the whole tree can be moved.
file(RELATIVE_PATH mr_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN/${mr_bin_to_lib}")

include(Man)

if(NOT MILLRACE_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(MR_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
install(TARGETS millrace_shared millrace_static millrace_dist_shared millrace_dist_static
        EXPORT millraceTargets)
install(EXPORT millraceTargets NAMESPACE millrace:: DESTINATION ${MR_CONFIG_DIR})
install(FILES ${MR_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace)
foreach(helper millrace-worker millrace-worker-remote)
  if(TARGET ${helper})
    install(TARGETS ${helper} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/millrace)
  endif()
endforeach()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/millraceConfig.cmake.in ${PROJECT_BINARY_DIR}/millraceConfig.cmake
  INSTALL_DESTINATION ${MR_CONFIG_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/millraceConfig.cmake
        ${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake
        DESTINATION ${MR_CONFIG_DIR})

# libtiff-4.pc does not name the C++ runtime that LERC's archive needs; it must come after that
# archive.
set(MR_PC_LIBS_PRIVATE "")
set(mr_pc_system_libs "${MR_PC_LIBS}")
set(mr_required ${MR_PC_REQUIRES})
if(TIFF_FOUND)
  list(REMOVE_ITEM mr_required libtiff-4)
  list(JOIN LIBTIFF-4_LDFLAGS " " mr_tiff_shared)
  list(JOIN LIBTIFF-4_STATIC_LDFLAGS " " MR_PC_LIBS_PRIVATE)
  string(APPEND MR_PC_LIBS " ${mr_tiff_shared}")
  if(MR_TIFF_CXX)
    string(APPEND MR_PC_LIBS_PRIVATE " -lstdc++")
  endif()
endif()
list(JOIN mr_required ", " MR_PC_REQUIRES_TEXT)
# For `pkg-config --static millrace`: the libraries by name. An archive must come before what it
# needs, so the last one of equal names is kept.
set(mr_private "")
foreach(module ${MR_PC_REQUIRES})
  string(TOUPPER ${module} mr_prefix)
  list(APPEND mr_private ${${mr_prefix}_STATIC_LDFLAGS})
  if(module STREQUAL libtiff-4 AND MR_TIFF_CXX)
    list(APPEND mr_private -lstdc++)
  endif()
endforeach()
list(REVERSE mr_private)
list(REMOVE_DUPLICATES mr_private)
list(REVERSE mr_private)
list(JOIN mr_private " " MR_PC_SHARED_LIBS_PRIVATE)
string(APPEND MR_PC_SHARED_LIBS_PRIVATE " ${mr_pc_system_libs}")
file(RELATIVE_PATH MR_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" MR_PC_TO_PREFIX "${MR_PC_TO_PREFIX}")
# The .pc files of the shared libraries require only packages that this project installs: pkg-config
# fails even for --cflags if a package in Requires.private is missing.
foreach(module millrace millrace-static millrace-dist millrace-dist-static)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${module}.pc.in ${PROJECT_BINARY_DIR}/${module}.pc
                 @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${module}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# Documents are installed with their paths in the tree, because they link to each other.
# libmillrace(3) refers to docs/formats.md.
set(mr_readmes "")
foreach(room base sampler dataset dataset/annotations dataset/reader dataset/remote
        dataset/remote/listing dataset/remote/stores dataset/tar dataset/tokens
        transforms transforms/boxes transforms/formats transforms/image_ops transforms/jpeg
        transforms/masks transforms/mixing transforms/simd transforms/text transforms/views pinned
        packs cache loader loader/trace loader/workers dist dist/rendezvous dist/launch dist/group
        dist/gloo dist/mpi dist/nccl
        tools tools/measure examples python tests bench)
  list(APPEND mr_readmes ${room}/README.md)
endforeach()
foreach(document README.md CHANGELOG.md LICENSE SECURITY.md docs/batch.jpg docs/cache.md
        docs/choosing.md docs/design.md docs/detection.md docs/extending.md docs/formats.md
        docs/frameworks.md docs/gpu.md docs/install.md docs/pack-format.md docs/peers.md
        docs/mixtures.md docs/plug-in.md docs/python.md docs/recipes.md
        docs/remote.md docs/speed.md docs/throughput.svg docs/tokens.md
        docs/training.md bench/METHOD.md ${mr_readmes})
  cmake_path(GET document PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/decisions ${PROJECT_SOURCE_DIR}/docs/recipes
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tests/dataset/extending
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/tests/dataset
        FILES_MATCHING PATTERN *.patch)
install(FILES ${PROJECT_SOURCE_DIR}/tests/loader/column/brightness.patch
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/tests/loader/column)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
file(GLOB mr_examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c
     ${PROJECT_SOURCE_DIR}/examples/*.cu ${PROJECT_SOURCE_DIR}/examples/*.h
     ${PROJECT_SOURCE_DIR}/examples/*.diff)
list(FILTER mr_examples EXCLUDE REGEX "/make_patches.c$") # not about millrace
install(FILES ${mr_examples} ${PROJECT_SOURCE_DIR}/examples/Makefile
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES ${PROJECT_SOURCE_DIR}/examples/rust/first_batch.rs
              ${PROJECT_SOURCE_DIR}/examples/rust/millrace.rs
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/rust)
