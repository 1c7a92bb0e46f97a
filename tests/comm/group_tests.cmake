# SPDX-License-Identifier: Apache-2.0
# The group over the double of an engine, which takes gloo's place in a folder of its own: MR_MODULE_PATH leads there.
set(double_folder ${CMAKE_CURRENT_BINARY_DIR}/double)
add_library(mr_engine_double MODULE engine_double.c)
target_link_libraries(mr_engine_double PRIVATE mr_flags m)
set_target_properties(mr_engine_double PROPERTIES OUTPUT_NAME millrace-gloo LIBRARY_OUTPUT_DIRECTORY ${double_folder})

add_library(mr_group_rig STATIC group_rig.c group_rig.h)
target_link_libraries(mr_group_rig PUBLIC mr_comm mr_base PkgConfig::CMOCKA Threads::Threads)
target_compile_definitions(mr_group_rig PUBLIC MR_TEST_DOUBLE="${double_folder}")
add_dependencies(mr_group_rig mr_engine_double)

foreach(name group group_alone group_check group_cycles group_deaths group_faults group_hang group_split module)
  mr_test(test_${name} SOURCES test_${name}.c LIBS mr_group_rig TIMEOUT 120)
  set_tests_properties(test_${name} PROPERTIES LABELS tsan)
endforeach()
