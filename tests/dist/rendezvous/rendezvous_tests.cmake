# SPDX-License-Identifier: Apache-2.0
foreach(name rendezvous rendezvous_ends rendezvous_launchers rendezvous_faults)
  mr_test(test_${name} SOURCES test_${name}.c rank_threads.c LIBS mr_dist)
endforeach()
mr_test(test_agreement SOURCES test_agreement.c LIBS mr_dist)
