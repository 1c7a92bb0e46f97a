# SPDX-License-Identifier: Apache-2.0
"""Pieces of script/wheel, without the network: check_wheel.py finds each fault of wheels that are
made up here, and the versions agree. The environment has CC.
"""
import os
import re
import shutil
import subprocess
import zipfile

import pytest

import check_wheel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "millrace-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
LIBRARY_TEXT = "const char *mr_folder(void) { return \"%s\"; } %s"


@pytest.fixture
def build(tmp_path):
    """Compiles a text, and returns the path of the result."""
    def compile_text(name, text, *arguments):
        subprocess.run([
            os.environ["CC"], "-x", "c", "-", "-x", "none", "-o", tmp_path / name, *arguments
        ],
                       input=text,
                       text=True,
                       check=True)
        return tmp_path / name

    if not all(shutil.which(tool) for tool in ("nm", "readelf")):
        pytest.skip("binutils are missing")
    if os.uname().machine != "x86_64":
        pytest.skip("the wheel is for x86_64")
    return compile_text


@pytest.fixture
def make_library(build):
    def make(folder="", more="", *arguments):
        return build("library.so", LIBRARY_TEXT % (folder, more), "-shared", "-fPIC", *arguments)

    return make


@pytest.fixture
def make_helper(build):
    def make(*arguments):
        return build("helper", "void _start(void) { for (;;) ; }", "-nostdlib", *arguments)

    return make


@pytest.fixture
def find(make_library, make_helper, tmp_path):
    """What is found in a wheel with these files. The library also plays the command."""
    def run(library=None, helper=None, leave_out=(), more=(), name=NAME):
        library = library or make_library()
        files = {check_wheel.LIBRARY: library, check_wheel.COMMAND: library,
                 check_wheel.HELPER: helper or make_helper("-static")}
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for where, path in files.items():
                if where not in leave_out:
                    archive.write(path, where)
            for where in ("millrace/__init__.py", "millrace/py.typed", "millrace/licenses/zlib.txt",
                          *more):
                archive.writestr(where, "")
        return list(check_wheel.check_wheel(str(tmp_path / name), ["/built/here"]))

    return run


def test_a_good_wheel_has_no_findings(find):
    assert find() == []


def test_a_symbol_of_another_library_is_found(find, make_library):
    assert f"{check_wheel.LIBRARY} exports jpeg_read_header" in find(
        make_library("", "void jpeg_read_header(void) {}"))


def test_a_library_that_users_lack_is_found(find, make_library, build):
    other = build("libother.so", "int other(void) { return 1; }", "-shared", "-fPIC",
                  "-Wl,-soname,libother.so.1")
    found = find(make_library("", "", "-Wl,--no-as-needed", other))
    assert f"{check_wheel.LIBRARY} needs libother.so.1" in found


def test_a_younger_glibc_is_found(find, make_library):
    found = find(make_library("", "long time(long *); long mr_now(void) { return time(0); }"),
                 name=NAME.replace("2_28", "2_1"))
    assert f"{check_wheel.LIBRARY} needs GLIBC_2.2.5" in found


def test_a_folder_of_the_build_is_found(find, make_library):
    assert f"{check_wheel.LIBRARY} names the folder /built/here" in find(
        make_library("/built/here/x.c"))


def test_a_dynamic_helper_is_found(find, make_helper):
    assert f"{check_wheel.HELPER} is not static" in find(helper=make_helper("-pie"))


def test_missing_and_foreign_files_are_found(find):
    found = find(leave_out=[check_wheel.COMMAND], more=["millrace/x.pyc", "share/doc"])
    assert f"{check_wheel.COMMAND} is missing" in found
    assert "millrace/x.pyc should not be there" in found
    assert "share/doc should not be there" in found


def test_a_tag_of_one_python_is_found(find):
    assert len(find(name="millrace-0.1.0-cp311-cp311-linux_x86_64.whl")) == 1


def text_of(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def test_the_wheels_version_is_the_librarys():
    # pyproject.toml is read as text: Python has a reader for it only from 3.11 on.
    project = text_of("pyproject.toml")
    source = re.search(r'^input = "(.*)"$', project, re.M).group(1)
    rule = re.search(r"^regex = '(.*)'$", project, re.M).group(1)
    version = re.search(rule, text_of(source)).group("value")
    assert f'#define MR_VERSION "{version}"' in text_of("include/millrace/status.h")


def test_the_script_is_sound_and_explains_itself():
    script = os.path.join(ROOT, "script", "wheel")
    subprocess.run(["sh", "-n", script], check=True)
    said = subprocess.run([script, "--help"], check=True, capture_output=True, text=True).stdout
    assert "usage: script/wheel" in said
    assert subprocess.run([script, "--what"], check=False, capture_output=True).returncode == 2
