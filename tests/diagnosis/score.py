"""Scores the diagnoser on the corpus: `python -m tests.diagnosis.score [--only WHAT] [--jobs N]`.

Every case goes through the executor that `agent eval` uses, without its label, and its headline is compared
with the label (`corpus/README.md` says how). Writes benchmarks/results/diagnosis/score.json, where the
verdicts of cases that are not judged anew stay, and renders docs/diagnosis.md. Tokens are those of the text
that a model would get, at four characters each. Exits 1 when a case could not be judged.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from agent import __version__, config, feedback, problems, sections
from agent.emulator.compile import toolchain
from agent.errors import AgentError
from agent.executors import JudgeOptions, LocalExecutor
from agent.records import Attempt, Candidate, Evaluation, Problem, Status
from benchmarks import storage

from . import labels
from .labels import Case, Fault

Outcome = Literal["right", "one of two", "unsure", "misled", "quiet", "false alarm", "fault"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
RECORD = storage.DIAGNOSIS / "score.json"
MESSAGE_CHARACTERS = 400


class Score(NamedTuple):
    """What came of one case."""

    half: str
    name: str
    digest: str
    outcome: Outcome
    status: str
    stage: str
    kind: str
    message: str
    line: bool | None
    """Whether the line was named; None where the label asks for none."""
    tokens: int
    seconds: float
    """Of the whole evaluation: build, run and diagnosis."""


def outcome(case: Case, evaluation: Evaluation) -> Outcome:
    """The rules of `corpus/README.md`."""
    verified = evaluation.status is Status.VERIFIED
    if case.correct:
        loud = any(finding.severity != "note" for finding in evaluation.findings)
        return "quiet" if verified and not loud else "false alarm"
    headline = evaluation.headline
    if verified or headline is None:
        return "misled"
    claimed = [fault for fault in case.wrong_by if headline.kind in fault.causes]
    named = [fault for fault in claimed if fault.is_said(headline.message)]
    if named:
        pairs = [(one, other) for one in named for other in case.faults if other is not one]
        both = any(_is_named_too(other, evaluation) for _, other in pairs)
        return "right" if both or not case.faults else "one of two"
    return "unsure" if claimed or headline.kind in labels.unsure_kinds() else "misled"


def _is_named_too(fault: Fault, evaluation: Evaluation) -> bool:
    """Whether the headline says a second fault as well, or another finding is of its kind and says it."""
    headline, *others = evaluation.findings
    return fault.is_said(headline.message) or any(
        one.kind in fault.causes and fault.is_said(one.message) for one in others
    )


def line_is_named(case: Case, evaluation: Evaluation) -> bool | None:
    """Whether the headline's line is the one that the label describes; None where it describes none."""
    if not case.line:
        return None
    place = evaluation.headline.location if evaluation.headline else None
    lines = case.source.splitlines()
    if place is None or place.line is None or not 0 < place.line <= len(lines):
        return False
    return re.search(case.line, lines[place.line - 1]) is not None


def tokens(evaluation: Evaluation, source: str) -> int:
    """Length of the feedback that a model would get."""
    attempt = Attempt(number=1, candidate=Candidate(problem="case", source=source), evaluation=evaluation)
    return sections.tokens(feedback.on_evaluation(attempt).text)


def judge(case: Case) -> Score:
    """One evaluation through the executor."""
    started = time.monotonic()
    try:
        evaluation = evaluated(case)
    except AgentError as fault:
        seconds = round(time.monotonic() - started, 1)
        words = str(fault)[:MESSAGE_CHARACTERS]
        return Score(case.half, case.name, case.digest, "fault", "", "", "", words, None, 0, seconds)
    headline = evaluation.headline
    return Score(
        half=case.half,
        name=case.name,
        digest=case.digest,
        outcome=outcome(case, evaluation),
        status=str(evaluation.status),
        stage=evaluation.stage,
        kind=headline.kind if headline else "",
        message=headline.message[:MESSAGE_CHARACTERS] if headline else "",
        line=line_is_named(case, evaluation),
        tokens=tokens(evaluation, case.source),
        seconds=round(time.monotonic() - started, 1),
    )


def evaluated(case: Case) -> Evaluation:
    """The verdict on a case. Raises AgentError where nothing can be judged."""
    problem = reference(case.address)
    candidate = Candidate(problem=problem.name, source=case.source, origin="file")
    return executor(case.timeout_s).evaluate(problem, candidate)


@cache
def executor(timeout_s: float) -> LocalExecutor:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    toolchain.prepare(cache_dir)
    return LocalExecutor("emulator", cache_dir=cache_dir, options=JudgeOptions(candidate_timeout_s=timeout_s))


@cache
def reference(address: str) -> Problem:
    return problems.load(address)


def judge_all(wanted: Iterable[Case], jobs: int) -> Iterator[Score]:
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(judge, wanted)


def read(path: Path = RECORD) -> list[Score]:
    """The recorded scores; none where there is no record."""
    if not path.is_file():
        return []
    return [Score(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["scores"]]


def write(scores: Iterable[Score], path: Path = RECORD) -> None:
    document: dict[str, Any] = {
        "version": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "characters_per_token": sections.CHARACTERS_PER_TOKEN,
        "scores": [score._asdict() for score in sorted(scores, key=lambda score: score[:2])],
    }
    storage.write(path, document)


def chosen(names: list[str]) -> list[Case]:
    """The cases that a half, a section, a reference or a case of their own name asks for."""
    wanted = set(names)
    return [
        case
        for case in labels.cases()
        if not wanted or wanted & {case.half, case.section, case.problem, case.name, str(case)}
    ]


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--only", action="append", default=[], metavar="WHAT", help="own, closed, ..., NAME")
    options.add_argument("--jobs", type=int, default=2)
    given = options.parse_args(arguments)
    wanted = chosen(given.only)
    if not wanted:
        options.error(f"no half, section, reference or case is named {' or '.join(given.only)}")
    present = {case.key for case in labels.cases()}
    kept = {score[:2]: score for score in read() if score[:2] in present}
    faults = 0
    for score in judge_all(wanted, given.jobs):
        kept[score[:2]] = score
        faults += score.outcome == "fault"
        sys.stdout.write(
            f"{score.seconds:5.1f} s  {score.outcome:11}  {score.half}/{score.name}  {score.kind}\n"
        )
        sys.stdout.flush()
        write(kept.values())
    from . import page

    page.PAGE.write_text(page.render(), encoding="utf-8")
    sys.stdout.write("\n".join(page.table(list(kept.values()))) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
