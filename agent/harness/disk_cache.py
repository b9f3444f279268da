"""What is worked out once for each problem and kept in the user's cache."""

import ast
import secrets
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from agent.python_source import syntax_tree
from agent.records import Record, digest

_ROOT = Path(__file__).resolve().parents[2]

R = TypeVar("R", bound=Record)


def cached(file: Path, kind: type[R], make: Callable[[], R]) -> R:
    """The record in `file`; made and written where there is none that can be read."""
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        made = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    # Another thread or process may be making the same.
    part = file.with_suffix(f".{secrets.token_hex(8)}")
    part.write_text(made.model_dump_json(), encoding="utf-8")
    part.replace(file)
    return made


@cache
def code_digest(module: str) -> str:
    """Changes with the text of a module of ours and of every other one that it imports, directly or not.

    For the key of what that code works out. Imports of a name known only at run time are not followed.
    """
    files = imported_files(module)
    return digest(*(part for name in sorted(files) for part in (name, files[name].read_text("utf-8"))))


def imported_files(module: str) -> dict[str, Path]:
    """By their names, `module` and the modules of this package that it imports, directly or not.

    Raises FileNotFoundError where there is no such module.
    """
    first = _file(module)
    if first is None:
        raise FileNotFoundError(f"no module {module} under {_ROOT}")
    found, left = {module: first}, [module]
    while left:
        name = left.pop()
        for imported in _imports(name, found[name]):
            file = None if imported in found else _file(imported)
            if file is not None:
                found[imported] = file
                left.append(imported)
    return found


def _imports(name: str, file: Path) -> Iterator[str]:
    """What may be a module among the names that a file imports; not the package of all, which is a facade."""
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(syntax_tree(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))


def _file(module: str) -> Path | None:
    """Of a module within this package."""
    if not module.startswith(f"{__name__.partition('.')[0]}."):
        return None
    path = _ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
