"""The simulation of many GPUs gives what can be worked out by hand."""

import json

import pytest

from benchmarks import fleet, fleet_page
from benchmarks.fleet import Load, simulated
from benchmarks.fleet_events import Clock, Resource, Step

EVEN = Load("even", 0.0, {"a": 1.0}, 3, head_s=0.0, verdicts_of_a_run=1, runs_before=0, spread=0.0)


def test_who_came_first_has_the_place_first() -> None:
    clock, place = Clock(), Resource(1)
    ended: list[tuple[str, float]] = []

    def holding(name: str, seconds: float):  # type: ignore[no-untyped-def]
        yield Step(place, seconds)
        ended.append((name, clock.now))

    for name, seconds in (("a", 2.0), ("b", 3.0), ("c", 1.0)):
        clock.begin(holding(name, seconds))
    clock.run(10.0)
    assert ended == [("a", 2.0), ("b", 5.0), ("c", 6.0)]
    assert place.waited_s == 2.0 + 5.0
    assert place.busy_s(10.0) == 6.0


def test_gpus_that_are_never_idle_give_what_their_turns_allow() -> None:
    found = simulated(EVEN, {"a": [("host", 1.0), ("gpu", 10.0)]}, gpus=2)
    assert found.per_hour == pytest.approx(2 * 360, rel=0.01)
    assert found.gpu_busy == pytest.approx(1.0, abs=0.01)
    assert found.stop == "GPUs"


def test_what_is_busy_follows_from_what_is_done() -> None:
    load = EVEN._replace(answer_s=60.0, spread=0.2, counted_s=36_000.0)
    found = simulated(load, {"a": [("gpu", 10.0)]}, gpus=4)
    assert found.gpu_busy == pytest.approx(found.per_hour / 3600 * 10.2 / 4, rel=0.03)
    assert found.stop == "runs in progress"


def test_one_head_takes_in_no_more_than_it_can() -> None:
    found = simulated(EVEN._replace(head_s=2.0), {"a": [("gpu", 10.0)]}, gpus=16)
    assert found.per_hour <= 3600 / 2
    assert found.stop == "head"


def test_processors_of_a_host_are_shared() -> None:
    found = simulated(EVEN._replace(runs_of_a_gpu=40), {"a": [("host", 100.0), ("gpu", 1.0)]}, gpus=8)
    places = fleet.GPUS_OF_A_HOST * fleet.PROCESSORS_OF_A_GPU // EVEN.processors_of_a_step
    assert found.per_hour == pytest.approx(3600 * places / 100, rel=0.05)
    assert found.stop == "processors"


def test_phases_are_taken_apart_by_what_they_hold() -> None:
    rows = json.loads(fleet.DOCUMENT.read_text())["rows"]
    (best,) = (row for row in rows if row["case"] == "new best")
    steps = fleet.steps(rows)
    assert [place for place, _ in steps["new best"]] == ["host", "gpu", "host", "gpu", "host", "gpu"]
    held = sum(seconds for place, seconds in steps["wrong"] if place == "gpu")
    (wrong,) = (row for row in rows if row["case"] == "wrong")
    assert held == pytest.approx(wrong["turn"]["median"])
    everything = sum(seconds for _, seconds in steps["new best"])
    assert everything == pytest.approx(best["seconds"]["median"], rel=0.05)


def test_what_was_measured_of_one_gpu_is_held_against_its_phases() -> None:
    cases = {"right": [("host", 2.0), ("gpu", 7.0)], "wrong": [("host", 2.5), ("gpu", 1.0)]}
    document = {"machine": {"gpu": "a GPU, a driver"}, "date": "today", "commit": "0123456789"}
    said = " ".join(fleet_page.pool(document, cases, 6, 30.0).split())
    assert "12.0 a minute" in said
    assert "gives 15.0 a minute: the pool reached 80 %" in said
    assert "in the 28.0 s that were left it could have given 7.0 verdicts" in said
    assert fleet.pool() in fleet.PAGE.read_text()


def test_the_page_says_where_it_stops() -> None:
    document = json.loads(fleet.DOCUMENT.read_text())
    load = EVEN._replace(head_s=2.0)
    cases = {"a": [("gpu", 10.0)]}
    page = fleet_page.render(document, cases, [(load, [simulated(load, cases, gpus) for gpus in (2, 16)])])
    assert "It stops scaling between 2 and 16 GPUs; one head cannot take in more." in page
