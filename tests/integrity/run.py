"""Judges the corpora: `python -m tests.integrity.run [--only NAME] [--executor cuda] --out FILE.json`.

Every program goes through the executor that `agent eval` uses, and a second time without the screen where
the screen refuses it. On a GPU attacks on the clock are timed, together with the honest programs that they
are held against. Verdicts in FILE that are not judged anew stay; `--resume` judges those alone that FILE does
not have. `--pending` judges the programs that do not yet end as expected. Exits 1 when a verdict is not as
expected.
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
from typing import Any, NamedTuple

from agent import __version__, config, problems
from agent.errors import AgentError
from agent.executors import JudgeOptions, LocalExecutor
from agent.harness.task.job import Job
from agent.records import Candidate, Problem
from benchmarks import storage

from . import corpus
from .corpus import Program, Where

RECORD = storage.INTEGRITY / "emulator.json"
TRUTHFUL = 0.9
"""Share of the honest time below which a time is not true: the clock leaves 10 % to its own resolution."""


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
    ms: float | None = None
    speedup: float | None = None


def cases(chosen: Iterable[Program]) -> list[Case]:
    return [Case(program, screened) for program in chosen for screened in program.cases()]


def judge(case: Case, where: Where = "emulator") -> Verdict:
    """One evaluation through the executor."""
    program = case.program
    started = time.monotonic()
    status, stage, finding = "fault", "", ""
    ms = speedup = None
    try:
        job = asked(program, where).model_copy(update={"screened": case.screened})
        made = executor(where, program.timeout_s, _is_timed(program))
        evaluation = made.judge(job)
        if _is_confirmed(program):
            evaluation = made.second_look(job, evaluation)
        if evaluation.measurement is not None:
            ms, speedup = evaluation.measurement.candidate_ms.p50, evaluation.measurement.speedup
        status, stage = str(evaluation.status), evaluation.stage
        if evaluation.headline is not None:
            finding = f"{evaluation.headline.kind}: {evaluation.headline.message}"
    except AgentError as fault:
        finding = str(fault)
    seconds = round(time.monotonic() - started, 1)
    digest = program.digest
    return Verdict(
        program.kind, program.name, case.screened, digest, status, stage, finding[:400], seconds, ms, speedup
    )


def asked(program: Program, where: Where) -> Job:
    """What the judge is told."""
    problem = reference(program.address)
    candidate = Candidate(problem=problem.name, source=program.source, origin="file")
    made = executor(where, program.timeout_s, _is_timed(program))
    return made.job(problem, candidate)


def _is_timed(program: Program) -> bool:
    return program.category == "clock" or program.name in corpus.twins()


def _is_confirmed(program: Program) -> bool:
    """Whether the second look at a new best is part of what has to stop it, or must not."""
    return program.confirmed or (program.kind != "honest" and not program.timed_as)


@cache
def executor(where: Where, timeout_s: float, timed: bool) -> LocalExecutor:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    options = JudgeOptions(candidate_timeout_s=timeout_s, measure=timed)
    return LocalExecutor(where, cache_dir=cache_dir, options=options)


@cache
def reference(address: str) -> Problem:
    return problems.load(address)


def difference(
    verdict: Verdict, program: Program, where: Where = "emulator", twin: Verdict | None = None
) -> str:
    """How the verdict differs from what the program's heading expects; empty where it does not.

    `twin` is that of the honest program whose time it is held against.
    """
    expected = program.expected(verdict.screened, where)
    differs = expected.of(verdict.status, verdict.stage, verdict.finding)
    if differs or where != "cuda" or not program.timed_as or verdict.status != "verified":
        return differs
    if verdict.ms is None or twin is None or twin.ms is None:
        return f"was not timed together with {program.timed_as}"
    if verdict.ms < TRUTHFUL * twin.ms:
        return f"is said to take {verdict.ms:.4g} ms, where {program.timed_as} takes {twin.ms:.4g} ms"
    if verdict.speedup and twin.speedup and TRUTHFUL * verdict.speedup > twin.speedup:
        return f"is said to be {verdict.speedup:.3g} times as fast, {program.timed_as} {twin.speedup:.3g}"
    return ""


def differences(verdicts: Iterable[Verdict], where: Where) -> dict[Case, str]:
    """What is not as expected, case by case, for programs that there are."""
    known = {_key(program): program for program in (*corpus.programs(), *corpus.pending())}
    given = {verdict[:3]: verdict for verdict in verdicts}
    found = {}
    for (kind, name, screened), verdict in given.items():
        program = known.get((kind, name))
        twin = given.get(("honest", program.timed_as, True)) if program else None
        if program and (differs := difference(verdict, program, where, twin)):
            found[Case(program, screened)] = differs
    return found


def judge_all(wanted: list[Case], where: Where, jobs: int, limit_s: float | None = None) -> Iterator[Verdict]:
    """In the given order; none is begun after `limit_s`."""
    end = time.monotonic() + limit_s if limit_s else None

    def judged(case: Case) -> Verdict | None:
        return judge(case, where) if end is None or time.monotonic() < end else None

    with ThreadPoolExecutor(jobs) as pool:
        yield from filter(None, pool.map(judged, wanted))


def read(path: Path) -> list[Verdict]:
    """The verdicts that a document records; none where there is no document."""
    if not path.is_file():
        return []
    return [Verdict(**entry) for entry in json.loads(path.read_text())["verdicts"]]


def write(path: Path, verdicts: Iterable[Verdict], where: Where, note: str | None = None) -> None:
    """`note`: what a reader of verdicts from several sittings has to know."""
    document: dict[str, Any] = {
        "executor": where,
        "version": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        **({"note": note} if note else {}),
        "verdicts": [verdict._asdict() for verdict in sorted(verdicts, key=lambda verdict: verdict[:3])],
    }
    storage.write(path, document)


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--only", action="append", metavar="NAME", help="a program, kind, category or group")
    options.add_argument("--pending", action="store_true", help="those that wait; needs --out")
    options.add_argument("--executor", choices=("emulator", "cuda"), default="emulator")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path)
    options.add_argument("--resume", action="store_true", help="only what FILE has no verdict on")
    options.add_argument("--limit", type=float, metavar="SECONDS", help="begin nothing after this")
    given = options.parse_args(arguments)
    if given.pending and not given.out:
        options.error("--pending needs --out: docs record the corpora alone")
    out: Path = given.out or storage.INTEGRITY / f"{given.executor}.json"
    known = (*corpus.programs(), *corpus.pending()) if given.pending else corpus.programs()
    own = [p for p in known if p.pending == given.pending]
    chosen = [p for p in own if not given.only or {p.name, p.kind, p.category, p.group} & set(given.only)]
    if not chosen:
        options.error(f"no program, kind, category or group is named {' or '.join(given.only)}")
    if given.executor == "cuda":
        twins = {program.timed_as for program in chosen}
        chosen += [p for p in known if p.kind == "honest" and p.name in twins and p not in chosen]
    present = {_key(program): program.digest for program in known}
    kept = {verdict[:3]: verdict for verdict in read(out) if verdict[:2] in present}
    done = (
        {key for key, verdict in kept.items() if verdict.digest == present[key[:2]]} if given.resume else ()
    )
    note = json.loads(out.read_text()).get("note") if out.is_file() and given.resume else None
    wanted = [case for case in cases(chosen) if (*_key(case.program), case.screened) not in done]
    for verdict in judge_all(wanted, given.executor, given.jobs, given.limit):
        kept[verdict[:3]] = verdict
        sys.stdout.write(f"{verdict.seconds:5.1f} s  {verdict.status:13} {verdict.kind}/{verdict.name}\n")
        sys.stdout.flush()
        write(out, kept.values(), given.executor, note)
    judged = {_key(program) for program in chosen}
    differing = differences(kept.values(), given.executor)
    differing = {case: words for case, words in differing.items() if _key(case.program) in judged}
    for case, words in differing.items():
        sys.stdout.write(f"  !! {case} {words}\n")
    sys.stdout.write(f"{len(differing)} verdicts are not as expected\n")
    return 1 if differing else 0


def _key(program: Program) -> tuple[str, str]:
    return program.kind, program.name


if __name__ == "__main__":
    sys.exit(main())
