"""The second look at a candidate that a GPU has verified, by two judges side by side.

One looks at it by what costs little, the emulator first and then compute-sanitizer. The other begins at
once with the slow build by stock `load_inline`, and goes on to the GPU with it only when the first has said
nothing against the candidate: the two are never timed beside each other.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from agent.executors.phases import PhaseClock
from agent.harness.confirmation import confirmation
from agent.harness.task.job import Announce, Job
from agent.records import Evaluation, Phase

Judged = Callable[[Job, Announce], Evaluation]
"""Runs a judge on one job; ends it where what it announces raises."""
WAITING = "building with stock load_inline"


def made(job: Job, judged: Judged, announce: Announce) -> Evaluation:
    """The verdict. Raises what a judge raises; where the cheap looks refuse, the other judge is given up."""
    gate = _Gate(announce)
    stock: Future[Evaluation] = Future()
    arguments = (job.model_copy(update={"confirms": "stock"}), judged, gate, stock)
    threading.Thread(target=_judge, args=arguments, daemon=True).start()
    wanted = False
    try:
        looked = judged(job.model_copy(update={"confirms": "cheap"}), announce)
        wanted = confirmation.admits(looked)
    finally:
        gate.open(wanted)
    if not wanted:
        return looked
    found = confirmation.joined(looked, stock.result())
    return found.model_copy(update={"phases": (*looked.phases, *gate.phases())})


class _NotWanted(Exception):
    """Ends the judge of the stock build."""


class _Gate:
    """What the judge of the stock build announces; it is held here, with its build, until it is wanted.

    It is told to the user, and its time counts, from then on.
    """

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._opened = threading.Event()
        self._clock: PhaseClock | None = None

    def open(self, wanted: bool) -> None:
        if wanted:
            self._clock = PhaseClock(self._announce)
            self._clock(WAITING)
        self._opened.set()

    def __call__(self, what: str) -> None:
        if what == confirmation.BUILT:
            # Before this judge has the GPU's turn, which the other one needs.
            self._opened.wait()
        if not self._opened.is_set():
            return
        if self._clock is None:
            raise _NotWanted
        if what != confirmation.BUILT:
            self._clock(what)

    def phases(self) -> tuple[Phase, ...]:
        return self._clock.phases() if self._clock else ()


def _judge(job: Job, judged: Judged, gate: _Gate, end: "Future[Evaluation]") -> None:
    try:
        end.set_result(judged(job, gate))
    except BaseException as error:  # noqa: BLE001 - raised where the verdict is asked for, if it is
        end.set_exception(error)
