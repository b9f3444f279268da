"""Assign jobs to the judges of a cluster, and react if a judge is lost or cannot judge."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from agent import __version__
from agent.api.checks import Checks
from agent.api.listening import Listener
from agent.api.service import About, Answer, Asked, ProblemText
from agent.doors.cluster.messages import Hello, Order, Plan, Reply
from agent.doors.cluster.places import Keeping, Key, Lost, Machines, Place, places
from agent.doors.service.work import Judging
from agent.errors import EnvironmentFault, Interrupted
from agent.harness.judge import verifier
from agent.records import Prompt

TRIES = 3
"""Number of judges that may fail on a job before the job is given up: the job itself may make them fail."""
FAULTS_IN_A_ROW = 3
"""Number of consecutive faults without a verdict after which a place gets no more jobs."""
LOOK_S = 2.0
"""Seconds between two queries for the cluster's machines."""
PATIENCE_S = 300.0
"""Seconds that jobs wait for a judge while there is none."""


class _Judge:
    """A place for judging and its state."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.keeper: Keeping | None = None
        self.free = 0
        self.ready = False
        self.aside = ""
        """Reason why the place gets no more jobs; empty while it gets jobs."""


class Dispatch:
    """Judges jobs on a cluster; any number of threads may ask at once, and each waits for a place.

    `about` comes from the first judge that was ready. A judge with another GPU or version is set aside,
    because its verdicts would not be comparable.
    """

    def __init__(self, cluster: Machines, plan: Plan, told: Listener) -> None:
        self._cluster, self._plan, self._told = cluster, plan, told
        self._judges: dict[Key, _Judge] = {}
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watched, daemon=True)
        self._faults: Counter[Key] = Counter()
        """Faults of each place since its last verdict."""
        self._said: list[str] = []
        self.about: About | None = None

    def open(self) -> About:
        """Wait for the first judge and return its description. Raises EnvironmentFault if none gets ready."""
        self._look()
        self._watch.start()
        with self._changed:
            until = time.monotonic() + PATIENCE_S
            while self.about is None:
                self._require_hope(until)
                self._changed.wait(LOOK_S)
            return self.about

    @property
    def slots(self) -> int:
        """Maximum number of candidates judged at the same time, counting judges that are still starting."""
        with self._changed:
            return sum(one.place.slots for one in self._judges.values() if not one.aside)

    def close(self) -> None:
        """End all jobs in progress with Interrupted."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._watch.is_alive():
            self._watch.join()
        self._cluster.close()

    def judge(self, name: str, asked: Asked, told: Listener) -> Answer:
        """Return a judge's answer. Raises Interrupted, and EnvironmentFault if no judge can give one."""
        order = Order(name=name, asked=asked).model_dump_json()
        tried: list[Key] = []
        why = ""
        while len(tried) < TRIES:
            one = self._taken(tried, told.cancelled)
            told.update(f"judging on {one.place.name}")
            tried.append(one.place.key)
            try:
                answer, why = self._asked(one, order, told.cancelled)
            finally:
                self._give_back(one)
            if answer is not None:
                return answer
        raise EnvironmentFault(f"{TRIES} judges could not judge it; the last: {why}")

    def _asked(self, one: _Judge, order: str, cancelled: Callable[[], bool]) -> tuple[Answer | None, str]:
        """Return (answer, ""), or (None, reason) if the answer does not count."""
        assert one.keeper is not None
        try:
            reply = Reply.model_validate_json(one.keeper.ask("judge", self._either(cancelled), order))
        except Lost as lost:
            self._lose(one, str(lost))
            return None, str(lost)
        answer = reply.answer
        if answer is not None and (
            answer.fault is None or answer.fault.exit_code != EnvironmentFault.exit_code
        ):
            self._faults[one.place.key] = 0
            return answer, ""
        why = answer.fault.message if answer and answer.fault else reply.unfit or reply.died
        self._faults[one.place.key] += 1
        if reply.unfit or self._faults[one.place.key] >= FAULTS_IN_A_ROW:
            self._set_aside(one, why)
        return None, why

    def _either(self, cancelled: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: self._closing.is_set() or cancelled()

    def _taken(self, tried: list[Key], cancelled: Callable[[], bool]) -> _Judge:
        """Wait for a free place and take it, preferring judges that have not tried the job."""
        with self._changed:
            until = time.monotonic() + PATIENCE_S
            while True:
                if self._closing.is_set() or cancelled():
                    raise Interrupted("cancelled before there was a verdict")
                able = [one for one in self._judges.values() if one.ready and not one.aside]
                fresh = [one for one in able if one.place.key not in tried]
                free = [one for one in fresh or able if one.free]
                if free:
                    best = max(free, key=lambda one: one.free)
                    best.free -= 1
                    return best
                if able:
                    until = time.monotonic() + PATIENCE_S
                else:
                    self._require_hope(until)
                self._changed.wait(LOOK_S)

    def _require_hope(self, until: float) -> None:
        """Raise EnvironmentFault if all judges are set aside, or if none was available for too long."""
        known = self._judges.values()
        if known and all(one.aside for one in known):
            raise EnvironmentFault(f"no judge of the cluster can judge: {'; '.join(self._said[-3:])}")
        if time.monotonic() > until:
            wanted = "GPU" if self._plan.executor == "cuda" else "processor"
            raise EnvironmentFault(f"the cluster has no free {wanted} for a judge; see: ray status")

    def _give_back(self, one: _Judge) -> None:
        with self._changed:
            one.free += 1
            self._changed.notify_all()
        self._retire(one)

    def _set_aside(self, one: _Judge, why: str) -> None:
        with self._changed:
            if not one.aside:
                one.aside = why or "it cannot judge"
                self._say(f"{one.place.name} is set aside: {one.aside}")
        self._retire(one)

    def _retire(self, one: _Judge) -> None:
        """End the keeper of a place that is set aside, once no job is judged at that place."""
        if one.aside and one.keeper is not None and one.free == (one.place.slots if one.ready else 0):
            one.keeper.end()

    def _say(self, said: str) -> None:
        """Report a change and wake all waiting threads; requires the lock."""
        self._said.append(said)
        self._told.say(said)
        self._changed.notify_all()

    def _lose(self, one: _Judge, why: str) -> None:
        """Drop the place and query the machines again.

        Its machine may be gone, or have room for another judge.
        """
        with self._changed:
            if self._judges.get(one.place.key) is not one:
                return
            del self._judges[one.place.key]
            self._faults[one.place.key] += 1
            self._say(f"{one.place.name} is lost: {why}")
        self._look()

    def _watched(self) -> None:
        while not self._closing.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        """Start judges in new places, and drop places whose machine is gone."""
        try:
            found = {place.key: place for place in places(self._plan.executor, self._cluster.machines())}
        except Lost:
            # The list of machines is unavailable at the moment; the next query tries again.
            return
        with self._changed:
            if self._closing.is_set():
                return
            for key in [key for key in self._judges if key not in found]:
                del self._judges[key]
            for key in [key for key in found if key not in self._judges]:
                one = self._judges[key] = _Judge(found[key])
                threading.Thread(target=self._begin, args=(one,), daemon=True).start()
            self._changed.notify_all()

    def _begin(self, one: _Judge) -> None:
        """Start one judge and wait until it is ready, lost or set aside."""
        if self._faults[one.place.key] >= FAULTS_IN_A_ROW:
            self._set_aside(one, f"its judges were lost, or failed, {FAULTS_IN_A_ROW} times in a row")
            return
        try:
            one.keeper = self._cluster.keeper(one.place, self._plan.model_dump_json())
            hello = Hello.model_validate_json(one.keeper.ask("hello", self._closing.is_set))
        except Interrupted:
            return
        except Lost as lost:
            self._lose(one, str(lost))
            return
        with self._changed:
            why = self._unlike(hello)
            if not why:
                self.about = self.about or hello.about
                one.free, one.ready = one.place.slots, True
                self._changed.notify_all()
        if why:
            self._set_aside(one, why)

    def _unlike(self, hello: Hello) -> str:
        """Return the reason why this judge's verdicts are not comparable with others; empty if they are."""
        if hello.about is None:
            return hello.unfit or "it says nothing of itself"
        if hello.verifier != verifier.version() or hello.about.version != __version__:
            return f"it has another version of kernelwright, {hello.about.version}.{hello.verifier}"
        if self.about is not None and hello.about.gpu != self.about.gpu:
            return f"its GPU is {hello.about.gpu}, that of the others {self.about.gpu}"
        return ""


class Cluster:
    """A Dispatch as the judging of a service: job names and prompts are made on this machine."""

    def __init__(self, here: Judging, dispatch: Dispatch) -> None:
        self._here, self._dispatch = here, dispatch

    def name(self, asked: Asked) -> str:
        return self._here.name(asked)

    def judge(self, name: str, asked: Asked, told: Listener) -> Answer:
        return self._dispatch.judge(name, asked, told)

    def prompt(self, problem: str | ProblemText, checks: Checks) -> Prompt:
        return self._here.prompt(problem, checks)
