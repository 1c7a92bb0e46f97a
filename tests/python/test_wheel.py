# SPDX-License-Identifier: Apache-2.0
"""Pieces of script/wheel and script/release-wheel, without the network: check_wheel.py finds each
fault of wheels that are made up here, the versions agree, and a release is only ready if its tree
and its packages are. The environment has CC.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import check_wheel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "millrace-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
LIBRARY_TEXT = "const char *mr_folder(void) { return \"%s\"; } %s"
FEATURES_TEXT = f'const char *mr_features(void) {{ return "{check_wheel.FEATURES.decode()}"; }}'


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
    def make(folder="", more="", *arguments, features=FEATURES_TEXT):
        return build("library.so", LIBRARY_TEXT % (folder, more + features), "-shared", "-fPIC",
                     *arguments)

    return make


@pytest.fixture
def make_helper(build):
    def make(*arguments):
        return build("helper", "void _start(void) { for (;;) ; }", "-nostdlib", *arguments)

    return make


@pytest.fixture
def find(make_library, make_helper, tmp_path):
    """What is found in a wheel with these files. The library also plays the dynamic programs."""
    def run(library=None, helper=None, leave_out=(), more=(), name=NAME):
        library = library or make_library()
        files = {check_wheel.LIBRARY: library, check_wheel.COMMAND: library,
                 check_wheel.REMOTE_HELPER: library,
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


def test_a_feature_that_is_missing_is_found(find, make_library):
    found = find(make_library(features=FEATURES_TEXT.replace("coco", "")))
    assert f"{check_wheel.LIBRARY} lacks one of the features" in found[0]


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


@pytest.mark.parametrize("name", ["wheel", "release-wheel"])
def test_the_script_is_sound_and_explains_itself(name):
    script = os.path.join(ROOT, "script", name)
    subprocess.run(["sh", "-n", script], check=True)
    said = subprocess.run([script, "--help"], check=True, capture_output=True, text=True).stdout
    assert f"usage: script/{name}" in said
    assert subprocess.run([script, "--what"], check=False, capture_output=True).returncode == 2


class Release:
    """A small tree with a tag, and packages of it. twine is a program that always agrees."""
    def __init__(self, root, wheel):
        self.root = root
        self.dist = root / "build" / "wheel" / "dist"
        self.wheel = self.dist / wheel.name
        self.sdist = self.dist / "millrace-0.1.0.tar.gz"
        files = ["CMakeLists.txt", "pyproject.toml", ".gitignore", "script/release-wheel",
                 "tests/python/check_wheel.py"]
        for name in files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), root / name)
        programs = root / "build" / "wheel" / "venv" / "bin"
        programs.mkdir(parents=True)
        (programs / "python").symlink_to(sys.executable)
        self.set_twine("exit 0")
        self.dist.mkdir()
        shutil.copy(wheel, self.wheel)
        with tarfile.open(self.sdist, "w:gz") as archive:
            for name in files:
                archive.add(root / name, f"millrace-0.1.0/{name}")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "all")
        self.git("tag", "v0.1.0")

    def set_twine(self, text):
        twine = self.root / "build" / "wheel" / "venv" / "bin" / "twine"
        twine.write_text(f"#!/bin/sh\necho \"twine $1\"\n{text}\n")
        twine.chmod(0o755)

    def git(self, *arguments):
        person = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
        subprocess.run(["git", *person, *arguments], cwd=self.root, check=True,
                       env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})

    def run(self):
        return subprocess.run([self.root / "script" / "release-wheel"], check=False,
                              capture_output=True, text=True)


@pytest.fixture
def release(find, tmp_path):
    if not shutil.which("git"):
        pytest.skip("git is missing")
    assert find() == []
    return Release(tmp_path / "tree", tmp_path / NAME)


def test_a_release_that_is_ready_is_described_and_not_uploaded(release):
    result = release.run()
    assert result.returncode == 0, result.stderr
    for path in release.wheel, release.sdist:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert f"{digest}  {path.name}" in result.stdout
        assert f"{path.stat().st_size} {path.name}" in result.stdout
    assert [line for line in result.stdout.splitlines() if line.startswith("twine ")
            ] == ["twine check"]
    assert result.stdout.endswith(f"/twine upload '{release.wheel}' '{release.sdist}'\n")


def change_the_tree(release):
    (release.root / "CMakeLists.txt").open("a").write("# more\n")


def commit_more(release):
    change_the_tree(release)
    release.git("commit", "-q", "-a", "-m", "more")


def raise_the_version(release):
    path = release.root / "CMakeLists.txt"
    path.write_text(path.read_text().replace("VERSION 0.1.0", "VERSION 0.2.0"))


def spoil_the_wheel(release):
    with zipfile.ZipFile(release.wheel, "a") as archive:
        archive.writestr("share/doc", "")


@pytest.mark.parametrize("fault, words", [
    (change_the_tree, "the tree has changes that are not committed"),
    (commit_more, "the commit has no tag v0.1.0"),
    (commit_more, "CMakeLists.txt differs from the tree"),
    (raise_the_version, "has no wheel and source package of millrace 0.2.0"),
    (spoil_the_wheel, "check_wheel.py rejects the wheel"),
    (lambda release: release.sdist.unlink(), "has no wheel and source package of millrace 0.1.0"),
    (lambda release: (release.dist / "old.whl").touch(), "has another file: old.whl"),
    (lambda release: release.set_twine("exit 1"), "twine rejects the packages"),
])
def test_a_release_that_is_not_ready_has_no_command(release, fault, words):
    fault(release)
    result = release.run()
    assert result.returncode == 1
    assert words in result.stderr
    assert "upload" not in result.stdout
