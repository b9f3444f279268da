"""Durable writes, and the one-line error that a user sees when the disk refuses them."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import EnvironmentFault

FREE_BYTES = 64 * 1024 * 1024
"""Minimum free disk space in bytes to start a run. A long run writes a few MB, its builds a few dozen MB."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError about `path` into an EnvironmentFault that says what to do."""
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
    """Raise EnvironmentFault when fewer than FREE_BYTES are free under `folder`."""
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        raise EnvironmentFault(
            f"only {free // 2**20} MB are free under {folder}, a run needs {FREE_BYTES // 2**20} MB: "
            "free some space, or set --runs-dir to another disk"
        )


def write_durably(path: Path, content: bytes) -> None:
    """Write the whole file or none of it; it is on disk on return. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp creates private files, but stored files should be as readable as the user's other files.
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush the folder's own entries to disk. Without this, a crash can lose a new or renamed file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
