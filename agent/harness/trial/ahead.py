"""Work on a GPU that needs no candidate, done while the candidate is built.

The first work of a process on a GPU takes several times as long as what follows: contexts are made, kernels
loaded, the reference compiled. None of it tells anything about a candidate, and nothing of it is kept but
what is loaded. Each step is a shared section of its own, so that whoever waits to time is not held up.
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
    """Mark a step that is nearly all the host's work, such as a compilation: nobody waits for it to end."""
    step.is_unsectioned = True  # type: ignore[attr-defined]
    return step


class Ahead:
    """Runs the steps of each process in a thread of its own until `end`, which awaits those that run."""

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
                return  # the same fault shows again where it counts
