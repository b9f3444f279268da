"""Right answers written by somebody who has not read the judge: each has to be verified.

`answers/NAME/problem.py` is a reference and `answer.py` an answer to it, as a model would write them. They go
through the executor that `agent eval` uses. Nothing is timed, confirmed or probed beyond the verdict, so that
many can be built side by side and each has the GPU for a short time only.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from agent import config, problems
from agent.errors import AgentError
from agent.executors import JudgeOptions, LocalExecutor
from agent.records import Candidate, Evaluation, Problem

from .documents import RECORDS, WORDS, Entry, at_once

Where = Literal["emulator", "cuda"]
ANSWERS = Path(__file__).resolve().parent / "answers"
TIMEOUT_S = 120.0


def record(where: Where) -> Path:
    return RECORDS / f"answers-{where}.json"


def known(folder: Path = ANSWERS) -> list[Path]:
    """The folders of all answers, by name."""
    return sorted(answer.parent for answer in folder.glob("*/answer.py"))


def digest(answer: Path) -> str:
    """Of the answer and its reference: a recorded verdict is one on these."""
    texts = (answer / "problem.py", answer / "answer.py")
    return hashlib.sha256(b"\0".join(text.read_bytes() for text in texts)).hexdigest()[:16]


def judged_all(chosen: Iterable[Path], where: Where, jobs: int) -> Iterator[Entry]:
    """One entry for each answer, as soon as it is there, `jobs` at a time."""
    yield from at_once(lambda answer: judged(answer, where), chosen, jobs)


def judged(answer: Path, where: Where) -> Entry:
    """The verdict on one answer; `fault` where nothing could be judged."""
    begun = time.monotonic()
    try:
        problem = _problem(answer / "problem.py")
        source = (answer / "answer.py").read_text(encoding="utf-8")
        candidate = Candidate(problem=problem.name, source=source, origin="file")
        executor = _executor(where)
        job = executor.job(problem, candidate).model_copy(update={"envelope_limit_s": 0.0})
        entry = _told(executor.judge(job))
    except AgentError as fault:
        entry = {"status": "fault", "finding": str(fault)[:WORDS], "shapes": "", "sizes": {}, "skipped": []}
    seconds = round(time.monotonic() - begun, 1)
    return {"id": answer.name, "digest": digest(answer), **entry, "seconds": seconds}


def _told(evaluation: Evaluation) -> Entry:
    headline, scope = evaluation.headline, evaluation.scope
    return {
        "status": str(evaluation.status),
        "finding": f"{headline.kind}: {headline.message}"[:WORDS] if headline else "",
        "shapes": scope.shapes,
        "sizes": {name: list(pair) for name, pair in scope.sizes.items()},
        "skipped": list(scope.skipped),
    }


@cache
def _executor(where: Where) -> LocalExecutor:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    options = JudgeOptions(candidate_timeout_s=TIMEOUT_S, measure=False)
    return LocalExecutor(where, cache_dir=cache_dir, options=options)


@cache
def _problem(file: Path) -> Problem:
    return problems.load(str(file))
