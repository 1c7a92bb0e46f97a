# SPDX-License-Identifier: Apache-2.0
# The codecs' tests.
add_library(mr_codec_support STATIC codec_support.c)
target_link_libraries(mr_codec_support PUBLIC mr_transforms mr_base mr_test_images PkgConfig::CMOCKA)
foreach(name jpeg png limits damage exif)
  mr_test(test_codec_${name} SOURCES test_codec_${name}.c LIBS mr_codec_support)
endforeach()
