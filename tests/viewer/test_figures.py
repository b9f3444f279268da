"""Where the chart puts its points, what the mismatch map draws, how the list of runs is chosen and paged."""

import math
import re
from datetime import UTC, datetime, timedelta

import pytest
from transcripts import EMULATOR, candidate
from viewer import runs

from agent.records import Attempt, Axis, MismatchMap
from agent.store import RunSummary
from agent.store.history import Entry
from agent.store.selection import Order
from agent.viewer import chart, mismatch_map
from agent.viewer.runs_list import PAGE, Query, select


def step(number: int, status: str, ms: float | None = None) -> chart.Step:
    verdict = runs.measured(ms) if ms is not None else runs.wrong()
    attempt = Attempt(number=number, candidate=candidate(), evaluation=verdict)
    return chart.Step(f"attempt-{number}", f"attempt {number}", status, Entry(attempt=attempt, round=number))


def test_without_times_the_chart_says_how_far_each_attempt_came() -> None:
    steps = [step(1, "build_error"), chart.Step("round-2", "round 2", "no_code"), step(3, "timeout")]
    drawn = chart.draw(steps, None, 1.0)
    assert drawn is not None
    assert [rule.words for rule in drawn.rules] == ["verified", "failed running", "did not build", "no code"]
    levels = {rule.words: rule.y for rule in drawn.rules}
    assert [p.y for p in drawn.points] == [
        levels["did not build"],
        levels["no code"],
        levels["failed running"],
    ]
    assert [p.x for p in drawn.points] == sorted(p.x for p in drawn.points)
    assert drawn.description.startswith("No times were measured.")
    assert chart.draw([], None, None) is None


def test_times_stand_on_a_logarithmic_scale_above_the_floor() -> None:
    drawn = chart.draw([step(1, "incorrect"), step(2, "verified", 0.4), step(3, "verified", 0.1)], 3, 0.05)
    assert drawn is not None
    first, slow, fast = drawn.points
    assert first.low is None
    assert first.y > fast.y > slow.y
    assert (slow.best, fast.best) == (False, True)
    lines = {rule.kind: rule.y for rule in drawn.rules if rule.kind not in ("tick", "level")}
    assert set(lines) == {"eager", "compile", "floor"}
    scale = (fast.y - slow.y) / math.log(0.4 / 0.1)
    assert lines["floor"] - fast.y == pytest.approx(scale * math.log(0.1 / 0.05))
    assert lines["floor"] - lines["eager"] == pytest.approx(scale * math.log(0.121 / 0.05))
    # p80 above the median, p20 below it.
    assert fast.low is not None
    assert fast.high is not None
    assert fast.low < fast.y < fast.high


@pytest.mark.parametrize("count", [1, 8, 200])
def test_points_stay_inside_the_drawing(count: int) -> None:
    steps = [
        step(n, "verified", 0.1 + 0.001 * n) if n % 3 else step(n, "rejected") for n in range(1, count + 1)
    ]
    drawn = chart.draw(steps, 1, None)
    assert drawn is not None
    assert all(drawn.left < p.x < drawn.right and 0 < p.y < drawn.height for p in drawn.points)


def test_the_words_of_lines_that_coincide_do_not() -> None:
    drawn = chart.draw([step(1, "verified", 0.094)], 1, 0.0939)
    assert drawn is not None
    compiled, floor = (rule for rule in drawn.rules if rule.kind in ("compile", "floor"))
    assert (compiled.words, floor.words) == ("torch.compile 0.094 ms", "floor 0.0939 ms")
    assert floor.y - compiled.y < 1
    assert floor.words_y - compiled.words_y == chart.LINE


def test_a_mismatch_map_covers_its_wrong_cells_and_no_others() -> None:
    recorded = MismatchMap(
        shape=(3, 4),
        axes=(Axis(name="dim 0", size=3), Axis(name="dim 1", size=4)),
        cells=("0990", "0000", "1009"),
        wrong=4,
        total=12,
    )
    drawn = mismatch_map.draw(recorded)
    assert (drawn.width, drawn.height) == (32, 24)
    assert dict(drawn.paths) == {1: "M0 16h8v8h-8z", 9: "M8 0h16v8h-16zM24 16h8v8h-8z"}
    assert "4 of 12 elements are wrong (33.3 %)" in drawn.description
    assert "Rows are dim 0 (0..2), columns are dim 1 (0..3)." in drawn.description
    assert "4 of 12 cells hold wrong elements, 3 of them nothing else." in drawn.description
    assert not re.search(r"[<>&]", drawn.description)


NOW = datetime(2026, 11, 20, tzinfo=UTC)


def summary(number: int, **more: object) -> RunSummary:
    plain = RunSummary(
        id=f"run-{number:05}", address=f"run-{number:05}", state="finished", created=NOW - timedelta(number),
        problem=f"level1/p{number % 3}", provider="catalogue", rounds=number % 7, planned_rounds=8,
    )  # fmt: skip
    return plain._replace(**more)  # type: ignore[arg-type]


def test_the_list_is_filtered_ordered_and_paged() -> None:
    many = [summary(n) for n in range(2 * PAGE + 5)]
    many[7] = summary(7, speedup=1.5, best_attempt=2, best_scope=EMULATOR.model_dump_json(), model="gpt")
    many[8] = summary(8, speedup=2.5, state="killed", problem="level1/p1")
    first = select(many, Query())
    assert (first.matching, first.pages, len(first.rows)) == (2 * PAGE + 5, 3, PAGE)
    assert [row.id for row in first.rows[:2]] == ["run-00000", "run-00001"]
    assert (first.previous, first.next) == (None, "/?page=2")
    last = select(many, Query.of({"page": "99"}))
    assert (last.page, len(last.rows), last.next) == (3, 5, None)
    assert [row.id for row in select(many, Query(sort=Order.SPEEDUP)).rows[:2]] == ["run-00008", "run-00007"]
    assert [row.id for row in select(many, Query(status="killed")).rows] == ["run-00008"]
    (found,) = select(many, Query(q="GPT run-000", status="verified")).rows
    assert (found.best, found.speedup) == ("verified (emulator, shrunken)", 1.5)
    (top,) = first.best_by_problem
    assert (top.problem, top.runs, top.speedup, top.href) == ("level1/p1", 2, 2.5, "/run/run-00008")


def test_an_address_that_makes_no_sense_is_no_error() -> None:
    query = Query.of({"page": "-3", "sort": "'; drop", "status": "<b>", "problem": "x" * 10_000, "q": "\0"})
    assert (query.page, query.sort) == (1, Order.DATE)
    assert select([summary(1)], query).rows == ()
