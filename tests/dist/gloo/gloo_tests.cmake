# SPDX-License-Identifier: Apache-2.0
# The gloo module, by itself and below groups.
if(NOT TARGET mr_gloo_module)
  foreach(name gloo gloo_exchange gloo_faults gloo_stress gloo_group)
    add_test(NAME test_${name} COMMAND sh -c
        "echo 'skipped: built without gloo: ${MR_GLOO_MISSING}'; exit 77")
    set_tests_properties(test_${name} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
  return()
endif()

set(gloo_contract ../group/contract_collectives.c ../group/contract_oracle.c)
foreach(name gloo gloo_exchange gloo_faults gloo_stress)
  mr_test(test_${name} SOURCES test_${name}.c gloo_rig.c ${gloo_contract}
      LIBS mr_base Threads::Threads ${CMAKE_DL_LIBS} TIMEOUT 180)
  target_compile_definitions(test_${name} PRIVATE
      MR_TEST_GLOO_MODULE="$<TARGET_FILE:mr_gloo_module>")
  add_dependencies(test_${name} mr_gloo_module)
endforeach()

if(TARGET mr_group_rig)
  mr_test(test_gloo_group SOURCES test_gloo_group.c ../group/contract_group.c ${gloo_contract}
      LIBS mr_group_rig TIMEOUT 180)
  target_compile_definitions(test_gloo_group PRIVATE
      MR_TEST_GLOO_FOLDER="$<TARGET_FILE_DIR:mr_gloo_module>")
  add_dependencies(test_gloo_group mr_gloo_module)
endif()
mr_busy(test_gloo_stress)
