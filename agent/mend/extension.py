"""A `load_inline` call in a candidate's file, and edits of the strings passed to it.

Reads only literals: string arguments, names that stand for strings (`scopes`), and lists of them. If the file
has several calls, the line of a finding selects one. Sources made at run time cannot be mended; every edit of
them returns None.
"""

import ast
import re
from typing import NamedTuple, Self

from agent.mend import scopes
from agent.python_source import syntax_tree
from agent.records import Finding

_LITERAL = re.compile(
    r"(?P<prefix>[rRuU]{0,2})(?P<quotes>\"\"\"|'''|\"|')(?P<body>.*)(?P=quotes)\Z", re.DOTALL
)
_POSITIONS = ("name", "cpp_sources", "cuda_sources")


class Text(NamedTuple):
    """One string literal that is part of a source; offsets are characters of the file."""

    start: int
    end: int
    body_start: int
    body: str
    """Text between the quotes as written."""
    quotes: str
    raw: bool
    value: str


class Extension(NamedTuple):
    """A file with its `load_inline` call; `did` lists the mends so far."""

    source: str
    tree: ast.Module
    call: ast.Call | None
    did: tuple[str, ...] = ()
    number: int | None = None
    """Index of the call among the file's calls, in order of position; None if unknown."""

    @classmethod
    def read(cls, source: str, did: tuple[str, ...] = (), number: int | None = None) -> Self:
        """Parse a file. Raises SyntaxError for text that is not Python."""
        tree = syntax_tree(source)
        calls = _calls(tree)
        number = 0 if len(calls) == 1 else number
        call = calls[number] if number is not None and number < len(calls) else None
        return cls(source, tree, call, did, number)

    def about(self, finding: Finding) -> "Extension":
        """Return the file with the call that the finding's line selects, or without a call if ambiguous.

        A finding without a line changes nothing.
        """
        line = finding.location.line if finding.location else None
        calls = _calls(self.tree)
        if len(calls) < 2 or line is None:
            return self
        held = [self._replace(call=call, number=number) for number, call in enumerate(calls)]
        there = [extension for extension in held if extension.holds(line)]
        return there[0] if len(there) == 1 else self._replace(call=None, number=None)

    def holds(self, line: int) -> bool:
        """Return True if a line of the file belongs to the call or to its source texts."""
        assert self.call is not None
        spans = [(self.call.lineno, self.call.end_lineno or self.call.lineno)]
        for name in ("cpp_sources", "cuda_sources"):
            for text in self.texts(name) or ():
                first = self.source.count("\n", 0, text.start) + 1
                spans.append((first, first + self.source.count("\n", text.start, text.end)))
        return any(first <= line <= last for first, last in spans)

    def argument(self, name: str) -> ast.expr | None:
        """Return the expression passed for a parameter of load_inline."""
        if self.call is None:
            return None
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return keyword.value
        position = _POSITIONS.index(name) if name in _POSITIONS else len(self.call.args)
        return self.call.args[position] if position < len(self.call.args) else None

    def texts(self, name: str) -> tuple[Text, ...] | None:
        """Return the literals of `cpp_sources` or `cuda_sources` in order; None if any is not a literal."""
        node = self.argument(name)
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return ()
        return self._texts(node)

    def code(self, name: str) -> str:
        """Return the whole text of a source, or an empty string if it is not literal."""
        return "\n".join(text.value for text in self.texts(name) or ())

    def functions(self) -> list[str] | None:
        """Return the names to bind, or None if there are none or they are not literal."""
        node = self._resolved(self.argument("functions"))
        if isinstance(node, ast.Dict):
            keys = [
                key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
            return keys if len(keys) == len(node.keys) else None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        if not isinstance(node, (ast.List, ast.Tuple)):
            return None
        names = [
            item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]
        return names if len(names) == len(node.elts) else None

    def called(self) -> set[str]:
        """Return all attribute names that Python accesses, such as `scale` in `extension.scale`."""
        return {node.attr for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}

    def replaced(self, start: int, end: int, text: str, did: str) -> "Extension | None":
        """Return the file with one span replaced, or None if the result is not Python."""
        made = self.source[:start] + text + self.source[end:]
        try:
            done = (*self.did, did) if did not in self.did else self.did
            return Extension.read(made, done, self.number)
        except SyntaxError:
            return None

    def with_body(self, text: Text, body: str, did: str) -> "Extension | None":
        """Replace the content of a literal. A single-line literal becomes triple-quoted if necessary."""
        if "\n" in body and len(text.quotes) == 1:
            if '"""' in body or body.endswith(('"', "\\")):
                return None
            return self.replaced(text.start, text.end, f'r"""{body}"""', did)
        return self.replaced(text.body_start, text.body_start + len(text.body), body, did)

    def with_bodies(self, name: str, pattern: re.Pattern[str], new: str, did: str) -> "Extension | None":
        """Replace a pattern in every literal of a source; return None if it does not occur."""
        made: Extension | None = None
        current = self
        for number in range(len(self.texts(name) or ())):
            text = (current.texts(name) or ())[number]
            body = pattern.sub(new, text.body)
            if body != text.body:
                made = current.with_body(text, body, did)
                current = made or current
        return made

    def with_argument(self, name: str, text: str, did: str) -> "Extension | None":
        """Replace the expression of an argument, or add the argument."""
        if self.call is None:
            return None
        node = self.argument(name)
        if node is not None:
            return self.replaced(*self.span(node), text, did)
        start, end = self.span(self.call)
        inside = self.source[start : end - 1].rstrip()
        comma = "" if inside.endswith((",", "(")) else ","
        return self.replaced(start + len(inside), end - 1, f"{comma} {name}={text}", did)

    def without_argument(self, name: str, did: str) -> "Extension | None":
        """Remove a keyword argument."""
        for keyword in self.call.keywords if self.call else ():
            if keyword.arg == name:
                start = self.offset(keyword.lineno, keyword.col_offset)
                end = self.span(keyword.value)[1]
                rest = re.match(r"\s*,[ \t]*\n?", self.source[end:])
                return self.replaced(start, end + (rest.end() if rest else 0), "", did)
        return None

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return the start and end of an expression in the file."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def offset(self, line: int, column: int) -> int:
        """Convert a position from ast, a line from 1 and a column in UTF-8 bytes, to a character offset."""
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", self.source)
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    def _texts(self, node: ast.expr) -> tuple[Text, ...] | None:
        node = self._resolved(node) or node
        if isinstance(node, (ast.List, ast.Tuple)):
            parts = [self._texts(item) for item in node.elts]
            return None if None in parts else tuple(text for part in parts for text in part or ())
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return None
        start, end = self.span(node)
        found = _LITERAL.match(self.source[start:end])
        if found is None or (len(found["quotes"]) == 1 and "\n" in found["body"]):
            return None
        raw = "r" in found["prefix"].lower()
        # With escapes, the written text differs from the value, so an edit of one may not edit the other.
        if not raw and "\\" in found["body"].replace("\\n", "").replace('\\"', "").replace("\\\\", ""):
            return None
        begin = start + found.start("body")
        return (Text(start, end, begin, found["body"], found["quotes"], raw, node.value),)

    def _resolved(self, node: ast.expr | None) -> ast.expr | None:
        """Return the expression that a name stands for at the call."""
        return scopes.resolved(self.tree, self.call, node) if self.call is not None else None


def _calls(tree: ast.Module) -> list[ast.Call]:
    """Return every call of load_inline, in order of position."""
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and _named(node.func) == "load_inline"
    ]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def closing_brace(body: str, start: int) -> int | None:
    """Return the position of the `}` that closes the block opened before `start`, or None."""
    depth = 1
    for position in range(start, len(body)):
        depth += {"{": 1, "}": -1}.get(body[position], 0)
        if depth == 0:
            return position
    return None


def _named(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
