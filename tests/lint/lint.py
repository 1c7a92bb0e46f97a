#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold the rules of the tree that a compiler does not see: lint.py ROOT prints findings and exits 1
if there are any. lint.py ROOT --tests-of FILE prints the tests that reach FILE.

The rooms and who may include whom are the table ROOMS; outside libraries and the only files that
may see them are the table OUTSIDE. A header in neither table is a finding, so a new dependency
cannot come in unnoticed.
"""

import collections
import fnmatch
import os
import re
import sys

MAX_LINES = 660
MAX_SOURCES = 64  # in one folder; past that, look for the second room in it
MAX_COLUMNS = 100
# Numbers that a program writes, goldens with one case a line, and results as they were printed.
MAY_BE_WIDE = ["base/normal_table.c", "tests/install/test_halves.sh", "bench/results/*"]

# Room: the rooms, or single headers, that it may include beside its own. Public headers are open to
# all. A folder of a room that is not named here (transforms/simd) is part of that room.
ENGINE = {"base", "dist/group/engine_table.h"}
ROOMS = {
    "base": set(),
    "sampler": {"base"},
    "dataset": {"base"},
    "transforms": {"base"},
    "pinned": {"base"},
    "packs": {"base", "sampler", "dataset", "transforms"},
    "cache": {"base", "dataset", "transforms", "packs"},
    "loader": {"base", "sampler", "dataset", "transforms", "pinned", "packs", "cache"},
    "dist/rendezvous": {"base"},
    "dist/launch": {"base"},
    "dist/group": {"base", "dist/rendezvous"},
    "dist/gloo": ENGINE,
    "dist/mpi": ENGINE,
    "dist/nccl": ENGINE | {"pinned/cuda_call.h", "pinned/cuda_find.h"},
    "tools": set(),
    "examples": set(),
}
# These look at every room from outside and no room may include them.
OBSERVERS = {"tests", "bench"}

# Header pattern: the files that may include it.
OUTSIDE = {
    "liburing.h": ["dataset/reader/reader_uring.c"],
    "jpeglib.h": [
        "transforms/codec_jpeg*.c", "packs/packer_jpeg*.c", "transforms/jpeg_box.*",
        "transforms/jpeg_file.*", "transforms/jpeg/scan_file.*",
        "transforms/image_ops/image_jpeg.c", "examples/make_patches.c",
    ],
    "jerror.h": [
        "transforms/codec_jpeg*.c", "packs/packer_jpeg*.c", "transforms/packed_header.c",
        "transforms/jpeg_box.*", "transforms/jpeg_file.*", "transforms/image_ops/image_jpeg.c",
        "examples/make_patches.c",
    ],
    "png.h": ["transforms/codec_png.c", "packs/packer_png.c"],
    "webp/decode.h": ["transforms/formats/codec_webp.c"],
    "webp/demux.h": ["transforms/formats/codec_webp.c"],
    "zlib.h": ["sampler/position.c", "transforms/codec_png.c"],
    "libdeflate.h": ["transforms/masks/mask_inflate.c"],
    "tiffio.h": ["transforms/formats/tiff_file.c"],
    "gd*.h": ["tools/sheet.c"],
    "curl/curl.h": ["dataset/remote/curl_api.h"],
    "expat.h": ["dataset/annotations/voc_xml.c", "dataset/remote/listing/listing_xml.c"],
    "yajl_*.h": [
        "dataset/annotations/coco_json.c", "dataset/remote/stores/key_json.c",
        "dataset/tokens/mds_json.c",
    ],
    "xxhash.h": ["base/xxh3.c", "transforms/simd/xxh3_avx2.c"],
    "cpuid.h": ["base/cpu.c"],
    "simde/*": ["transforms/simd/simd_avx2.h"],
    "cuda*": [
        "pinned/*cuda*", "dist/nccl/*", "examples/convnet_*", "examples/gpu_batch.c",
        "examples/graph_batch.c", "examples/model_parallel.c", "examples/multi_gpu.c",
    ],
    "nvtx3/*": ["pinned/cuda_range.c"],
    "nccl.h": ["dist/nccl/*"],
    "dlpack/*": [],
    "gloo/*": ["dist/gloo/*"],
    "mpi.h": ["dist/mpi/*"],
    "cblas.h": ["examples/convnet_host.c"],
    "cublas*": ["examples/convnet_*"],
    "jansson.h": ["tools/measure/bench_json.c"],
    "archive*.h": [],
    "cmocka.h": [],
    "seccomp.h": [],
}

# What a worker runs begins here.
WORKERS = ["loader/workers/*.c"]
# Headers that it must not reach.
NOT_IN_WORKERS = ["dist/*", "*cuda*"] + [
    f"millrace/{name}.h" for name in ("dist", "group", "launch", "metrics", "run")
]

PUBLIC_MAY_INCLUDE = {"stddef.h", "stdint.h", "stdbool.h"}

SYSTEM = set("""
    assert.h ctype.h errno.h fenv.h float.h inttypes.h limits.h locale.h math.h setjmp.h signal.h
    stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h
    string.h strings.h tgmath.h threads.h time.h
    argp.h dirent.h dlfcn.h endian.h err.h execinfo.h fcntl.h fnmatch.h ftw.h getopt.h glob.h grp.h
    immintrin.h ifaddrs.h libgen.h link.h netdb.h poll.h pthread.h pwd.h sched.h search.h
    semaphore.h spawn.h sysexits.h syscall.h termios.h ucontext.h unistd.h wordexp.h
    """.split())
SYSTEM_FOLDERS = ("sys/", "linux/", "asm/", "netinet/", "arpa/", "net/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
CPLUSPLUS = (".cc", ".hh")
HEADER = (".h", ".hh")
CODE = (".c", ".h", ".S", ".cu", ".cuh") + CPLUSPLUS
# <atomic> and the like: a header of the C++ library has no dot in its name.
CPLUSPLUS_HEADER = re.compile(r"^[a-z_]+$")
# The library itself is C; these modules are opened only if a program asks for them.
MAY_BE_CPLUSPLUS = ("dist/gloo/*", "tests/*", "bench/*")
HASH_COMMENT = (".cmake", ".py", ".awk", ".sh", "CMakeLists.txt")
# In a Turkish locale "I" and "i" are different letters. The programs in tools/ never set a locale.
LOCALE_CASE = re.compile(r"^[^/*]*\b(strn?casecmp|tolower|toupper)\([^)]")
NO_LOCALE = set(ROOMS) - {"tools", "examples"}
# A user's name may be that of a FIFO, whose opening waits. Only folders and new files are opened
# without that function.
OPENED = re.compile(r"(?<![\w.>])(open|openat|fopen)\(")
OPENED_RIGHTLY = re.compile(r"O_DIRECTORY|O_EXCL")
NAMED_BY_USERS = {"base", "sampler", "dataset", "packs", "cache"}
# The function itself, and files of /proc and /sys.
OPENS = ["base/regular_file.c", "base/cpu_share.c", "base/elapsed.c"]
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")

Include = collections.namedtuple("Include", "line name quoted")


def tree_files(root):
    """Paths relative to root, without build folders, hidden folders other than .ci, golden files
    and corpora.
    """
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            f for f in folders
            if not os.path.islink(os.path.join(folder, f)) and f != "__pycache__"
            and not f.startswith("build") and (not f.startswith(".") or f == ".ci")
        )
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if not path.startswith("tests/data/") and not path.startswith("tests/fuzz/corpus/"):
                yield path


def read_lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def is_script(path):
    return path.startswith(("script/", ".ci/"))


def is_code(path):
    return path.endswith(CODE)


def room_of(path):
    """The room of ROOMS that contains path, "dist/gloo" for dist/gloo/gloo_mesh.cc; otherwise its
    first folder.
    """
    parts = path.split("/")
    two = "/".join(parts[:2])
    return two if two in ROOMS else parts[0]


def includes_of(root, path):
    """Names are written from the root, except in examples/, which users copy: there a plain name is
    of that folder.
    """
    found = []
    for number, line in enumerate(read_lines(root, path), 1):
        match = INCLUDE.match(line)
        if match and match.group(1) and room_of(path) == "examples" and "/" not in match.group(1):
            found.append(Include(number, "examples/" + match.group(1), True))
        elif match:
            found.append(
                Include(number,
                        match.group(1) or match.group(2),
                        match.group(1) is not None))
    return found


def check_quoted(root, path, include, report):
    """An include from the root: shows its room, exists, and is an edge of the table."""
    room, target = room_of(path), room_of(include.name)
    if "/" not in include.name or include.name.startswith("."):
        report(path, include.line, f'"{include.name}" is not written from the root')
        return
    if target == "millrace" or target == "include":
        report(path, include.line,
               f'"{include.name}": public headers are included as <millrace/...>')
        return
    allowed = ROOMS.get(room, set())
    if room in OBSERVERS:
        known = target in ROOMS or target in OBSERVERS
    else:
        known = target == room or target in allowed or include.name in allowed
    if not known:
        report(path, include.line, f'{room}/ may not include "{include.name}"')
    elif not os.path.exists(os.path.join(root, include.name)):
        report(path, include.line, f'"{include.name}" does not exist')


def check_angled(path, include, report):
    name, room = include.name, room_of(path)
    if name.startswith("millrace/") or name in SYSTEM or name.startswith(SYSTEM_FOLDERS):
        return
    if room in OBSERVERS or (path.endswith(CPLUSPLUS) and CPLUSPLUS_HEADER.match(name)):
        return
    for pattern, allowed in OUTSIDE.items():
        if fnmatch.fnmatch(name, pattern):
            if not any(fnmatch.fnmatch(path, a) for a in allowed):
                where = " and ".join(allowed) or "tests/ and bench/"
                report(path, include.line, f"<{name}> is seen by {where} only")
            return
    report(path, include.line, f"<{name}> is in no table of tests/lint/lint.py")


def check_public(path, include, report):
    if include.quoted or not (include.name in PUBLIC_MAY_INCLUDE
                              or include.name.startswith("millrace/")):
        report(path, include.line, f"a public header may not include {include.name}")


def check_includes(root, files, report):
    for path in files:
        if not is_code(path):
            continue
        for include in includes_of(root, path):
            if path.startswith("include/"):
                check_public(path, include, report)
            elif include.quoted:
                check_quoted(root, path, include, report)
            else:
                check_angled(path, include, report)


def check_workers(root, files, report):
    """What runs in a worker reaches neither the process group nor CUDA through any chain of
    includes. A header stands for its .c file too.
    """
    pending = [p for p in files if any(fnmatch.fnmatch(p, w) for w in WORKERS)]
    came_from = {p: None for p in pending}
    while pending:
        path = pending.pop()
        for include in includes_of(root, path):
            if any(fnmatch.fnmatch(include.name, f) for f in NOT_IN_WORKERS):
                report(path, include.line,
                       f"a worker reaches {include.name} through {chain(came_from, path)}")
            elif include.quoted:
                for name in (include.name, os.path.splitext(include.name)[0] + ".c"):
                    if name not in came_from and os.path.exists(os.path.join(root, name)):
                        came_from[name] = path
                        pending.append(name)


def chain(came_from, path):
    steps = []
    while path:
        steps.append(path)
        path = came_from[path]
    return " <- ".join(steps)


def check_circles(root, files, report):
    """Files of the rooms do not include each other in circles. A header and its source are one; so
    is x_impl.h with x.c.
    """
    def unit(path):
        return os.path.splitext(path)[0].removesuffix("_impl")

    edges = {}
    for path in files:
        if is_code(path) and room_of(path) in ROOMS and room_of(path) != "examples":
            targets = edges.setdefault(unit(path), {})
            for include in includes_of(root, path):
                if include.quoted and unit(include.name) != unit(path):
                    targets.setdefault(unit(include.name), (path, include.line))
    ended = set()

    def walk(name, way):
        for target, (path, line) in edges.get(name, {}).items():
            if target in way:
                report(path, line,
                       "a circle of includes: " + " -> ".join(way[way.index(target):] + [target]))
            elif target not in ended:
                walk(target, way + [target])
        ended.add(name)

    for name in sorted(edges):
        if name not in ended:
            walk(name, [name])


def check_names(files, report):
    """One name, one file: a function mr_<file>_<verb> names the file to open."""
    seen = {}
    for path in files:
        if not is_code(path) or path.startswith("include/"):
            continue
        name = os.path.basename(path)
        if name in seen:
            report(path, 1, f"the name {name} is also {seen[name]}")
        seen.setdefault(name, path)


def check_folders(files, report):
    """No folder is too large to read its listing. tests/ follows the rooms, and several tests may
    reach one file.
    """
    counts = collections.Counter(
        os.path.dirname(p) for p in files if is_code(p) and not p.startswith("tests/"))
    for folder, n in sorted(counts.items()):
        if n > MAX_SOURCES:
            report(folder, 1, f"{n} source files, above {MAX_SOURCES}")


def check_text(root, files, report):
    for path in files:
        hashed = path.endswith(HASH_COMMENT) or is_script(path)
        if not is_code(path) and not hashed:
            continue
        lines = read_lines(root, path)
        if is_code(path):
            if not lines or lines[0] != "/* SPDX-License-Identifier: Apache-2.0 */":
                report(path, 1, "the first line is not the licence tag")
        elif "# SPDX-License-Identifier: Apache-2.0" not in lines[:2]:
            report(path, 1, "the licence tag is not in the first two lines")
        if len(lines) > MAX_LINES:
            report(path, len(lines), f"{len(lines)} lines, above {MAX_LINES}")
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                report(path, number, "a tab")
            if UNFINISHED.search(line):
                report(path, number, "unfinished work is marked here")
            if LOCALE_CASE.search(line) and room_of(path) in NO_LOCALE:
                report(path, number, "asks the program's locale; base/words.h does not")


def may_be_wide(line):
    """No space before the limit to break at, or a URL crosses it."""
    start = line.rfind(" ", 0, MAX_COLUMNS + 1) + 1
    return not line[:start].strip(" #*/") or "://" in line[start:].split(" ")[0]


def check_width(root, files, report):
    """Code and prose end at one column. Tables, images and quoted code of a document do not."""
    for path in files:
        document = path.endswith(".md")
        if not (document or is_code(path) or is_script(path) or path.endswith(HASH_COMMENT)):
            continue
        if any(fnmatch.fnmatch(path, p) for p in MAY_BE_WIDE):
            continue
        fenced = False
        for number, line in enumerate(read_lines(root, path), 1):
            if document:
                fenced ^= line.lstrip().startswith("```")
                if fenced or line.startswith(("    ", "![")) or line.lstrip().startswith("|"):
                    continue
            if len(line) > MAX_COLUMNS and not may_be_wide(line):
                report(path, number, f"{len(line)} columns, above {MAX_COLUMNS}")


def check_opened(root, files, report):
    for path in files:
        if not is_code(path) or room_of(path) not in NAMED_BY_USERS or path in OPENS:
            continue
        lines = read_lines(root, path)
        for number, line in enumerate(lines, 1):
            call = line + " ".join(lines[number:number + 2])
            if (OPENED.search(line) and not OPENED_RIGHTLY.search(call)
                    and not line.lstrip().startswith(("*", "/*"))):
                report(path, number,
                       "a file is opened by name; mr_regular_file_open() refuses what is no file")


def check_language(files, report):
    for path in files:
        if path.endswith(CPLUSPLUS) and not any(fnmatch.fnmatch(path, p) for p in MAY_BE_CPLUSPLUS):
            report(path, 1, "C++ outside " + ", ".join(MAY_BE_CPLUSPLUS))


def check_scripts(root, files, report):
    for path in files:
        if is_script(path):
            if not os.access(os.path.join(root, path), os.X_OK):
                report(path, 1, "not executable")
            if not read_lines(root, path)[0].startswith("#!"):
                report(path, 1, "no #! line")


def fenced_code(lines, language):
    """The blocks between ```language and ```."""
    blocks, block = [], None
    for line in lines:
        if block is None and line.strip() == f"```{language}":
            block = []
        elif block is not None and line.strip() == "```":
            blocks.append(block)
            block = None
        elif block is not None:
            block.append(line)
    return blocks


def check_readme(root, files, report):
    """README shows this whole example, without the licence tag, and both are short."""
    example, limit, most_words = "examples/shortest.c", 30, 1500
    if example not in files or "README.md" not in files:
        return
    code, readme = read_lines(root, example), read_lines(root, "README.md")
    if len(code) > limit:
        report(example, len(code), f"more than {limit} lines")
    if code[1:] not in fenced_code(readme, "c"):
        report("README.md", 1, f"does not show {example} whole, as it is")
    if len(" ".join(readme).split()) > most_words:
        report("README.md", len(readme), f"more than {most_words} words")


def check_needed(root, files, report):
    """docs/install.md names all that the build needs: each package that script/setup installs or
    that CMake reports as missing.
    """
    page = "docs/install.md"
    named = set(re.findall(r"`([^`\s]+)`", "\n".join(read_lines(root,
                                                                page)))) if page in files else None
    for path in files if named is not None else ():
        if path == "script/setup":
            pattern = r"(?:packages|extra)='([^']*)'|--ci\)\s+packages=\"\$packages ([^\"]*)\""
        elif path.endswith((".cmake", "CMakeLists.txt")):
            pattern = r"(?:apt-get install|\(package|, package) ([a-z0-9-]+)"
        else:
            continue
        for match in re.finditer(pattern, "\n".join(read_lines(root, path))):
            for names in " ".join(filter(None, match.groups())).split():
                if not named & set(names.split("|")):
                    report(page, 1, f"does not name {names}, which {path} names")


def check_links(root, files, report):
    """Relative links in the documents lead to something, and no mark of a merge is left in them."""
    for path in files:
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(read_lines(root, path), 1):
            if line.startswith(("<<<<<<< ", ">>>>>>> ")):
                report(path, number, "a mark of a merge")
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", line):
                if not os.path.exists(os.path.join(root, os.path.dirname(path), target)):
                    report(path, number, f"the link {target} leads nowhere")


FIGURES = "bench/figures.txt"
MAY_NAME_FIGURES = (".md", ".h", ".scd", ".py")


def words_of(lines):
    """The text without line breaks and without the marks of comments, and the line of each of its
    characters.
    """
    text, places = "", []
    for number, line in enumerate(lines, 1):
        for word in re.sub(r"^\s*(?:/?\*+|#+)\s", "", line).split():
            text += word + " "
            places += [number] * (len(word) + 1)
    return text, places


def check_figures(root, files, report):
    """A figure is the same on all pages that name it, and is in its page of results."""
    if FIGURES not in files:
        return
    pages = {
        p: words_of(read_lines(root, p)) for p in files
        if p.endswith(MAY_NAME_FIGURES) and not p.startswith(("bench/results/", "tests/lint/"))
    }
    value = None
    for number, line in enumerate(read_lines(root, FIGURES), 1):
        key, _, words = line.partition(": ")
        if key == "value":
            value = words
        elif key == "from":
            source, _, row = words.partition(": ")
            if source not in files or row not in "\n".join(read_lines(root, source)):
                report(FIGURES, number, f"{source} does not have {row}")
        elif key == "text":
            pattern = re.compile(r"([0-9]+(?:[.,][0-9]+)*)".join(
                re.escape(part) for part in re.split(r"\bN\b", words)))
            n_found = 0
            for page, (text, places) in pages.items():
                for match in pattern.finditer(text):
                    n_found += 1
                    if match.group(1) != value:
                        report(page, places[match.start(1)],
                               f"{match.group(1)} in '{words}' is {value} in {FIGURES}")
            if not n_found:
                report(FIGURES, number, f"'{words}' is on no page")


def check_version(root, files, report):
    """CMakeLists.txt, status.h and CHANGELOG.md name one version."""
    def first(path, pattern):
        if path not in files:
            return None
        match = re.search(pattern, "\n".join(read_lines(root, path)), re.MULTILINE)
        return match.group(1) if match else "none"

    version = first("CMakeLists.txt", r"project\(millrace VERSION ([0-9.]+)")
    for path, pattern in (("include/millrace/status.h", r'#define MR_VERSION "([^"]*)"'),
                          ("CHANGELOG.md", r"^## ([0-9.]+)")):
        other = first(path, pattern)
        if None not in (version, other) and other != version:
            report(path, 1, f"names version {other}, CMakeLists.txt {version}")


def lint(root):
    """All findings, as lines "path:line: text"."""
    files = list(tree_files(root))
    findings = []

    def report(path, line, text):
        findings.append(f"{path}:{line}: {text}")

    check_includes(root, files, report)
    check_workers(root, files, report)
    check_circles(root, files, report)
    check_names(files, report)
    check_folders(files, report)
    check_text(root, files, report)
    check_width(root, files, report)
    check_opened(root, files, report)
    check_language(files, report)
    check_scripts(root, files, report)
    check_readme(root, files, report)
    check_needed(root, files, report)
    check_links(root, files, report)
    check_figures(root, files, report)
    check_version(root, files, report)
    return findings


def stale_patterns(root):
    """Patterns of the tables above that match no file: what they check is somewhere else now."""
    files = list(tree_files(root))
    patterns = [p for allowed in OUTSIDE.values() for p in allowed]
    patterns += WORKERS + OPENS + MAY_BE_WIDE + list(MAY_BE_CPLUSPLUS)
    patterns += [name for allowed in ROOMS.values() for name in allowed if name.endswith(".h")]
    patterns += [room + "/*" for room in ROOMS]
    return [
        f"tests/lint/lint.py:1: {pattern} matches no file"
        for pattern in sorted(set(patterns)) if not any(fnmatch.fnmatch(f, pattern) for f in files)
    ]


# At the beginning of a line: a function or a table that other files may use, defined or declared.
NAMED = re.compile(r"^(?:MR_API )?(?!static\b|typedef\b)[a-z_][\w *]*?\b(mr_\w+)(?=\(|\[| =|;)")


def names_of(root, path):
    return {m.group(1) for m in map(NAMED.match, read_lines(root, path)) if m}


def headers_of(root, files, path):
    """The headers that declare what path defines; path itself if it is a header."""
    if path.endswith(HEADER):
        return {path}
    names = names_of(root, path)
    return {
        p for p in files
        if p.endswith(HEADER) and not p.startswith("tests/") and names & names_of(root, p)
    }


def is_test(path):
    return path.startswith("tests/") and is_code(path) and os.path.basename(path).startswith(
        ("test_", "fuzz_", "gpu_"))


def included_by(root, files):
    """File: those that include it. What a test's rig.c includes, its rig.h counts as including."""
    users = collections.defaultdict(set)
    for path in filter(is_code, files):
        for include in includes_of(root, path):
            name = include.name if include.quoted else "include/" + include.name
            users[name].add(path)
            if path.startswith("tests/") and not is_test(path):
                users[name].add(os.path.splitext(path)[0] + ".h")
    return users


def tests_of(root, path):
    """The tests in C that see a declaration of what path defines, those with the fewest headers in
    between first.

    What only its own room sees, like a vector kernel, has the tests of the files that use it.
    """
    files = set(tree_files(root))
    users = included_by(root, files)
    nearest, found = headers_of(root, files, path), []
    seen = set(nearest)
    while nearest:
        reached = {u for p in nearest for u in users[p] if u in files} - seen
        seen |= reached
        found += sorted(p for p in reached if is_test(p) and not p.endswith(HEADER))
        nearest = {p for p in reached if p.endswith(HEADER)}
        if not nearest and not found:
            nearest = {h for p in reached for h in headers_of(root, files, p)} - seen
    return found


def main():
    if len(sys.argv) == 4 and sys.argv[2] == "--tests-of" and os.path.isfile(
            os.path.join(sys.argv[1], sys.argv[3])):
        found = tests_of(sys.argv[1], os.path.normpath(sys.argv[3]))
        print("".join(path + "\n" for path in found), end="")
        if not found:
            print("no test in C includes it; it may be reached through a program or a module",
                  file=sys.stderr)
        return 0
    if len(sys.argv) != 2:
        print("usage: lint.py ROOT [--tests-of FILE], FILE a path in ROOT", file=sys.stderr)
        return 2
    findings = lint(sys.argv[1]) + stale_patterns(sys.argv[1])
    for finding in findings:
        print(finding)
    print(f"lint: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
