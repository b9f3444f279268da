"""Scanner for CUDA C++ text: it finds code, matching brackets and the parts of a launch.

The scanner knows comments, literals, brackets and preprocessor lines, but neither types nor macros. Positions
are offsets into the text. Functions that blank out parts keep the length and the line breaks of the text, so
positions and lines stay valid.
"""

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<raw>     (?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z) )
  | (?P<string>  "(?:\\.|[^"\\\n])*"? )
  | (?P<char>    '(?:\\.|[^'\\\n])+'? )
  | (?P<number>  \.?\d(?:[eEpP][+-]|'?[\w.])* )
  | (?P<word>    [A-Za-z_]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)
_NOT_LINE_BREAK = re.compile(r"[^\r\n]")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"\b(?:alignas|__align__|__attribute__|__launch_bounds__|__maxnreg__|__cluster_dims__)\s*"
    r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_UNNAMED = re.compile(r"\b(?:inline[ \t]+)?namespace\b(?=\s*\{)")
_LAUNCH_CLOSE = re.compile(r">>>(?:\s|\\\r?\n)*\(")
_OPENERS = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = {closer: opener for opener, closer in _OPENERS.items()}


NAMED = "kw_unnamed"
"""Name given to unnamed namespaces, so that two compilers mangle their symbols alike."""


class RewriteError(Exception):
    """Exception raised for CUDA syntax that nvcc would refuse, or that the scanner cannot read.

    `line` counts from 1.
    """

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def _spaces(text: str) -> str:
    return _NOT_LINE_BREAK.sub(" ", text)


def without_comments(text: str, *, in_place: bool = True) -> str:
    """Return the text with every comment replaced by spaces, or by a single one if not `in_place`."""
    filled = _spaces if in_place else lambda comment: " "
    return _TOKEN.sub(lambda m: filled(m[0]) if m["comment"] else m[0], text)


def code_only(text: str) -> str:
    """Return the text with comments and the contents of string and character literals as spaces."""

    def replaced(match: re.Match[str]) -> str:
        token = match[0]
        if match["comment"]:
            return _spaces(token)
        if match["raw"] or match["string"] or match["char"]:
            return token[0] + _spaces(token[1:-1]) + token[-1] if len(token) > 1 else token
        return token

    return _TOKEN.sub(replaced, text)


def without_attributes(code: str) -> str:
    """Return the code with alignments, attributes and launch bounds replaced by spaces."""
    return _ATTRIBUTE.sub(lambda m: _spaces(m[0]), code)


def with_named_namespaces(text: str) -> str:
    """Return the text with a name for unnamed namespaces, whose symbols compilers mangle differently.

    The named namespaces are inline, so lookup still finds their members, which other units can see now.
    """
    code = code_only(text)
    macros = directives(code)
    for match in reversed(list(_UNNAMED.finditer(code))):
        if not any(start <= match.start() < end for start, end in macros):
            text = text[: match.start()] + f"inline namespace {NAMED}" + text[match.end() :]
    return text


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def directives(code: str) -> list[tuple[int, int]]:
    """Return the start and end of every preprocessor line, continuation lines included."""
    return [match.span() for match in _DIRECTIVE.finditer(code)]


def closing(code: str, opening: int) -> int:
    """Return the position of the bracket that closes the bracket at `opening`.

    Raises RewriteError if it is never closed.
    """
    expected: list[str] = []
    for position in range(opening, len(code)):
        character = code[position]
        if character in _OPENERS:
            expected.append(_OPENERS[character])
        elif character in _CLOSERS:
            if character != expected.pop():
                break
            if not expected:
                return position
    raise RewriteError(f"'{code[opening]}' is never closed", line_of(code, opening))


def opening(code: str, closing_position: int, opener: str, closer: str) -> int:
    """Return the position of the `opener` that matches the `closer` at `closing_position`.

    If the brackets are angle brackets, the `>` of `->` does not count, and text in parentheses is skipped.
    """
    depth = 0
    position = closing_position
    while position >= 0:
        character = code[position]
        if character == closer and not (closer == ">" and code[position - 1] == "-"):
            depth += 1
        elif character == opener:
            depth -= 1
            if depth == 0:
                return position
        elif opener == "<" and character == ")":
            position = opening(code, position, "(", ")")
        position -= 1
    raise RewriteError(f"'{closer}' was never opened", line_of(code, closing_position))


def split_at_commas(code: str) -> list[tuple[int, int]]:
    """Return start and end of the parts between commas, except commas in brackets or template arguments."""
    pieces = []
    start = depth = angles = 0
    for position, character in enumerate(code):
        if character in _OPENERS:
            depth += 1
        elif character in _CLOSERS:
            depth -= 1
        elif depth > 0:
            continue
        elif character == "<" and re.search(r"\w\s*$", code[:position]):
            angles += 1
        elif character == ">" and angles > 0:
            angles -= 1
        elif character == "," and angles == 0:
            pieces.append((start, position))
            start = position + 1
    return [*pieces, (start, len(code))]


def at_namespace_scope(code: str, position: int) -> bool:
    """Return True if every brace open at `position` belongs to a namespace or an `extern "C"`."""
    open_braces: list[int] = []
    for match in re.finditer(r"[{}]", code[:position]):
        if match[0] == "{":
            open_braces.append(match.start())
        elif open_braces:
            open_braces.pop()
    transparent = re.compile(r'(?:\bnamespace(?:\s+[\w:]+)?|\bextern\s*"[^"]*")\s*$')
    return all(transparent.search(code, max(0, brace - 200), brace) for brace in open_braces)


@dataclass(frozen=True)
class KernelLaunch:
    """Kernel launch `callee<<<config>>>(arguments)`: start and end of each part, without its brackets."""

    start: int
    end: int
    callee: tuple[int, int]
    config: tuple[int, int]
    arguments: tuple[int, int]


def launches(code: str) -> list[KernelLaunch]:
    """Return all kernel launches in the code, in order.

    Raises RewriteError for a `<<<` that is not a launch.
    """
    return [_launch_at(code, match.start()) for match in re.finditer(r"<<<", code)]


def _launch_at(code: str, chevrons: int) -> KernelLaunch:
    line = line_of(code, chevrons)
    callee_end = len(code[:chevrons].rstrip())
    callee_start = _callee_start(code, callee_end)
    if callee_start == callee_end:
        raise RewriteError("'<<<' without a kernel before it", line)
    depth = 0
    position = chevrons + 3
    while position < len(code):
        character = code[position]
        if character in _OPENERS:
            depth += 1
        elif character in _CLOSERS:
            depth -= 1
        elif depth == 0 and character == ">":
            match = _LAUNCH_CLOSE.match(code, position)
            if match:
                parenthesis = match.end() - 1
                end = closing(code, parenthesis)
                config = (chevrons + 3, position)
                return KernelLaunch(
                    callee_start, end + 1, (callee_start, callee_end), config, (parenthesis + 1, end)
                )
        if depth < 0 or (depth == 0 and character == ";"):
            break
        position += 1
    raise RewriteError("'<<<' without '>>>(' after it: a kernel launch is kernel<<<grid, block>>>(...)", line)


def _callee_start(code: str, end: int) -> int:
    """Return the start of the expression before a launch's `<<<` that names the kernel and ends at `end`."""
    position = end
    while True:
        position = _one_name_start(code, position)
        before = code[:position].rstrip()
        if before.endswith("::"):
            qualifier_end = len(before[:-2].rstrip())
            if qualifier_end == 0 or not re.match(r"[\w>]", code[qualifier_end - 1]):
                return len(before) - 2
            position = qualifier_end
        elif re.search(r"\btemplate$", before):
            position = len(before) - len("template")
            before = code[:position].rstrip()
            if not before.endswith("::"):
                return position
            position = len(before[:-2].rstrip())
        else:
            return position


def _one_name_start(code: str, end: int) -> int:
    """Return the start of the `name`, `name<arguments>`, `name[index]` or `(expression)` ending at `end`."""
    position = len(code[:end].rstrip())
    if position and code[position - 1] == ">":
        position = len(code[: opening(code, position - 1, "<", ">")].rstrip())
    while position and code[position - 1] == "]":
        position = len(code[: opening(code, position - 1, "[", "]")].rstrip())
    if position and code[position - 1] == ")":
        return opening(code, position - 1, "(", ")")
    while position and re.match(r"\w", code[position - 1]):
        position -= 1
    return position
