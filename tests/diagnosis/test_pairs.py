"""Answers with two faults: both are named, and only where the output is that of both."""

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from diagnosis.labels import PROBLEMS

from agent.diagnosis.mismatch import rounds
from agent.diagnosis.wrong_references.composing import After, Before, Form, Last, composed
from agent.harness.oracle import explanation
from agent.harness.truth.reference import Reference
from agent.records import Finding

Tensor = torch.Tensor


def _norm(m: object, x: Tensor, weight: Tensor, bias: Tensor | float) -> Tensor:
    """With the unbiased variance."""
    y = (x - x.mean(-1, keepdim=True)) * (x.var(-1, keepdim=True) + m.norm.eps).rsqrt()  # type: ignore[attr-defined]
    return torch.as_tensor(y * weight + bias)


PAIRS = [
    ("layer_norm", {"unbiased", "bias missing"}, lambda m, x: _norm(m, x, m.norm.weight, 0.0)),
    ("layer_norm", {"unbiased", "exchanged"}, lambda m, x: _norm(m, x, m.norm.bias, m.norm.weight)),
    ("layer_norm", {"unbiased", "times 0.5"}, lambda m, x: _norm(m, x, m.norm.weight, m.norm.bias) / 2),
    ("softmax_scaled", {"scale", "dim 0"}, lambda m, x: x.softmax(0)),
    (
        "conv_strided",
        {"flipped", "bias missing"},
        lambda m, x: F.conv2d(x, m.conv.weight.flip(2, 3), None, 2, 2, 2),
    ),
]


@pytest.mark.parametrize(
    ("problem", "said", "wrong"), PAIRS, ids=[f"{p}-{'-'.join(sorted(w))}" for p, w, _ in PAIRS]
)
def test_both_faults_are_named(problem: str, said: set[str], wrong: object) -> None:
    reference = Reference(PROBLEMS / f"{problem}.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    with torch.no_grad():
        output = wrong(reference.model, *draw.inputs)  # type: ignore[operator]
    found = Finding.model_validate(draw.expected.compare(output)["finding"])
    explained = explanation.Explaining(reference, "", found).of_values(draw, output)["finding"]
    assert explained["message"].startswith("The output equals the reference ")
    assert all(words in explained["message"] for words in said), explained["message"]


def _rounds(problem: str, wrong: object) -> tuple[list[dict[str, object]], int]:
    """The answers to one draw after another, until none is asked for."""
    reference = Reference(PROBLEMS / f"{problem}.py", "cpu")
    reference.perturb(3)
    explaining, answers = None, []
    for seed in range(8):
        draw = reference.draw(seed)
        assert draw is not None
        with torch.no_grad():
            output = wrong(reference.model, *draw.inputs)  # type: ignore[operator]
        if explaining is None:
            found = Finding.model_validate(draw.expected.compare(output)["finding"])
            explaining = explanation.Explaining(reference, "", found)
        answers.append(explaining.of_values(draw, output))
        if not answers[-1]["open"]:
            break
    return answers, len(answers)


def test_two_faults_of_a_loss_are_told_by_several_draws() -> None:
    """One number is what many pairs give; five are those of one."""
    answers, asked = _rounds(
        "kl_batchmean",
        lambda m, student, teacher: F.kl_div(teacher.log_softmax(1), student.softmax(1), reduction="sum"),
    )
    message = str(answers[-1]["finding"]["message"])  # type: ignore[index]
    assert asked == rounds.NUMBERS
    assert "inputs 0 and 1 swapped" in message
    assert "24" in message, message


def test_what_no_pair_gives_stays_unknown() -> None:
    answers, asked = _rounds("kl_batchmean", lambda m, *given: m(*given).sin() + 3)
    assert asked == rounds.NUMBERS
    assert answers[-1]["finding"]["kind"] in ("unknown-cause", "wrong-values")  # type: ignore[index]


def test_two_rewrites_of_one_call_make_one() -> None:
    add = torch.ops.aten.add.Tensor
    given = {"self": torch.tensor(2.0), "other": torch.tensor(3.0), "alpha": 1}
    negated, doubled = Before(add, {"self": torch.neg}), After(add, lambda result: 2 * result)
    plus_one = Last(add, {"other": torch.tensor(0.0)}, lambda result, given: result + given["other"] + 1)
    assert [composed(negated, doubled)(given), composed(doubled, negated)(given)] == [2.0, 2.0]  # type: ignore[misc]
    assert composed(doubled, plus_one)(given) == 2 * 2 + 3 + 1  # type: ignore[misc]
    assert composed(plus_one, plus_one) is None


class _Powers(NamedTuple):
    mine: int
    others: int


def test_two_changed_parts_of_one_call_make_one() -> None:
    def powers(given: dict[str, Tensor], parts: _Powers) -> Tensor:
        return given["self"] ** parts.mine + given["other"] ** parts.others

    given = {"self": torch.tensor(2.0), "other": torch.tensor(3.0)}
    one, other = (Form(powers, _Powers(1, 1), {part: 2}) for part in ("mine", "others"))
    assert composed(one, other)(given) == 4.0 + 9.0  # type: ignore[misc]
    assert composed(one, one) is None
