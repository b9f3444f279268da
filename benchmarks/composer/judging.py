"""The verdict on a composed file, by the executor that `agent eval` uses. It is not timed here."""

import time
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal

from agent import config
from agent.errors import AgentError
from agent.executors import JudgeOptions, LocalExecutor
from agent.records import Candidate, LibraryOps
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
        executor = _executor(where, quick, case.library_ops)
        job = executor.job(problem, candidate).model_copy(update={"envelope_limit_s": 0.0})
        found = executor.judge(job)
        said = {
            "status": str(found.status),
            "finding": f"{found.headline.kind}: {found.headline.message}"[:WORDS] if found.headline else "",
            "shapes": found.scope.shapes,
            "unexercised": list(found.scope.unexercised),
        }
    except AgentError as fault:
        said = {
            "status": "fault",
            "finding": str(fault).replace(f"{case.root}/", "")[:WORDS],
            "shapes": "",
            "unexercised": [],
        }
    protocol = "quick" if quick else "full"
    seconds = round(time.monotonic() - begun, 1)
    return {**said, "protocol": protocol, "seconds": seconds, "date": f"{datetime.now(UTC):%Y-%m-%d}"}


@cache
def _executor(where: Where, quick: bool, library_ops: LibraryOps) -> LocalExecutor:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    options = JudgeOptions(
        candidate_timeout_s=TIMEOUT_S, measure=False, protocol="quick" if quick else "full",
        library_ops=library_ops,
    )  # fmt: skip
    return LocalExecutor(where, cache_dir=cache_dir, options=options)
