# SPDX-License-Identifier: Apache-2.0
# The helpers of a training loop; test_signals has a double of its only collective, between
# processes.
mr_test(test_run SOURCES test_run.c group_double.c group_double.h LIBS mr_dist)
mr_test(test_run_alone SOURCES test_run_alone.c LIBS mr_dist)
mr_test(test_signals SOURCES test_signals.c LIBS mr_dist)
set_tests_properties(test_run test_run_alone test_signals PROPERTIES LABELS tsan)
