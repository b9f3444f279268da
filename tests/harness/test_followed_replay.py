"""What a process that ran a candidate's kernels tells of what they wrote is read as a claim."""

from pathlib import Path

import pytest
import torch

from agent.harness.integrity import followed_replay
from agent.harness.integrity.replay_check import Forgery
from agent.harness.messages.where_commands import Launched, Where
from agent.harness.oracle import following
from agent.harness.worker import wire

PIECES = [(512, 64), (1024, 400)]


@pytest.mark.parametrize(
    "written",
    [
        [(0, 1, 0)],
        [(2, 1, 0)],
        [(1, 4, 0)],
        [(1, 1, 2)],
        [(1, 1, -1)],
        [(1, 1, 0), (1, 2, 0)],
    ],
    ids=["launch 0", "backwards", "no such launch", "no such piece", "a negative one", "twice"],
)
def test_launches_and_memory_that_are_not_there_are_a_forgery(written: list[tuple[int, int, int]]) -> None:
    with pytest.raises(Forgery):
        followed_replay._within(written, PIECES, 3)


def test_the_sizes_are_the_judges() -> None:
    assert followed_replay._within([(1, 2, 1), (3, 3, 0)], PIECES, 3) == [(1, 2, 1, 400), (3, 3, 0, 64)]
    with pytest.raises(Forgery, match="more memory"):
        followed_replay._within([(1, 1, 0)], [(0, followed_replay.MOST_BYTES + 1)], 1)


@pytest.mark.parametrize(
    ("name", "shown"), [("row_stats<float, 4>", "row_stats"), ("\x1b[1m `x`", "m"), ("", "?"), ("9", "?")]
)
def test_of_a_kernels_name_an_identifier_is_left(name: str, shown: str) -> None:
    step = {"name": name, "line": 3, "grid": (1, 1, 1), "block": (32, 1, 1)}
    assert followed_replay._launched(step).kernel == shown
    assert followed_replay._launched(step | {"name": "k" * 500}).kernel == "k" * 64


def _told(folder: Path, values: int = 16, cells: int = 32) -> Where:
    stem = str(folder / "followed")
    for name, size in (("values", values), ("writers", cells), ("output", 8), ("output-writers", 16)):
        (folder / f"followed-{name}.0").write_bytes(bytes(size))
    launches = [Launched("k", 3, (1, 1, 1), (32, 1, 1))]
    return Where(stem, launches, [(1, 1, 0, 16)], [("float32", [2], [1])], False)


def test_files_of_the_sizes_that_were_told_are_read(tmp_path: Path) -> None:
    seen = following.read(_told(tmp_path), [torch.zeros(2)])
    assert seen.writings[0].values.numel() == 16
    assert seen.outputs[0].values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("values", "cells"), [(12, 32), (16, 40), (16, 0)])
def test_files_of_other_sizes_are_refused(tmp_path: Path, values: int, cells: int) -> None:
    with pytest.raises(wire.WireError):
        following.read(_told(tmp_path, values, cells), [torch.zeros(2)])


def test_links_are_not_followed(tmp_path: Path) -> None:
    told = _told(tmp_path)
    place = tmp_path / "followed-values.0"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(wire.WireError):
        following.read(told, [torch.zeros(2)])


@pytest.mark.parametrize("like", [[], [torch.zeros(3)], [torch.zeros(2, dtype=torch.float64)]])
def test_other_outputs_than_the_judged_ones_are_refused(tmp_path: Path, like: list[torch.Tensor]) -> None:
    with pytest.raises(wire.WireError):
        following.read(_told(tmp_path), like)
