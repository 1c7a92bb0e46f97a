# SPDX-License-Identifier: Apache-2.0
# The nccl module as it is installed, on a machine without a GPU, and its engine over the doubles of
# NCCL and CUDA.
if(TARGET mr_nccl_module)
  mr_test(test_nccl_absent SOURCES test_nccl_absent.c
      LIBS mr_dist mr_base Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_definitions(test_nccl_absent PRIVATE
      MR_TEST_NCCL="$<TARGET_FILE_DIR:mr_nccl_module>")
  add_dependencies(test_nccl_absent mr_nccl_module)
else()
  add_test(NAME test_nccl_absent COMMAND sh -c
      "echo 'skipped: built without nccl: ${MR_NCCL_MISSING}'; exit 77")
  set_tests_properties(test_nccl_absent PROPERTIES SKIP_RETURN_CODE 77)
endif()

if(TARGET mr_nccl_double_module)
  add_library(mr_nccl_rig STATIC nccl_rig.c nccl_rig.h)
  target_link_libraries(mr_nccl_rig PUBLIC mr_nccl_double mr_cuda_double mr_dist mr_base
      PkgConfig::CMOCKA Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_definitions(mr_nccl_rig PRIVATE
      MR_TEST_NCCL="$<TARGET_FILE_DIR:mr_nccl_double_module>")
  add_dependencies(mr_nccl_rig mr_nccl_double_module)
  foreach(name calls engine ends)
    mr_test(test_nccl_${name} SOURCES test_nccl_${name}.c LIBS mr_nccl_rig)
    set_tests_properties(test_nccl_${name} PROPERTIES LABELS tsan)
  endforeach()
endif()
