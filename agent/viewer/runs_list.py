"""The list of runs as its page shows it: filtered, ordered, one page of it, and the speedups by problem."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from agent import ranking, store
from agent.records import Attempt
from agent.viewer import words

PAGE = 100
BAR, MARGIN = 240, 8
"""Width of the strip that speedups are drawn on, and what it leaves free at its ends."""
MOST_PROBLEMS = 40
SORTS = (("date", "newest"), ("speedup", "fastest"), ("rounds", "most rounds"))


@dataclass(frozen=True)
class Query:
    """What was asked for in the address; an unknown word fits nothing or is the default, and is no error."""

    q: str = ""
    problem: str = ""
    status: str = ""
    provider: str = ""
    sort: str = "date"
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "Query":
        page = parameters.get("page", "")
        known = {
            name: parameters[name] for name in ("q", "problem", "status", "provider") if name in parameters
        }
        sort = parameters.get("sort", "date")
        return cls(
            **known,
            sort=sort if sort in dict(SORTS) else "date",
            page=int(page) if page.isdecimal() and 0 < len(page) < 7 else 1,
        )

    def __getitem__(self, name: str) -> str:
        return str(asdict(self)[name])

    def href(self, page: int) -> str:
        """The address of another page of the same list."""
        given = asdict(self) | {"page": page}
        return "/?" + urlencode({name: value for name, value in given.items() if value not in ("", "date")})


class Row(NamedTuple):
    """One run."""

    id: str
    href: str
    problem: str
    provider: str
    model: str
    rounds: str
    begun: int
    best: str | None
    speedup: float | None
    state: str
    damaged: int


class Speedups(NamedTuple):
    """What the measured runs of one problem came to; `x` and `others` are places on the strip."""

    problem: str
    runs: int
    speedup: float
    href: str
    x: float
    others: tuple[float, ...]


class Listed(NamedTuple):
    total: int
    matching: int
    page: int
    pages: int
    rows: tuple[Row, ...]
    problems: tuple[str, ...]
    statuses: tuple[str, ...]
    providers: tuple[str, ...]
    best_by_problem: tuple[Speedups, ...]
    one: float
    """Where on the strip the reference's own speed is."""
    previous: str | None
    next: str | None


def row(summary: store.RunSummary, href: str, recorded: bool = False) -> Row:
    asked = summary.info.settings if summary.info else None
    best = ranking.best_of(summary.attempts, summary.finished)
    return Row(
        id=summary.id,
        href=href,
        problem=asked.problem_name if asked else "",
        provider=asked.provider if asked else "",
        model=(asked.model or "") if asked else "",
        rounds=f"{summary.rounds}/{asked.rounds if asked else '?'}",
        begun=summary.rounds,
        best=words.verdict(best) if best else None,
        speedup=_speedup(best),
        state="recorded" if recorded else summary.state,
        damaged=summary.damaged_lines,
    )


def select(rows: Sequence[Row], query: Query) -> Listed:
    """`rows` are the newest first."""
    fitting = [row for row in rows if _fits(row, query)]
    order: dict[str, Callable[[Row], float]] = {
        "speedup": lambda row: -(row.speedup or 0.0),
        "rounds": lambda row: -row.begun,
    }
    if query.sort in order:
        fitting.sort(key=order[query.sort])
    pages = max(1, -(-len(fitting) // PAGE))
    page = min(query.page, pages)
    best, one = _by_problem(fitting)
    return Listed(
        total=len(rows),
        matching=len(fitting),
        page=page,
        pages=pages,
        rows=tuple(fitting[(page - 1) * PAGE : page * PAGE]),
        problems=_choices(row.problem for row in rows),
        statuses=_choices(word for row in rows for word in _statuses(row)),
        providers=_choices(row.provider for row in rows),
        best_by_problem=best,
        one=one,
        previous=query.href(page - 1) if page > 1 else None,
        next=query.href(page + 1) if page < pages else None,
    )


def _fits(row: Row, query: Query) -> bool:
    searched = " ".join((row.id, row.problem, row.provider, row.model)).lower()
    return (
        all(word in searched for word in query.q.lower().split())
        and query.problem in ("", row.problem)
        and query.provider in ("", row.provider)
        and (not query.status or query.status in _statuses(row))
    )


def _statuses(row: Row) -> tuple[str, str]:
    return row.state, "verified" if row.best else "none verified"


def _by_problem(rows: Sequence[Row]) -> tuple[tuple[Speedups, ...], float]:
    """The problems with a measured run, the best first, on one linear scale from 0."""
    by_problem: dict[str, list[Row]] = {}
    for row in rows:
        if row.speedup is not None:
            by_problem.setdefault(row.problem, []).append(row)
    most = max((row.speedup or 0.0 for found in by_problem.values() for row in found), default=1.0)
    scale = (BAR - 2 * MARGIN) / max(most, 1.0)

    def x(row: Row) -> float:
        return MARGIN + scale * (row.speedup or 0.0)

    found = []
    for problem, measured in by_problem.items():
        top = max(measured, key=lambda row: row.speedup or 0.0)
        others = tuple(x(row) for row in measured[:200] if row is not top)
        found.append(Speedups(problem, len(measured), top.speedup or 0.0, top.href, x(top), others))
    found.sort(key=lambda row: -row.speedup)
    return tuple(found[:MOST_PROBLEMS]), MARGIN + scale


def _choices(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values) - {""}))


def _speedup(best: Attempt | None) -> float | None:
    measurement = best.evaluation.measurement if best else None
    return measurement.speedup if measurement else None
