# SPDX-License-Identifier: Apache-2.0
"""Pieces of script/wheel, without the network: check_wheel.py finds each fault of wheels that are made up here, and the
versions agree. The environment has CC."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile

import check_wheel
import support

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "millrace-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
LIBRARY_TEXT = "const char *mr_folder(void) { return \"%s\"; } %s"


@unittest.skipUnless(all(shutil.which(tool) for tool in ("nm", "readelf")), "binutils are missing")
@unittest.skipUnless(os.uname().machine == "x86_64", "the wheel is for x86_64")
class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compile(self, name, text, *arguments):
        path = os.path.join(self.folder, name)
        subprocess.run([os.environ["CC"], "-x", "c", "-", "-x", "none", "-o", path, *arguments], input=text, text=True, check=True)
        return path

    def library(self, folder="", more="", *arguments):
        return self.compile("library.so", LIBRARY_TEXT % (folder, more), "-shared", "-fPIC", *arguments)

    def helper(self, *arguments):
        return self.compile("helper", "void _start(void) { for (;;) ; }", "-nostdlib", *arguments)

    def findings(self, library=None, helper=None, leave_out=(), more=(), name=NAME):
        """Of a wheel with these files; the library stands for the command too."""
        wheel = os.path.join(self.folder, name)
        library = library or self.library()
        files = {check_wheel.LIBRARY: library, check_wheel.COMMAND: library,
                 check_wheel.HELPER: helper or self.helper("-static")}
        with zipfile.ZipFile(wheel, "w") as archive:
            for where, path in files.items():
                if where not in leave_out:
                    archive.write(path, where)
            for where in ("millrace/__init__.py", "millrace/py.typed", "millrace/licenses/zlib.txt", *more):
                archive.writestr(where, "")
        return list(check_wheel.check_wheel(wheel, ["/built/here"]))

    def test_a_good_wheel_has_no_findings(self):
        self.assertEqual(self.findings(), [])

    def test_a_symbol_of_another_library_is_found(self):
        self.assertIn(f"{check_wheel.LIBRARY} exports jpeg_read_header",
                      self.findings(self.library("", "void jpeg_read_header(void) {}")))

    def test_a_library_that_users_lack_is_found(self):
        other = self.compile("libother.so", "int other(void) { return 1; }", "-shared", "-fPIC", "-Wl,-soname,libother.so.1")
        found = self.findings(self.library("", "", "-Wl,--no-as-needed", other))
        self.assertIn(f"{check_wheel.LIBRARY} needs libother.so.1", found)

    def test_a_younger_glibc_is_found(self):
        found = self.findings(self.library("", "long time(long *); long mr_now(void) { return time(0); }"),
                              name=NAME.replace("2_28", "2_1"))
        self.assertIn(f"{check_wheel.LIBRARY} needs GLIBC_2.2.5", found)

    def test_a_folder_of_the_build_is_found(self):
        self.assertIn(f"{check_wheel.LIBRARY} names the folder /built/here", self.findings(self.library("/built/here/x.c")))

    def test_a_dynamic_helper_is_found(self):
        self.assertIn(f"{check_wheel.HELPER} is not static", self.findings(helper=self.helper("-pie")))

    def test_missing_and_foreign_files_are_found(self):
        found = self.findings(leave_out=[check_wheel.COMMAND], more=["millrace/x.pyc", "share/doc"])
        self.assertIn(f"{check_wheel.COMMAND} is missing", found)
        self.assertIn("millrace/x.pyc should not be there", found)
        self.assertIn("share/doc should not be there", found)

    def test_a_tag_of_one_python_is_found(self):
        self.assertEqual(len(self.findings(name="millrace-0.1.0-cp311-cp311-linux_x86_64.whl")), 1)


class PiecesTest(unittest.TestCase):
    def text(self, name):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            return file.read()

    def test_the_wheels_version_is_the_librarys(self):
        # pyproject.toml is read as text: Python has a reader for it only from 3.11 on.
        project = self.text("pyproject.toml")
        source = re.search(r'^input = "(.*)"$', project, re.M).group(1)
        rule = re.search(r"^regex = '(.*)'$", project, re.M).group(1)
        version = re.search(rule, self.text(source)).group("value")
        self.assertIn(f'#define MR_VERSION "{version}"', self.text("include/millrace/status.h"))

    def test_the_script_is_sound_and_explains_itself(self):
        script = os.path.join(ROOT, "script", "wheel")
        subprocess.run(["sh", "-n", script], check=True)
        said = subprocess.run([script, "--help"], check=True, capture_output=True, text=True).stdout
        self.assertIn("usage: script/wheel", said)
        self.assertEqual(subprocess.run([script, "--what"], check=False, capture_output=True).returncode, 2)


if __name__ == "__main__":
    support.main()
