"""What live runs came to, as Markdown: each run's answers and its best, and the geometric means."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from statistics import geometric_mean

from agent.api import Run
from agent.records import Attempt, Baseline, Status

BASELINES: tuple[Baseline, ...] = ("eager", "compile", "max-autotune")
HEAD = (
    f"| problem | first answer | second answer | best of run | confirmed | {' | '.join(BASELINES)} |\n"
    "|---|---|---|---|---|---|---|---|"
)


def rendered(runs: Sequence[Run]) -> str:
    """The table, then how many answers were verified and the geometric means of their speedups."""
    rows = [_row(run) for run in runs]
    first = [_answer(run, 1) for run in runs]
    judged = [attempt for attempt in first if attempt is not None]
    best = [run.best for run in runs if run.best]
    confirmed = [attempt for attempt in best if not attempt.evaluation.unconfirmed]
    return "\n".join(
        (
            HEAD, *rows, "",
            f"First answers: {_verified(judged)} of {len(judged)} judged are verified; "
            f"geometric mean {_mean(judged)}.",
            f"Best of run: {len(best)} of {len(runs)} verified, {len(confirmed)} of them confirmed; "
            f"geometric mean {_mean(best)}, of the confirmed ones {_mean(confirmed)}.",
        )
    )  # fmt: skip


def name_of(run: Run) -> str:
    """A reference of ours by its name, one of KernelBench's by its number and the hash of its file."""
    address = run.folder.info.settings.problem
    if not address.startswith("kernelbench:"):
        return f"`{run.problem.name}`"
    # KernelBench's files end their lines as the problem's source does: the file's own bytes are hashed.
    hashed = sha256(run.problem.source.encode()).hexdigest()[:12]
    return f"KernelBench {address.removeprefix('kernelbench:')} ({hashed})"


def _row(run: Run) -> str:
    best = run.best
    times = best.evaluation.measurement if best else None
    base = times.baselines if times else {}
    cells = [
        name_of(run), _cell(_answer(run, 1)), _cell(_answer(run, 2)), _cell(best),
        "-" if best is None else "no" if best.evaluation.unconfirmed else "yes",
        *(f"{base[name].p50:.4g} ms" if name in base else "-" for name in BASELINES),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _answer(run: Run, number: int) -> Attempt | None:
    """What was judged of the answer to a round, the last of its mends, with the verdict that stands."""
    evaluated = [event for one in run.log.rounds if one.number == number for event in one.evaluated]
    stands = {attempt.number: attempt for attempt in run.attempts}
    return stands[evaluated[-1].attempt.number] if evaluated else None


def _cell(attempt: Attempt | None) -> str:
    if attempt is None:
        return "-"
    found = attempt.evaluation
    if found.status is not Status.VERIFIED:
        return f"{found.status}: {found.headline.kind}" if found.headline else str(found.status)
    times = found.measurement
    if times is None or times.speedup is None:
        return "verified, no time"
    return f"{times.speedup:.2f}x, {times.candidate_ms.p50:.4g} ms"


def _verified(attempts: Iterable[Attempt]) -> int:
    return sum(attempt.evaluation.status is Status.VERIFIED for attempt in attempts)


def _mean(attempts: Iterable[Attempt]) -> str:
    times = [attempt.evaluation.measurement for attempt in attempts]
    speedups = [found.speedup for found in times if found is not None and found.speedup is not None]
    return f"{geometric_mean(speedups):.2f}x over {len(speedups)}" if speedups else "-"
