"""Rules for the C++ and CUDA text that a candidate passes to `load_inline`.

The text is found by folding literals, names of literals, sums, lists and `dedent`. A whole text is parsed
(`host_rules`). If a source is built at run time, its literal parts are only searched for names that no
candidate needs, and nothing is concluded from what is absent. What is built is parsed before the compiler
starts.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.build import flags
from agent.build.logical_text import logical
from agent.python_source import source_lines
from agent.screen import host_rules
from agent.screen.host_rules import Permits
from agent.screen.names import Names
from agent.screen.rules import nodes_run_on_import
from agent.screen.seen import Seen

_NO_PROCESS = "a candidate starts and ends no process or thread"
_FORBIDDEN = (
    (
        "hidden-library-call",
        r"\b(dlopen|dlmopen|dlsym|dlvsym)\s*\(",
        "a library is called through its header or not at all",
    ),
    (
        "process-control",
        r"(?<![\w.>])(system|popen|v?fork|exec[lv][ep]?|execvpe|posix_spawnp?|pthread_create|ptrace|_exit)\s*\(",
        _NO_PROCESS,
    ),
    ("process-control", r"\bstd\s*::\s*(j?thread|async|quick_exit|_Exit)\b", _NO_PROCESS),
    (
        "file-access",
        r"(?<![\w.>])(fopen|freopen|fdopen)\s*\(|\bstd\s*::\s*[io]?fstream\b",
        "the whole candidate is one file, and it opens no other",
    ),
    ("patches-module", r"(?<![\w.>])(mprotect)\s*\(", "torch and Python stay as they are"),
    (
        "load-time-code",
        r"__attribute__\s*\(\s*\(\s*_*(constructor|destructor)\b",
        "code of a candidate runs when it is called",
    ),
)
_FILE_IN_ASSEMBLY = re.compile(
    r"""\b(?:__asm(?:__)?|asm)\s*(?:volatile|__volatile__)?\s*\(
        (?:\s*"(?:\\.|[^"\\])*")*?\s*"(?:\\.|[^"\\])*?\.incbin\b""",
    re.VERBOSE,
)
_MACRO = re.compile(r"^[ \t]*(?:#|%:)[ \t]*define\b(.*)$", re.MULTILINE)
_NAME = re.compile(r"\b([A-Za-z_]\w*)\b(?!\s*\()")
"""A name that is not already called."""
_ABSOLUTE_INCLUDE = re.compile(r"""^[ \t]*(?:#|%:)[ \t]*include[ \t]*["<](?:/|\.\.)""", re.MULTILINE)
_LOOKS_LIKE_SOURCE = re.compile(r"__global__|#\s*include|\btorch::|\bat::")


_SIDES = ("cpp_sources", "cuda_sources")


class Piece(NamedTuple):
    """One literal of a source: its value and the lines it spans in the file."""

    text: str
    first: int
    last: int
    continues: bool = False
    """True if it follows the piece before without a new line."""


class Build(NamedTuple):
    """The texts of one call whose arguments are all literals."""

    cpp: tuple[Piece, ...]
    cuda: tuple[Piece, ...]
    definitions: tuple[str, ...]


class Inline(NamedTuple):
    """The text that all calls of `load_inline` compile together."""

    called: bool
    pieces: tuple[Piece, ...]
    complete: bool
    """True if `pieces` hold the whole text; False if a part is built at run time."""
    builds: tuple[Build, ...] = ()


def source_violations(tree: ast.Module, names: Names, source: str, permits: Permits) -> list[Seen]:
    """Return the broken rules of the compiled text, including `no-cuda-kernel`, at lines of the file."""
    inline = _inline(tree, names)
    if not inline.called:
        bare = _called_without_import(tree, names)
        if bare is not None:
            mend = "add `from torch.utils.cpp_extension import load_inline`"
            return [Seen("missing-import", f"`load_inline` is used and never imported: {mend}.", bare)]
        return [Seen("no-cuda-kernel", "No CUDA is compiled: the file never calls load_inline.")]
    lines = source_lines(source)
    parsed = {piece for build in inline.builds for piece in (*build.cpp, *build.cuda)}
    seen = [item for piece in inline.pieces for item in _forbidden(piece, lines, piece not in parsed)]
    if inline.complete and not any("__global__" in logical(p.text).code for p in inline.pieces):
        words = "load_inline is called, but none of its sources holds a `__global__` function."
        seen.insert(0, Seen("no-cuda-kernel", words))
    for build in inline.builds:
        seen += _unsaid(_of_build(build, lines, permits), seen)
    return seen


def _of_build(build: Build, lines: list[str], permits: Permits) -> Iterator[Seen]:
    """Yield the broken rules of a build whose whole text is in the file."""
    sides = [side for side in (build.cpp, build.cuda) if side]
    found = host_rules.violations([_joined(side) for side in sides], permits, build.definitions)
    for side, violations in zip(sides, found, strict=True):
        begins = [0]
        for before, piece in zip(side, side[1:], strict=False):
            begins.append(begins[-1] + before.text.count("\n") + (not piece.continues))
        for violation in violations:
            at = max(number for number, begin in enumerate(begins) if begin <= violation.row)
            row = min(violation.row - begins[at], side[at].text.count("\n"))
            yield Seen(violation.kind, violation.message, _line(side[at], row, lines))


def _joined(pieces: Sequence[Piece]) -> str:
    return "".join(("" if piece.continues or not n else "\n") + piece.text for n, piece in enumerate(pieces))


def _unsaid(found: Iterator[Seen], said: Sequence[Seen]) -> list[Seen]:
    """Return what is found at lines about which nothing is said yet."""
    lines = {seen.line for seen in said}
    return [seen for seen in found if seen.line not in lines]


def text_violations(
    texts: Sequence[str], candidate_source: str, permits: Permits, definitions: Sequence[str] = ()
) -> list[Seen]:
    """Return the broken rules of the texts of one build, at the lines of the file that contain them."""
    found: list[Seen] = []
    parsed = host_rules.violations(texts, permits, definitions)
    for text, violations in zip(texts, parsed, strict=True):
        rows = text.split("\n")
        said = list(_forbidden(Piece(text, 1, len(rows)), rows, searches=False))
        other = (Seen(v.kind, v.message, min(v.row, len(rows) - 1) + 1) for v in violations)
        found += [_placed(seen, rows, candidate_source) for seen in (*said, *_unsaid(other, said))]
    return found


def _placed(seen: Seen, rows: Sequence[str], candidate_source: str) -> Seen:
    """Move a finding from a row of the text to the first line of the file that contains it."""
    row = rows[seen.line - 1].strip() if seen.line else ""
    places = [n for n, line in enumerate(source_lines(candidate_source), 1) if row and row in line]
    return seen._replace(line=places[0] if places else None)


def _called_without_import(tree: ast.Module, names: Names) -> int | None:
    """Return the line of a call of `load_inline` if nothing binds that name, else None."""
    for node in nodes_run_on_import(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id == "load_inline" and names.path(called) is None:
            return called.lineno if names.assigned("load_inline") is None else None
    return None


def _forbidden(piece: Piece, lines: list[str], searches: bool) -> Iterator[Seen]:
    """Yield what a piece includes, and with `searches` the forbidden names in text that is not parsed."""
    read = logical(piece.text)
    for kind, pattern, reason in _FORBIDDEN if searches else ():
        called = [(match.start(), match) for match in re.finditer(pattern, read.code)]
        known = {read.line(at) for at, _ in called}
        for begin, body in _macro_bodies(read.code):
            if read.line(begin) not in known:
                called += [(begin, match) for match in re.finditer(pattern, body)]
        for at, match in called:
            word = (match[1] if match.lastindex else None) or re.sub(r"\s", "", match[0])
            yield Seen(kind, f"`{word}` is used in C++: {reason}.", _line(piece, read.line(at), lines))
    for match in _FILE_IN_ASSEMBLY.finditer(read.uncommented):
        words = "`.incbin` takes the bytes of a file into the library: a candidate opens no file."
        yield Seen("file-access", words, _line(piece, read.line(match.start()), lines))
    for match in _ABSOLUTE_INCLUDE.finditer(read.uncommented):
        words = "A header is included by its path: only headers of the tool chain and of torch may be."
        yield Seen("file-access", words, _line(piece, read.line(match.start()), lines))


def _macro_bodies(code: str) -> Iterator[tuple[int, str]]:
    """Yield each macro's position and body, its names turned into calls because its uses may call them."""
    for macro in _MACRO.finditer(code):
        yield macro.start(1), " " + _NAME.sub(r"\1(", macro[1])


def _line(piece: Piece, number: int, lines: list[str]) -> int:
    """Return the file's line for this line of a literal, found by its text because escapes shift lines."""
    wanted = piece.text.split("\n")[number].strip()
    expected = piece.first + number
    nearest = sorted(range(piece.first, piece.last + 1), key=lambda number: abs(number - expected))
    return next((n for n in nearest if n <= len(lines) and wanted and wanted in lines[n - 1]), piece.first)


def _inline(tree: ast.Module, names: Names) -> Inline:
    calls: list[ast.Call] = []
    mentions = 0
    for node in nodes_run_on_import(tree):
        if isinstance(node, ast.Call) and _is_load_inline(node.func, names):
            calls.append(node)
        mentions += isinstance(node, (ast.Name, ast.Attribute)) and _is_load_inline(node, names)
    pieces: list[Piece] = []
    builds: list[Build] = []
    # A mention that is not a call passes the function on, so its later sources are unknown.
    complete = mentions == len(calls)
    for call in calls:
        build = _of_call(call, names, pieces)
        complete &= build is not None
        builds += [build] if build is not None else []
    if not complete:
        known = {(piece.first, piece.text) for piece in pieces}
        pieces += [piece for piece in _loose(tree) if (piece.first, piece.text) not in known]
    return Inline(mentions > 0, tuple(pieces), complete, tuple(builds))


def _of_call(call: ast.Call, names: Names, pieces: list[Piece]) -> Build | None:
    """Add the literals of a call to `pieces`. Return its texts if they are all literals."""
    given = dict(zip(_SIDES, call.args[1:3], strict=False))
    whole = not any(isinstance(argument, ast.Starred) for argument in call.args)
    whole &= all(word.arg is not None for word in call.keywords)
    given |= {str(word.arg): word.value for word in call.keywords if word.arg in _SIDES}
    sides: dict[str, tuple[Piece, ...]] = {}
    for side, argument in given.items():
        own: list[Piece] = []
        whole &= not isinstance(argument, ast.Starred) and _fold(argument, names, own, frozenset())
        sides[side] = tuple(own)
        pieces += own
    options = [word.value for word in call.keywords if word.arg in {"extra_cflags", "extra_cuda_cflags"}]
    defined: list[Piece] = []
    known = all([_fold(option, names, defined, frozenset()) for option in options])
    if not whole:
        return None
    definitions = flags.definitions(tuple(piece.text for piece in defined))
    if not known:
        # Names that a flag defines are unknown, so the text is parsed when it is built.
        return Build((), (), ())
    return Build(sides.get("cpp_sources", ()), sides.get("cuda_sources", ()), tuple(definitions))


def _is_load_inline(node: ast.expr, names: Names) -> bool:
    path = names.path(node)
    if path is not None:
        return path.endswith("cpp_extension.load_inline")
    return isinstance(node, ast.Attribute) and node.attr == "load_inline"


def _fold(node: ast.expr, names: Names, pieces: list[Piece], within: frozenset[str]) -> bool:
    """Add the literals of a source expression to `pieces`. Return True if they are its whole text."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            pieces.append(Piece(node.value, node.lineno, node.end_lineno or node.lineno))
        return node.value is None or isinstance(node.value, str)
    if isinstance(node, (ast.List, ast.Tuple)):
        return all([_fold(element, names, pieces, within) for element in node.elts])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _fold(node.left, names, pieces, within)
        middle = len(pieces)
        right = _fold(node.right, names, pieces, within)
        if 0 < middle < len(pieces):
            pieces[middle] = pieces[middle]._replace(continues=True)
        return left and right
    if isinstance(node, ast.Name) and node.id not in within:
        value = names.assigned(node.id)
        return value is not None and _fold(value, names, pieces, within | {node.id})
    if isinstance(node, ast.Call):
        return _fold_call(node, names, pieces, within)
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            pieces.append(Piece(part.value, node.lineno, node.end_lineno or node.lineno))
    return False


def _fold_call(node: ast.Call, names: Names, pieces: list[Piece], within: frozenset[str]) -> bool:
    """Fold a call: `dedent(text)` and `text.strip()` keep the text; `format`, `join` and others do not."""
    if names.path(node.func) in {"textwrap.dedent", "inspect.cleandoc"} and len(node.args) == 1:
        return _fold(node.args[0], names, pieces, within)
    if not isinstance(node.func, ast.Attribute):
        return False
    whole = _fold(node.func.value, names, pieces, within)
    for argument in node.args:
        _fold(argument, names, pieces, within)
    return whole and node.func.attr in {"strip", "lstrip", "rstrip", "lower"} and not node.args


def _loose(tree: ast.Module) -> Iterator[Piece]:
    """Yield literals that look like C++ and may be part of a source; docstrings are left out."""
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in nodes_run_on_import(tree):
        literal = isinstance(node, ast.Constant) and id(node) not in statements and node.value
        if isinstance(node, ast.Constant) and isinstance(literal, str) and _LOOKS_LIKE_SOURCE.search(literal):
            yield Piece(literal, node.lineno, node.end_lineno or node.lineno)
