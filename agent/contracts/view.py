"""Write the Python module that mirrors headers: structures, prototypes, enums, constants, patterns."""

import hashlib
import json
import re
from collections.abc import Iterable

from agent.contracts.declarations import Enum, Function, Header, Parameter, Struct, Unreadable

_SCALARS = {
    "void": "None", "int": "ctypes.c_int", "unsigned": "ctypes.c_uint", "long": "ctypes.c_long",
    "long long": "ctypes.c_longlong", "size_t": "ctypes.c_size_t", "int32_t": "ctypes.c_int32",
    "uint32_t": "ctypes.c_uint32", "int64_t": "ctypes.c_int64", "uint64_t": "ctypes.c_uint64",
    "dim3": "ctypes.c_uint * 3", "cudaError_t": "ctypes.c_int", "cudaFuncAttribute": "ctypes.c_int",
    "cudaStream_t": "ctypes.c_void_p", "PyObject*": "ctypes.py_object",
}  # fmt: skip


def structures(structs: Iterable[Struct]) -> list[str]:
    """Return classes `CName`, each preceded by types `CName_FIELD` for its function-pointer fields."""
    known: set[str] = set()
    lines: list[str] = []
    for struct in structs:
        name, fields = _class(struct.name), []
        for field in struct.fields:
            if isinstance(field, Function):
                arguments = [_ctype(p.type, known) for p in field.parameters]
                kind = f"{name}_{field.name.upper()}"
                types = ", ".join([_ctype(field.result, known), *arguments])
                lines += ["", f"{kind} = ctypes.CFUNCTYPE({types})"]
                fields.append((field.name, kind))
            else:
                fields.append((field.name, _array(field, known)))
        known.add(struct.name)
        lines += ["", "", f"class {name}(ctypes.Structure):", f'    """Mirror of `{struct.name}`."""', ""]
        lines += ["    _fields_ = ["]
        lines += [f'        ("{field}", {kind}),' for field, kind in fields]
        lines += ["    ]"]
    return lines


def prototypes(name: str, about: str, functions: Iterable[Function], structs: Iterable[Struct]) -> list[str]:
    """Return a table of function types for `declare`, a function that every generated module defines."""
    known = {struct.name for struct in structs}
    lines = ["", "", f"{name}: Prototypes = {{"]
    for function in functions:
        arguments = ", ".join(_ctype(p.type, known) for p in function.parameters)
        lines.append(f'    "{function.name}": ({_ctype(function.result, known)}, [{arguments}]),')
    return [*lines, "}", f'"""{about}"""']


def enums(found: Iterable[Enum]) -> list[str]:
    """Return IntEnums; the values of an unnamed enum become constants."""
    lines: list[str] = []
    for enum in found:
        if enum.name:
            lines += ["", "", f"class {_class(enum.name).removeprefix('C')}(enum.IntEnum):"]
            lines += [f'    """Mirror of `{enum.name}`."""', ""]
            lines += [f"    {_bare(name)} = {value}" for name, value in enum.values.items()]
        else:
            lines += constants(enum.values)
    return lines


def constants(found: dict[str, int | str] | dict[str, int]) -> list[str]:
    """Return Python constants: `kMaxThreads` and `KW_MAX_THREADS` become MAX_THREADS."""
    return [f"{_bare(name)} = {json.dumps(value)}" for name, value in found.items()]


def patterns(prefix: str, texts: dict[str, str]) -> list[str]:
    """Return a regular expression for each printf format, which parses the printed values."""
    made = []
    for name, text in texts.items():
        parts = re.split(r"(%(?:lu|zu|u|d|s))", text)
        pattern = "".join(
            re.escape(part).replace(r"\ ", " ")
            if not part.startswith("%")
            else "(.*?)"
            if part == "%s"
            else r"(\d+)"
            for part in parts
        )
        made.append(f"{prefix}{_bare(name)} = r'{pattern}'")
    return made


def json_keys(text: str) -> list[str]:
    """Return the keys of the JSON object that a printf format of json_formats.h produces."""
    return list(json.loads(text.replace("%s", "null")))


def text_of_json(text: str, key: str) -> str:
    """Return the value of `key` that a printf format of json_formats.h fixes."""
    return str(json.loads(text.replace("%s", "null"))[key])


def digest(header: Header, without: str) -> int:
    """Return a 31-bit hash of the header's declarations, without comments and the #define of `without`."""
    kept = [line for line in header.text.splitlines() if f"#define {without} " not in line]
    words = " ".join(" ".join(kept).split())
    return int(hashlib.sha256(words.encode()).hexdigest()[:8], 16) & 0x7FFFFFFF


def mangled(namespace: str, template: str) -> str:
    """Return the start of every instance's symbol of a function template, in the Itanium C++ ABI."""
    return f"_ZN{len(namespace)}{namespace}{len(template)}{template}I"


def _ctype(kind: str, structs: set[str]) -> str:
    if kind in _SCALARS:
        return _SCALARS[kind]
    bare = re.sub(r"\s+(?=\*)", "", re.sub(r"\bconst\b", "", kind)).strip()
    if bare in _SCALARS:
        return _SCALARS[bare]
    if bare == "char*":
        return "ctypes.c_char_p"
    if bare.endswith("*"):
        pointed = bare[:-1].strip()
        if pointed in structs:
            return f"ctypes.POINTER({_class(pointed)})"
        if pointed == "char*":
            return "ctypes.POINTER(ctypes.c_char_p)"
        if pointed != "void" and pointed in _SCALARS:
            return f"ctypes.POINTER({_SCALARS[pointed]})"
        if pointed == "void":
            return "ctypes.c_void_p"
    raise Unreadable(f"the type {kind!r}")


def _array(field: Parameter, structs: set[str]) -> str:
    kind = _ctype(field.type, structs)
    return kind if field.length is None else f"{kind} * {field.length}"


def _class(name: str) -> str:
    """Return the class name: `kw_launch_request` becomes CLaunchRequest; a C++ name stays unchanged."""
    if not name.startswith("kw_"):
        return name
    return "C" + "".join(word.capitalize() for word in name.removeprefix("kw_").split("_"))


def _bare(name: str) -> str:
    if re.match(r"k[A-Z]", name):
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[1:]).upper()
    return name.removeprefix("KW_")
