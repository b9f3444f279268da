"""Clusters for tests: one that is made up, and what a judge's process says that only looks at the text."""

import json
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Literal

from transcripts import evaluation

from agent import __version__
from agent.api.listening import Listener
from agent.api.service import About, Answer, Asked, Fault
from agent.doors.cluster.dispatch import Dispatch
from agent.doors.cluster.messages import Hello, Order, Plan, Reply
from agent.doors.cluster.places import Lost, Machine, Place
from agent.harness.judge import verifier
from agent.records import Finding

ABOUT = About(version=__version__, executor="emulator", gpu=None, architecture=None, isolation="namespaces")
HELLO = Hello(about=ABOUT, verifier=verifier.version())
PLAN = Plan(executor="emulator")


def asked(text: str) -> Asked:
    return Asked(problem="a problem", candidate=text)


def verdict(text: str, name: str = "") -> Answer:
    """One that names its candidate."""
    found = evaluation().model_copy(update={"findings": (Finding(kind="judged", message=text),)})
    return Answer(id=name or text, state="done", evaluation=found)


def judged(answer: Answer) -> str:
    """The candidate that an answer is on."""
    assert answer.evaluation is not None
    return answer.evaluation.findings[0].message


def fault(text: str, exit_code: int = 3) -> Reply:
    return Reply(answer=Answer(id="", state="failed", fault=Fault(exit_code=exit_code, message=text)))


Act = Callable[[Order], Reply]


class MadeUp:
    """A cluster whose machines do what a function says; it remembers how many were at work at once."""

    def __init__(
        self, acts: dict[str, Act], hellos: dict[str, Hello] | None = None, processors: int = 4
    ) -> None:
        self.there = [Machine(name, name, processors, 0) for name in acts]
        self.hellos = hellos or {}
        self.acts = acts
        self.lock = threading.Lock()
        self.at_work = self.most_at_work = 0
        self.given: list[tuple[str, str]] = []
        """Machine and candidate of each order."""
        self.ended: list[str] = []

    def machines(self) -> tuple[Machine, ...]:
        return tuple(self.there)

    def keeper(self, place: Place, plan: str) -> "Made":
        return Made(self, place.machine.name)

    def close(self) -> None:
        pass


class Made:
    def __init__(self, cluster: MadeUp, name: str) -> None:
        self._cluster, self._name = cluster, name

    def ask(self, method: Literal["hello", "judge"], cancelled: Callable[[], bool], *given: str) -> str:
        one = self._cluster
        if method == "hello":
            return one.hellos.get(self._name, HELLO).model_dump_json()
        order = Order.model_validate_json(given[0])
        with one.lock:
            one.given.append((self._name, str(order.asked.candidate)))
            one.at_work += 1
            one.most_at_work = max(one.most_at_work, one.at_work)
        try:
            return one.acts[self._name](order).model_dump_json()
        finally:
            with one.lock:
                one.at_work -= 1

    def end(self) -> None:
        self._cluster.ended.append(self._name)


def right(order: Order) -> Reply:
    return Reply(answer=verdict(str(order.asked.candidate), order.name))


def lost(order: Order) -> Reply:
    raise Lost("its machine is gone")


class Heard(Listener):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def opened(cluster: MadeUp, told: Listener | None = None) -> Dispatch:
    """All of its judges are ready, or set aside."""
    dispatch = Dispatch(cluster, PLAN, told or Listener())
    dispatch.open()
    return dispatch


STUB = """
import json, os, pathlib, sys, time
verdict = json.loads(sys.argv[2])
sys.stdin.readline()
print(sys.argv[1], flush=True)
for line in sys.stdin:
    order = json.loads(line)
    text = order["asked"]["candidate"]
    kind, _, place = text.partition(":")
    if kind == "hold" and not os.path.exists(place):
        pathlib.Path(place + ".new").write_text(str(os.getpid()))
        os.replace(place + ".new", place)
        while True:
            time.sleep(60)
    if kind == "environment":
        text = json.dumps(sorted(os.environ))
    if kind == "die":
        os._exit(9)
    verdict["id"] = order["name"]
    verdict["evaluation"]["findings"][0]["message"] = text
    print(json.dumps(verdict), flush=True)
"""
"""`hold:FILE` waits for ever, once: it has written the file with its process id; `environment` names what it
knows; `die` ends it; anything else is answered."""


def stub(hello: Hello = HELLO) -> tuple[str, ...]:
    """The command of a judge's process."""
    answer = json.dumps(verdict("").model_dump(mode="json"))
    return (sys.executable, "-c", STUB, hello.model_dump_json(), answer)


def names(found: Iterable[Answer]) -> list[str]:
    return [judged(one) for one in found]
