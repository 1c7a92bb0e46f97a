# SPDX-License-Identifier: Apache-2.0
# Metrics over ranks that are threads. The double's group comes before the library's, and allocations are counted.
mr_test(test_metrics SOURCES test_metrics.c group_double.c group_double.h LIBS mr_dist)
target_link_options(test_metrics PRIVATE -Wl,--wrap=malloc,--wrap=calloc)
set_tests_properties(test_metrics PROPERTIES LABELS tsan)
