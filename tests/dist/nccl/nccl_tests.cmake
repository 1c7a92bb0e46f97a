# SPDX-License-Identifier: Apache-2.0
# Groups over the nccl module, the double of NCCL and the double of CUDA: no GPU is needed.
if(NOT TARGET mr_nccl_double_module)
  return()
endif()

add_library(mr_nccl_world STATIC nccl_world.c nccl_world.h)
target_link_libraries(mr_nccl_world PUBLIC mr_test_folder mr_dist mr_base mr_nccl_double
    mr_cuda_double PkgConfig::CMOCKA Threads::Threads)
target_compile_definitions(mr_nccl_world PUBLIC
    MR_TEST_NCCL_FOLDER="$<TARGET_FILE_DIR:mr_nccl_double_module>")
add_dependencies(mr_nccl_world mr_nccl_double_module)

mr_test(test_nccl_contract SOURCES test_nccl_contract.c ../group/contract_group.c
    ../group/contract_collectives.c ../group/contract_oracle.c LIBS mr_nccl_world TIMEOUT 180)
foreach(name group streams faults cycles)
  mr_test(test_nccl_${name} SOURCES test_nccl_${name}.c LIBS mr_nccl_world TIMEOUT 180)
endforeach()
set_tests_properties(test_nccl_streams test_nccl_cycles PROPERTIES LABELS tsan)
add_test(NAME test_nccl_cycles_long COMMAND test_nccl_cycles)
set_tests_properties(test_nccl_cycles_long PROPERTIES ENVIRONMENT MR_TEST_LONG=1 LABELS long
    TIMEOUT 1800)
