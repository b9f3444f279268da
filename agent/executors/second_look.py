"""Second look at a candidate verified on a GPU, by two judges side by side.

The first judge runs the cheap checks: the emulator, then compute-sanitizer. The second judge begins the slow
build by stock `load_inline` at once, but uses the GPU only after the first one found no error. The sanitizer
thus never runs during timing.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from agent.executors.phases import PhaseClock
from agent.harness.confirmation import confirmation
from agent.harness.task.job import Announce, Job
from agent.records import Evaluation, Phase

Judged = Callable[[Job, Announce], Evaluation]
"""Function that runs a judge on one job, and ends the judge if the progress callback raises."""
WAITING = "building with stock load_inline"


def made(job: Job, judged: Judged, announce: Announce) -> Evaluation:
    """Return the verdict of the second look. Raises the AgentError of either judge.

    If the cheap checks refuse the candidate, the judge of the stock build is ended.
    """
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
    """Exception that ends the judge of the stock build."""


class _Gate:
    """`Announce` callback of the stock build's judge, which holds the judge after its build.

    Once `open` says that the judge is wanted, its messages reach the user, and its phases are timed.
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
            # The judge waits here, before it uses the GPU, which the judge of the cheap checks needs.
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
