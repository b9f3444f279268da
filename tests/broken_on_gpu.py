"""Run the broken kernels of `emulator/modern` on a GPU, each in its own process.

Use `PYTHONPATH=.:tests:tests/emulator python -m broken_on_gpu FILE` on a machine with a GPU and nvcc. The
script reports how each kernel ended: `ran`, CUDA's error, or `hangs`. For those that ran, it counts the
correct results.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from modern_gpu import GpuDevice, cubin
from modern_wanted import WANTED, Arrays

RUNS = 20
LIMIT_S = 12
"""Seconds after which a kernel counts as hanging."""
Launch = Callable[[GpuDevice], Arrays]


def launches() -> dict[str, Launch]:
    """Return the launches of the emulator's tests by `source.kernel`."""
    modern, broken, warpgroups = map(import_module, ("test_modern", "test_modern_broken", "test_warpgroups"))
    found: dict[str, Launch] = {
        f"{one.source}.{one.kernel}": partial(broken.launched, broken=one) for one in broken.BROKEN
    }
    for one in warpgroups.BROKEN:
        found[f"warpgroups.{one.kernel}"] = partial(warpgroups.launched, broken=one)
    for kernel in modern.BROKEN_MAPS:
        found[f"tensors.{kernel}"] = partial(modern.launched, kernel=kernel)
    return found


def runs(name: str, folder: Path) -> dict[str, Any]:
    """Launch one kernel RUNS times, or until CUDA reports an error."""
    device = GpuDevice(name.partition(".")[0], folder)
    right, wanted, example = 0, WANTED.get(name), None
    for number in range(RUNS):
        try:
            arrays = launches()[name](device)
        except RuntimeError as error:
            return {"outcome": str(error), "run": number + 1}
        if wanted is not None:
            expected = np.asarray(wanted(arrays)).ravel()
            made = arrays[-1].ravel()[: len(expected)]
            wrong = np.flatnonzero(made != expected)
            right += not len(wrong)
            if len(wrong):
                example = [len(wrong), int(wrong[0]), float(made[wrong[0]]), float(expected[wrong[0]])]
        device.reset()
    return {"outcome": "ran", "runs": RUNS, "right": right if wanted else None, "wrong": example}


def outcome(name: str, folder: Path) -> dict[str, Any]:
    """Run one kernel in a child process, which is killed if the kernel hangs, and return its result."""
    command = [sys.executable, "-m", "broken_on_gpu", "--one", name, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"outcome": "hangs"}
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"{name}: {done.stderr}") from None
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="those whose names begin with this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(runs(options.one, options.file)))
        return
    names, found = [name for name in launches() if name.startswith(options.only)], {}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(8) as pool:
        folder = Path(scratch)
        list(pool.map(lambda source: cubin(source, folder), {name.partition(".")[0] for name in names}))
        for name, ended in zip(names, pool.map(lambda name: outcome(name, folder), names), strict=True):
            found[name] = ended
            print(name, ended, flush=True)
            options.file.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
