"""Parser for the declarations in our own C headers: constants, enums, structs, prototypes, texts.

It supports the plain subset of C in which those headers are written, and raises an error for anything else
instead of leaving it out. Expressions are integers with +, -, *, <<, | and parentheses.
"""

import ast
import operator
import re
from pathlib import Path
from typing import NamedTuple

_COMMENT = re.compile(r'R"\((?:.*?)\)"|"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.S)
_DEFINE = re.compile(r'^#define (\w+) (0x[0-9a-fA-F]+|\d+|"[^"]*")$', re.M)
_LIST = re.compile(r"^#define (\w+)\(X\)((?:.*\\\n)*.*)$", re.M)
_LISTED = re.compile(r"X\([^,]+, (\w+), (\d+)\)")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:.*\\\n)*.*$", re.M)
_CONSTANT = re.compile(r"\bconstexpr (?:int|unsigned|long|size_t|uintptr_t) (k\w+) = ([^;]+);")
_STRING = r'(?:R"\((?:.*?)\)"|"(?:\\.|[^"\\])*")'
_TEXT = re.compile(rf"\bconstexpr char (k\w+)\[\] =\s*((?:{_STRING}\s*)+);", re.S)
_ENUM = re.compile(r"\benum (?:class )?(\w+)?\s*(?::\s*\w+\s*)?\{([^}]*)\};")
_STRUCT = re.compile(r"\bstruct (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}")
_PROTOTYPE = re.compile(r"(?:^|(?<=[;}{]))\s*([\w \t]+?[ *]+)(kw_\w+)\(([^()]*)\);", re.M)
_POINTER_FIELD = re.compile(r"(.+?)\(\*(\w+)\)\((.*)\)", re.S)
_FIELD = re.compile(r"(.+?[ *])(\w+)(?:\[(\w+)\])?", re.S)
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}  # fmt: skip


class Unreadable(ValueError):
    """A declaration in an unsupported form; the message names the declaration."""


class Parameter(NamedTuple):
    """A function parameter or struct field: its C type, its name (or "") and an array's length."""

    type: str
    name: str
    length: int | None = None


class Function(NamedTuple):
    """A function prototype, or a function-pointer field of a struct."""

    result: str
    name: str
    parameters: tuple[Parameter, ...]


class Struct(NamedTuple):
    """A struct with its fields in order; an unnamed union becomes one field `payload` of 8 bytes."""

    name: str
    fields: tuple[Parameter | Function, ...]


class Enum(NamedTuple):
    """An enum with its values; `name` is empty for an unnamed enum."""

    name: str
    values: dict[str, int]


class Header:
    """The parsed declarations of one C header."""

    def __init__(self, path: Path) -> None:
        """Parse the header. Raises Unreadable, and OSError if the file does not exist."""
        self.path = path
        self.text = without_comments(path.read_text(encoding="utf-8"))
        self._lists = {name: _LISTED.findall(body) for name, body in _LIST.findall(self.text)}
        self.constants: dict[str, int | str] = {
            name: _literal(value) if value.startswith('"') else int(value, 0)
            for name, value in _DEFINE.findall(self.text)
        }
        plain = _DIRECTIVE.sub("", self.text)
        self.texts = {name: _literal(text) for name, text in _TEXT.findall(plain)}
        plain = _TEXT.sub("", plain)
        for name, expression in _CONSTANT.findall(plain):
            self.constants[name] = self._number(expression)
        self.enums = [Enum(name, self._enumerators(body)) for name, body in _ENUM.findall(plain)]
        self.structs = [
            Struct(name, tuple(self._fields(body))) for name, body in _STRUCT.findall(plain) if body.strip()
        ]
        self.functions = [
            Function(_type(result), name, _parameters(given)) for result, name, given in _prototypes(plain)
        ]

    def _enumerators(self, body: str) -> dict[str, int]:
        found: dict[str, int] = {}
        value = -1
        for word in filter(None, map(str.strip, self._expanded(body).split(","))):
            name, _, given = map(str.strip, word.partition("="))
            value = self._number(given) if given else value + 1
            found[name] = value
        return found

    def _expanded(self, body: str) -> str:
        for name, entries in self._lists.items():
            listed = "".join(f"{entry} = {code}," for entry, code in entries)
            body = re.sub(rf"{name}\(\w+\)", lambda _, listed=listed: listed, body)  # type: ignore[misc]
        return body

    def _fields(self, body: str) -> list[Parameter | Function]:
        found: list[Parameter | Function] = []
        body = re.sub(r"\bunion \{[^{}]*\}", "int64_t payload", body)
        for declared in filter(None, map(str.strip, body.split(";"))):
            pointer = _POINTER_FIELD.fullmatch(declared)
            if pointer:
                result, name, parameters = pointer.groups()
                found.append(Function(_type(result), name, _parameters(parameters)))
                continue
            first, *others = (part.strip() for part in declared.split(","))
            match = _FIELD.fullmatch(first)
            if match is None:
                raise Unreadable(f"{self.path.name}: the field {declared!r}")
            kind, name, count = match.groups()
            found.append(Parameter(_type(kind), name, self._number(count) if count else None))
            found += [Parameter(_type(kind), other) for other in others]
        return found

    def _number(self, expression: str) -> int:
        bare = re.sub(r"\b(?:size_t|uint64_t|int64_t)\{(\w+)\}", r"\1", expression)
        try:
            return self._value(ast.parse(bare.strip(), mode="eval").body)
        except (SyntaxError, KeyError) as error:
            raise Unreadable(f"{self.path.name}: the expression {expression!r}") from error

    def _value(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            known = self.constants[node.id]
            if isinstance(known, int):
                return known
        if isinstance(node, ast.BinOp):
            return int(_OPERATORS[type(node.op)](self._value(node.left), self._value(node.right)))
        raise KeyError(ast.dump(node))


def without_comments(text: str) -> str:
    """Replace each comment by a space; strings are left unchanged."""
    kept = _COMMENT.sub(lambda match: " " if match[0].startswith("/") else match[0], text)
    return re.sub(r"[ \t]+$", "", kept, flags=re.M)


def _prototypes(plain: str) -> list[tuple[str, str, str]]:
    outside = _STRUCT.sub("", re.sub(r"\[\[\w+\]\]", "", plain))
    found = [(result, name, given) for result, name, given in _PROTOTYPE.findall(outside)]
    missed = set(re.findall(r"\b(kw_\w+)\(", outside)) - {name for _, name, _ in found}
    if missed:
        raise Unreadable(f"the declarations of {', '.join(sorted(missed))}")
    return found


def _parameters(given: str) -> tuple[Parameter, ...]:
    if given.strip() in ("", "void"):
        return ()
    found = []
    for declared in given.split(","):
        named = re.fullmatch(r"(.+?[ *])(\w+)", declared.strip(), re.S)
        found.append(Parameter(_type(named[1]), named[2]) if named else Parameter(_type(declared), ""))
    return tuple(found)


def _type(words: str) -> str:
    """Drop words that do not affect the layout, such as `enum`, `struct`, `extern` and the export macro."""
    words = re.sub(r"\b(?:enum|struct|extern|typedef|KW_EXPORT|KW_BRIDGE)\b", " ", words)
    return re.sub(r"\s*\*", "*", " ".join(words.split()))


def _literal(text: str) -> str:
    """Return the value of adjacent C string literals."""
    found = []
    for part in re.findall(_STRING, text, re.S):
        found.append(part[3:-2] if part.startswith("R") else str(ast.literal_eval(part)))
    return "".join(found)
