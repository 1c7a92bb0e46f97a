# SPDX-License-Identifier: Apache-2.0
# Metrics over ranks that are threads. The double's group is linked before the library's, and
# allocations are counted.
mr_test(test_metrics SOURCES test_metrics.c group_double.c group_double.h
    LIBS mr_dist mr_test_allocations_own)
set_tests_properties(test_metrics PROPERTIES LABELS tsan)
