"""Load test of the judge on a GPU: `python -m benchmarks.load --root CHECKOUT --answers FOLDER --at-once 4`.

Judges answers to KernelBench problems of a local checkout, several side by side as runs beside each other do:
by default every sixth problem of levels 1 to 3. An answer is a file `LEVEL-NUMBER*.py` of FOLDER, as
`benchmarks.composer compose` writes them, or a Markdown reply `lLEVEL_NUMBER.K.md`. `--wrong` adds a wrong
variant of each answer, `--confirm` the second look of what is verified, `--profile` the spans of each
process. One JSON document holds a row for each answer: seconds until its verdict and of each phase, the
time that counts, and how the verdict ended; summaries are printed. Nothing of the checkout or of the
answers is kept.
"""

import argparse
import json
import os
import re
import secrets
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from agent import config, parse, problems
from agent.errors import AgentError
from agent.executors import JudgeOptions, LocalExecutor, local
from agent.harness.backends import gpu_lock
from agent.records import Admission, Candidate, Completion, Evaluation, Problem, Trace
from benchmarks import profiled_judge, storage, verdict_profile
from tests.gpu import verify

EVERY = 6
"""Stride of the default selection."""
LEVELS = (1, 2, 3)
TIMEOUT_S = 300.0
WAITING = "waiting for the GPU"
AFTER_THE_VERDICT = ("looking for the cause", "probing what else it handles")
"""Phases that begin once the verdict is decided and stored."""
_WRONG = """

_forward = ModelNew.forward


def _wrong(self, *inputs):
    return torch.utils._pytree.tree_map(lambda y: y * 1.01 + 0.01, _forward(self, *inputs))


ModelNew.forward = _wrong
"""
_NONCE = "__device__ int benchmark_{}() {{ return 0; }}\n"
_KERNEL = re.compile(r"^(?=(?:template\s*<[^\n]*>\s*\n)?(?:static\s+|extern\s+\"C\"\s+)?__global__)", re.M)


class Answer(NamedTuple):
    """One answer to judge."""

    problem: str
    """`LEVEL/NUMBER`."""
    file: Path
    is_wrong: bool = False
    """True for the wrong variant of the answer in `file`."""


def main() -> int:
    given = _options().parse_args()
    answers = list(_answers(given.answers, given.only or _default_problems(), given.wrong))
    if not answers:
        sys.exit(f"load: no answers in {given.answers} for these problems")
    given.out.mkdir(parents=True, exist_ok=True)
    if given.profile:
        local.JUDGE_PROCESS = profiled_judge.__name__
    document = {**verify.circumstances(given.commit), "processors": os.cpu_count(), "rows": []}
    for number in given.at_once:
        bench = Bench(given, number)
        rows = bench.judge_all(answers, given.seconds)
        document["rows"] += rows
        path = given.out / f"load-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
        document["holds"] = bench.holds()
        storage.write(path, document)
        print(summary(rows, bench.whole_s), flush=True)
        print(holds_summary(document["holds"]), flush=True)
    return 0


class Bench:
    """Judges answers side by side, each problem traced and admitted before the clock starts."""

    def __init__(self, given: argparse.Namespace, at_once: int) -> None:
        self._given, self._at_once = given, at_once
        self._cache = config.load({}, offline=True).settings.cache_dir
        self._problems: dict[str, Problem] = {}
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self.whole_s = 0.0

    def judge_all(self, answers: list[Answer], limit_s: float) -> list[dict[str, Any]]:
        """Return a row for each answer that was begun within `limit_s` seconds."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for problem in pool.map(self._load, dict.fromkeys(answer.problem for answer in answers)):
                self._problems[problem.name] = problem
        executors = {name: self._executor(problem) for name, problem in self._problems.items()}
        self._begun = time.monotonic()
        deadline = self._begun + limit_s

        def judge(answer: Answer) -> dict[str, Any] | None:
            if time.monotonic() > deadline:
                return None
            problem = self._problems[self._names[answer.problem]]
            return self._judge(answer, problem, executors[problem.name])

        with ThreadPoolExecutor(self._at_once) as pool:
            rows = [row for row in pool.map(judge, answers) if row is not None]
        self.whole_s = time.monotonic() - self._begun
        return rows

    def holds(self) -> list[dict[str, Any]]:
        """Return the sections of the GPU that began during the pass, by its queue's log."""
        log = gpu_lock.place_of(self._cache, config.child_environment()) / "holds.jsonl"
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
        return [row for row in rows if row["begun"] >= self._begun]

    @property
    def _names(self) -> dict[str, str]:
        return self._addresses

    def _load(self, number: str) -> Problem:
        def remembered(source: str, make: Any) -> Trace:
            file = self._given.traces / f"{number.replace('/', '-')}.trace.json"
            if not file.is_file():
                self._given.traces.mkdir(parents=True, exist_ok=True)
                file.write_text(make().model_dump_json(), encoding="utf-8")
            return Trace.model_validate_json(file.read_text(encoding="utf-8"))

        problem = problems.load(
            f"kernelbench:{number}", kernelbench_root=self._given.root, remembered=remembered
        )
        with self._lock:
            if not hasattr(self, "_addresses"):
                self._addresses: dict[str, str] = {}
            self._addresses[number] = problem.name
        return problem

    def _executor(self, problem: Problem) -> LocalExecutor:
        options = JudgeOptions(candidate_timeout_s=TIMEOUT_S)
        made = LocalExecutor("cuda", cache_dir=self._cache, options=options, announce=self._hear)
        if self._given.probe:
            made.admit(problem)
        else:
            made._admissions[problem.id] = Admission(note="not probed: load test")
        return made

    def _hear(self, what: str) -> None:
        if what.startswith(profiled_judge.SPANS):
            spans = [verdict_profile.Span(*span) for span in json.loads(what[len(profiled_judge.SPANS) :])]
            file = self._given.out / f"profile-{secrets.token_hex(3)}.txt"
            file.write_text(verdict_profile.table(spans), encoding="utf-8")

    def _judge(self, answer: Answer, problem: Problem, executor: LocalExecutor) -> dict[str, Any]:
        candidate = Candidate(problem=problem.name, source=_source(answer, problem.name))
        begun = time.monotonic()
        row: dict[str, Any] = {
            "problem": answer.problem, "answer": answer.file.name, "wrong": answer.is_wrong,
            "at_once": self._at_once, "begun_s": round(begun - self._begun, 2),
        }  # fmt: skip
        try:
            found = executor.evaluate(problem, candidate)
            row |= _first_look(found) | {"seconds": round(time.monotonic() - begun, 2)}
            if self._given.confirm and found.unconfirmed:
                again = time.monotonic()
                second = executor.confirm(problem, candidate, found)
                row |= _second_look(second, found) | {"second_s": round(time.monotonic() - again, 2)}
        except AgentError as error:
            details = getattr(error, "details", "")[-1500:]
            row |= {
                "fault": f"{type(error).__name__}: {error}"[:500],
                "exit": error.exit_code,
                "details": details,
            }
            row.setdefault("seconds", round(time.monotonic() - begun, 2))
        with self._lock:
            sys.stderr.write(json.dumps(row) + "\n")
            sys.stderr.flush()
        return row


def _first_look(found: Evaluation) -> dict[str, Any]:
    times = found.measurement
    headline = found.headline
    return {
        "status": str(found.status),
        "finding": f"{headline.kind}: {headline.message[:200]}" if headline else None,
        "ms": times.candidate_ms.p50 if times else None,
        "events_ms": times.second_clock_ms if times else None,
        "eager_ms": times.eager_ms.p50 if times and times.eager_ms else None,
        "stable": times.stable if times else None,
        "host_bound": times.host_bound if times else None,
        "host_ms": times.host_ms if times else None,
        "rounds": times.rounds if times else None,
        "p20_p80": (times.candidate_ms.p20, times.candidate_ms.p80) if times else None,
        "card": times.card.model_dump() if times and times.card else None,
        "phases": {phase.name: phase.seconds for phase in found.phases},
        "verdict_s": sum(phase.seconds for phase in found.phases if phase.name not in AFTER_THE_VERDICT),
        "skipped": [text[:120] for text in found.scope.skipped],
    }


def _second_look(second: Evaluation, first: Evaluation) -> dict[str, Any]:
    known = len(first.phases)
    times = second.measurement
    return {
        "second_status": str(second.status),
        "second_finding": second.headline.message[:300] if second.headline else None,
        "second_ms": times.candidate_ms.p50 if times else None,
        "second_phases": {phase.name: phase.seconds for phase in second.phases[known:]},
        "second_skipped": [text[:160] for text in second.scope.skipped],
        "confirmed": second.scope.confirmed,
    }


def _source(answer: Answer, problem: str) -> str:
    """Return the code of an answer with a kernel text that was never built before."""
    text = answer.file.read_text(encoding="utf-8")
    if answer.file.suffix == ".md":
        text = parse.candidate(problem, Completion(provider="recorded", model=None, text=text), None).source
    text = _KERNEL.sub(_NONCE.format(secrets.token_hex(8)), text, count=1)
    return text + _WRONG if answer.is_wrong else text


def _answers(folder: Path, numbers: Iterable[str], wrong: bool) -> Iterator[Answer]:
    for number in numbers:
        level, _, place = number.partition("/")
        files = sorted(folder.rglob(f"level{level}-{place}-*.py")) + sorted(
            folder.rglob(f"l{level}_{place}.*.md")
        )
        for file in files:
            yield Answer(number, file)
            if wrong:
                yield Answer(number, file, is_wrong=True)


def _default_problems() -> list[str]:
    lengths = {1: 100, 2: 100, 3: 50}
    return [f"{level}/{number}" for level in LEVELS for number in range(EVERY, lengths[level] + 1, EVERY)]


def summary(rows: list[dict[str, Any]], whole_s: float) -> str:
    """Return the figures of one pass: verdicts, seconds, waits, faults."""
    if not rows:
        return "no answer was begun in time"
    looks = len(rows) + sum("second_s" in row for row in rows)
    lines = [
        f"{rows[0]['at_once']} side by side: {len(rows)} answers in {whole_s:.0f} s, "
        f"{60 * len(rows) / whole_s:.1f} verdicts a minute ({looks} looks)",
        f"  answer to verdict, s: {_spread([row.get('verdict_s', row['seconds']) for row in rows])}",
        f"  with its explanation, s: {_spread([row['seconds'] for row in rows])}",
        f"  waiting for the GPU, s: {_spread([row.get('phases', {}).get(WAITING, 0.0) for row in rows])}",
    ]
    for title, wanted in (("right", False), ("wrong", True)):
        some = [row for row in rows if row["wrong"] is wanted]
        if some:
            counts: dict[str, int] = {}
            for row in some:
                status = row.get("status", row.get("fault", ""))[:60]
                counts[status] = counts.get(status, 0) + 1
            lines.append(f"  {title}: {counts}; seconds {_spread([row['seconds'] for row in some])}")
    seconds = [row["second_s"] for row in rows if "second_s" in row]
    if seconds:
        lines.append(f"  second looks, s: {_spread(seconds)}")
    return "\n".join(lines)


def holds_summary(holds: list[dict[str, Any]]) -> str:
    """Return how long the GPU was held at a time, alone and shared."""
    lines = []
    for mode in ("exclusive", "shared"):
        seconds = [row["seconds"] for row in holds if row["mode"] == mode]
        if seconds:
            lines.append(
                f"  {mode} sections: {len(seconds)}, {sum(seconds):.0f} s in all; {_spread(seconds)}"
            )
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    ninetieth = ordered[min(len(ordered) - 1, round(0.9 * (len(ordered) - 1)))]
    return f"median {statistics.median(ordered):.1f}, p90 {ninetieth:.1f}, longest {ordered[-1]:.1f}"


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=(__doc__ or "").split("\n")[0]
    )
    options.add_argument("--root", type=Path, required=True, help="a local checkout of KernelBench")
    options.add_argument("--answers", type=Path, required=True, help="folder of answers")
    options.add_argument("--traces", type=Path, default=Path("traces"), help="folder that keeps traces")
    options.add_argument("--only", nargs="+", default=[], metavar="LEVEL/NUMBER")
    options.add_argument("--at-once", type=int, nargs="+", default=[4], metavar="N", help="side by side")
    options.add_argument("--wrong", action="store_true", help="judge a wrong variant of each answer, too")
    options.add_argument("--confirm", action="store_true", help="second looks of what is verified")
    options.add_argument("--profile", action="store_true", help="write the spans of each verdict to --out")
    options.add_argument("--probe", action="store_true", help="admit each problem by probing it first")
    options.add_argument("--seconds", type=float, default=3600.0, help="begin no answer after this time")
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    options.add_argument("--out", type=Path, required=True, help="folder of the document")
    return options


if __name__ == "__main__":
    sys.exit(main())
