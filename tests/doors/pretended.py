"""A service whose judge only looks at the text: `python -m doors.pretended FOLDER PORT`, to be killed.

Each verdict names the candidate that it is on; each judgement is written down when it ends.
"""

import sys
import time
from pathlib import Path

from transcripts import evaluation

from agent.api.checks import Checks
from agent.api.listening import Listener
from agent.api.service import About, Answer, Asked, ProblemText
from agent.doors.listening import listening
from agent.doors.service.app import build
from agent.doors.service.desk import Desk, Limits
from agent.doors.service.ledger import Ledger
from agent.doors.service.metrics import Metrics
from agent.doors.service.running import server
from agent.doors.service.work import Workers
from agent.errors import EnvironmentFault, UsageError
from agent.records import Finding, Message, Prompt, digest

TOKEN = "a-token-for-tests"
ABOUT = About(version="0", executor="emulator", gpu=None, architecture=None, isolation="namespaces")


class Pretended:
    """Judges by digest; what is told to be broken is a fault of ours, `.py` no reference."""

    def __init__(self, log: Path, pause_s: float = 0.0) -> None:
        self._log, self._pause_s = log, pause_s

    def name(self, asked: Asked) -> str:
        if not isinstance(asked.problem, str) or asked.problem != "a problem":
            raise UsageError("no such reference")
        return digest(repr(asked.candidate), asked.checks.model_dump_json())[:40]

    def judge(self, name: str, asked: Asked, told: Listener) -> Answer:
        told.update("judging")
        time.sleep(self._pause_s)
        if asked.candidate is None:
            return Answer(id=name, state="done")
        if "broken" in asked.candidate:
            raise EnvironmentFault("the disk is full")
        if asked.candidate == "a defect":
            raise ZeroDivisionError
        finding = Finding(kind="judged", message=asked.candidate)
        with self._log.open("a") as file:
            file.write(f"{name}\n")
        return Answer(
            id=name, state="done", evaluation=evaluation().model_copy(update={"findings": (finding,)})
        )

    def prompt(self, problem: str | ProblemText, checks: Checks) -> Prompt:
        self.name(Asked(problem=problem, checks=checks))
        asked = Message(role="user", content=f"Write a kernel for {problem}.")
        return Prompt(template="generate", messages=(asked,))


def desk(folder: Path, *, most_queued: int = 1000, a_minute: int = 100_000, pause_s: float = 0.0) -> Desk:
    """A desk with four workers over it, in the folder."""
    judging = Pretended(folder / "judged", pause_s)
    ledger = Ledger(folder / "jobs.sqlite", most_queued)
    workers = Workers(ledger, judging, 4, lambda answer, seconds: None)
    return Desk(ledger, workers, judging, Limits(tokens=frozenset({TOKEN}), a_minute=a_minute))


if __name__ == "__main__":
    with listening("127.0.0.1", int(sys.argv[2])) as listener:
        made = desk(Path(sys.argv[1]), pause_s=0.02)
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        server(build(made, ABOUT, Metrics()), made).run(sockets=[listener])
