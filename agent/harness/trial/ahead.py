"""What is done on a GPU before the turn, while the candidate is built, if nobody else has the GPU then.

A process's first work there takes several times as long as its next: contexts are made, kernels loaded, the
reference compiled. None of that tells anything of a candidate, and nothing of it is kept but what is loaded.
The candidate's own process makes its context meanwhile, which takes less than the steps here.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from agent.errors import AgentError
from agent.harness.backends.gpu_lock import GpuLock
from agent.sandbox import ChildFault

Steps = Sequence[Callable[[], object]]


class Ahead:
    """Takes each process's steps in a thread of its own; `end` lets none begin and awaits those that run."""

    def __init__(self, lock: GpuLock, *processes: Steps) -> None:
        self._processes = processes
        self._over = threading.Event()
        self._turn = ExitStack()
        self.is_free = self._turn.enter_context(lock.if_free())
        """Whether there is such a turn."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with self._turn, ThreadPoolExecutor(len(self._processes)) as pool:
            if self.is_free:
                list(pool.map(self._take, self._processes))

    def _take(self, steps: Steps) -> None:
        for step in steps:
            if self._over.is_set():
                return
            try:
                step()
            except (AgentError, ChildFault):
                return  # whatever it is, it comes again where it counts
