"""Live runs: what their table says, and when `go` may end."""

from pathlib import Path

import pytest

from agent.api import Run
from agent.records import Completed
from benchmarks.live import table
from benchmarks.live.__main__ import is_judged, visible

RECORDED = ("live_rms_norm", "live_conv_group_norm")


def runs() -> list[Run]:
    return [Run.open(f"recorded/{name}") for name in RECORDED]


def test_the_table_has_each_run_with_its_answers_and_its_best() -> None:
    rows = table.rendered(runs()).splitlines()
    rms = next(row for row in rows if "level1/rms_norm" in row)
    assert rms.split(" | ")[1:5] == ["0.86x, 0.148 ms", "0.90x, 0.1426 ms", "0.93x, 0.1369 ms", "no"]
    assert rows[-2] == "First answers: 2 of 2 judged are verified; geometric mean 1.58x over 2."
    assert rows[-1].startswith(
        "Best of run: 2 of 2 verified, 0 of them confirmed; geometric mean 1.64x over 2"
    )


def test_a_run_without_an_answer_is_shown_without_figures() -> None:
    rows = table.rendered([]).splitlines()
    assert rows[-2] == "First answers: 0 of 0 judged are verified; geometric mean -."


def test_answers_in_the_mailbox_are_waited_for_and_others_are_not(tmp_path: Path) -> None:
    (run, _) = runs()
    asked = run.log.rounds[-1]
    assert asked.completion is None
    assert asked.prompt is not None
    assert is_judged(run, tmp_path)
    (tmp_path / f"{run.id}-{asked.prompt.id[:8]}-1.answer.md").write_text("an answer")
    assert not is_judged(run, tmp_path)
    assert any(isinstance(event, Completed) for event in run.events)


@pytest.mark.parametrize(("shown", "found"), [("0,1", ["0", "1"]), ("GPU-a", ["GPU-a"]), ("", [""])])
def test_a_run_goes_to_one_of_the_gpus_that_may_be_used(
    shown: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert visible() == found
