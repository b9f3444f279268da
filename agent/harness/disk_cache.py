"""Records that are computed once per problem and kept in the user's cache."""

import ast
import contextlib
import secrets
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout
from pydantic import ValidationError

from agent.python_source import syntax_tree
from agent.records import Record, digest

_ROOT = Path(__file__).resolve().parents[2]

R = TypeVar("R", bound=Record)
Waiting = Callable[[], None]
"""Function called before a wait for another process, to inform the user."""
WAIT_S = 900.0
"""Maximum seconds to wait for another process; this process then makes the record as well."""


def cached(file: Path, kind: type[R], make: Callable[[], R], waiting: Waiting = lambda: None) -> R:
    """Return the record in `file`, made and stored by `make` if there is none or it is invalid.

    If another thread or process is making this record already, call `waiting` and wait for the result. If
    the folder cannot be locked or written, the record is returned without being kept.
    """
    known = read(file, kind)
    if known is not None:
        return known
    with _alone(file, waiting):
        known = read(file, kind)
        if known is not None:
            return known
        made = make()
        # On a full disk, or in a folder owned by another user, the caller still gets its result.
        with contextlib.suppress(OSError):
            _write(file, made)
    return made


def read(file: Path, kind: type[R]) -> R | None:
    """Return the record in `file`, or None if the file is missing or holds no valid record."""
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _write(file: Path, record: Record) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Writers may run without the lock: the folder may not support locks, and waits end after WAIT_S.
    part = file.with_suffix(f".{secrets.token_hex(8)}")
    part.write_text(record.model_dump_json(), encoding="utf-8")
    part.replace(file)


@contextlib.contextmanager
def _alone(file: Path, waiting: Waiting) -> Iterator[None]:
    """Hold the lock file beside `file`, which the operating system's kernel releases when its holder dies.

    Continue without the lock if the folder supports none, or after WAIT_S. The record may then be made twice.
    """
    lock = FileLock(file.with_suffix(".lock"))
    try:
        _acquire(lock, waiting)
        yield
        if lock.is_locked and file.exists():
            # Every process that still waits for this lock will read the record, so the lock can go.
            with contextlib.suppress(OSError):
                Path(lock.lock_file).unlink(missing_ok=True)
    finally:
        lock.release()


def _acquire(lock: FileLock, waiting: Waiting) -> None:
    # Timeout is an OSError, like the error of a folder that is read-only or supports no locks.
    with contextlib.suppress(OSError, NotImplementedError):
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire(timeout=WAIT_S)


@cache
def code_digest(module: str) -> str:
    """Return a digest of the source of a module and of this package's modules that it imports, transitively.

    The digest is part of the cache keys of that code's results. Imports by computed names are not followed.
    """
    files = imported_files(module)
    return digest(*(part for name in sorted(files) for part in (name, files[name].read_text("utf-8"))))


def imported_files(module: str) -> dict[str, Path]:
    """Map names to files for `module` and the modules of this package that it imports, transitively.

    Raises FileNotFoundError if there is no such module.
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
    """Yield imported names that may be modules; the root package is excluded because it is a facade."""
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(syntax_tree(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            yield from (source, *(f"{source}.{alias.name}" for alias in node.names))


def _file(module: str) -> Path | None:
    """Return the file of a module within this package, or None."""
    if not module.startswith(f"{__name__.partition('.')[0]}."):
        return None
    path = _ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
