# SPDX-License-Identifier: Apache-2.0
# bench/peers and bench/compare; scripts and modules play the peers.
if(Python3_FOUND AND NOT MILLRACE_SANITIZE)
  set(programs "")
  if(TARGET millrace-bench-ours AND TARGET millrace-bench-light)
    set(programs $<TARGET_FILE:millrace-bench-ours> $<TARGET_FILE:millrace-bench-light>
        $<TARGET_FILE:mr_make_folder>)
  endif()
  add_test(NAME peers_are_measured_by_the_rules
      COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/test_peers.py
      ${PROJECT_SOURCE_DIR} ${programs})
  add_test(NAME gpu_peers_are_run_by_the_rules
      COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/test_gpu_peers.py
      ${PROJECT_SOURCE_DIR})
  add_test(NAME turboloader_is_measured_by_the_rules
      COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/test_peer_turboloader.py
      ${PROJECT_SOURCE_DIR})
  set_tests_properties(peers_are_measured_by_the_rules gpu_peers_are_run_by_the_rules PROPERTIES
      TIMEOUT 300 COST 300)
endif()
