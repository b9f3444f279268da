"""Worker processes of a bench on this machine, each with a GPU or a share of the processors.

Orders go to any free process, in the order given. Messages are delivered in the caller's thread. A process
that dies reports its order as ended and is replaced. No process outlives the pool.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from pydantic import ValidationError

from agent.bench.worker import Done, News, Order

WORKER = (sys.executable, "-m", "agent.bench.worker")
LAST_WORDS = 2000
GRACE_S = 20.0
"""Seconds that a process may take to end an interrupted run."""


class _Line(NamedTuple):
    slot: int
    process: subprocess.Popen[str]
    text: str | None
    """Line of output; None if the process has ended."""


class Pool:
    """Pool of `jobs` processes, which take the CUDA_VISIBLE_DEVICES values in `gpus` in turn."""

    def __init__(
        self, jobs: int, gpus: Sequence[str] = (), command: Sequence[str] = WORKER,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Create the pool. `environment` holds variables for the processes besides this process's own."""
        self._gpus, self._command, self._environment = gpus, command, environment or {}
        self._lines: SimpleQueue[_Line] = SimpleQueue()
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._orders: dict[int, Order] = {}
        self._free = list(range(jobs))

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *raised: object) -> None:
        """End the processes by closing their input, or by force if they do not end."""
        for process in self._processes.values():
            _close(process)
        for process in self._processes.values():
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def free(self) -> bool:
        return bool(self._free)

    @property
    def busy(self) -> tuple[str, ...]:
        """Return the labels of the orders in progress."""
        return tuple(order.label for order in self._orders.values())

    def begin(self, order: Order) -> None:
        """Give an order to a free process, which is started if it is not running."""
        slot = self._free.pop(0)
        self._orders[slot] = order
        process = self._processes.get(slot)
        if process is not None and process.poll() is not None:
            _close(process)
            process = None
        process = process or self._started(slot)
        assert process.stdin is not None
        try:
            process.stdin.write(order.model_dump_json() + "\n")
            process.stdin.flush()
        except OSError:
            # The process has just died; the thread that reads its output reports this.
            return

    def news(self, timeout_s: float) -> Iterator[News | Done]:
        """Yield messages of the processes, waiting at most `timeout_s` for the first one."""
        wait: float | None = timeout_s
        while True:
            try:
                line = self._lines.get(timeout=wait) if wait else self._lines.get_nowait()
            except Empty:
                return
            wait = None
            if (found := self._read(line)) is not None:
                yield found

    def _read(self, line: _Line) -> News | Done | None:
        order = self._orders.get(line.slot)
        if self._processes.get(line.slot) is not line.process or order is None:
            return None
        if line.text is None:
            code = line.process.wait()
            self._release(line.slot)
            return Done(label=order.label, fault=f"the process of this run ended with code {code}")
        for kind in (News, Done):
            try:
                found = kind.model_validate_json(line.text)
            except ValidationError:
                continue
            if isinstance(found, Done):
                self._release(line.slot)
            return found
        return News(label=order.label, text=line.text.strip()[:LAST_WORDS])

    def _release(self, slot: int) -> None:
        del self._orders[slot]
        self._free.append(slot)

    def _started(self, slot: int) -> "subprocess.Popen[str]":
        environment = {**os.environ, **self._environment}
        if self._gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[slot % len(self._gpus)]
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self._processes[slot] = process
        threading.Thread(target=self._listen, args=(slot, process), daemon=True).start()
        return process

    def _listen(self, slot: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for text in process.stdout:
                self._lines.put(_Line(slot, process, text))
        self._lines.put(_Line(slot, process, None))


def _close(process: "subprocess.Popen[str]") -> None:
    """Close the process's input. Ignores the error if a dead process left some of it unread."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
