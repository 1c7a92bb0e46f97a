# SPDX-License-Identifier: Apache-2.0
"""The package's structs, constants and prototypes are those of the public headers.

Both sides are parsed. Offsets, sizes and values come from the compiler: a generated program prints
them. The environment has CC and MR_HEADERS.
"""
import ast
import ctypes
import os
import re
import subprocess
import tempfile

import pytest

from millrace import _abi, _array, _errors, _library

HEADERS = os.environ["MR_HEADERS"]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRUCT = re.compile(r"typedef struct (mr_\w+) \{(.*?)\n\} \1;", re.DOTALL)
FUNCTION = re.compile(r"MR_API\s+([\w\s]*?[\w*]+[\s*]+)(mr_\w+)\((.*?)\)\s*;", re.DOTALL)
POINTERS = (ctypes.c_void_p, ctypes.c_char_p)
SCALARS = {
    "int": ctypes.c_int, "bool": ctypes.c_bool, "double": ctypes.c_double,
    "size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "uint8_t": ctypes.c_uint8,
    "mr_status": ctypes.c_int, "mr_dtype": ctypes.c_int, "mr_log_level": ctypes.c_int,
    "mr_annotations": ctypes.c_int,
    "mr_device_kind": ctypes.c_int, "void": None,
}


def read_headers():
    text = ""
    for name in sorted(os.listdir(HEADERS)):
        if name.endswith(".h"):
            with open(os.path.join(HEADERS, name), encoding="utf-8") as file:
                text += COMMENT.sub(" ", file.read())
    return text


def fields_of(body):
    """A struct's fields, in order, with what is declared: "uint32_t lo, hi;", "char text[9];",
    "void (*fn)(void *user);".
    """
    fields = {}
    for declaration in body.split(";"):
        function = re.search(r"\(\*(\w+)\)\(", declaration)
        if function:
            fields[function.group(1)] = "void *"
        elif declaration.strip():
            first, *others = declaration.strip().split(",")
            kind, name, size = re.fullmatch(r"(.*?)(\w+)\s*(\[.*\])?", first, re.DOTALL).groups()
            fields[name] = kind.strip() + (size or "")
            for other in others:
                fields[other.strip()] = kind.strip()
    return fields


def run_c(lines):
    """What a program of these lines in main() prints, as rows of words."""
    text = "#include <millrace/millrace.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(
        lines) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "print.c"), os.path.join(folder, "print")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([
            *os.environ["CC"].split(), "-I",
            os.path.dirname(HEADERS), source, "-o", program
        ],
                       check=True)
        return [line.split() for line in subprocess.check_output([program], text=True).splitlines()]


def kind_of(declared):
    """"pointer", or the ctypes type of a parameter or result as it is declared in C."""
    if "*" in declared or "[" in declared or "mr_pack_notice" in declared:
        return "pointer"
    words = [w for w in declared.split() if w != "const"]
    return SCALARS[words[0]]


def kind_of_ctypes(declared):
    is_pointer = declared in POINTERS or (declared is not None
                                          and issubclass(declared, ctypes._Pointer))
    return "pointer" if is_pointer else declared


TEXT = read_headers()
HEADER_STRUCTS = {name: fields_of(body) for name, body in STRUCT.findall(TEXT)}
HEADER_FUNCTIONS = {name: (result, arguments) for result, name, arguments in FUNCTION.findall(TEXT)}
ENUMS = set(re.findall(r"typedef enum (mr_\w+)", TEXT))


def test_the_headers_were_read():
    assert len(HEADER_STRUCTS) > 15
    assert len(HEADER_FUNCTIONS) > 100
    assert len(ENUMS) > 10


def test_every_struct_of_the_package_is_compared():
    found = {
        value for value in vars(_abi).values()
        if isinstance(value, type) and issubclass(value, ctypes.Structure)
    }
    assert found - {ctypes.Structure} == set(_abi.STRUCTS)
    assert len(_abi.STRUCTS) == 7


@pytest.mark.parametrize("struct", _abi.STRUCTS)
def test_structs_have_the_headers_fields(struct):
    assert [f[0] for f in struct._fields_] == list(HEADER_STRUCTS[struct.__name__])


def expected_type(declared):
    """What the package should have for a field as C declares it; "pointer" for any pointer."""
    array = re.fullmatch(r"(.*?)\[(.*)\]", declared)
    if array:
        return expected_type(array.group(1)), array.group(2)
    word = declared.replace("const ", "").strip()
    if "*" in word:
        return "pointer"
    if word in ENUMS:
        return ctypes.c_int
    struct = {s.__name__: s for s in _abi.STRUCTS}.get(word)
    return struct or {**SCALARS, "char": ctypes.c_char}[word]


@pytest.mark.parametrize("struct", _abi.STRUCTS)
def test_fields_have_the_headers_types(struct):
    for name, kind in struct._fields_:
        expected = expected_type(HEADER_STRUCTS[struct.__name__][name])
        if isinstance(expected, tuple):  # the length is compared with the compiler's
            assert issubclass(kind, ctypes.Array), name
            assert kind._type_ == expected[0], name
        elif issubclass(kind, ctypes.Structure):
            assert kind is expected, name
        else:
            assert kind_of_ctypes(kind) == expected, name


def test_fields_lie_where_the_compiler_puts_them():
    lines = []
    for struct in _abi.STRUCTS:
        name = struct.__name__
        lines.append(f'printf("{name} size 0 %zu\\n", sizeof({name}));')
        for field, *_ in struct._fields_:
            place = f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"
            lines.append(f'printf("{name} {field} %zu %zu\\n", {place[0]}, {place[1]});')
    by_name = {struct.__name__: struct for struct in _abi.STRUCTS}
    rows = run_c(lines)
    assert len(rows) > 70
    for name, field, offset, size in rows:
        struct = by_name[name]
        if field == "size" and offset == "0":
            assert ctypes.sizeof(struct) == int(size), name
        else:
            place = getattr(struct, field)
            assert (place.offset, place.size) == (int(offset), int(size)), f"{name}.{field}"


def test_lists_of_options_lie_where_the_compiler_puts_them():
    fields = list(HEADER_STRUCTS["mr_loader_options"])
    assert set(_abi.LISTS) == {name for name in fields if "n_" + name in fields}
    rows = run_c([
        f'printf("{name} %zu %zu %zu %zu\\n", offsetof(mr_loader_options, {name}), '
        f"offsetof(mr_loader_options, n_{name}), "
        f"sizeof *((mr_loader_options *)0)->{name}, sizeof ((mr_loader_options *)0)->n_{name});"
        for name in _abi.LISTS
    ])
    for name, *numbers in rows:
        place, kind, length = _abi.LISTS[name]
        expected = [
            place, place + ctypes.sizeof(ctypes.c_void_p),
            ctypes.sizeof(kind),
            ctypes.sizeof(length)
        ]
        assert [int(n) for n in numbers] == expected, name
        assert kind_of_ctypes(kind) == kind_of(HEADER_STRUCTS["mr_loader_options"][name].replace(
            "*", "", 1)), name
        assert length == kind_of(HEADER_STRUCTS["mr_loader_options"]["n_" + name]), name


def test_integers_have_the_headers_signs():
    lines, ours = [], {}
    for struct in _abi.STRUCTS:
        for field, kind in struct._fields_:
            if issubclass(kind, ctypes._SimpleCData) and kind._type_ in "bBhHiIlLqQ":
                lines.append(f'printf("{struct.__name__}.{field} %d\\n", '
                                 f"(__typeof__((({struct.__name__} *)0)->{field}))-1 < 0);")
                ours[f"{struct.__name__}.{field}"] = (kind, kind(-1).value < 0)
    for name, negative in run_c(lines):
        struct, field = name.split(".")
        if HEADER_STRUCTS[struct][
                field] not in ENUMS:  # gcc makes an enum without negative values unsigned
            assert ours[name][1] == (negative == "1"), name


def test_constants_are_the_headers():
    names = [name for name in vars(_abi) if name.isupper() and isinstance(getattr(_abi, name), int)]
    assert len(names) > 30
    for name, value in run_c([f'printf("{name} %lld\\n", (long long)MR_{name});'
                              for name in names]):
        assert getattr(_abi, name) == int(value), name


def test_every_status_has_an_exception():
    statuses = {int(v) for v in re.findall(r"\bMR_ERR_\w+ = (-\d+)", TEXT)}
    assert statuses == set(_errors._CLASSES)


def test_every_dtype_has_a_name():
    body = re.search(r"enum mr_dtype \{(.*?)\}", TEXT, re.DOTALL).group(1)
    dtypes = {int(v): n.lower() for n, v in re.findall(r"MR_([A-Z]+\d+) = (\d+)", body)}
    assert dtypes == {number: names[0] for number, names in _array._TYPES.items()}


@pytest.mark.parametrize("name", _abi.PROTOTYPES)
def test_prototypes_are_the_headers(name):
    result, arguments = _abi.PROTOTYPES[name]
    c_result, c_arguments = HEADER_FUNCTIONS[name]
    parts = [] if c_arguments.strip() == "void" else c_arguments.split(",")
    assert [kind_of_ctypes(a) for a in arguments] == [kind_of(a) for a in parts]
    assert kind_of_ctypes(result) == kind_of(c_result)
    for kind, declared in [(result, c_result), *zip(arguments, parts)]:
        if isinstance(kind, type) and issubclass(kind, ctypes._Pointer) and issubclass(
                kind._type_, ctypes.Structure):
            assert kind._type_.__name__ in declared.split()


def test_the_package_is_python_of_3_9():
    folder = os.path.dirname(_abi.__file__)
    for path in (os.path.join(where, name) for where, _, names in os.walk(folder)
                 for name in names):
        if path.endswith(".py"):
            with open(path, encoding="utf-8") as file:
                ast.parse(file.read(), path, feature_version=(3, 9))


def test_the_version_is_the_headers():
    with open(os.path.join(HEADERS, "status.h"), encoding="utf-8") as file:
        assert f'#define MR_VERSION "{_library.VERSION}"' in file.read()
