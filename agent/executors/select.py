"""Choice of the executor, and the reason why `cuda` is unavailable on this machine; uses no GPU."""

import shutil
import subprocess
from pathlib import Path
from typing import Literal

from agent import config
from agent.errors import EnvironmentFault

NAMES = ("auto", "cuda", "emulator")


def choose(wanted: Literal["auto", "cuda", "emulator"]) -> Literal["cuda", "emulator"]:
    """Return the executor to use. Raises EnvironmentFault if CUDA was requested and cannot run here."""
    if wanted == "emulator":
        return "emulator"
    obstacle = cuda_obstacle()
    if obstacle is None:
        return "cuda"
    if wanted == "cuda":
        raise EnvironmentFault(f"--executor cuda: {obstacle}; use --executor emulator to judge on the CPU")
    return "emulator"


def cuda_obstacle() -> str | None:
    """Return the reason why candidates cannot be built and run on a GPU here, with its remedy, or None."""
    if gpu_name() is None:
        return "no NVIDIA GPU answers (nvidia-smi lists none); install the driver or use a machine with one"
    if nvcc() is None:
        return "no nvcc on PATH or under CUDA_HOME; install the CUDA toolkit"
    return None


def gpu_name() -> str | None:
    """Return the first GPU's name as the driver reports it, or None."""
    return next(iter(gpu_names()), None)


def gpu_names() -> tuple[str, ...]:
    """Return the names of all GPUs in the driver's order, or () if the driver does not answer."""
    return _asked("name")


def _asked(field: str) -> tuple[str, ...]:
    """Return one property of all GPUs in the driver's order, or () if the driver does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(str.strip, answer.stdout.strip().splitlines())) if answer.returncode == 0 else ()


def nvcc() -> Path | None:
    """Return the path of the nvcc that `load_inline` would use, or None."""
    home = config.child_environment().get("CUDA_HOME")
    places = [Path(home) / "bin" / "nvcc"] if home else []
    on_path = shutil.which("nvcc")
    places += [Path(on_path)] if on_path else []
    return next((place for place in [*places, Path("/usr/local/cuda/bin/nvcc")] if place.is_file()), None)
