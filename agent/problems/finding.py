"""Resolve a PROBLEM address to the text of a reference.

This module finds and reads. It checks that the file is Python that defines Model, get_inputs and
get_init_inputs, and runs nothing. An address is a path, a shipped name or a unique tail of one, or
`kernelbench:LEVEL/ID` in a local checkout.
"""

import ast
import difflib
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent import resources
from agent.errors import ProblemError
from agent.python_source import syntax_tree

_PARTS = ("Model", "get_inputs", "get_init_inputs")
_MAX_BYTES = 2**20
_KERNELBENCH = "kernelbench:"


def names() -> tuple[str, ...]:
    """Return the names of the shipped references, such as `level1/group_norm`, sorted."""
    folder = resources.folder("references")
    return tuple(sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.py")))


def path(address: str, kernelbench_root: Path | None = None) -> Path:
    """Return the file that an address leads to; it exists and is not a directory.

    Raises ProblemError if it is unknown, ambiguous, missing, a directory, or needs a KernelBench checkout.
    """
    if address.startswith(_KERNELBENCH):
        return _in_kernelbench(address, kernelbench_root)
    given = Path(address).expanduser()
    if given.is_file():
        return given
    matches = [name for name in names() if name == address or name.endswith(f"/{address}")]
    if address in matches:
        matches = [address]
    if len(matches) == 1:
        return resources.folder("references") / f"{matches[0]}.py"
    if matches:
        raise ProblemError(f"{address} is ambiguous: {', '.join(matches)}; name one of them")
    if given.is_dir():
        raise ProblemError(f"{address} is a directory; give a reference file inside it")
    if given.exists():
        raise ProblemError(f"{address} is not a regular file; give a Python file")
    if address.endswith(".py") or address.startswith(("/", ".", "~")):
        raise ProblemError(f"{address} does not exist; give a reference file or one of: {', '.join(names())}")
    near = difflib.get_close_matches(address, _spellings(names()), n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(near)}?" if near else f"shipped are: {', '.join(names())}"
    raise ProblemError(f"{address} is neither a file nor a shipped reference; {hint}")


def name(file: Path) -> str:
    """Return the shipped name of a file among the shipped references, or the stem of any other file."""
    folder = resources.folder("references").resolve()
    resolved = file.resolve()
    if resolved.is_relative_to(folder):
        return resolved.relative_to(folder).with_suffix("").as_posix()
    return file.stem


def source(file: Path) -> str:
    """Return the text of a reference that parses and defines its three parts.

    Raises ProblemError with file and line if it is unreadable, empty, binary, too large or invalid Python, or
    if a part is missing.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ProblemError(f"{file} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise ProblemError(f"{file} is {len(content):,} bytes; a reference is Python source of at most 1 MiB")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProblemError(f"{file}:{line}: not UTF-8 text; a reference is Python source") from error
    if "\0" in text:
        raise ProblemError(
            f"{file}:{text[: text.index(chr(0))].count(chr(10)) + 1}: binary, not Python source"
        )
    if not text.strip():
        raise ProblemError(f"{file} is empty; a reference defines {', '.join(_PARTS)}")
    _check(file, text)
    return text


def _check(file: Path, text: str) -> None:
    try:
        tree = syntax_tree(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, str(file), "exec")
    except SyntaxError as error:
        raise ProblemError(f"{file}:{error.lineno or 1}: syntax error: {error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise ProblemError(f"{file}: nested too deeply for Python to compile") from error
    bound = set(_bound(tree.body))
    missing = [part for part in _PARTS if part not in bound and "*" not in bound]
    if missing:
        end = len(text.splitlines())
        raise ProblemError(
            f"{file}:{end}: ends without {' and '.join(missing)}; a reference defines {', '.join(_PARTS)}"
        )


def _bound(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that module-level statements bind, also inside `if`, `try`, `with` and loops."""
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.alias):
                yield node.asname or node.name


def kernelbench_level(level: int, root: Path | None) -> Path:
    """Return the folder of a level in a local checkout. Raises ProblemError if there is none."""
    if root is None:
        raise ProblemError(f"kernelbench:{level} needs a local KernelBench checkout: set KERNELBENCH_ROOT")
    folders = [folder for folder in (root / "KernelBench", root) if (folder / f"level{level}").is_dir()]
    if not folders:
        raise ProblemError(
            f"{root} contains no KernelBench/level{level}; KERNELBENCH_ROOT has to name the checkout"
        )
    return folders[0] / f"level{level}"


def _in_kernelbench(address: str, root: Path | None) -> Path:
    level, _, problem = address.removeprefix(_KERNELBENCH).partition("/")
    level = level.removeprefix("level")
    if not (level.isdecimal() and problem.isdecimal()):
        raise ProblemError(f"{address}: write kernelbench:LEVEL/ID with two numbers, as in kernelbench:1/35")
    folder = kernelbench_level(int(level), root)
    found = sorted(folder.glob(f"{int(problem)}_*.py"))
    if len(found) != 1:
        raise ProblemError(f"{address}: {folder} has {len(found) or 'no'} files named {int(problem)}_*.py")
    return found[0]


def _spellings(shipped: Iterable[str]) -> list[str]:
    return [spelling for one in shipped for spelling in (one, one.rpartition("/")[2])]
