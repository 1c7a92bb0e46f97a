# SPDX-License-Identifier: Apache-2.0
# The codecs' tests.
add_library(mr_codec_support STATIC codec_support.c)
target_link_libraries(mr_codec_support PUBLIC mr_transforms mr_base mr_test_images PkgConfig::CMOCKA)
foreach(name jpeg png limits damage exif)
  mr_test(test_codec_${name} SOURCES test_codec_${name}.c LIBS mr_codec_support)
endforeach()
# Encoded samples, and all three ways to allocate counted.
target_sources(test_pixels PRIVATE allocations.c)
target_link_libraries(test_pixels PRIVATE mr_test_images)
target_link_options(test_pixels PRIVATE -Wl,--wrap=realloc)
target_compile_definitions(test_pixels PRIVATE ALLOCATIONS_STATIC_DEPS=$<BOOL:${MILLRACE_STATIC_DEPS}>)
