# SPDX-License-Identifier: Apache-2.0
"""The package's copy of the public headers is the headers: structs, constants and prototypes.

Both sides are parsed. Offsets, sizes and values come from the compiler: a generated program prints them. The environment
has CC and MR_HEADERS.
"""
import ast
import ctypes
import os
import re
import subprocess
import tempfile
import unittest

from millrace import _abi

import support

HEADERS = os.environ["MR_HEADERS"]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRUCT = re.compile(r"typedef struct (mr_\w+) \{(.*?)\n\} \1;", re.DOTALL)
FUNCTION = re.compile(r"MR_API\s+([\w\s]*?[\w*]+[\s*]+)(mr_\w+)\((.*?)\)\s*;", re.DOTALL)
POINTERS = (ctypes.c_void_p, ctypes.c_char_p)
SCALARS = {
    "int": ctypes.c_int, "bool": ctypes.c_bool, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
    "uint8_t": ctypes.c_uint8, "mr_status": ctypes.c_int, "mr_dtype": ctypes.c_int, "mr_log_level": ctypes.c_int,
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
    """Names of a struct's fields, in order: "uint32_t lo, hi;", "char text[9];", "void (*fn)(void *user);"."""
    names = []
    for declaration in body.split(";"):
        function = re.search(r"\(\*(\w+)\)\(", declaration)
        if function:
            names.append(function.group(1))
        elif declaration.strip():
            names += [re.search(r"(\w+)\s*(\[.*)?$", part.strip(), re.DOTALL).group(1) for part in declaration.split(",")]
    return names


def run_c(lines):
    """What a program of these lines in main() prints, as rows of words."""
    text = "#include <millrace/millrace.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(lines) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "print.c"), os.path.join(folder, "print")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([*os.environ["CC"].split(), "-I", os.path.dirname(HEADERS), source, "-o", program], check=True)
        return [line.split() for line in subprocess.check_output([program], text=True).splitlines()]


def kind_of(declared):
    """"pointer", or the ctypes type of a parameter or result as it is declared in C."""
    if "*" in declared or "[" in declared or "mr_pack_notice" in declared:
        return "pointer"
    words = [w for w in declared.split() if w != "const"]
    return SCALARS[words[0]]


def kind_of_ctypes(declared):
    is_pointer = declared in POINTERS or (declared is not None and issubclass(declared, ctypes._Pointer))
    return "pointer" if is_pointer else declared


class AbiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = read_headers()
        cls.structs = {name: fields_of(body) for name, body in STRUCT.findall(cls.text)}

    def test_structs_have_the_headers_fields(self):
        for struct in _abi.STRUCTS:
            with self.subTest(struct.__name__):
                self.assertEqual([f[0] for f in struct._fields_], self.structs[struct.__name__])

    def test_fields_lie_where_the_compiler_puts_them(self):
        lines = []
        for struct in _abi.STRUCTS:
            name = struct.__name__
            lines.append(f'printf("{name} size 0 %zu\\n", sizeof({name}));')
            for field, *_ in struct._fields_:
                place = f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"
                lines.append(f'printf("{name} {field} %zu %zu\\n", {place[0]}, {place[1]});')
        by_name = {struct.__name__: struct for struct in _abi.STRUCTS}
        rows = run_c(lines)
        self.assertGreater(len(rows), 100)
        for name, field, offset, size in rows:
            struct = by_name[name]
            with self.subTest(f"{name}.{field}"):
                if field == "size" and offset == "0":
                    self.assertEqual(ctypes.sizeof(struct), int(size))
                else:
                    place = getattr(struct, field)
                    self.assertEqual((place.offset, place.size), (int(offset), int(size)))

    def test_integers_have_the_headers_signs(self):
        lines, ours = [], {}
        for struct in _abi.STRUCTS:
            for field, kind in struct._fields_:
                if issubclass(kind, ctypes._SimpleCData) and kind._type_ in "bBhHiIlLqQ":
                    lines.append(f'printf("{struct.__name__}.{field} %d\\n", '
                                 f"(__typeof__((({struct.__name__} *)0)->{field}))-1 < 0);")
                    ours[f"{struct.__name__}.{field}"] = (kind, kind(-1).value < 0)
        enums = re.findall(r"\b(mr_\w+) (\w+);", " ".join(body for _, body in STRUCT.findall(self.text)))
        of_enums = {field for _, field in enums}  # gcc makes an enum without negative values unsigned
        for name, negative in run_c(lines):
            if name.split(".")[1] not in of_enums:
                self.assertEqual(ours[name][1], negative == "1", name)

    def test_constants_are_the_headers(self):
        names = [name for name in vars(_abi) if name.isupper() and isinstance(getattr(_abi, name), int)]
        self.assertGreater(len(names), 30)
        for name, value in run_c([f'printf("{name} %lld\\n", (long long)MR_{name});' for name in names]):
            self.assertEqual(getattr(_abi, name), int(value), name)

    def test_every_status_has_an_exception(self):
        from millrace import _errors
        statuses = {int(v) for v in re.findall(r"\bMR_ERR_\w+ = (-\d+)", self.text)}
        self.assertEqual(statuses, set(_errors._CLASSES))

    def test_every_dtype_has_a_name(self):
        from millrace import _array
        body = re.search(r"enum mr_dtype \{(.*?)\}", self.text, re.DOTALL).group(1)
        dtypes = {int(v): n.lower() for n, v in re.findall(r"MR_([A-Z]+\d+) = (\d+)", body)}
        self.assertEqual(dtypes, {number: names[0] for number, names in _array._TYPES.items()})

    def test_prototypes_are_the_headers(self):
        declared = {name: (result, arguments) for result, name, arguments in FUNCTION.findall(self.text)}
        self.assertGreater(len(declared), 100)
        for name, (result, arguments) in _abi.PROTOTYPES.items():
            with self.subTest(name):
                c_result, c_arguments = declared[name]
                parts = [] if c_arguments.strip() == "void" else c_arguments.split(",")
                self.assertEqual([kind_of_ctypes(a) for a in arguments], [kind_of(a) for a in parts])
                self.assertEqual(kind_of_ctypes(result), kind_of(c_result))

    def test_the_package_is_python_of_3_9(self):
        folder = os.path.dirname(_abi.__file__)
        for path in (os.path.join(where, name) for where, _, names in os.walk(folder) for name in names):
            if path.endswith(".py"):
                with open(path, encoding="utf-8") as file:
                    ast.parse(file.read(), path, feature_version=(3, 9))

    def test_the_version_is_the_headers(self):
        from millrace import _library
        with open(os.path.join(HEADERS, "status.h"), encoding="utf-8") as file:
            self.assertIn(f'#define MR_VERSION "{_library.VERSION}"', file.read())


support.main()
