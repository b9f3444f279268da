"""docs/fleet.md: what the simulation of `benchmarks.fleet` finds."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.fleet import END_OF_EACH_S, END_S, FULL, GPUS_OF_A_HOST, PROCESSORS_OF_A_GPU, Found, Load

GIVEN = {"wrong": 0.5, "new best": 0.5}
SEARCHED = {"wrong": 0.5, "right": 0.35, "new best": 0.15}
LOADS = (
    Load("given answers, four runs at a time on each GPU", 0.0, GIVEN, 4, verdicts_of_a_run=1),
    Load("answers of a model, four runs on each GPU", 60.0, SEARCHED, 4),
    Load("answers of a model, twelve runs on each GPU", 60.0, SEARCHED, 12),
    Load("the same with 100,000 runs in the folder", 60.0, SEARCHED, 12, runs_before=100_000),
)
POOL_PAGE = """
## One GPU, measured

The mix of `benchmarks.verdict` (right and wrong answers in turn, four side by side, 16 processors) gave
{verdicts} verdicts in {seconds:.1f} s on an {gpu} ({date}, commit {commit}): {measured:.1f} a
minute. Alone, in the same sitting, they took:

{steps}

So a verdict of the mix holds the GPU for {held:.1f} s, and one that is never idle gives {allowed:.1f} a
minute: the pool reached {share:.0f} % of what its phases allow. The first answers had to be built before the
GPU had anything to do; in the {busy:.1f} s that were left it could have given {possible:.1f} verdicts.
What is missing to 90 % is in the timing, which takes 3.9 s beside others and 3.4 alone: processes that
begin and end on the same GPU hold the timed calls up. Repeat it with
`python -m benchmarks.verdict --executor cuda --only mix --at-once 4 --times 10`.
"""
TITLE = """# How many GPUs a suite can use

A simulation by events, not a measurement: `python -m benchmarks.fleet` renders this page. Two GPUs
of one host are the most that ran ([live](live.md)); more than {gpus} take several hosts (`agent bench
--cluster`), with one head.

Measured: how long each phase of a verdict takes on an {gpu} ({date}, commit {commit}, one verdict at a
time, `level1/group_norm`, one sample of each case), and what the head takes when a run ends: {end:.0f} ms and
{each:.3f} ms for each run in its folder, on a loaded machine.

Assumed: hosts of {gpus} GPUs with {processors} processors for each; two processors for each step without a
GPU; times spread by a quarter around the measured ones (log-normal); a model that answers after 60 s on
average (exponential) however much it is asked; {head:.0f} ms of the head for the messages of a verdict; six
verdicts in a run that asks a model, and 1,000 runs in the folder. Ten minutes to warm up, thirty that count,
one seed.

What it says: a verdict is its GPU's time, processors are idle; a model that takes a minute wants about
twelve runs on each GPU, where the bench begins four; one head is enough for hundreds of GPUs as long as a
large folder of runs is not what it reads whenever one ends.

| case | steps |
|---|---|
{steps}
"""
COLUMNS = ("GPUs", "verdicts an hour", "for each GPU", "GPUs busy", "processors busy", "head busy",
           "a verdict waits for its GPU", "for processors", "for the head", "in the way of more")  # fmt: skip


def render(
    document: dict[str, Any],
    cases: dict[str, list[tuple[str, float]]],
    found: Sequence[tuple[Load, Sequence[Found]]],
) -> str:
    machine = document["machine"]["gpu"].partition(",")[0]
    title = TITLE.format(
        gpu=machine, date=document["date"], commit=document["commit"][:8], gpus=GPUS_OF_A_HOST,
        processors=PROCESSORS_OF_A_GPU, head=1000 * LOADS[0].head_s, end=1000 * END_S,
        each=1000 * END_OF_EACH_S,
        steps="\n".join(f"| {name} | {_steps(steps)} |" for name, steps in cases.items()),
    )  # fmt: skip
    return title + "".join(_table(load, rows, cases) for load, rows in found)


def pool(
    document: dict[str, Any], cases: dict[str, list[tuple[str, float]]], verdicts: int, seconds: float
) -> str:
    """What so many verdicts in so many seconds are of what the phases of single ones allow."""
    held = _held(cases, dict.fromkeys(cases, 1 / len(cases)))
    first = min(taken for case in cases.values() for place, taken in case[:1] if place == "host")
    measured, allowed, busy = 60 * verdicts / seconds, 60 / held, seconds - first
    return POOL_PAGE.format(
        verdicts=verdicts, seconds=seconds, gpu=document["machine"]["gpu"].partition(",")[0],
        date=document["date"], commit=document["commit"][:8], measured=measured, held=held, allowed=allowed,
        share=100 * measured / allowed, busy=busy, possible=busy / held,
        steps="\n".join(f"- {name}: {_steps(steps)}" for name, steps in cases.items()),
    )  # fmt: skip


def _held(cases: dict[str, list[tuple[str, float]]], shares: dict[str, float]) -> float:
    """Seconds for which a verdict holds its GPU, on average."""
    return sum(
        share * sum(seconds for place, seconds in cases[case] if place == "gpu")
        for case, share in shares.items()
    )


def _steps(steps: Iterable[tuple[str, float]]) -> str:
    words = {"host": "processors", "gpu": "GPU"}
    return ", ".join(f"{words[place]} {seconds:.1f} s" for place, seconds in steps)


def _table(load: Load, rows: Sequence[Found], cases: dict[str, list[tuple[str, float]]]) -> str:
    held = _held(cases, load.shares)
    lines = [
        "",
        f"## {load.name[0].upper()}{load.name[1:]}",
        "",
        f"{_shares(load)}. A verdict holds its GPU for {held:.1f} s on average, so that one GPU gives "
        f"{3600 / held:.0f} an hour at most.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
        *(_row(one) for one in rows),
        "",
        _told(rows),
        "",
    ]
    return "\n".join(lines)


def _shares(load: Load) -> str:
    return ", ".join(f"{100 * share:.0f} % {case}" for case, share in load.shares.items())


def _row(one: Found) -> str:
    waits = [f"{one.waits[name]:.1f} s" for name in ("GPU", "processors", "head")]
    busy = [f"{100 * share:.0f} %" for share in (one.gpu_busy, one.processors_busy, one.head_busy)]
    cells = [str(one.gpus), f"{one.per_hour:,.0f}", f"{one.per_hour / one.gpus:.0f}", *busy, *waits, one.stop]
    return "| " + " | ".join(cells) + " |"


def _told(rows: Sequence[Found]) -> str:
    """Where it stops scaling, and why."""
    first = rows[0].per_hour / rows[0].gpus
    stopped = next((one for one in rows if one.per_hour / one.gpus < FULL * first), None)
    if stopped is None:
        return f"It scales to {rows[-1].gpus:,} GPUs; {_reason(rows[-1])}"
    return f"It stops scaling between {_before(rows, stopped)} and {stopped.gpus:,} GPUs; {_reason(stopped)}"


def _before(rows: Sequence[Found], one: Found) -> str:
    return f"{rows[rows.index(one) - 1].gpus:,}"


def _reason(one: Found) -> str:
    if one.stop == "runs in progress":
        return "GPUs wait for answers: more runs at a time on each would use them."
    if one.stop == "head":
        return "one head cannot take in more."
    return f"its {one.stop} are full."
