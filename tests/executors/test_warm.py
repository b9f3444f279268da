"""Servers that cannot hand out processes are done without, each for itself, and it is known why."""

import contextlib
from collections.abc import Iterator

import pytest

from agent.executors import warm
from agent.harness.backends import gpu_health
from agent.harness.task import servers

ANSWERS = "import os, sys; sys.stdin.readline(); os.write(int(sys.argv[-1]), b'{}\\n')"


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> Iterator[warm.Warm]:
    """On a GPU, with imports that are soon done."""
    monkeypatch.setattr(servers, "TRUSTED", ("json",))
    monkeypatch.setattr(servers, "CANDIDATES", ("json",))
    made = warm.Warm("cuda", None)
    yield made
    made.end()


def test_all_that_can_use_the_gpu_are_kept(of_two: warm.Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_health, "SUM", ANSWERS)
    with contextlib.ExitStack() as stack:
        given = of_two.prepared().passed(stack)
        assert None not in (given.trusted, given.emulator, given.cuda)
    assert of_two.unfit == {}


def test_one_whose_processes_cannot_is_done_without(
    of_two: warm.Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_health, "SUM", "raise RuntimeError('no GPU after a fork')")
    with contextlib.ExitStack() as stack:
        given = of_two.prepared().passed(stack)
        assert (given.trusted, given.cuda) == (None, None)
        assert given.emulator is not None
    assert of_two.trusted is None
    assert set(of_two.unfit) == {"trusted", "cuda"}
    assert "no GPU after a fork" in of_two.unfit["cuda"]


def test_an_import_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "TRUSTED", ("no_such_module",))
    monkeypatch.setattr(servers, "CANDIDATES", ("json",))
    made = warm.Warm("emulator", None)
    assert list(made.prepared().unfit) == ["trusted"]
    with contextlib.ExitStack() as stack:
        assert made.passed(stack).emulator is not None
    made.end()
