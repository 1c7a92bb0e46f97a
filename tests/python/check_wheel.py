#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What must hold of a wheel: check_wheel.py WHEEL FOLDER... prints what does not, and exits 1.

The wheel has the package, one library that has all FEATURES, exports nothing but mr_* and needs
nothing but the C library (its version by the wheel's tag), the command, a static worker helper and
one that can open libcurl, and licences. No program in it names a FOLDER, which are those that it
was built in. Needs binutils.
"""
import os
import re
import subprocess
import sys
import tempfile
import zipfile

MAX_BYTES = 15_000_000
LIBRARY = "millrace/lib/libmillrace.so.0"
COMMAND = "millrace/bin/millrace"
HELPER = "millrace/libexec/millrace/millrace-worker"
REMOTE_HELPER = f"{HELPER}-remote"
FEATURES = b"io_uring jpeg png bmp ppm tiff webp voc coco libdeflate "
# The parts of the C library. Everything else would have to be on the user's machine.
MAY_NEED = {
    "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"
}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_program(path, name, glibc):
    """A shared library or a dynamic program."""
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path)):
        if library not in MAY_NEED:
            yield f"{name} needs {library}"
    versions = {
        tuple(map(int, v.split(".")))
        for v in re.findall(r"@GLIBC_([0-9.]+)", run("nm", "-D", path))
    }
    for version in sorted(v for v in versions if v > glibc):
        yield f"{name} needs GLIBC_{'.'.join(map(str, version))}"


def check_exports(path):
    for line in run("nm", "-D", "--defined-only", path).splitlines():
        symbol = line.split()[-1].split("@")[0]
        if not symbol.startswith(("mr_", "MILLRACE_")):
            yield f"{LIBRARY} exports {symbol}"


def check_helper(path):
    if "INTERP" in run("readelf", "-lW", path):
        yield f"{HELPER} is not static"


def check_names(names):
    for name in (LIBRARY, COMMAND, HELPER, REMOTE_HELPER, "millrace/__init__.py",
                 "millrace/py.typed"):
        if name not in names:
            yield f"{name} is missing"
    if not any(name.startswith("millrace/licenses/") for name in names):
        yield "millrace/licenses is missing"
    for name in names:
        if not re.match(r"(millrace|\w+-[0-9.]+\.dist-info)/", name) or name.endswith(
            (".pyc", ".a", ".h")):
            yield f"{name} should not be there"


def glibc_of(wheel):
    """The glibc of the wheel's tag, as (2, 28)."""
    match = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_x86_64\.whl$", wheel)
    return tuple(map(int, match.groups())) if match else None


def check_wheel(wheel, folders):
    glibc = glibc_of(wheel)
    if not glibc:
        yield f"{os.path.basename(wheel)} has another tag than py3-none-manylinux_*_x86_64"
        return
    if os.path.getsize(wheel) > MAX_BYTES:
        yield f"{os.path.getsize(wheel)} bytes, {MAX_BYTES} are allowed"
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        yield from check_names(names)
        for name in {LIBRARY, COMMAND, HELPER, REMOTE_HELPER} & set(names):
            content = archive.read(name)
            path = archive.extract(name, folder)
            for built in folders:
                if built.encode() in content:
                    yield f"{name} names the folder {built}"
            if name != LIBRARY and not archive.getinfo(name).external_attr >> 16 & 0o100:
                yield f"{name} is not executable"
            yield from check_helper(path) if name == HELPER else check_program(path, name, glibc)
            if name == LIBRARY:
                yield from check_exports(path)
                if FEATURES not in content:
                    yield f"{name} lacks one of the features {FEATURES.decode()}"


def main():
    findings = list(check_wheel(sys.argv[1], sys.argv[2:]))
    for finding in findings:
        print(f"check_wheel: {finding}")
    print(
        f"{os.path.basename(sys.argv[1])}: {os.path.getsize(sys.argv[1])} bytes, "
        f"{len(findings)} findings"
    )
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
