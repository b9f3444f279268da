"""A draw with strict limits decides what is within them; the limits of every order decide the rest."""

from pathlib import Path
from typing import Any

import pytest
import torch

from agent.harness.messages import oracle_commands
from agent.harness.oracle.state import OracleState
from agent.harness.oracle.transport import Files
from agent.harness.oracle.verification_commands import VerificationCommands
from agent.harness.truth import outline, tolerance
from agent.harness.truth.reference import Reference

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        CHANGE
        return x.sum(1)


def get_inputs():
    return [torch.rand(80, 5000)]


def get_init_inputs():
    return []
"""


def made(folder: Path, change: str = "pass") -> OracleState:
    (folder / "reference.py").write_text(SOURCE.replace("CHANGE", change))
    state = OracleState(Reference(folder / "reference.py", "cpu"), folder, "cpu", Files(folder))
    state.lazy = True
    state.reference.perturb(1)
    return state


def begun(
    state: OracleState, family: str | None = None
) -> tuple[int, tolerance.Expected, tolerance.Expected]:
    """The seed of a draw that another order widens, its limits and those of every order."""
    assert state.begin(0, None) is not None
    for seed in range(1, 60):
        whole = state.reference.draw(seed, family)
        strict = state.begin(seed, family)
        assert whole is not None
        assert strict is not None
        [wide], [narrow] = whole.expected.limits, strict.expected.limits
        assert wide is not None
        assert narrow is not None
        assert narrow.absolute <= wide.absolute
        if narrow.absolute < 0.9 * wide.absolute and narrow.rms < 0.9 * wide.rms:
            return seed, strict.expected, whole.expected
    raise AssertionError("no order widens the limits")


def off(expected: tolerance.Expected, share: float) -> torch.Tensor:
    """An output whose worst element is off by this share of its limit."""
    [limits] = expected.limits
    assert limits is not None
    y: torch.Tensor = expected.truth.clone()
    y[3] += share * (limits.absolute + 1e-5 * y[3].abs())
    return y


def test_the_first_draw_is_whole_and_those_after_it_are_completed_where_they_have_to_be(
    tmp_path: Path,
) -> None:
    state = made(tmp_path)
    state.begin(5, None)
    assert not state.is_strict
    state.begin(6, None)
    assert state.is_strict
    strict, whole = state.outlined, state.reference.draw(6)
    assert whole is not None
    completed = state.present
    assert not state.is_strict
    assert completed.inputs[0] is strict.inputs[0]
    [one], [same] = completed.expected.limits, whole.expected.limits
    assert one is not None
    assert same is not None
    assert (one.absolute, one.rms, one.largest) == (same.absolute, same.rms, same.largest)
    assert torch.equal(completed.expected.truth, whole.expected.truth)


@pytest.mark.parametrize(("of_strict", "share", "is_right", "stays"), [
    (True, 0.5, True, True), (False, 0.97, True, False), (False, 1.2, False, False),
])  # fmt: skip
def test_outputs_are_judged_by_the_widest_limits(
    tmp_path: Path, of_strict: bool, share: float, is_right: bool, stays: bool
) -> None:
    state = made(tmp_path)
    _, strict, whole = begun(state)
    told = VerificationCommands(state)._values(off(strict if of_strict else whole, share), None)
    assert ("finding" not in told) == is_right
    assert state.is_strict == stays
    assert told.keys() >= {"max_abs_err", "max_rel_err", "ratio"}


def test_a_repeated_call_may_differ_by_the_widest_limits(tmp_path: Path) -> None:
    state = made(tmp_path)
    _, strict, whole = begun(state)
    values = VerificationCommands(state)._values
    assert "finding" not in values(off(strict, 0.5), off(strict, -0.4))
    assert state.is_strict
    assert "finding" not in values(off(strict, 0.9), off(whole, -0.05))
    assert "finding" in values(off(whole, 0.9), off(whole, -0.9))


def test_a_derived_draw_that_another_order_makes_useless_is_left_out_where_it_would_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = made(tmp_path)
    _, strict, whole = begun(state, "scaled")
    usual = tolerance.Expected.obstacle

    def obstacle(self: tolerance.Expected) -> str | None:
        return usual(self) if state.is_strict else "another order"

    monkeypatch.setattr(tolerance.Expected, "obstacle", obstacle)
    values = VerificationCommands(state)._values
    assert "left_out" not in values(off(strict, 0.5), None)
    told: dict[str, Any] = values(off(whole, 5.0), None)
    assert told["left_out"] == "another order"
    assert "finding" not in told


def test_fits_asks_for_every_order_unless_no_limits_would_help(tmp_path: Path) -> None:
    state = made(tmp_path)
    _, strict, whole = begun(state)
    nan = whole.truth.float()
    nan[0] = float("nan")
    assert strict.is_beyond_limits([nan])
    assert not strict.is_beyond_limits([off(whole, 5.0)])
    assert not strict.accepts([off(whole, 0.97)])
    assert state.is_strict
    assert state.present.expected.accepts([off(whole, 0.97)])


def test_a_reference_that_writes_is_never_outlined(tmp_path: Path) -> None:
    state = made(tmp_path, "x.mul_(2)")
    for seed in (1, 2):
        draw = state.begin(seed, None)
        assert draw is not None
        assert not state.is_strict
        assert draw.expected.accepts([draw.inputs[0].sum(1) * 2])


def test_contents_are_the_same_by_both_ways(tmp_path: Path) -> None:
    state = made(tmp_path)
    state.begin(0, None)
    for family in (None, "near", "sparse"):
        one, other = outline.drawn(state.reference, 7, family), state.reference.draw(7, family)
        assert one is not None
        assert other is not None
        assert torch.equal(one.inputs[0], other.inputs[0])
        assert torch.equal(one.expected.truth, other.expected.truth)
    assert VerificationCommands(state).do_give_back(oracle_commands.GiveBack()) == {}
