"""What is done on a GPU before the turn, while the candidate is built, if nobody else has the GPU then.

A process's first work there takes several times as long as its next: contexts are made, kernels loaded, the
reference compiled. None of that tells anything of a candidate, and nothing of it is kept but what is loaded.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from agent.errors import AgentError
from agent.harness.backends.gpu_lock import GpuLock
from agent.sandbox import ChildFault

Steps = Sequence[Callable[[], object]]


class Ahead:
    """Takes each process's steps in a thread of its own; `end` lets none begin and awaits those that run."""

    def __init__(self, lock: GpuLock, *processes: Steps) -> None:
        self._lock, self._processes = lock, processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with self._lock.if_free() as free, ThreadPoolExecutor(len(self._processes)) as pool:
            if free:
                list(pool.map(self._take, self._processes))

    def _take(self, steps: Steps) -> None:
        for step in steps:
            if self._over.is_set():
                return
            try:
                step()
            except (AgentError, ChildFault):
                return  # whatever it is, it comes again where it counts
