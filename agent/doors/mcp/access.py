"""Access control for clients: references, candidates and runs, and no file outside the allowed folders.

A reference is trusted code, because it defines the right answer; a candidate is not trusted. There are thus
two lists of folders, and both are empty unless the user fills them.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from agent import problems, resources, store
from agent.api import Run
from agent.errors import UsageError

LARGEST_CANDIDATE_BYTES = 2**20
_RUN = re.compile(r"(?:recorded/)?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}")
_ATTEMPT = re.compile(r"(?P<run>[^:]+):[0-9]{1,9}")


@dataclass(frozen=True)
class Access:
    """Folders that a client may read."""

    runs_dir: Path
    references: tuple[Path, ...] = ()
    """Folders from which clients may read references, which are trusted."""
    candidates: tuple[Path, ...] = ()
    """Folders from which clients may read candidates, which are not trusted."""
    kernelbench_root: Path | None = None

    def reference(self, address: str) -> str:
        """Return the address of a reference, made unambiguous for `load_problem`. Raises UsageError."""
        if address.startswith("kernelbench:"):
            problems.path(address, self.kernelbench_root)
            return address
        shipped = [name for name in problems.names() if name == address or name.endswith(f"/{address}")]
        if address in shipped or len(shipped) == 1:
            name = address if address in shipped else shipped[0]
            # A file with that name in the current folder would take precedence.
            return str(resources.folder("references") / f"{name}.py") if Path(name).exists() else name
        return str(_inside(address, self.references, "reference", "--references DIR"))

    def candidate(self, given: str) -> str:
        """Return the text of a candidate, given as text, as a file, or as attempt K of a run (`RUN:K`).

        Raises UsageError.
        """
        if "\n" in given or "class ModelNew" in given:
            text = given
        elif named := _ATTEMPT.fullmatch(given):
            self.run(named["run"])
            text = store.resolve_candidate(given, self.runs_dir).source
        else:
            text = _read(_inside(given, self.candidates, "candidate", "--candidates DIR"), self.candidates)
        return bounded(text)

    def run(self, address: str) -> Run:
        """Open a run in the folder of runs, or a recorded one. Raises UsageError."""
        if not _RUN.fullmatch(address):
            raise UsageError(f"{address[:80]!r} is no id of a run; name one that the tool list_runs lists")
        found = Run.open(address, runs_dir=self.runs_dir)
        homes = (self.runs_dir.resolve(), resources.folder("recorded").resolve())
        if found.path.resolve().parent not in homes:
            raise UsageError(f"run {address} does not lie in the folder of runs")
        return found


def bounded(text: str) -> str:
    """Return the text of a candidate or an answer. Raises UsageError if it is invalid or too long."""
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError("a candidate is text; this holds half a character") from None
    if size > LARGEST_CANDIDATE_BYTES:
        raise UsageError(f"a candidate has at most {LARGEST_CANDIDATE_BYTES >> 20} MiB")
    return text


def _inside(given: str, folders: tuple[Path, ...], what: str, option: str) -> Path:
    """Resolve the path, following links. Raises UsageError if it is no file in any of the folders."""
    if "\0" in given or len(given) > 4096:
        raise UsageError(f"this is no path of a {what}")
    if not folders:
        raise UsageError(
            f"no folder of {what}s is allowed, so {given[:80]!r} is not read; start the server with {option}"
        )
    # The path is relative to the first folder that has it, so a client need not know the working directory.
    for folder in folders:
        path = Path(os.path.realpath(folder / given))
        if path.is_file() and _is_within(path, folders):
            return path
    listed = ", ".join(map(str, folders))
    raise UsageError(f"{given[:200]!r} is no file in the allowed folders of {what}s: {listed}")


def _is_within(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(os.path.realpath(folder)) for folder in folders)


def _read(path: Path, folders: tuple[Path, ...]) -> str:
    """Read a small regular file, checking again after opening it that it lies in an allowed folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            now = Path(os.path.realpath(f"/proc/self/fd/{descriptor}"))
            if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _is_within(now, folders):
                raise UsageError(f"{path} is no regular file in an allowed folder")
            content = file.read(LARGEST_CANDIDATE_BYTES + 1)
        return content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text; a candidate is a Python file with ModelNew") from None
