"""The sweep without a GPU: which rows there are, how one is measured by a clock of ours, who does it."""

import json
import math
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest
import torch

from agent.cli import kernel_sweep
from agent.kernels import sources
from agent.kernels.benching import Machine
from agent.kernels.case import Case, both
from agent.kernels.manifest import Times, fingerprint
from agent.kernels.sweep import grid, page, plot, rows, sweeping, workers
from agent.kernels.sweep.measuring import Means, made_ready, timed
from agent.kernels.sweep.rows import Row

HERE = Machine("a GPU", "1.0", "abc")
SMALL = "gelu [256, 512] float32"
NAMES = (SMALL, f"{SMALL} forward and backward")


def means(fault: str | None = None) -> Means:
    """On the CPU: a compiler that compiles nothing, and a clock by which all calls take as long."""

    def compiled(function: Any, mode: str | None) -> Any:
        def call(*tensors: torch.Tensor) -> Any:
            if fault:
                raise RuntimeError(fault)
            return function(*tensors)

        return call

    def clock(call: Callable[[], object], in_a_row: int) -> float:
        call()
        return 0.05

    return Means("cpu", compiled, clock, lambda: None)


def entry(name: str) -> grid.Entry:
    (found,) = (one for one in grid.list_rows(name.split()[0]) if one.name == name)
    return found


def row(name: str, ratio: float, **more: Any) -> Row:
    one = entry(name)
    span = Times(p20=1.0, p50=1.0, p80=1.0)
    values = {
        "name": name, "kernel": one.case.kernel, "source": one.source, "shape": one.case.shape,
        "dtype": one.case.dtype_name, "setting": one.case.setting, "is_held_back": False, "gpu": "a GPU",
        "driver": "1.0", "cuda": "13.0", "torch": "2.11.0", "date": "2026-11-26", "commit": "abc",
        "files": fingerprint(one.case.kernel), "ours_ms": span, "peers_ms": {"eager": span}, "best": "eager",
        "ratio": ratio, "ratio_ci": (ratio, ratio), **more,
    }  # fmt: skip
    return Row(**values)


def test_every_kernel_has_rows_of_its_own_name_in_both_directions() -> None:
    for kernel in sources.NAMES:
        found = grid.list_rows(kernel)
        assert found
        assert len({one.name for one in found}) == len(found)
        assert all(one.case.kernel == kernel and one.name.split()[0] == kernel for one in found)
        assert all(0 < one.case.least_bytes <= grid.LARGEST_BYTES for one in found)


def test_the_first_shapes_of_every_kernel_come_first() -> None:
    order = grid.in_turn(("gelu", "softmax"))
    assert [one.case.kernel for one in order[:6]] == ["gelu"] * 2 + ["softmax"] * 2 + ["gelu"] * 2
    assert len(order) == len(grid.list_rows("gelu")) + len(grid.list_rows("softmax"))


def test_a_third_of_the_shapes_is_held_back_by_their_names_alone() -> None:
    found = [one for kernel in sources.NAMES for one in grid.list_rows(kernel)]
    share = sum(grid.is_held_back(one.case) for one in found) / len(found)
    assert 0.25 < share < 0.42
    case = Case("gelu", torch.relu, torch.relu, (7, 12288), dtype=torch.bfloat16)
    assert {grid.is_held_back(one) for one in both(case)} == {grid.is_held_back(case)}


@pytest.mark.usefixtures("taken")
def test_a_row_holds_every_side_and_the_best_peer() -> None:
    ready = made_ready(entry(SMALL), means(), "max-autotune")
    assert list(ready.sides) == ["ours", "eager", "compile", "max-autotune"]
    found = timed(ready, means(), HERE)
    assert set(found.peers_ms) == {"eager", "compile", "max-autotune"}
    assert found.best in found.peers_ms
    assert found.ratio == 1.0
    assert found.ratio_ci == (1.0, 1.0)
    assert found.copy_share == 1.0
    assert set(found.in_a_row_ms) == set(ready.sides)
    assert found.errors["ours"][0] < 1e-6
    assert found.is_held_back == grid.is_held_back(entry(SMALL).case)


@pytest.mark.usefixtures("taken")
def test_a_peer_that_fails_is_left_out_with_its_reason() -> None:
    ready = made_ready(entry(NAMES[1]), means("no such instruction\nat line 3"))
    assert list(ready.sides) == ["ours", "eager"]
    assert timed(ready, means(), HERE).notes == {"compile": "RuntimeError: no such instruction"}


def threaded(serving: Callable[[Any], None]) -> workers.Worker:
    ours, theirs = Pipe()
    thread = threading.Thread(target=serving, args=(theirs,), daemon=True)
    thread.start()

    def end() -> None:
        ours.close()
        thread.join(10)

    return workers.Worker(ours, end)


@pytest.mark.usefixtures("taken")
def test_rows_are_shared_out_and_come_back_one_by_one() -> None:
    def start() -> workers.Worker:
        return threaded(lambda theirs: workers.serve(theirs, means(), HERE))

    chosen = [entry(name) for name in NAMES] + [
        one for one in grid.list_rows("gelu") if "[1, 3072]" in one.name
    ]
    sweep = sweeping.Sweep(start, 2, time.monotonic() + 600)
    found = list(sweep.rows(chosen))
    sweep.end()
    assert [answer.row.name for answer in found if answer.row] == [one.name for one in chosen]


@pytest.mark.usefixtures("taken")
def test_a_process_that_ends_or_hangs_costs_its_own_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "STUCK_S", 5.0)
    begun: list[str] = []

    def ending(theirs: Any) -> None:
        theirs.recv()
        theirs.close()

    def hanging(theirs: Any) -> None:
        theirs.recv()
        theirs.poll(600)

    def start() -> workers.Worker:
        kinds = [ending, hanging]
        serving = kinds[len(begun)] if len(begun) < len(kinds) else None
        begun.append("one")
        return threaded(serving or (lambda theirs: workers.serve(theirs, means(), HERE)))

    chosen = [entry(name) for name in NAMES]
    others = [one for one in grid.list_rows("gelu") if "[1, 3072]" in one.name]
    third = [one for one in grid.list_rows("gelu") if "[1001, 777] float32" in one.name]
    sweep = sweeping.Sweep(start, 3, time.monotonic() + 600)
    found = list(sweep.rows([*chosen, *others, *third]))
    sweep.end()
    assert {answer.name: answer.fault for answer in found if answer.fault} == {
        **dict.fromkeys(NAMES, "its process ended"),
        **{one.name: "it was not ready in time" for one in others},
    }
    assert [answer.name for answer in found if answer.row] == [one.name for one in third]
    assert len(begun) == 5


def test_nothing_is_begun_when_time_is_up() -> None:
    sweep = sweeping.Sweep(lambda: threaded(lambda theirs: None), 1, time.monotonic() - 1)
    assert list(sweep.rows([entry(SMALL)])) == []
    sweep.end()


def test_the_last_line_of_a_row_counts_and_one_cut_off_does_not(tmp_path: Path) -> None:
    rows.keep(tmp_path, row(SMALL, 0.5))
    rows.keep(tmp_path, row(SMALL, 2.0))
    rows.keep(tmp_path, row(NAMES[1], 0.5))
    with (tmp_path / "gelu.jsonl").open("a") as out:
        out.write('{"name": "gelu [2')
    found = rows.load(tmp_path, "gelu")
    assert {name: one.ratio for (_, name), one in found.items()} == {SMALL: 2.0, NAMES[1]: 0.5}
    assert geometric_mean(one.ratio for one in found.values()) == pytest.approx(1.0)
    assert rows.share_enough(one.ratio for one in found.values()) == 0.5
    assert rows.load(tmp_path, "softmax") == {}
    assert math.isnan(rows.share_enough([]))


def test_a_sweep_goes_on_where_it_ended(tmp_path: Path) -> None:
    def chosen(**more: Any) -> list[str]:
        choice = kernel_sweep.Choice(("gelu",), tmp_path, None, None, False, None)._replace(**more)
        return [one.name for one in kernel_sweep._chosen(choice, "a GPU")]

    everything = chosen()
    rows.keep(tmp_path, row(SMALL, 0.9))
    rows.keep(tmp_path, row(NAMES[1], 0.5, files="of other files"))
    assert set(everything) - set(chosen()) == {SMALL}
    assert chosen(below=0.97) == [NAMES[1], SMALL]
    assert chosen(max_autotune=True) == [NAMES[1]]


def test_the_page_and_the_plot_are_what_the_rows_say() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    assert (docs / "kernels-sweep.md").read_text(encoding="utf-8") == page.render()
    assert (docs / "kernels-sweep.svg").read_text(encoding="utf-8") == plot.render()


def test_the_page_names_what_is_behind_the_worst_first(tmp_path: Path) -> None:
    rows.keep(tmp_path, row(SMALL, 1.5, is_held_back=True))
    rows.keep(tmp_path, row(NAMES[1], 0.8, in_a_row_ms={"ours": 0.02, "eager": 0.016}))
    (tmp_path / "bounds.json").write_text(json.dumps({NAMES[1]: "the host"}))
    text = page.render(tmp_path)
    assert "| gelu | 2 | 1.10 | 50.0% | 0.80 | 1 | 1.50 | 100.0% | 0.80 | 0.0% |" in text
    assert "0.80, 0.80 to 0.80 | eager | 1 | 1 | 20.0, 16.0 | the host |" in text
    drawn = plot.render(tmp_path)
    assert drawn.count("<circle") == 2
    assert 'class="behind"' in drawn
