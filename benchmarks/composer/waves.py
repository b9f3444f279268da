"""Several problems on one GPU: built and compiled side by side, timed one after another.

A wave is as many problems as the GPU has memory for. While one is timed nothing else runs on the GPU; the
next wave's kernels are built on the CPU meanwhile.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.composer.cases import Case, loaded

MEMORY_SHARE = 0.9
"""Of the GPU's, what the problems of a wave may hold together."""
COPIES = 3.5
"""Of a problem's inputs and outputs, what its process holds at most while both are compiled and compared."""
STEP_LIMIT_S = 400.0
ROOT = Path(__file__).resolve().parents[2]
Answer = dict[str, Any]


class Timing:
    """The process that times one problem."""

    def __init__(self, case: Case, cache: Path, tuned: bool) -> None:
        self.case, self.answer = case, Answer()
        more = ["max-autotune"] if tuned else []
        command = [
            sys.executable,
            "-m",
            "benchmarks.composer.timing",
            case.reference,
            case.file,
            cache,
            *more,
        ]
        threads = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "2"}
        log = case.file.with_suffix(".log").open("wb")
        self._process = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, env=os.environ | threads, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip

    def go_on(self, begins: bool = False) -> Answer:
        """Tells it to take the next step, and waits for what comes of it."""
        if "failed" in self.answer:
            return self.answer
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        stop = threading.Timer(STEP_LIMIT_S, self._process.kill)
        stop.start()
        try:
            if not begins:
                self._process.stdin.write("\n")
                self._process.stdin.flush()
            self.answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            self.answer = {"failed": f"its process ended with {self._process.wait()}"}
        finally:
            stop.cancel()
        return self.answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def memory_bytes() -> int:
    """Of the GPU that is timed on."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    only = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = subprocess.run(
        [*command, *(["-i", only] if only else [])], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(found.stdout.split()[0]) << 20


def waves(cases: list[Case], side_by_side: int, memory: float) -> Iterator[list[Case]]:
    """In order, each as large as so many bytes let it be."""
    wave: list[Case] = []
    held = 0.0
    for case in cases:
        need = COPIES * loaded(case).trace.min_bytes
        if wave and (held + need > memory or len(wave) == side_by_side):
            yield wave
            wave, held = [], 0
        wave.append(case)
        held += need
    if wave:
        yield wave


def timed(cases: list[Case], cache: Path, side_by_side: int, tuned: bool, until: float) -> Iterator[Answer]:
    """What came of each, as soon as it is there; no wave is begun after `until`."""
    every = list(waves(cases, side_by_side, MEMORY_SHARE * memory_bytes()))
    with ThreadPoolExecutor(4 * side_by_side) as pool:
        begun: dict[int, list[Timing]] = {}

        def begin(number: int) -> None:
            if number < len(every) and time.monotonic() < until:
                begun[number] = [Timing(case, cache, tuned) for case in every[number]]
                built[number] = [pool.submit(one.go_on, True) for one in begun[number]]

        built: dict[int, list[Any]] = {}
        begin(0)
        for number in range(len(every)):
            if number not in begun or time.monotonic() > until:
                break
            for future in built[number]:
                future.result()
            list(pool.map(Timing.go_on, begun[number]))
            begin(number + 1)
            for one in begun[number]:
                answer = one.go_on()
                one.end()
                yield {**one.case.about(), **answer}
        for later in begun.values():
            for one in later:
                one.end()
