# SPDX-License-Identifier: Apache-2.0
# Starting ranks: programs (launch) and functions (spawn).
foreach(name launch launch_ends spawn)
  mr_test(test_${name} SOURCES test_${name}.c launch_rig.c ../support/processes.c LIBS mr_dist TIMEOUT 120)
endforeach()
