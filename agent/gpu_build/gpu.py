"""The GPU to build for, as reported by the driver."""

import re
import shutil
import subprocess
from functools import cache

from agent.records import Record

_SECONDS = 30


class Gpu(Record):
    """GPU to build for, by its compute capability, such as `9.0`."""

    capability: str

    @property
    def number(self) -> str:
        """Architecture number, such as `90` in sm_90."""
        return self.capability.replace(".", "")


@cache
def present() -> Gpu | None:
    """Return the GPU of this machine, or None without one or if GPUs differ in compute capability."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = {row.strip() for row in answer.stdout.splitlines()}
    if answer.returncode != 0 or len(found) != 1:
        return None
    [capability] = found
    return Gpu(capability=capability) if re.fullmatch(r"\d+\.\d", capability) else None
