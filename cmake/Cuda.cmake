# SPDX-License-Identifier: Apache-2.0
# Decide whether the GPU path is built. Sets MR_CUDA, and either MR_CUDA_TEXT (the GPUs it is built
# for) or MR_CUDA_MISSING (why it is not built). The target mr_cuda_api has the header of the
# runtime: the toolkit's, or that of the tests' double.
#
# Invariant: CUDA is not one of the project's languages. Otherwise every program that links the
# static library would need it too, libstdc++ would be linked, and a toolkit that refuses this
# compiler would end the configuration even if CUDA is not wanted. So each kernel is compiled by a
# custom command.

set(MILLRACE_CUDA AUTO CACHE
    STRING "GPU path: AUTO (if a toolkit is found and no sanitizer is set), ON or OFF")
set_property(CACHE MILLRACE_CUDA PROPERTY STRINGS AUTO ON OFF)

# mr_cuda_architectures(<out>): the GPUs to compile for. These are the user's
# CMAKE_CUDA_ARCHITECTURES, or every GPU that nvcc supports and, for later GPUs, the intermediate
# code of the newest.
function(mr_cuda_architectures out)
  set(wanted "${CMAKE_CUDA_ARCHITECTURES}")
  if(NOT wanted)
    execute_process(
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-arch
      OUTPUT_VARIABLE list
      ERROR_QUIET)
    string(REGEX MATCHALL "compute_[0-9]+" list "${list}")
    list(TRANSFORM list REPLACE "compute_" "")
    list(SORT list COMPARE NATURAL)
    list(POP_BACK list newest)
    list(TRANSFORM list APPEND "-real")
    set(wanted ${list} ${newest})
  endif()
  set(${out} ${wanted} PARENT_SCOPE)
endfunction()

# mr_cuda_arch_flags(<out> <architectures>): nvcc's flags for architectures in CMake's notation:
# 90-real, 90-virtual, 90 for both, all, all-major, native.
function(mr_cuda_arch_flags out)
  set(flags "")
  foreach(architecture ${ARGN})
    string(REGEX REPLACE "-(real|virtual)$" "" number ${architecture})
    if(number MATCHES "^(all|all-major|native)$")
      list(APPEND flags -arch=${number})
    elseif(architecture MATCHES "-real$")
      list(APPEND flags -gencode=arch=compute_${number},code=sm_${number})
    elseif(architecture MATCHES "-virtual$")
      list(APPEND flags -gencode=arch=compute_${number},code=compute_${number})
    else()
      list(APPEND flags -gencode=arch=compute_${number},code=[compute_${number},sm_${number}])
    endif()
  endforeach()
  set(${out} ${flags} PARENT_SCOPE)
endfunction()

# The compiler of the kernels' host code is g++ even if the project's compiler is clang, which nvcc
# may not support.
find_program(MR_GXX NAMES $ENV{CUDAHOSTCXX} g++)
set(mr_nvcc_flags -Wno-deprecated-gpu-targets)
if(CMAKE_CUDA_HOST_COMPILER)
  list(APPEND mr_nvcc_flags -ccbin=${CMAKE_CUDA_HOST_COMPILER})
elseif(MR_GXX)
  list(APPEND mr_nvcc_flags -ccbin=${MR_GXX})
endif()

# mr_cuda_try(<missing>): "" if nvcc works with the host compiler, otherwise a text with the first
# error of its output.
function(mr_cuda_try missing)
  set(probe ${PROJECT_BINARY_DIR}/CMakeFiles/cuda_probe)
  file(WRITE ${probe}.cu "__global__ void kernel() {}\n")
  execute_process(
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${mr_nvcc_flags} -c ${probe}.cu -o ${probe}.o
    RESULT_VARIABLE failed
    OUTPUT_VARIABLE text
    ERROR_VARIABLE text)
  set(words "")
  if(failed)
    string(REGEX MATCH "[^\n]*error[^\n]*" words "${text}")
    list(JOIN mr_nvcc_flags " " flags)
    set(words "nvcc ${flags} fails ${words}")
  endif()
  set(${missing} "${words}" PARENT_SCOPE)
endfunction()

set(MR_CUDA OFF)
set(MR_CUDA_MISSING "")
if(NOT MILLRACE_CUDA)
  set(MR_CUDA_MISSING "not asked for")
elseif(MILLRACE_SANITIZE AND MILLRACE_CUDA STREQUAL "AUTO")
  set(MR_CUDA_MISSING "not with sanitizers")
else()
  find_package(CUDAToolkit QUIET)
  find_file(MR_CUDA_HEADER cuda_runtime.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  mark_as_advanced(MR_CUDA_HEADER)
  if(NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(MR_CUDA_MISSING "nvcc not found")
  elseif(NOT CUDAToolkit_FOUND OR NOT MR_CUDA_HEADER)
    set(MR_CUDA_MISSING
        "cuda_runtime.h or libcudart.so of ${CUDAToolkit_NVCC_EXECUTABLE} not found")
  elseif(CUDAToolkit_VERSION VERSION_LESS 12.0)
    set(MR_CUDA_MISSING "toolkit ${CUDAToolkit_VERSION} found, 12.0 is needed")
  elseif(NOT TARGET CUDA::cudart_static)
    set(MR_CUDA_MISSING "libcudart_static.a not found")
  else()
    if(NOT "${CUDAToolkit_NVCC_EXECUTABLE} ${mr_nvcc_flags}" STREQUAL "${MR_CUDA_TRIED}")
      mr_cuda_try(MR_CUDA_MISSING)
    endif()
    if(NOT MR_CUDA_MISSING)
      set(MR_CUDA_TRIED "${CUDAToolkit_NVCC_EXECUTABLE} ${mr_nvcc_flags}" CACHE
          INTERNAL "nvcc that works")
      set(MR_CUDA ON)
    endif()
  endif()
  if(NOT MR_CUDA AND NOT MILLRACE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "MILLRACE_CUDA is ${MILLRACE_CUDA}: ${MR_CUDA_MISSING}")
  endif()
endif()

# The training examples also need cuBLAS.
set(MR_CUBLAS_MISSING "")
if(NOT MR_CUDA)
  set(MR_CUBLAS_MISSING "CUDA: ${MR_CUDA_MISSING}")
elseif(NOT TARGET CUDA::cublas)
  set(MR_CUBLAS_MISSING "libcublas.so not found")
else()
  find_file(MR_CUBLAS_HEADER cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
            ${CUDAToolkit_MATH_INCLUDE_DIR} NO_DEFAULT_PATH)
  mark_as_advanced(MR_CUBLAS_HEADER)
  if(NOT MR_CUBLAS_HEADER)
    set(MR_CUBLAS_MISSING "cublas_v2.h not found")
  endif()
endif()

add_library(mr_cuda_api INTERFACE)
if(MR_CUDA)
  target_include_directories(mr_cuda_api SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  mr_cuda_architectures(mr_architectures)
  list(JOIN mr_architectures " " MR_CUDA_TEXT)
  string(REGEX REPLACE "([0-9]+)-real" "sm_\\1" MR_CUDA_TEXT "${MR_CUDA_TEXT}")
  string(REGEX REPLACE "(^| )([0-9]+)$" "\\1sm_\\2 and later" MR_CUDA_TEXT "${MR_CUDA_TEXT}")
  set(MR_CUDA_TEXT "toolkit ${CUDAToolkit_VERSION}, ${MR_CUDA_TEXT}")
else()
  target_include_directories(mr_cuda_api SYSTEM
      INTERFACE ${PROJECT_SOURCE_DIR}/tests/double/include)
endif()

# mr_cuda_kernel(name source.cu): the target mr_kernel_${name}, which makes the object file
# ${name}.o in this folder's build. -fmad=false: a product and a sum are fused only where the source
# says so, as in the C files.
function(mr_cuda_kernel name source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  mr_cuda_arch_flags(architectures ${mr_architectures})
  set(host -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics,-Wall,-Wextra)
  set(werror "")
  if(MILLRACE_WERROR)
    string(APPEND host ,-Werror)
    set(werror -Werror=all-warnings)
  endif()
  add_custom_command(
    OUTPUT ${object}
    COMMAND
      ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 -O3 -fmad=false ${mr_nvcc_flags} ${architectures}
      ${werror} -Xcompiler=${host} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include -MD
      -MF ${object}.d -MT ${object} -c ${source} -o ${object}
    DEPENDS ${source}
    DEPFILE ${object}.d
    COMMENT "Kernel ${name} by nvcc"
    VERBATIM)
  add_custom_target(mr_kernel_${name} DEPENDS ${object})
endfunction()
