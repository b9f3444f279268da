"""Wrong outputs that no rule knows, explained by what is changed in the recorded operators alone."""

from collections.abc import Callable

import pytest
import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch import causes
from agent.diagnosis.mismatch.case import Case
from agent.diagnosis.mutations import moves
from agent.diagnosis.mutations.groups import Groups
from agent.diagnosis.tape import record
from agent.diagnosis.wrong_references import Facts
from agent.records import Finding

Tensor = torch.Tensor
Forward = Callable[..., Tensor]


def _numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _explained(right: Forward, wrong: Forward, *inputs: Tensor) -> Finding:
    truth, output = right(*inputs), wrong(*inputs).float()
    case = Case(
        model=right, arguments=inputs, inputs=list(inputs), parameters={}, defaults={}, outputs=[output],
        truth=[truth], limits=[lambda values, more: more * (1e-6 + 1e-5 * values.abs())], source="",
    )  # fmt: skip
    return causes.explain(case, Finding(kind="wrong-values", message="wrong")).finding


def _gated(reset: Tensor, state: Tensor, weight: Tensor) -> Tensor:
    for _ in range(3):
        state = torch.tanh(reset * (state @ weight))
    return state


def _gated_before(reset: Tensor, state: Tensor, weight: Tensor) -> Tensor:
    for _ in range(3):
        state = torch.tanh((reset * state) @ weight)
    return state


def _running(x: Tensor) -> Tensor:
    total = x.sum(1).cumsum(1) / (x.shape[1] * torch.arange(1, x.shape[2] + 1))
    return x - total.unsqueeze(1)


def _compared(x: Tensor, bound: Tensor) -> Tensor:
    return torch.where(x > bound[:, None], x, 0.25 * x)


WRONG = [
    pytest.param(_gated, _gated_before, (_numbers(4, 6), _numbers(4, 6, seed=2), _numbers(6, 6, seed=3)),
                 "weight-wrong-place", "before mm", id="a factor before a product, in every step of a loop"),
    pytest.param(_running, lambda x: x - x.cumsum(2) / torch.arange(1, x.shape[2] + 1), (_numbers(3, 5, 7),),
                 "statistics-per-channel", "by itself in sum", id="each channel by itself"),
    pytest.param(_compared, lambda x, b: torch.where(x > b[torch.arange(x.shape[1]) % len(b)], x, 0.25 * x),
                 (_numbers(9, 14), _numbers(9, seed=2)), "keepdim-broadcast", "index of dim 1",
                 id="a bound read by column"),
    pytest.param(lambda x: torch.nn.functional.pad(x, (6, 0)).unfold(1, 7, 1).amax(-1),
                 lambda x: torch.nn.functional.pad(x, (3, 3)).unfold(1, 7, 1).amax(-1),
                 (_numbers(5, 40).abs(),), "padding-off-by-one", "pad = [3, 3]",
                 id="a padding that is centred"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "inputs", "kind", "words"), WRONG)
def test_a_change_that_no_rule_knows_is_named(
    right: Forward, wrong: Forward, inputs: tuple[Tensor, ...], kind: str, words: str
) -> None:
    found = _explained(right, wrong, *inputs)
    assert found.kind == kind, found.message
    assert words in found.message


def _in_two_lines(x: Tensor, y: Tensor) -> Tensor:
    waves = x.sin()
    return torch.softmax(waves @ y, -1)


def test_the_line_of_the_reference_is_named() -> None:
    found = _explained(
        _in_two_lines,
        lambda x, y: torch.softmax(x.sin().flip(1) @ y, -1),
        _numbers(6, 8),
        _numbers(8, 5, seed=2),
    )
    assert found.message.endswith("In the reference: `waves = x.sin()`."), found.message


def test_wrong_elements_are_told_apart_by_a_condition_of_the_reference() -> None:
    noise = _numbers(9, 14, seed=9)
    found = _explained(
        _compared,
        lambda x, b: torch.where(x > b[:, None], noise, 0.25 * x),
        _numbers(9, 14),
        _numbers(9, seed=2),
    )
    assert found.kind == "unknown-cause"
    assert "The wrong elements are those where the result of gt is true" in found.message


def test_steps_of_a_loop_are_one_group() -> None:
    inputs = (_numbers(4, 6), _numbers(4, 6, seed=2), _numbers(6, 6, seed=3))
    groups = Groups(record(lambda: _gated(*inputs), {}))
    assert [(group.name, len(group.calls)) for group in groups.computing()] == [
        ("mm", 3),
        ("mul", 3),
        ("tanh", 3),
    ]


def test_a_played_run_is_the_run() -> None:
    """With values written in place, and with a rewrite that changes what Python reads."""
    state, x = _numbers(5, seed=2), _numbers(3, 5)
    kept = state.clone()

    def run() -> Tensor:
        state.copy_(kept)
        out = torch.empty(3, 5, dtype=torch.float64)
        for row in range(3):
            state.mul_(0.5).add_(x[row])
            out[row] = state
        return out * 2 if bool(out.sum() > 100) else out

    tape = record(run, {id(state): "state", id(x): "input 0"})
    right = run()
    assert torch.equal(tape.again({}), right)
    last = max(call.number for call in tape.calls if call.name == "add")
    changed = tape.again({last: lambda given: given["self"] + 1e3})
    by_hand = right.clone()
    by_hand[2] = 0.5 * right[1] + 1e3
    assert torch.allclose(changed, 2 * by_hand), "the sum is above its bound now: Python goes the other way"
    assert torch.equal(tape.again({}), right), "nothing that was recorded is written to"


def test_an_operator_that_moves_takes_values_as_they_are_by_then() -> None:
    inputs = (_numbers(4, 6), _numbers(4, 6, seed=2), _numbers(6, 6, seed=3))
    tape = record(lambda: _gated(*inputs), {})
    wanted = _gated_before(*inputs)
    made = [tensors(tape.again(one.rewrites))[0] for one in moves.mutate(Groups(tape), Facts((), ()))]
    assert any(torch.allclose(one, wanted) for one in made if one.shape == wanted.shape)


def test_numbers_that_overflow_explain_nothing() -> None:
    x = 40 + _numbers(4, 9)
    found = _explained(lambda x: x.cumprod(1), lambda x: x.cumprod(1) + 7 * x.cumsum(1).sin(), x)
    assert found.kind == "unknown-cause", found.message


def test_numbers_alone_on_the_way_are_changed_as_well() -> None:
    def scaled(x: Tensor) -> Tensor:
        return torch.tanh(x / x.square().sum().sqrt())

    found = _explained(scaled, lambda x: torch.tanh(x / x.square().sum().sqrt().exp()), _numbers(4, 9) / 9)
    assert found.kind == "log-missing", found.message
