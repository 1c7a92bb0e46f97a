# SPDX-License-Identifier: Apache-2.0
# The group over the double of an engine. It is built as gloo's module in a separate folder, in
# MR_MODULE_PATH.
set(double_folder ${CMAKE_CURRENT_BINARY_DIR}/double)
add_library(mr_engine_double MODULE engine_double.c)
target_link_libraries(mr_engine_double PRIVATE mr_flags m)
set_target_properties(mr_engine_double PROPERTIES OUTPUT_NAME millrace-gloo
    LIBRARY_OUTPUT_DIRECTORY ${double_folder})

# The same for a device engine, as nccl's module.
set(device_double_folder ${CMAKE_CURRENT_BINARY_DIR}/device_double)
add_library(mr_device_engine_double MODULE device_engine_double.c device_engine_double.h)
target_link_libraries(mr_device_engine_double PRIVATE mr_flags Threads::Threads)
set_target_properties(mr_device_engine_double PROPERTIES OUTPUT_NAME millrace-nccl
    LIBRARY_OUTPUT_DIRECTORY ${device_double_folder})

add_library(mr_group_rig STATIC group_rig.c group_rig.h)
target_link_libraries(mr_group_rig PUBLIC mr_test_folder mr_dist mr_base PkgConfig::CMOCKA
    Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(mr_group_rig PUBLIC MR_TEST_DOUBLE="${double_folder}"
                                               MR_TEST_DEVICE_DOUBLE="${device_double_folder}")
add_dependencies(mr_group_rig mr_engine_double mr_device_engine_double)

foreach(name group group_alone group_check group_cycles group_deaths group_device group_device_ends
    group_device_faults group_faults group_hang group_split module)
  mr_test(test_${name} SOURCES test_${name}.c LIBS mr_group_rig TIMEOUT 300)
  set_tests_properties(test_${name} PROPERTIES LABELS tsan)
endforeach()

# Only this program is linked with a double of CUDA's driver, which reports which memory a pointer
# belongs to.
add_library(mr_driver_double SHARED driver_double.c driver_double.h)
target_link_libraries(mr_driver_double PRIVATE mr_flags)
set_target_properties(mr_driver_double PROPERTIES OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/driver_double)
mr_test(test_group_pointers SOURCES test_group_pointers.c LIBS mr_group_rig mr_driver_double
    TIMEOUT 120)
set_tests_properties(test_group_pointers PROPERTIES LABELS tsan)
if(TARGET mr_gloo_module)
  target_compile_definitions(test_group_pointers
      PRIVATE MR_TEST_GLOO="$<TARGET_FILE_DIR:mr_gloo_module>")
  add_dependencies(test_group_pointers mr_gloo_module)
endif()
