"""The list of runs as its page shows it: filtered, sorted and paged, with the speedups by problem."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple
from urllib.parse import quote, urlencode

from agent import store
from agent.store import selection
from agent.store.selection import Order
from agent.viewer import words

PAGE = 100
BAR, MARGIN = 240, 8
"""Width of the strip that shows speedups, and the margin at each end."""
MOST_PROBLEMS = 40
MOST_DOTS = 200
"""Maximum number of runs of one problem that are drawn besides its best run."""
SORTS = (
    (Order.DATE, "newest"),
    (Order.SPEEDUP, "fastest"),
    (Order.ROUNDS, "most rounds"),
    (Order.TOKENS, "most tokens"),
    (Order.COST, "dearest"),
)


@dataclass(frozen=True)
class Query:
    """Query of the list, from the page's address.

    Unknown values match nothing or become the default; they are no error.
    """

    q: str = ""
    problem: str = ""
    status: str = ""
    provider: str = ""
    sort: Order = Order.DATE
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "Query":
        page = parameters.get("page", "")
        known = {
            name: parameters[name] for name in ("q", "problem", "status", "provider") if name in parameters
        }
        sort = parameters.get("sort", "")
        return cls(
            **known,
            sort=Order(sort) if sort in list(Order) else Order.DATE,
            page=int(page) if page.isdecimal() and 0 < len(page) < 7 else 1,
        )

    def __getitem__(self, name: str) -> str:
        return str(asdict(self)[name])

    def href(self, page: int) -> str:
        """Return the address of another page of the same list."""
        given = asdict(self) | {"page": page}
        return "/?" + urlencode(
            {name: value for name, value in given.items() if value not in ("", Order.DATE)}
        )


class Row(NamedTuple):
    """One run as the table shows it."""

    id: str
    href: str
    problem: str
    provider: str
    model: str
    begun: str
    rounds: str
    best: str | None
    speedup: float | None
    tokens: int | None
    cost_usd: float | None
    state: str
    damaged: int


class Speedups(NamedTuple):
    """Speedups of the measured runs of one problem; `x` and `others` are positions on the strip."""

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
    """Position of speedup 1, the reference's own speed, on the strip."""
    previous: str | None
    next: str | None


def select(runs: Sequence[store.RunSummary], query: Query) -> Listed:
    """Return one page of the matching runs. A link to a run is `/run/` and its id."""
    fitting = selection.ordered(_fitting(runs, query), query.sort)
    pages = max(1, -(-len(fitting) // PAGE))
    page = min(query.page, pages)
    best, one = _by_problem(fitting)
    return Listed(
        total=len(runs),
        matching=len(fitting),
        page=page,
        pages=pages,
        rows=tuple(map(_row, fitting[(page - 1) * PAGE : page * PAGE])),
        problems=_choices(run.problem for run in runs),
        statuses=selection.STATUSES,
        providers=_choices(run.provider for run in runs),
        best_by_problem=best,
        one=one,
        previous=query.href(page - 1) if page > 1 else None,
        next=query.href(page + 1) if page < pages else None,
    )


def href(run_id: str) -> str:
    """Return the address of a run's page."""
    return f"/run/{quote(run_id, safe='')}"


def _row(run: store.RunSummary) -> Row:
    return Row(
        id=run.id,
        href=href(run.id),
        problem=run.problem or "",
        provider=run.provider or "",
        model=run.model or "",
        begun=words.moment(run.created) if run.created else "",
        rounds=f"{run.rounds}/{run.planned_rounds if run.planned_rounds is not None else '?'}",
        best=words.verified(run.best.scope) if run.best else None,
        speedup=run.speedup,
        tokens=run.tokens,
        cost_usd=run.cost_usd,
        state=run.state,
        damaged=run.damaged_lines,
    )


def _fitting(runs: Iterable[store.RunSummary], query: Query) -> Iterator[store.RunSummary]:
    chosen = selection.Selection(statuses=(query.status,) if query.status else ())
    words_asked = query.q.casefold().split()
    for run in runs:
        if query.problem not in ("", run.problem) or query.provider not in ("", run.provider):
            continue
        if words_asked:
            searched = " ".join(filter(None, (run.id, run.problem, run.provider, run.model))).casefold()
            if not all(word in searched for word in words_asked):
                continue
        if chosen.takes(run):
            yield run


def _by_problem(runs: Iterable[store.RunSummary]) -> tuple[tuple[Speedups, ...], float]:
    """Return the problems with a measured run, fastest first, and the position of speedup 1.

    All problems share one linear scale that begins at 0.
    """
    measured: dict[str, list[tuple[float, str]]] = {}
    for run in runs:
        if run.speedup is not None:
            measured.setdefault(run.problem or "", []).append((run.speedup, run.id))
    tops = {problem: max(found) for problem, found in measured.items()}
    scale = (BAR - 2 * MARGIN) / max([1.0, *(speedup for speedup, _ in tops.values())])
    rows = [
        Speedups(
            problem=problem,
            runs=len(measured[problem]),
            speedup=top[0],
            href=href(top[1]),
            x=MARGIN + scale * top[0],
            others=tuple(MARGIN + scale * one[0] for one in measured[problem][:MOST_DOTS] if one != top),
        )
        for problem, top in tops.items()
    ]
    rows.sort(key=lambda row: -row.speedup)
    return tuple(rows[:MOST_PROBLEMS]), MARGIN + scale


def _choices(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))
