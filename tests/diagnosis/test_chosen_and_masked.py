"""Wrong answers of attention, losses with classes, sorting, scattering: each in a line of torch."""

import math
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from agent.harness.oracle.explanation import Explaining
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference
from agent.records import Finding

from .labels import kinds

Wrong = Callable[..., Any]
Fault = tuple[str, Wrong]
FRESH = 3
"""Further draws that a claim may ask for."""
FORM = """import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.rand(6) + 0.3)
        self.qkv = torch.nn.Linear(24, 72)

    def forward(self, {names}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
HEADS = "torch.randn(2, 3, 11, 8), torch.randn(2, 3, 13, 8), torch.randn(2, 3, 13, 8)"
SQUARE = "torch.randn(2, 3, 12, 8), torch.randn(2, 3, 12, 8), torch.randn(2, 3, 12, 8)"
CLASSES = "torch.randn(17, 6), torch.randint(0, 6, (17,))"
WINDOW = (
    "place = torch.arange(x.shape[-1], device=x.device)\n"
    "        place = place - torch.arange(x.shape[-2], device=x.device)[:, None]\n"
    "        inside = (place >= -3) & (place <= 5)\n"
    "        return torch.where(inside, x, float('-inf')).softmax(-1)"
)
STEPS = (
    "states = []\n"
    "        for step in x.unbind(1):\n"
    "            s = 0.8 * s + step\n"
    "            states.append(s)\n"
    "        return torch.stack(states, 1)"
)
SEGMENTS = "torch.randint(0, 7, (23,)), torch.randn(23, 5)"


def _attention(
    q: Any, k: Any, v: Any, scale: float = 8**-0.5, dim: int = -1, diagonal: int | None = None
) -> Any:
    scores = q @ k.mT * scale
    if diagonal is not None:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).bool().tril(diagonal), -1e9)
    return scores.softmax(dim) @ v


def _late_mask(m: Any, q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT * 8**-0.5).softmax(-1).tril() @ v


def _by_heads(m: Any, x: Any, order: tuple[int, ...], inner: bool) -> Any:
    parts = [m.qkv(x).split(24, 2)[place] for place in order]
    if inner:
        q, k, v = (t.reshape(2, 10, 8, 3).permute(0, 3, 1, 2) for t in parts)
    else:
        q, k, v = (t.reshape(2, 10, 3, 8).transpose(1, 2) for t in parts)
    return _attention(q, k, v).transpose(1, 2).reshape(2, 10, 24)


def _window(x: Any, below: int, above: int, fill: float = -math.inf, late: bool = False) -> Any:
    place = torch.arange(x.shape[-1]) - torch.arange(x.shape[-2])[:, None]
    inside = (place >= -below) & (place <= above)
    return x.softmax(-1) * inside if late else torch.where(inside, x, fill).softmax(-1)


def _steps(x: Any, state: Any) -> Any:
    states = []
    for step in x.unbind(1):
        state = 0.8 * state + step
        states.append(state)
    return torch.stack(states, 1)


def _mean(m: Any, x: Any, t: Any, divisor: Any) -> Any:
    return F.cross_entropy(x, t, m.w, ignore_index=2, reduction="sum") / divisor(m.w[t], t != 2)


def _last(i: Any, x: Any) -> Any:
    result = torch.zeros(7, 5)
    for row, place in enumerate(i.tolist()):
        result[place] = x[row]
    return result


def _tiles(x: Any) -> Any:
    parts = [part.sort(1) for part in x.split(16, 1)]
    places = [part.indices + 16 * number for number, part in enumerate(parts)]
    return torch.cat([part.values for part in parts], 1), torch.cat(places, 1)


CASES: dict[tuple[str, str, str], tuple[Fault, ...]] = {
    ("q, k, v", "return F.scaled_dot_product_attention(q, k, v)", HEADS): (
        ("scale-missing", lambda m, q, k, v: _attention(q, k, v, 1.0)),
        ("wrong-divisor", lambda m, q, k, v: _attention(q, k, v, 13**-0.5)),
        ("softmax-wrong-axis", lambda m, q, k, v: _attention(q, k, v, dim=-2)),
        ("last-element-left-out", lambda m, q, k, v: _attention(q, k[:, :, :-1], v[:, :, :-1])),
        ("lost-last-block", lambda m, q, k, v: _attention(q, k[:, :, :8], v[:, :, :8])),
    ),
    ("q, k, v", "return F.scaled_dot_product_attention(q, k, v, is_causal=True)", SQUARE): (
        ("mask-ignored", lambda m, q, k, v: _attention(q, k, v)),
        ("mask-shifted", lambda m, q, k, v: _attention(q, k, v, diagonal=-1)),
        ("mask-wrong-place", _late_mask),
    ),
    ("x, v", "return (x * x / v + torch.log(v)).sum(-1)", "torch.randn(5, 17), torch.rand(5, 17) + 0.5"): (
        ("root-omitted", lambda m, x, v: (x * x / v**2 + 2 * torch.log(v)).sum(-1)),
        ("square-omitted", lambda m, x, v: (x * x / v.sqrt() + torch.log(v) / 2).sum(-1)),
    ),
    ("x, s", STEPS, "torch.randn(5, 9), torch.randn(5)"): (
        ("wrong-initial-state", lambda m, x, s: _steps(x, torch.zeros(5))),
    ),
    ("x", WINDOW, "torch.randn(4, 19, 23)"): (
        ("wrong-fill-value", lambda m, x: _window(x, 3, 5, 0.0)),
        ("mask-wrong-place", lambda m, x: _window(x, 3, 5, late=True)),
        ("mask-ignored", lambda m, x: x.softmax(-1)),
        ("mask-ignored", lambda m, x: _window(x, 99, 5)),
        ("mask-shifted", lambda m, x: _window(x, 2, 5)),
        ("mask-shifted", lambda m, x: _window(x, 3, 4)),
    ),
    ("x", "q, k, v = (t.view(2, 10, 3, 8).transpose(1, 2) for t in self.qkv(x).split(24, 2))\n"
          "        return (F.softmax(q @ k.mT * 8**-0.5, -1) @ v).transpose(1, 2).reshape(2, 10, 24)",
     "torch.randn(2, 10, 24)"): (
        ("operands-swapped", lambda m, x: _by_heads(m, x, (1, 0, 2), False)),
        ("layout-misread", lambda m, x: _by_heads(m, x, (0, 1, 2), True)),
    ),
    ("x, t", "return F.cross_entropy(x, t, self.w, ignore_index=2)", CLASSES): (
        ("weight-ignored", lambda m, x, t: F.cross_entropy(x, t, ignore_index=2)),
        ("ignored-class-counted", lambda m, x, t: F.cross_entropy(x, t, m.w)),
        ("wrong-divisor", lambda m, x, t: _mean(m, x, t, lambda w, valid: valid.sum())),
        ("sum-for-mean", lambda m, x, t: _mean(m, x, t, lambda w, valid: 1)),
    ),
    ("x, t", "return F.cross_entropy(x, t, label_smoothing=0.15)", CLASSES): (
        ("smoothing-missing", lambda m, x, t: F.cross_entropy(x, t)),
        ("wrong-divisor", lambda m, x, t: F.cross_entropy(x, F.one_hot(t, 6) * 0.82 + 0.03)),
    ),
    ("x, t", "return F.binary_cross_entropy_with_logits(x, t, pos_weight=self.w)",
     "torch.randn(9, 6), torch.rand(9, 6).round()"): (
        ("weight-wrong-place", lambda m, x, t: F.binary_cross_entropy_with_logits(x, t, m.w.expand_as(x))),
    ),
    ("x", "return torch.sort(x, 1)", "torch.randn(4, 37)"): (
        ("sort-order", lambda m, x: x.sort(1, descending=True)),
        ("not-sorted", lambda m, x: _tiles(x)),
        ("wrong-index-base", lambda m, x: (x.sort(1).values, x.sort(1).indices % 8)),
    ),
    ("x", "return torch.topk(x, 5)", "torch.randn(4, 37)"): (
        ("sort-order", lambda m, x: x.topk(5, largest=False)),
        ("lost-last-block", lambda m, x: x[:, :32].topk(5)),
    ),
    ("i, x", "return torch.zeros(7, 5, dtype=x.dtype).index_add(0, i, x, alpha=0.5)", SEGMENTS): (
        ("scale-missing", lambda m, i, x: torch.zeros(7, 5).index_add(0, i, x)),
        ("scatter-overwrites", lambda m, i, x: _last(i, x / 2)),
        ("lost-last-block", lambda m, i, x: torch.zeros(7, 5).index_add(0, i[:16], x[:16] / 2)),
    ),
    ("x", "return (x * 2).sum(1)", "torch.randint(-5, 99, (30, 9))"): (
        ("last-element-left-out", lambda m, x: (x * 2)[:, :-1].sum(1)),
    ),
}  # fmt: skip
EACH = [(form, *fault) for form, faults in CASES.items() for fault in faults]


@cache
def _reference(names: str, body: str, inputs: str) -> Reference:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reference.py"
        file.write_text(FORM.format(names=names, body=body, inputs=inputs))
        return Reference(file, "cpu")


@cache
def _drawn(reference: Reference, seed: int) -> Draw:
    reference.perturb(3)
    draw = reference.draw(seed)
    assert draw is not None
    return draw


@pytest.mark.parametrize(("form", "kind", "wrong"), EACH)
def test_the_fault_is_named(form: tuple[str, str, str], kind: str, wrong: Wrong) -> None:
    finding = _found(_reference(*form), wrong)
    assert finding.kind == kind, finding.message
    assert kind in kinds()


def _found(reference: Reference, wrong: Wrong) -> Finding:
    """What is said after as many draws as the claim asks for."""
    explaining: Explaining | None = None
    answer: dict[str, Any] = {}
    for seed in range(4, 4 + FRESH):
        draw = _drawn(reference, seed)
        with torch.no_grad():
            output = wrong(reference.model, *draw.inputs)
        if explaining is None:
            found = Finding.model_validate(draw.expected.compare(output)["finding"])
            explaining = Explaining(reference, "", found)
        answer = explaining.of_values(draw, output)
        if not answer["open"]:
            break
    return Finding.model_validate(answer["finding"])


def test_a_single_number_that_agrees_by_chance_is_not_called_a_cause() -> None:
    reference = _reference("x, t", "return F.cross_entropy(x, t)", CLASSES)
    first, second = _drawn(reference, 4), _drawn(reference, 5)
    by_chance = first.expected.native * 17
    found = Finding.model_validate(first.expected.compare(by_chance)["finding"])
    explaining = Explaining(reference, "", found)
    answer = explaining.of_values(first, by_chance)
    assert answer["unconfirmed"]
    assert answer["open"]
    answer = explaining.of_values(second, second.expected.native * 3.7 - 1.3)
    assert answer["finding"]["kind"] == "unknown-cause"
