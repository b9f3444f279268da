"""Durable writes, and the one line a user gets when the disk refuses them."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import EnvironmentFault

FREE_BYTES = 64 * 1024 * 1024
"""A run is not started with less: a long one writes a few MB, its builds a few dozen."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError about `path` into an EnvironmentFault that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            reason = "the disk or the quota is full: free some space, or set --runs-dir to another disk"
        elif error.errno in _DENIED:
            reason = "it is not writable: mend its permissions, or set --runs-dir to another disk"
        else:
            reason = error.strerror or str(error)
        raise EnvironmentFault(f"cannot write {path}: {reason}") from error


def require_space(folder: Path) -> None:
    """Raises EnvironmentFault when fewer than FREE_BYTES are free under `folder`."""
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        raise EnvironmentFault(
            f"only {free // 2**20} MB are free under {folder}, a run needs {FREE_BYTES // 2**20} MB: "
            "free some space, or set --runs-dir to another disk"
        )


def write_durably(path: Path, content: bytes) -> None:
    """Writes the whole file or none of it; it is on disk when this returns. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; these are as readable as anything else the user writes.
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Puts the folder's own entries on disk: a renamed or new file is lost without it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
