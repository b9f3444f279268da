"""What the steps of one fast build take: `python -m benchmarks.build_steps`, with nothing cached, no sandbox.

Of the recorded answer for `level1/group_norm`: the host's unit alone, the device's unit alone with each step
as the shell begins it; then the whole, in its sandbox.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agent import gpu_build
from agent.build.objects import Compilation
from agent.gpu_build import Gpu, gpu
from agent.gpu_build.build import _Build
from benchmarks.build import asked, candidates

_TOOLS = ("g++", "cicc", "ptxas", "fatbinary", "cudafe++", "nvcc")
_TRACED = re.compile(r"^\++(\d+\.\d+) (.*)$")


def main() -> None:
    here = gpu.present() or Gpu(capability="9.0")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        toolchain = gpu_build.prepare(place)
        [candidate] = [path for path in candidates(place) if path.stem == "recorded_4"]
        request = asked(candidate)
        scratch = place / "scratch"
        scratch.mkdir()
        made = _Build(toolchain, request, here, place / "cache", 600.0)
        assert made._device is not None
        host = Compilation(toolchain, [made._main], scratch, place / "cache").commands()
        _, shell, *device = made._device.command(scratch, full=False)
        for command in host:
            _timed("host unit", command, scratch)
        traced = ["bash", "-c", f"PS4='+$EPOCHREALTIME '; set -x; . {shell}", "sh", *device]
        _steps(_timed("device unit", traced, scratch))
        for _ in range(2):
            started = time.monotonic()
            with tempfile.TemporaryDirectory() as cache:
                gpu_build.extension(toolchain, request, here, Path(cache), 600.0)
            sys.stdout.write(f"{time.monotonic() - started:6.2f} s  the whole, in its sandbox\n")


def _timed(what: str, command: list[str], scratch: Path) -> list[str]:
    started = time.monotonic()
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    sys.stdout.write(f"{time.monotonic() - started:6.2f} s  {what} (exit {done.returncode})\n")
    return [*done.stderr.splitlines(), *done.stdout.splitlines()]


def _steps(lines: list[str]) -> None:
    found = sorted((float(match[1]), match[2]) for match in map(_TRACED.match, lines) if match)
    for at, command in found:
        if command.split()[0].strip('"').endswith(_TOOLS) or command.startswith("wait"):
            sys.stdout.write(f"    +{at - found[0][0]:6.3f}  {command[:110]}\n")


if __name__ == "__main__":
    main()
