"""Judges the corpora: `python -m tests.integrity.run [--only NAME] [--executor cuda] --out FILE.json`.

Every program goes through the executor that `agent eval` uses, and a second time without the screen where
the screen refuses it.
Verdicts in FILE that are not judged anew stay. Exits 1 when a verdict is not as expected.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from agent import __version__, config, problems
from agent.errors import AgentError
from agent.executors import LocalExecutor
from agent.harness.job import Job
from agent.records import Candidate, Problem

from . import corpus
from .corpus import Program

Where = Literal["cuda", "emulator"]
RECORD = Path(__file__).resolve().parents[2] / "docs" / "integrity" / "emulator.json"


class Case(NamedTuple):
    """One program with the screen on or off."""

    program: Program
    screened: bool = True

    def __str__(self) -> str:
        return f"{self.program.kind}/{self.program.name}{'' if self.screened else ' without the screen'}"


class Verdict(NamedTuple):
    """What came of one case; `status` is `fault` where nothing could be judged."""

    kind: str
    name: str
    screened: bool
    digest: str
    status: str
    stage: str
    finding: str
    seconds: float


def cases(chosen: Iterable[Program]) -> list[Case]:
    return [Case(program, screened) for program in chosen for screened in program.cases()]


def judge(case: Case, where: Where = "emulator") -> Verdict:
    """One evaluation through the executor."""
    program = case.program
    started = time.monotonic()
    status, stage, finding = "fault", "", ""
    try:
        job = asked(program, where).model_copy(update={"screened": case.screened})
        evaluation = executor(where, program.timeout_s).judge(job)
        status, stage = str(evaluation.status), evaluation.stage
        if evaluation.headline is not None:
            finding = f"{evaluation.headline.kind}: {evaluation.headline.message}"
    except AgentError as fault:
        finding = str(fault)
    seconds = round(time.monotonic() - started, 1)
    return Verdict(
        program.kind, program.name, case.screened, program.digest, status, stage, finding[:400], seconds
    )


def asked(program: Program, where: Where) -> Job:
    """What the judge is told."""
    problem = reference(program.address)
    candidate = Candidate(problem=problem.name, source=program.source, origin="file")
    return executor(where, program.timeout_s).job(problem, candidate)


@cache
def executor(where: Where, timeout_s: float) -> LocalExecutor:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    made = LocalExecutor(where, candidate_timeout_s=timeout_s, cache_dir=cache_dir)
    made.measure = False
    return made


@cache
def reference(address: str) -> Problem:
    return problems.load(address)


def difference(verdict: Verdict, program: Program) -> str:
    """How the verdict differs from what the program's heading expects; empty where it does not."""
    return program.expected(verdict.screened).of(verdict.status, verdict.stage, verdict.finding)


def judge_all(wanted: list[Case], where: Where, jobs: int) -> Iterator[Verdict]:
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda case: judge(case, where), wanted)


def read(path: Path) -> list[Verdict]:
    """The verdicts that a document records; none where there is no document."""
    if not path.is_file():
        return []
    return [Verdict(**entry) for entry in json.loads(path.read_text())["verdicts"]]


def write(path: Path, verdicts: Iterable[Verdict], where: Where) -> None:
    document: dict[str, Any] = {
        "executor": where,
        "version": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "verdicts": [verdict._asdict() for verdict in sorted(verdicts)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--only", action="append", metavar="NAME", help="a program, a kind or a category")
    options.add_argument("--executor", choices=("emulator", "cuda"), default="emulator")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path, default=RECORD)
    given = options.parse_args(arguments)
    known = corpus.programs()
    chosen = [p for p in known if not given.only or {p.name, p.kind, p.category} & set(given.only)]
    if not chosen:
        options.error(f"no program, kind or category is named {' or '.join(given.only)}")
    by_name: dict[tuple[str, str], Program] = {(program.kind, program.name): program for program in known}
    kept = {verdict[:3]: verdict for verdict in read(given.out) if verdict[:2] in by_name}
    differing = 0
    for verdict in judge_all(cases(chosen), given.executor, given.jobs):
        kept[verdict[:3]] = verdict
        differs = difference(verdict, by_name[verdict[:2]])
        differing += bool(differs)
        case = Case(by_name[verdict[:2]], verdict.screened)
        sys.stdout.write(
            f"{verdict.seconds:5.1f} s  {verdict.status:13} {case}{'  !! ' if differs else ''}{differs}\n"
        )
        sys.stdout.flush()
        write(given.out, kept.values(), given.executor)
    sys.stdout.write(f"{differing} verdicts are not as expected\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
