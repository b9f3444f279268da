"""Kernels that compare large outputs on a GPU (`harness/truth/passes.cu`), compiled once per user."""

import secrets
import subprocess
from pathlib import Path

from agent.build import nvcc
from agent.gpu_build import Gpu
from agent.harness.truth import PASSES
from agent.records import digest


def compiled(cache: Path, gpu: Gpu | None, timeout_s: float = 60.0) -> Path | None:
    """Return the path of the kernels compiled for this GPU, or None if they cannot be built."""
    found = nvcc.find()
    if gpu is None or found is None:
        return None
    key = digest(PASSES.read_text(), found.version, gpu.capability)[:16]
    place = cache / "comparison" / f"{key}.cubin"
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.with_suffix(f".{secrets.token_hex(8)}")
        command = [str(found.path), "-cubin", f"-arch=sm_{gpu.number}", "-std=c++17", str(PASSES), "-o"]
        try:
            subprocess.run([*command, str(made)], capture_output=True, check=True, timeout=timeout_s)
        except (OSError, subprocess.SubprocessError):
            return None
        made.replace(place)
    return place
