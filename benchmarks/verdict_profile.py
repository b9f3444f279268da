"""Where the seconds of single verdicts go: `python -m benchmarks.verdict_profile [--executor cuda]`.

One answer of each case is judged by `benchmarks.profiled_judge`, its problem warm. Every command that a
process of the judge's answered and every function watched there is told with when it began and what it took,
and sums of them at the end. A document of all spans goes to the folder that is named.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from agent.executors import choose, local
from benchmarks import profiled_judge
from benchmarks.verdict import CASES, Bench

SHORTEST_S = 0.004


class Span(NamedTuple):
    process: str
    what: str
    begun_s: float
    seconds: float


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--executor", choices=("auto", "cuda", "emulator"), default="auto")
    options.add_argument(
        "--only", nargs="+", choices=tuple(CASES), default=("right", "wrong"), metavar="CASE"
    )
    options.add_argument("--out", type=Path, default=None)
    given = options.parse_args()
    bench = Bench(choose(given.executor))
    bench.judge(given.only[0])  # what is prepared once
    for case in given.only:
        sys.stdout.write(profile(bench, case, given.out))
        sys.stdout.flush()
    return 0


def profile(bench: Bench, case: str, out: Path | None) -> str:
    """One verdict by the profiled judge, as text; its spans go to the folder as well."""
    spans: list[Span] = []

    def heard(what: str) -> None:
        if what.startswith(profiled_judge.SPANS):
            spans[:] = [Span(*span) for span in json.loads(what.removeprefix(profiled_judge.SPANS))]

    bench.announced, usual = heard, local.JUDGE_PROCESS
    local.JUDGE_PROCESS = profiled_judge.__name__
    try:
        judged = bench.judge(case)
    finally:
        local.JUDGE_PROCESS = usual
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"profile-{case.replace(', ', '-')}.json").write_text(json.dumps(spans))
    phases = ", ".join(f"{phase.name} {phase.seconds:.2f}" for phase in judged.evaluation.phases)
    title = f"## {case}: {judged.evaluation.status}, {judged.seconds:.2f} s"
    return f"\n{title}\n\n{table(spans)}\nphases: {phases}\n"


def table(spans: list[Span]) -> str:
    """Spans in order, those within another one indented, and what each kind of them sums to."""
    lines, open_until = [], list[float]()
    sums: dict[tuple[str, str], list[float]] = defaultdict(list)
    for span in spans:
        sums[span.process, span.what.split(" ")[0] if "=" in span.what else span.what].append(span.seconds)
        while open_until and open_until[-1] <= span.begun_s:
            open_until.pop()
        if span.seconds >= SHORTEST_S:
            place = "  " * len(open_until)
            lines.append(f"{span.begun_s:7.3f} {span.seconds:7.3f}  {place}{span.process}: {span.what}")
        open_until.append(span.begun_s + span.seconds)
    lines.append("")
    for (process, what), seconds in sorted(sums.items(), key=lambda item: -sum(item[1])):
        if sum(seconds) >= SHORTEST_S:
            median = sorted(seconds)[len(seconds) // 2]
            lines.append(f"{sum(seconds):7.3f} s {len(seconds):4} x {median:7.4f}  {process}: {what}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
