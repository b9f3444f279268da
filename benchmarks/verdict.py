"""What a verdict costs: `python -m benchmarks.verdict [--executor cuda] [--times 5] [--at-once 1 4]`.

Recorded answers for one reference, each time with a kernel text that was never built, go to one executor,
whose problem is warm. Seconds from an answer to its verdict (median and 90th percentile), and of each phase;
`mix` is right and wrong answers in turn, in candidates per minute. A document goes to
benchmarks/results/verdict-times/ and all of them to docs/verdict-times.md, which `--page` renders alone.
"""

import argparse
import json
import os
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from agent import config, problems, store
from agent.executors import JudgeOptions, LocalExecutor, choose, warm
from agent.records import Candidate, Evaluation, Problem
from benchmarks import storage
from tests.gpu import verify

REFERENCE = "level1/group_norm"
PAGE = verify.ROOT / "docs" / "verdict-times.md"
TIMEOUT_S = 300.0
_KERNEL = "__global__ void"
_TITLE = """# What a verdict costs

Seconds from an answer to its verdict, for `{reference}`, whose problem is warm; medians, and the 90th
percentile in brackets. In its turn: seconds of the first look that hold the GPU. Each answer has a kernel
text that was never built before. Rendered by `python -m benchmarks.verdict --page` from the documents in
[benchmarks/results/verdict-times](../benchmarks/results/verdict-times/).
"""


class Case(NamedTuple):
    attempt: int
    """Of the recorded run; the third is wrong, the fourth right."""
    protocol: Literal["full", "quick"] = "full"
    is_best: bool = False
    """Whether it is looked at a second time, as a new best is."""


CASES = {
    "wrong": Case(3),
    "right": Case(4),
    "right, quick": Case(4, "quick"),
    "new best": Case(4, is_best=True),
}
MIX = ("right", "wrong")
OFF_THE_TURN = ("starting", "building", "waiting for the GPU")
"""Phases of a first look that hold no GPU."""


class Judged(NamedTuple):
    case: str
    seconds: float
    evaluation: Evaluation


class Bench:
    """One reference on one executor; every evaluation has an answer of its own."""

    def __init__(self, where: Literal["cuda", "emulator"]) -> None:
        self.where = where
        self.announced: Callable[[str], None] = lambda what: None
        """Hears what is going on."""
        self._problem: Problem = problems.load(REFERENCE)
        self.cache = config.load({}, offline=True).settings.cache_dir
        self._executors = {name: self._executor(case) for name, case in CASES.items()}

    def can(self, name: str) -> bool:
        """Whether there is this case on its executor."""
        return self.where == "cuda" or name == "mix" or not CASES[name].is_best

    def judge(self, name: str) -> Judged:
        source = store.resolve_candidate(
            f"recorded/group_norm:{CASES[name].attempt}", verify.ROOT / "runs"
        ).source
        nonce = f"__device__ int benchmark_{secrets.token_hex(8)}() {{ return 0; }}\n"
        assert _KERNEL in source
        text = source.replace(_KERNEL, nonce + _KERNEL, 1)
        started = time.monotonic()
        executor, candidate = self._executors[name], Candidate(problem=REFERENCE, source=text)
        found = executor.evaluate(self._problem, candidate)
        if CASES[name].is_best:
            found = executor.confirm(self._problem, candidate, found)
        return Judged(name, time.monotonic() - started, found)

    def _heard(self, what: str) -> None:
        self.announced(what)

    def _executor(self, case: Case) -> LocalExecutor:
        options = JudgeOptions(candidate_timeout_s=TIMEOUT_S, protocol=case.protocol)
        made = LocalExecutor(self.where, cache_dir=self.cache, options=options, announce=self._heard)
        made.admit(self._problem)
        return made


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--executor", choices=("auto", "cuda", "emulator"), default="auto")
    options.add_argument("--times", type=int, default=5, help="evaluations of each case")
    options.add_argument(
        "--at-once", type=int, nargs="+", default=[1], metavar="N", help="evaluations side by side"
    )
    options.add_argument("--mix-at-once", type=int, nargs="+", metavar="N", help="of the mix, if others")
    options.add_argument("--profile", action="store_true", help="first, of one right and one wrong answer")
    options.add_argument(
        "--only", nargs="+", choices=(*CASES, "mix"), default=(*CASES, "mix"), metavar="CASE"
    )
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    options.add_argument("--out", type=Path, default=storage.VERDICT_TIMES)
    options.add_argument("--page", action="store_true", help="only render the page")
    given = options.parse_args()
    if not given.page:
        bench = Bench(choose(given.executor))
        wanted = [name for name in given.only if bench.can(name)]
        bench.judge("right")  # what is prepared once, for the problem or for the user
        for case in MIX if given.profile else ():
            _profiled(bench, case, given.out)
        beside = [(name, n) for n in given.at_once for name in wanted if name != "mix"]
        beside += [("mix", n) for n in given.mix_at_once or given.at_once if "mix" in wanted]
        path = measured(bench, beside, given.times, given.commit, given.out)
        sys.stdout.write(f"{path}\n")
    if given.out == storage.VERDICT_TIMES:
        PAGE.write_text(page(sorted(storage.VERDICT_TIMES.glob("*.json"))))
    return 0


def measured(bench: Bench, wanted: list[tuple[str, int]], times: int, commit: str | None, out: Path) -> Path:
    """The document with all figures; one that is not judged as it should be ends the benchmark. `wanted`: the
    cases, and how many side by side.
    """
    path = out / f"{bench.where}-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    begun = {**verify.circumstances(commit), "executor": bench.where, "processors": os.cpu_count()}
    begun["afresh"] = warm.found(bench.where, bench.cache).unfit
    sys.stdout.write("".join(f"started afresh: {name}: {why}\n" for name, why in begun["afresh"].items()))
    rows: list[dict[str, Any]] = []
    for name, number in wanted:
        found, whole_s = _run(bench.judge, _answers(name) * times * number, number)
        rows.append(_told(_row(name, number, found, whole_s)))
        storage.write(path, {**begun, "rows": rows})
    return path


def _profiled(bench: Bench, case: str, out: Path) -> None:
    from benchmarks import verdict_profile

    text = verdict_profile.profile(bench, case, out)
    (out / f"profile-{case}.txt").write_text(text)


def _answers(case: str) -> tuple[str, ...]:
    return MIX if case == "mix" else (case,)


def _run(judge: Callable[[str], Judged], names: Iterable[str], at_once: int) -> tuple[list[Judged], float]:
    """All verdicts, and the seconds of the whole."""
    started = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(judge, names))
    for one in found:
        if one.evaluation.status != ("incorrect" if one.case == "wrong" else "verified"):
            raise SystemExit(f"{one.case}: judged {one.evaluation.status}: {one.evaluation.findings}")
    return found, time.monotonic() - started


def _row(name: str, at_once: int, found: list[Judged], whole_s: float) -> dict[str, Any]:
    phases: dict[str, list[float]] = {}
    for one in found:
        for phase in one.evaluation.phases:
            phases.setdefault(phase.name, []).append(phase.seconds)
    return {
        "case": name,
        "at_once": at_once,
        "count": len(found),
        "seconds": _spread([one.seconds for one in found]),
        "per_minute": round(60 * len(found) / whole_s, 1),
        "turn": _spread([_turn_s(one.evaluation) for one in found]),
        "phases": {phase: _spread(seconds) for phase, seconds in phases.items()},
    }


def _turn_s(evaluation: Evaluation) -> float:
    """Seconds of the first look that hold the GPU, or on the emulator the processors."""
    first = (phase for phase in evaluation.phases if not phase.name.startswith("second look"))
    return sum(phase.seconds for phase in first if phase.name not in OFF_THE_TURN)


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    ninetieth = ordered[min(len(ordered) - 1, round(0.9 * (len(ordered) - 1)))]
    return {"median": round(statistics.median(ordered), 2), "p90": round(ninetieth, 2)}


def _told(row: dict[str, Any]) -> dict[str, Any]:
    spread = row["seconds"]
    sys.stdout.write(
        f"{row['case']}, {row['at_once']} at once: {spread['median']:.2f} s (p90 {spread['p90']:.2f}), "
        f"{row['per_minute']} a minute; {_longest(row)}\n"
    )
    sys.stdout.flush()
    return row


def page(paths: Iterable[Path]) -> str:
    """All documents, the newest first."""
    parts = [_TITLE.format(reference=REFERENCE)]
    for path in sorted(paths, reverse=True):
        document = json.loads(path.read_text())
        machine = document["machine"]
        place = machine["gpu"] or "no GPU"
        parts.append(
            f"## {document['executor']}, {document['date']}\n\n{place}, {document['processors']} processors, "
            f"torch {machine['torch']}, commit {(document['commit'] or '?')[:8]}.\n\n"
            + _table(document["rows"])
        )
    return "\n".join(parts)


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| case | side by side | seconds | in its turn | a minute | longest phases |", "|---" * 6 + "|"]
    for row in rows:
        seconds = f"{row['seconds']['median']:.2f} ({row['seconds']['p90']:.2f})"
        turn = f"{row['turn']['median']:.2f}" if "turn" in row else ""
        cells = (row["case"], row["at_once"], seconds, turn, row["per_minute"], _longest(row))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _longest(row: dict[str, Any]) -> str:
    phases = sorted(row["phases"].items(), key=lambda item: -item[1]["median"])[:4]
    return ", ".join(f"{name} {spread['median']:.2f}" for name, spread in phases)


if __name__ == "__main__":
    sys.exit(main())
