"""Which runs are meant, and in which order."""

from datetime import UTC, datetime, timedelta

import pytest

from agent.errors import UsageError
from agent.store import RunSummary
from agent.store.selection import Order, Selection, check_statuses, moment, ordered, select

DAY = datetime(2026, 11, 20, tzinfo=UTC)


def run(name: str, days: int = 0, **more: object) -> RunSummary:
    fields = {"id": name, "address": name, "state": "finished", "created": DAY + timedelta(days=days), **more}
    return RunSummary(**fields)  # type: ignore[arg-type]


RUNS = [
    run("a", 0, problem="level1/softmax", provider="catalogue", outcome="verified", best_attempt=1),
    run("b", 1, problem="level1/GroupNorm", provider="openai_compat", model="Big-1", outcome="no_kernel"),
    run("c", 2, problem="level2/softmax_bias", state="killed", provider="replay:recorded/x"),
    run("d", state="damaged", created=None),
]


@pytest.mark.parametrize(
    ("selection", "meant"),
    [
        ({}, "abcd"),
        ({"problem": "SOFTMAX"}, "ac"),
        ({"problem": "groupnorm"}, "b"),
        ({"provider": "big"}, "b"),
        ({"provider": "replay:"}, "c"),
        ({"statuses": ("killed",)}, "c"),
        ({"statuses": ("killed", "damaged")}, "cd"),
        ({"statuses": ("verified",)}, "a"),
        ({"statuses": ("no_kernel",)}, "b"),
        ({"since": DAY + timedelta(days=1)}, "bc"),
        ({"until": DAY + timedelta(days=1)}, "a"),
        ({"since": DAY, "until": DAY + timedelta(days=2), "problem": "level1"}, "ab"),
        ({"problem": "none"}, ""),
    ],
)
def test_everything_given_has_to_hold(selection: dict[str, object], meant: str) -> None:
    chosen = Selection.model_validate(selection)
    assert "".join(found.id for found in select(RUNS, chosen)) == meant
    assert chosen.is_everything == (not selection)


@pytest.mark.parametrize(
    ("by", "order"),
    [
        (Order.DATE, "dcba"),
        (Order.SPEEDUP, "bdca"),
        (Order.ROUNDS, "cadb"),
        (Order.TOKENS, "cbda"),
        (Order.COST, "cadb"),
    ],
)
def test_most_first_and_the_unknown_last(by: Order, order: str) -> None:
    runs = [
        run("a", 0, speedup=None, rounds=6, cost_usd=0.5, input_tokens=None),
        run("b", 1, speedup=2.5, rounds=1, input_tokens=10),
        run("c", 2, speedup=1.5, rounds=6, cost_usd=1.5, input_tokens=100, output_tokens=5),
        run("d", 3, speedup=1.5, rounds=3, input_tokens=None, output_tokens=None),
    ]
    assert "".join(found.id for found in ordered(runs, by)) == order


def test_moments() -> None:
    assert moment("2026-11-20") == DAY
    assert moment("2026-11-20T17:00") == DAY + timedelta(hours=17)
    assert moment("2026-11-20T17:00+02:00") == DAY + timedelta(hours=15)
    for age, ago in (("30d", timedelta(days=30)), ("12h", timedelta(hours=12)), ("2w", timedelta(days=14))):
        assert moment(age, now=DAY) == DAY - ago
    assert moment("90m", now=DAY) == DAY - timedelta(minutes=90)


@pytest.mark.parametrize("text", ["", "yesterday", "30", "30y", "2026-13-01", "-3d", "999999w"])
def test_what_is_no_date_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match="is not a date; write 2026-11-20, or an age such as 30d"):
        moment(text)


def test_an_unknown_status_lists_those_there_are() -> None:
    assert check_statuses(["killed", "verified"]) == ("killed", "verified")
    with pytest.raises(UsageError, match="'dead'; choose from: running, finished"):
        check_statuses(["dead"])
