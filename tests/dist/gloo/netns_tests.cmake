# SPDX-License-Identifier: Apache-2.0
# Ranks on two and three hosts, which are network namespaces. test_netns starts netns_rank, which is
# not a test by itself.
if(NOT TARGET mr_gloo_module)
  add_test(NAME test_netns COMMAND sh -c
      "echo 'skipped: built without gloo: ${MR_GLOO_MISSING}'; exit 77")
  set_tests_properties(test_netns PROPERTIES SKIP_RETURN_CODE 77)
  return()
endif()

add_executable(netns_rank netns_rank.c)
target_link_libraries(netns_rank PRIVATE mr_dist mr_base mr_flags
    Threads::Threads ${CMAKE_DL_LIBS} m)

mr_test(test_netns SOURCES test_netns.c netns_rig.c ../../fault/rank_program.c
    ../../support/processes.c LIBS mr_base TIMEOUT 180)
target_compile_definitions(test_netns PRIVATE MR_TEST_NETNS_RANK="$<TARGET_FILE:netns_rank>"
    MR_TEST_GLOO_FOLDER="$<TARGET_FILE_DIR:mr_gloo_module>")
add_dependencies(test_netns netns_rank mr_gloo_module)
if(TARGET millrace)
  target_compile_definitions(test_netns PRIVATE MR_TEST_MILLRACE="$<TARGET_FILE:millrace>")
  add_dependencies(test_netns millrace)
endif()
