"""What the oracle draws follows from its seeds, whatever a reference does with seeds of its own."""

from pathlib import Path

import pytest
import torch

from agent.harness.truth import input_distributions
from agent.harness.truth.input_distributions import VARIED
from agent.harness.truth.reference import Reference
from agent.harness.worker import layouts, memory_guards

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask, n):
        return x


def get_inputs():
    LINE
    return [torch.randn(5, 8), torch.tensor([[0.0, float("-inf")]]), 3]


def get_init_inputs():
    return []
"""


def reference(folder: Path, line: str) -> Reference:
    (folder / "reference.py").write_text(SOURCE.replace("LINE", line))
    return Reference(folder / "reference.py", "cpu")


@pytest.mark.parametrize("line", ["pass", "torch.manual_seed(42)"])
def test_other_seeds_give_other_inputs_and_the_same_seed_the_same(tmp_path: Path, line: str) -> None:
    drawn = reference(tmp_path, line)
    one, other, again = (drawn.inputs(seed, None) or [] for seed in (1, 2, 1))
    assert torch.equal(one[0], again[0])
    assert not bool((one[0] == other[0]).all(1).any())


def test_fixed_inputs_lose_little_and_keep_signs_zeros_and_infinities(tmp_path: Path) -> None:
    torch.manual_seed(42)
    x = torch.randn(5, 8)
    found, mask, number = reference(tmp_path, "torch.manual_seed(42)").inputs(1, None) or []
    share = found / x
    assert bool(((share <= 1) & (share >= 1 - 1.01 * VARIED)).all())
    assert mask.tolist() == [[0.0, float("-inf")]]
    assert number == 3


def test_inputs_that_change_with_the_seed_are_as_drawn(tmp_path: Path) -> None:
    torch.manual_seed(1)
    x = torch.randn(5, 8)
    found, *_ = reference(tmp_path, "pass").inputs(1, None) or []
    assert torch.equal(found, x)


STATES = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.norm = nn.RNN(6, 5, batch_first=True), nn.LayerNorm(5)
        self.shift, self._scale = torch.rand(5), 2.0
        self.tables = [torch.rand(5, 5)]

    def forward(self, x):
        begin = torch.zeros(1, x.shape[0], 5)
        y = self.norm(self.cell(x, begin)[0]) + self.shift
        return y @ self.tables[0] + torch.ones(5) * self._scale


def get_inputs():
    return [torch.randn(3, 4, 6)]


def get_init_inputs():
    return []
"""


def test_the_truth_is_float64_where_tensors_are_no_parameters_and_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(STATES)
    made = Reference(tmp_path / "reference.py", "cpu")
    made.perturb(1)
    draw = made.draw(1)
    assert draw is not None
    assert (draw.expected.native.dtype, draw.expected.truth.dtype) == (torch.float32, torch.float64)
    assert 0 < draw.expected.native_error < 1e-5
    assert torch.get_default_dtype() is torch.float32


NAMED = """
from typing import NamedTuple

import torch
from torch import nn


class Moments(NamedTuple):
    mean: torch.Tensor
    largest: torch.return_types.max


class Model(nn.Module):
    def forward(self, pair):
        return Moments(pair.mean.mean(1), torch.max(pair.largest, 1))


def get_inputs():
    return [Moments(torch.randn(5, 8), torch.randn(5, 8))]


def get_init_inputs():
    return []
"""


def test_named_tuples_keep_their_kind_as_inputs_and_as_outputs(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(NAMED)
    made = Reference(tmp_path / "reference.py", "cpu")
    made.perturb(1)
    draw = made.draw(1)
    assert draw is not None
    truth = draw.expected.truth
    assert [t.dtype for t in (truth.mean, truth.largest.values)] == [torch.float64] * 2
    assert torch.equal(truth.largest.indices, draw.expected.native.largest.indices)

    (changed,) = input_distributions.derived("negated", draw.inputs, seed=3) or []
    assert torch.equal(changed.mean, -draw.inputs[0].mean)
    (laid,) = layouts.laid_out(draw.inputs, "transposed")
    assert torch.equal(laid.largest, draw.inputs[0].largest)
    assert laid.largest.stride() != draw.inputs[0].largest.stride()
    (guarded,) = memory_guards.Inputs("cpu").place(draw.inputs, in_place=False)
    assert torch.equal(guarded.mean, draw.inputs[0].mean)


def test_running_statistics_that_batch_norm_writes_to_are_changes(tmp_path: Path) -> None:
    lines = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return nn.functional.batch_norm(x, self.norm.running_mean, self.norm.running_var, training=True)


def get_inputs():
    return [torch.randn(6, 4)]


def get_init_inputs():
    return []
"""
    (tmp_path / "reference.py").write_text(lines)
    drawn = Reference(tmp_path / "reference.py", "cpu")
    drawn.perturb(1)
    before = drawn.state()["norm.running_mean"].clone()

    assert drawn.draw(2) is not None

    assert drawn.changes == {"norm.running_mean", "norm.running_var"}
    assert torch.equal(drawn.state()["norm.running_mean"], before)


WRITES_LATER = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        result = (x * 2).sum(1)
        if x[0, 0] > 0:
            x.zero_()
        return result


def get_inputs():
    return [torch.randn(5, 8)]


def get_init_inputs():
    return []
"""


def test_the_truth_is_of_the_inputs_as_drawn_when_a_reference_begins_to_write(tmp_path: Path) -> None:
    """It is taken first once the reference was seen to write to nothing."""
    (tmp_path / "reference.py").write_text(WRITES_LATER)
    made = Reference(tmp_path / "reference.py", "cpu")
    made.perturb(1)
    kinds = {float(found[0][0, 0]) > 0: seed for seed in range(20) if (found := made.inputs(seed, None))}
    for seed, changes in ((kinds[False], set()), (kinds[False], set()), (kinds[True], {"input"})):
        draw = made.draw(seed)
        stated = made.inputs(seed, None)
        assert draw is not None
        assert stated is not None
        assert made.changes == changes
        assert torch.equal(draw.inputs[0], stated[0])
        assert torch.equal(draw.expected.truth, (stated[0].double() * 2).sum(1))
        assert draw.expected.accepts([draw.expected.native])


COUNTS = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, head):
        at = head % x.size(0)
        FIRST
        head.add_(1)
        return x[at] * 2


def get_inputs():
    return [torch.randn(5, 8), torch.randint(20, (3,))]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("first", ["pass", "if int(head[0]) < 10: return x[at] * 2"])
def test_integers_that_a_reference_counts_on_are_as_drawn_each_time(tmp_path: Path, first: str) -> None:
    (tmp_path / "reference.py").write_text(COUNTS.replace("FIRST", first))
    made = Reference(tmp_path / "reference.py", "cpu")
    made.perturb(1)
    for seed in range(6):
        draw, stated = made.draw(seed), made.inputs(seed, None)
        assert draw is not None
        assert stated is not None
        assert torch.equal(draw.inputs[1], stated[1])
        right = stated[0][stated[1] % 5] * 2
        assert torch.equal(draw.expected.native, right)
        assert torch.equal(draw.expected.truth, right.double())


def test_strict_limits_are_never_wider_than_those_of_a_draw(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(WRITES_LATER.replace("> 0", "> 99"))
    made = Reference(tmp_path / "reference.py", "cpu")
    made.perturb(1)
    for seed in range(5):
        draw, strict = made.draw(seed), made.strict(seed)
        assert draw is not None
        assert torch.equal(strict.truth, draw.expected.truth)
        [narrow], [wide] = strict.limits, draw.expected.limits
        assert narrow is not None
        assert wide is not None
        assert narrow.absolute <= wide.absolute
        assert narrow.rms <= wide.rms
        assert strict.accepts([draw.expected.native])


@pytest.mark.parametrize("family", ["scaled", "sparse", "tied", "vast"])
def test_large_inputs_are_derived_in_pieces_to_the_same(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(7, 11, generator=torch.Generator().manual_seed(2)).half()
    x[0, 0], x[1, 1], x[2, 2] = float("inf"), 60_000.0, float("nan")
    [whole] = input_distributions.derived(family, [x], 5) or []
    deviation = input_distributions._deviation(x)
    monkeypatch.setattr(input_distributions, "_deviation", lambda x: deviation)
    monkeypatch.setattr(input_distributions, "ENOUGH", 10)
    before = x.clone()
    [pieces] = input_distributions.derived(family, [x], 5) or []
    assert torch.equal(pieces.view(torch.int16), whole.view(torch.int16))
    assert torch.equal(x.view(torch.int16), before.view(torch.int16))


ALIAS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self._cast = None

    def forward(self, x):
        if self._cast is None:
            self._cast = self.weight
        return x * self._cast


def get_inputs():
    return [torch.randn(5, 8)]


def get_init_inputs():
    return []
"""


def test_a_parameter_that_forward_keeps_under_another_name_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(ALIAS)
    drawn = Reference(tmp_path / "reference.py", "cpu")
    for seed in (1, 2):
        drawn.perturb(seed)
        for number in (3, 4):
            draw = drawn.draw(number)
            assert draw is not None
            assert draw.expected.accepts([draw.inputs[0] * drawn.state()["weight"]])
        assert list(drawn.state()) == ["weight"]
