"""The verdict on a composed file, by the executor that `agent eval` uses. It is not timed here."""

import time
from functools import cache
from typing import Any, Literal

from agent import config
from agent.errors import AgentError
from agent.executors import JudgeOptions, LocalExecutor
from agent.records import Candidate
from benchmarks.composer.cases import Case, loaded

Where = Literal["emulator", "cuda"]
TIMEOUT_S = 120.0
WORDS = 300


def judged(case: Case, where: Where, quick: bool) -> dict[str, Any]:
    """Status, finding and sizes; `fault` where nothing could be judged."""
    begun = time.monotonic()
    try:
        problem = loaded(case)
        candidate = Candidate(
            problem=problem.name, source=case.file.read_text(encoding="utf-8"), origin="file"
        )
        executor = _executor(where, quick)
        job = executor.job(problem, candidate).model_copy(update={"envelope_limit_s": 0.0})
        found = executor.judge(job)
        said = {
            "status": str(found.status),
            "finding": f"{found.headline.kind}: {found.headline.message}"[:WORDS] if found.headline else "",
            "shapes": found.scope.shapes,
        }
    except AgentError as fault:
        said = {"status": "fault", "finding": str(fault).replace(f"{case.root}/", "")[:WORDS], "shapes": ""}
    protocol = "quick" if quick else "full"
    return {**said, "protocol": protocol, "seconds": round(time.monotonic() - begun, 1)}


@cache
def _executor(where: Where, quick: bool) -> LocalExecutor:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    options = JudgeOptions(
        candidate_timeout_s=TIMEOUT_S, measure=False, protocol="quick" if quick else "full"
    )
    return LocalExecutor(where, cache_dir=cache_dir, options=options)
