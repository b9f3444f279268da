"""GPU work that needs no candidate, done while the candidate is built.

The first GPU work of a process takes several times as long as later work, because contexts are made, kernels
loaded and the reference compiled. Results of the work are discarded. Each step is a separate shared section,
so that it does not hold up timing for long.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from agent.errors import AgentError
from agent.harness.backends.gpu_lock import GpuLock
from agent.sandbox import ChildFault

Steps = Sequence[Callable[[], object]]


def unsectioned(step: Callable[[], object]) -> Callable[[], object]:
    """Mark a step that mostly uses the host, such as a compilation, so that it runs outside the GPU lock."""
    step.is_unsectioned = True  # type: ignore[attr-defined]
    return step


class Ahead:
    """Runner of preparation steps, with a thread for each process.

    `end` waits for running steps and drops the remaining ones.
    """

    def __init__(self, lock: GpuLock, *processes: Steps) -> None:
        self._lock, self._processes = lock, processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(len(self._processes)) as pool:
            list(pool.map(self._take, self._processes))

    def _take(self, steps: Steps) -> None:
        lock = self._lock.another(cancelled=self._over.is_set)
        for step in steps:
            section = nullcontext() if getattr(step, "is_unsectioned", False) else lock.shared()
            try:
                with section:
                    if self._over.is_set():
                        return
                    step()
            except (AgentError, ChildFault):
                return  # the trial itself meets the fault again and reports it
