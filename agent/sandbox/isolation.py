"""Which isolation this machine gives, found by trying it."""

import functools
import shutil
import subprocess
from typing import Literal

Isolation = Literal["namespaces", "process"]

_UNSHARE = (
    "--user", "--map-current-user", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
)  # fmt: skip


@functools.cache
def strongest() -> Isolation:
    """The strongest isolation that works here; tried once per process."""
    command = _prefix("namespaces")
    if shutil.which("unshare") is None:
        return "process"
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "process"
    return "namespaces" if tried.returncode == 0 else "process"


def wrap(argv: list[str], isolation: Isolation) -> list[str]:
    """The command that runs `argv` under the given isolation."""
    return [*_prefix(isolation), *argv]


def _prefix(isolation: Isolation) -> list[str]:
    if isolation == "process":
        return []
    # The shell stays as the first process of the namespace: as process 1 the child itself would ignore
    # signals it raises, and abort() would look like a segmentation fault.
    return ["unshare", *_UNSHARE, "--", "/bin/sh", "-c", '"$@"; exit $?', "sh"]
