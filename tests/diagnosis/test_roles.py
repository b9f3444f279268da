"""What a change is called: the kind follows from what the changed value is for in the reference."""

import pytest
import torch
import torch.nn.functional as F

from .explaining import Slip, explained, numbers

Tensor = torch.Tensor


def _strictly_before(x: Tensor) -> Tensor:
    return x.cumsum(1) - x


def _kept_where(x: Tensor, bound: Tensor) -> Tensor:
    return x.square() * (x > bound[:, None]).to(x.dtype)


def _nearest_held(x: Tensor, places: Tensor) -> Tensor:
    at = places.floor().long().clamp(0, x.shape[1] - 1)
    return x.gather(1, at)


def _nearest_wrapped(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places.floor().long() % x.shape[1])


def _mixed(x: Tensor) -> Tensor:
    return 0.3 * x.amax(1) + (1 - 0.3) * x.mean(1)


def _earlier_sums(x: Tensor, y: Tensor) -> Tensor:
    return torch.tril(x @ x.t()) @ y


def _gated(x: Tensor, state: Tensor) -> Tensor:
    new = torch.sigmoid(x) * state + x.tanh()
    return torch.sigmoid(x + 0.5 * new) * new.tanh()


def _gated_by_the_old(x: Tensor, state: Tensor) -> Tensor:
    new = torch.sigmoid(x) * state + x.tanh()
    return torch.sigmoid(x + 0.5 * state) * new.tanh()


def _averaged(x: Tensor, mask: Tensor) -> Tensor:
    kept = (mask > 0).to(x.dtype)
    return (x * kept).sum(1) / kept.sum(1).clamp_min(1)


def _segments(x: Tensor, starts: Tensor) -> Tensor:
    run = starts.cumsum(1)
    return ((run.unsqueeze(2) == run.unsqueeze(1)).to(x.dtype) @ x.unsqueeze(2)).squeeze(2)


def _segments_one_late(x: Tensor, starts: Tensor) -> Tensor:
    run = starts.cumsum(1) - starts
    return ((run.unsqueeze(2) == run.unsqueeze(1)).to(x.dtype) @ x.unsqueeze(2)).squeeze(2)


PLACES = 12 * torch.rand(4, 9, generator=torch.Generator().manual_seed(5), dtype=torch.float64) - 2
FLAGS = (torch.rand(5, 24, generator=torch.Generator().manual_seed(6)) < 0.2).long()
CASES = [
    pytest.param(
        Slip(
            _strictly_before,
            lambda x: x.cumsum(1),
            (numbers(4, 9),),
            "scan-inclusive",
            "itself",
        ),
        id="the element itself is no residual",
    ),
    pytest.param(
        Slip(
            _kept_where,
            lambda x, b: x.square(),
            (numbers(6, 9), numbers(6, seed=2)),
            "mask-ignored",
            "mask",
        ),
        id="a factor that comes from a condition is a mask",
    ),
    pytest.param(
        Slip(
            _nearest_held,
            _nearest_wrapped,
            (numbers(4, 8), PLACES),
            "padding-mode",
            "wrapped",
        ),
        id="a clamped place that wraps around is another border",
    ),
    pytest.param(
        Slip(
            _mixed,
            lambda x: 0.7 * x.amax(1) + 0.3 * x.mean(1),
            (numbers(6, 9),),
            "weights-swapped",
            "weight",
        ),
        id="shares of what is no state are the weights of a mix",
    ),
    pytest.param(
        Slip(
            _earlier_sums,
            lambda x, y: torch.tril(x @ x.t(), -1) @ y,
            (numbers(8, 8), numbers(8, 5, seed=2)),
            "scan-exclusive",
            "diagonal",
        ),
        id="a strict triangle that is summed along is an exclusive sum",
    ),
    pytest.param(
        Slip(
            lambda x: torch.tril(x),
            lambda x: torch.tril(x, -1),
            (numbers(8, 8),),
            "mask-shifted",
            "diagonal",
        ),
        id="a triangle of values whose diagonal is off",
    ),
    pytest.param(
        Slip(
            _gated,
            _gated_by_the_old,
            (numbers(6, 9), numbers(6, 9, seed=2)),
            "state-order",
            "before its update",
        ),
        id="an old state in the place of the new one",
    ),
    pytest.param(
        Slip(
            _averaged,
            lambda x, m: (x * (m > 0)).sum(1) / x.shape[1],
            (numbers(6, 9), numbers(6, 9, seed=2)),
            "wrong-divisor",
            "count",
        ),
        id="a count of all in the place of the count of what is kept",
    ),
    pytest.param(
        Slip(
            lambda x, y: x.exp() * y,
            lambda x, y: x.exp() + y,
            (numbers(6, 9), numbers(6, 9, seed=2)),
            "wrong-combine",
            "added for multiplied",
        ),
        id="a sum for a product combines wrongly",
    ),
    pytest.param(
        Slip(
            _segments,
            _segments_one_late,
            (numbers(5, 24), FLAGS),
            "scan-off-by-one",
            "segments",
        ),
        id="numbers of segments that are one late",
    ),
    pytest.param(
        Slip(
            lambda x: F.elu(x) + 1,
            lambda x: x.relu() + 1,
            (numbers(6, 9),),
            "wrong-activation",
            "relu",
        ),
        id="a ReLU is no ELU with another alpha",
    ),
    pytest.param(
        Slip(
            lambda x: -F.max_pool1d(-x, 3),
            lambda x: F.max_pool1d(x, 3),
            (numbers(2, 3, 12),),
            "max-for-min",
            "maximum",
        ),
        id="a minimum by two signs",
    ),
]


@pytest.mark.parametrize("slip", CASES)
def test_the_kind_is_that_of_the_role(slip: Slip) -> None:
    slip.check()


def test_a_slip_that_nobody_makes_is_said_after_one_that_people_make() -> None:
    """The sign of a mix hides how large its shares are: the state was read after its update."""

    def step(x: Tensor, grad: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        blend = 0.6 * state + (1 - 0.6) * grad
        return x - 0.1 * torch.sign(blend), 0.9 * state + (1 - 0.9) * grad

    def late(x: Tensor, grad: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        new = 0.9 * state + (1 - 0.9) * grad
        return x - 0.1 * torch.sign(new), new

    found = explained(step, late, numbers(12, 20), numbers(12, 20, seed=2), numbers(12, 20, seed=3))
    assert found.kind in ("state-order", "wrong-decay"), found.message
    assert "twice" not in found.message.partition("On these inputs")[0]
