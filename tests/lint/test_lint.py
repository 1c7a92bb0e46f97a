#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of lint.py finds its violation in a small tree, and finds nothing in a tree that keeps
all rules.
"""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import lint  # noqa: E402

TAG = "/* SPDX-License-Identifier: Apache-2.0 */\n"
WIDE = "word " * 20 + "w"
HASH = "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"

GOOD = {
    "base/error.h": TAG + "#include <millrace/status.h>\n",
    "base/error.c": TAG + '#include "base/error.h"\n#include <errno.h>\n#include <sys/mman.h>\n',
    "dataset/reader/reader_uring.c": TAG + '#include "base/error.h"\n#include <liburing.h>\n',
    "loader/workers/worker.c": TAG + '#include "base/error.h"\n#include "loader/slab_view.h"\n',
    "loader/slab_view.h": TAG, "include/millrace/status.h": TAG +
    '#include <stdint.h>\n#define MR_VERSION "0.1.0"\n', "tests/base/test_error.c": TAG +
    '#include "base/error.h"\n#include <cmocka.h>\n', "dist/gloo/gloo_engine.cc": TAG +
    '#include "base/error.h"\n#include <chrono>\n#include <gloo/context.h>\n',
    "tools/main.c": TAG + "#include <millrace/millrace.h>\n", "examples/shortest.c": TAG +
    "int main(void) { return 0; }\n", "examples/trainer.c": TAG + '#include "trainer.h"\n',
    "examples/trainer.h": TAG, "README.md": "```c\nint main(void) { return 0; }\n```\n",
    "docs/install.md": "`cmake` `b-dev`\n",
    "CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nproject(millrace VERSION 0.1.0)\n",
    "CHANGELOG.md": "# Changes\n\n## 0.1.0, not released\n",
    "bench/figures.txt": "what: speed\nvalue: 1.5\nfrom: bench/results/run.md: | ours | 1.46 |\n"
    "text: is N times as fast\n",
    "bench/results/run.md": "| ours | 1.46 |\n",
    "include/millrace/speed.h": TAG + "/*\n * It is\n * 1.5 times as fast.\n */\n",
    "docs/x.md": "[a](../README.md) [b](#below) [c](https://example.org/x)\n",
    "docs/wide.md": f"| {WIDE} |\n```\n{WIDE}\n```\n\n    {WIDE}\n\na https://a.org/{'x' * 99} b\n",
    "script/test": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
    "build/dropped.c": "no tag, but not part of the tree\n",
    "build-two/dropped.c": "no tag, but not part of the tree\n",
}

# Name of the test, file, its text, words of the finding.
BAD = [
    ("a_room_includes_its_neighbour", "sampler/order.c", TAG + '#include "dataset/catalog.h"\n',
     "sampler/ may not"),
    ("launch_includes_its_neighbour", "dist/launch/launch.c",
     TAG + '#include "dist/rendezvous/a.h"\n', "dist/launch/ may not"),
    ("an_engine_includes_the_group", "dist/mpi/mpi_a.c", TAG + '#include "dist/group/group.h"\n',
     "dist/mpi/ may not"),
    ("a_folder_of_a_room_is_the_room", "transforms/simd/a.c", TAG + '#include "dataset/a.h"\n',
     "transforms/ may not"),
    ("base_includes_the_loader", "base/clock.c", TAG + '#include "loader/slab_view.h"\n',
     "base/ may not"),
    ("the_command_includes_an_internal_header", "tools/list.c", TAG + '#include "base/error.h"\n',
     "tools/ may not"),
    ("a_room_includes_a_test", "base/clock.c", TAG + '#include "tests/support/images.h"\n',
     "base/ may not"),
    ("an_include_is_relative", "base/clock.c", TAG + '#include "error.h"\n',
     "not written from the root"),
    ("an_include_of_an_example_does_not_exist", "examples/a.c", TAG + '#include "error.h"\n',
     '"examples/error.h" does not exist'),
    ("an_include_climbs", "base/clock.c", TAG + '#include "../base/error.h"\n',
     "not written from the root"),
    ("an_include_does_not_exist", "base/clock.c", TAG + '#include "base/gone.h"\n',
     "does not exist"),
    ("a_public_header_is_quoted", "base/clock.c", TAG + '#include "millrace/status.h"\n',
     "<millrace/...>"),
    ("a_file_is_opened_by_name", "dataset/a.c", TAG + "int fd = open(path, O_RDONLY);\n",
     "mr_regular_file_open()"),
    ("a_stream_is_opened_by_name", "sampler/a.c", TAG + 'FILE *file = fopen(path, "re");\n',
     "mr_regular_file_open()"),
    ("liburing_is_seen_twice", "loader/run.c", TAG + "#include <liburing.h>\n",
     "dataset/reader/reader_uring.c only"),
    ("libjpeg_is_seen_by_the_loader", "loader/run.c", TAG + "#include <jpeglib.h>\n", "only"),
    ("xxhash_is_seen_by_the_sampler", "sampler/keyed.c", TAG + "#  include <xxhash.h>\n",
     "base/xxh3.c and transforms/simd/xxh3_avx2.c only"),
    ("an_unknown_library_comes_in", "base/clock.c", TAG + "#include <uv.h>\n", "in no table"),
    ("a_cplusplus_file_sees_an_unknown_library", "dist/gloo/gloo_a.cc", TAG + "#include <uv.h>\n",
     "in no table"),
    ("a_cplusplus_file_includes_its_neighbour", "dist/gloo/gloo_a.hh",
     TAG + '#include "loader/slab_view.h"\n', "dist/gloo/ may not"),
    ("a_cplusplus_header_is_seen_by_c", "dist/group/group.c", TAG + "#include <chrono>\n",
     "in no table"), ("a_room_is_written_in_cplusplus", "loader/run.cc", TAG, "C++ outside"),
    ("the_licence_tag_of_cplusplus_is_missing", "dist/gloo/gloo_a.cc", "int x;\n", "licence tag"),
    ("the_licence_tag_of_a_kernel_is_missing", "dist/nccl/nccl_a.cu", "int x;\n", "licence tag"),
    ("a_test_library_is_used_outside_tests", "base/clock.c", TAG + "#include <cmocka.h>\n", "only"),
    ("a_public_header_includes_a_system_header", "include/millrace/b.h",
     TAG + "#include <stdio.h>\n", "public header"),
    ("a_public_header_includes_a_room", "include/millrace/b.h", TAG + '#include "base/error.h"\n',
     "public header"),
    ("a_header_includes_itself_by_another", "loader/slab_view.h",
     TAG + '#include "loader/workers/worker.h"\n', "a circle of includes: loader/"),
    ("two_files_have_one_name", "loader/error.c", TAG, "is also base/error.c"),
    ("the_licence_tag_is_missing", "base/clock.c", "int x;\n", "licence tag"),
    ("the_licence_tag_of_a_script_is_missing", "script/test", "#!/bin/sh\n", "licence tag"),
    ("a_file_is_long", "base/clock.c", TAG + "\n" * 660, "above 660"),
    ("work_is_left_over", "base/clock.c", TAG + "/* TO"
     "DO: more */\n", "unfinished"),
    ("a_comment_is_wide", "base/clock.c", TAG + f"/* {WIDE} */\n", "clock.c:2: 107 columns"),
    ("a_script_is_wide", "script/test", HASH + WIDE + "\n", "script/test:3: 101 columns"),
    ("a_paragraph_is_wide", "docs/y.md", f"a\n{WIDE}\n", "docs/y.md:2: 101 columns"),
    ("a_word_is_compared_by_the_locale", "dataset/spec.c", TAG + "int x = strcasecmp(a, b);\n",
     "locale"),
    ("a_worker_reaches_the_process_group", "loader/slab_view.h",
     TAG + '#include "dist/group/group.h"\n', "a worker reaches dist/group/group.h"),
    ("a_worker_reaches_a_public_header_of_the_group", "loader/slab_view.h",
     TAG + "#include <millrace/metrics.h>\n", "a worker reaches millrace/metrics.h"),
    ("a_worker_reaches_the_process_group_by_a_source", "loader/slab_view.c",
     TAG + '#include "dist/group/group.h"\n', "a worker reaches dist/group/group.h"),
    ("a_worker_reaches_cuda", "base/error.h", TAG + "#include <cuda_runtime.h>\n",
     "a worker reaches cuda_runtime.h"),
    ("the_readme_shows_other_code", "examples/shortest.c", TAG + "int main(void) { return 1; }\n",
     "does not show"),
    ("the_example_is_long", "examples/shortest.c", TAG + "\n" * 30, "more than 30"),
    ("the_readme_is_long", "README.md",
     "```c\nint main(void) { return 0; }\n```\n" + "word " * 1500, "more than 1500 words"),
    ("the_page_lacks_a_package_of_setup", "script/setup",
     HASH + "packages='cmake a-dev|b-dev\n  libc-dev'\n", "libc-dev, which"),
    ("the_page_lacks_a_package_of_the_build", "cmake/A.cmake",
     HASH + 'say("left out (package d-dev)")\n', "does not name d-dev"),
    ("a_merge_is_left_over", "docs/design.md", "a\n<<<<<<< HEAD\nb\n", "a mark of a merge"),
    ("a_link_is_dead", "docs/design.md", "see [formats](formats.md#lists)\n", "leads nowhere"),
    ("a_page_has_another_figure", "docs/y.md", "a\n\nIt is 1.48\ntimes as fast.\n",
     "docs/y.md:3: 1.48 in 'is N times as fast' is 1.5 in bench/figures.txt"),
    ("a_header_has_another_figure", "include/millrace/speed.h",
     TAG + "/*\n * It is\n * 2 times as fast.\n */\n", "speed.h:4: 2 in"),
    ("a_figure_is_on_no_page", "include/millrace/speed.h", TAG,
     "'is N times as fast' is on no page"),
    ("a_figure_was_not_measured", "bench/results/run.md", "| ours | 1.40 |\n",
     "does not have | ours | 1.46 |"),
    ("the_versions_differ", "CHANGELOG.md", "## 0.2.0\n", "names version 0.2.0"),
]


def write_tree(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        if path.startswith("script/"):
            os.chmod(full, 0o755)


def findings_with(changes):
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, {**GOOD, **changes})
        return lint.lint(root)


class LintFinds(unittest.TestCase):
    def test_nothing_in_a_good_tree(self):
        self.assertEqual(findings_with({}), [])

    def test_a_script_that_is_not_executable(self):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, GOOD)
            os.chmod(os.path.join(root, "script/test"), 0o644)
            self.assertEqual(lint.lint(root), ["script/test:1: not executable"])


    def test_a_folder_with_many_sources(self):
        many = {f"loader/part_{i}.c": TAG for i in range(lint.MAX_SOURCES)}
        self.assertEqual(
            findings_with({**many, **{f"tests/loader/a_{i}.c": TAG for i in range(99)}}),
            ["loader:1: 65 source files, above 64"])


# Who reaches what: the header of a file, a header that includes it, a test's rig, and a function
# that only its room sees.
REACH = {
    "dataset/catalog.h": TAG + "int mr_catalog_count(void);\n", "dataset/catalog.c": TAG +
    '#include "dataset/catalog.h"\nint mr_catalog_count(void)\n{\n    return 1;\n}\n',
    "dataset/reader.h": TAG + '#include "dataset/catalog.h"\nint mr_reader_read(void);\n',
    "dataset/reader.c": TAG + '#include "dataset/reader_impl.h"\nint mr_reader_read(void)\n{\n}\n',
    "dataset/reader_impl.h": TAG + "extern const struct ops mr_reader_slow;\n",
    "dataset/reader_slow.c": TAG + "const struct ops mr_reader_slow = {0};\n",
    "tests/dataset/test_catalog.c": TAG + '#include "dataset/catalog.h"\n',
    "tests/dataset/tree.h": TAG, "tests/dataset/tree.c": TAG + '#include "dataset/reader.h"\n',
    "tests/dataset/test_tree.c": TAG + '#include "tests/dataset/tree.h"\n',
    "tests/base/test_other.c": TAG + '#include "base/error.h"\n',
}


class TestsOfAFile(unittest.TestCase):
    def reach(self, path):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**GOOD, **REACH})
            return lint.tests_of(root, path)

    def test_the_nearest_come_first(self):
        both = ["tests/dataset/test_catalog.c", "tests/dataset/test_tree.c"]
        self.assertEqual(self.reach("dataset/catalog.c"), both)
        self.assertEqual(self.reach("dataset/catalog.h"), both)

    def test_a_rig_is_looked_through(self):
        self.assertEqual(self.reach("dataset/reader.c"), ["tests/dataset/test_tree.c"])

    def test_what_only_its_room_sees_has_the_tests_of_its_users(self):
        self.assertEqual(self.reach("dataset/reader_slow.c"), ["tests/dataset/test_tree.c"])

    def test_nothing_reaches_a_program(self):
        self.assertEqual(self.reach("tools/main.c"), [])


class PatternsMatch(unittest.TestCase):
    def test_a_pattern_that_matches_nothing_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, GOOD)
            found = lint.stale_patterns(root)
        self.assertIn("tests/lint/lint.py:1: base/cpu.c matches no file", found)
        self.assertFalse(any("dataset/reader/reader_uring.c" in f for f in found))


def add_case(name, path, text, words):
    def case(self):
        found = findings_with({path: text})
        self.assertTrue(any(words in f for f in found), f"no finding with {words!r} in {found}")

    setattr(LintFinds, f"test_{name}", case)


for bad in BAD:
    add_case(*bad)

if __name__ == "__main__":
    unittest.main()
