"""Builds launch_suppression.cpp, a library that suppresses kernel launches in a candidate's process."""

import secrets
import shutil
import subprocess
from pathlib import Path

from agent.records import digest

SOURCE = Path(__file__).resolve().with_name("launch_suppression.cpp")


def library(cache: Path, timeout_s: float = 60.0) -> Path | None:
    """Return the path of the library, built at first use, or None if it cannot be built."""
    place = cache / "suppress" / f"{digest(SOURCE.read_text())[:16]}.so"
    compiler = shutil.which("g++")
    if not place.is_file() and compiler is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.with_suffix(f".{secrets.token_hex(8)}")
        command = [compiler, "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(made), "-ldl"]
        try:
            subprocess.run(command, capture_output=True, check=True, timeout=timeout_s)
        except (OSError, subprocess.SubprocessError):
            return None
        made.replace(place)
    return place if place.is_file() else None


def preloaded(suppressor: Path | None) -> dict[str, str]:
    """Return the environment variables that preload the suppressor into a process."""
    return {"LD_PRELOAD": str(suppressor)} if suppressor else {}
