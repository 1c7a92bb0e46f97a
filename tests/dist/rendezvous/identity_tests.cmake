# SPDX-License-Identifier: Apache-2.0
foreach(name rank_identity hostlist)
  mr_test(test_${name} SOURCES test_${name}.c LIBS mr_dist)
endforeach()
