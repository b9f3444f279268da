"""Wrong answers over the references of the corpus, explained as the oracle explains them."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from diagnosis.faults import FAULTS, Wrong
from diagnosis.labels import PROBLEMS, kinds, unsure_kinds

from agent.diagnosis.mismatch import causes, matching, samples
from agent.diagnosis.mismatch.causes import Explained
from agent.harness.oracle import explanation
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference
from agent.records import Finding

CASES = [
    pytest.param(problem, allowed, wrong, id=f"{problem}-{name.replace(' ', '-')}")
    for problem, faults in FAULTS.items()
    for name, allowed, wrong in faults
]


@cache
def _drawn(problem: str, family: str | None = None) -> tuple[Reference, Draw]:
    reference = Reference(PROBLEMS / f"{problem}.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4, family)
    assert draw is not None
    return reference, draw


def _explained(problem: str, output: Any, source: str = "", family: str | None = None) -> Explained:
    reference, draw = _drawn(problem, family)
    verdict = draw.expected.compare(output)
    assert "finding" in verdict, "the judge takes this answer for right"
    found = Finding.model_validate(verdict["finding"])
    return causes.explain(explanation.case(reference, draw, output, source), found)


def _computed(problem: str, wrong: Wrong, family: str | None = None) -> Any:
    reference, draw = _drawn(problem, family)
    with torch.no_grad():
        return wrong(reference.model, *draw.inputs)


@pytest.mark.parametrize(("problem", "allowed", "wrong"), CASES)
def test_the_fault_is_named(problem: str, allowed: tuple[str, ...], wrong: Wrong) -> None:
    finding = _explained(problem, _computed(problem, wrong)).finding
    assert finding.kind in allowed, finding.message
    assert finding.kind in kinds()


def test_an_answer_of_no_known_fault_is_of_unknown_cause() -> None:
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(3, 7, 77, generator=generator)
    finding = _explained("layer_norm", noise).finding
    assert finding.kind == "unknown-cause"
    assert "1617 of 1617" in finding.message or "of 1617 elements" in finding.message


def test_two_faults_that_these_inputs_cannot_tell_apart_stay_open() -> None:
    def bounded(m: Any, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return torch.as_tensor(centred * variance.clamp_min(m.norm.eps).rsqrt() * m.norm.weight + m.norm.bias)

    first = _explained("layer_norm", _computed("layer_norm", bounded))
    assert {"eps-omitted"} == {first.finding.kind}
    assert len(first.open) > 1
    reference, faint = _drawn("layer_norm", "faint")
    case = explanation.case(reference, faint, _computed("layer_norm", bounded, "faint"), "")
    second = causes.explain(case, first.finding, first.open)
    assert second.finding.kind == "eps-inside-max"
    assert not second.open


def test_elements_that_were_never_written_are_located() -> None:
    _, draw = _drawn("layer_norm")
    output = draw.expected.native.clone()
    output.reshape(-1)[1536:] = 0
    finding = _explained("layer_norm", output).finding
    assert finding.kind == "lost-last-block"
    assert "after flat index 1536" in finding.message


def test_the_region_of_unexplained_nan_is_told() -> None:
    _, draw = _drawn("layer_norm")
    output = draw.expected.native.clone()
    output[:, ::3, ::2] = float("nan")
    finding = _explained("layer_norm", output).finding
    assert finding.kind == "nan-output"
    assert "at every 2nd index of dim 2 (size 77), from 0 on" in (finding.evidence or "")


def test_the_line_is_that_of_the_fault() -> None:
    source = 'cuda = """\nfloat mean = sum / n;\nfloat inverse = rsqrtf(var + eps + eps);\n"""\n'

    def twice(m: Any, x: torch.Tensor) -> torch.Tensor:
        normed = torch.nn.functional.layer_norm(x, x.shape[-1:], m.norm.weight, m.norm.bias, 2 * m.norm.eps)
        return torch.as_tensor(normed)

    finding = _explained("layer_norm", _computed("layer_norm", twice), source).finding
    assert finding.kind == "eps-twice"
    assert finding.location is not None
    assert finding.location.line == 3


def test_a_right_answer_has_nothing_to_explain() -> None:
    reference, draw = _drawn("group_norm")
    assert "finding" not in draw.expected.compare(draw.expected.native)
    found = Finding(kind="wrong-values", message="none")
    case = explanation.case(reference, draw, draw.expected.native, "")
    assert causes.explain(case, found).finding == found


def test_the_chain_of_shapes_shows_the_broadcast() -> None:
    reference, draw = _drawn("linear_min_bias")
    found = Finding(kind="wrong-shape", message="the output has shape (9, 14, 1, 1).")
    answer = explanation.Explaining(reference, "", found).of_shape(draw, (9, 14, 1, 1), (1, 14, 9, 1))
    assert "(9, 1) with (1, 14, 1, 1) -> (1, 14, 9, 1)" in answer["finding"]["message"]
    assert "min" in answer["finding"]["evidence"]


def _swapped(x: torch.Tensor, norm: Any) -> torch.Tensor:
    return torch.nn.functional.group_norm(x, 4, norm.bias, norm.weight, norm.eps)


def _over_the_batch(x: torch.Tensor, norm: Any) -> torch.Tensor:
    v = x.reshape(x.shape[0], 4, -1)
    mean, var = v.mean((0, 2), keepdim=True), v.var((0, 2), keepdim=True, correction=0)
    y = ((v - mean) * (var + norm.eps).rsqrt()).reshape(x.shape)
    return torch.as_tensor(y * norm.weight.reshape(1, -1, 1, 1) + norm.bias.reshape(1, -1, 1, 1))


@pytest.mark.parametrize(
    ("wrong", "kind"), [(_swapped, "gamma-beta-swapped"), (_over_the_batch, "statistics-over-batch")]
)
def test_a_large_output_is_explained_by_some_of_its_samples_or_by_what_mixes_them(
    wrong: Any, kind: str, tmp_path: Path
) -> None:
    source = (PROBLEMS / "group_norm.py").read_text().replace("batch = 3", "batch = 64")
    (tmp_path / "reference.py").write_text(source)
    reference = Reference(tmp_path / "reference.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    with torch.no_grad():
        output = wrong(draw.inputs[0], reference.model.norm)
    found = Finding(kind="wrong-values", message="wrong")
    assert sum(t.numel() for t in (draw.inputs[0], output)) > explanation.FEW_ELEMENTS
    assert samples.part(explanation.case(reference, draw, output, ""), explanation.FEW_ELEMENTS) is not None
    answer = explanation.Explaining(reference, "", found).of_values(draw, output)
    assert answer["finding"]["kind"] == kind


@pytest.mark.parametrize("seed", range(4, 10))
def test_an_overflow_is_known_by_the_elements_that_are_not_finite(seed: int) -> None:
    reference = Reference(PROBLEMS / "softmax_scaled.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(seed, "scaled")
    assert draw is not None
    powers = (draw.inputs[0] * reference.model.scale).exp()
    output = powers / powers.sum(-1, keepdim=True)
    assert not bool(torch.isfinite(output).all())
    case = explanation.case(reference, draw, output, "")
    finding = causes.explain(case, Finding(kind="nan-output", message="NaN")).finding
    assert finding.kind == "lse-without-max"


BOUNDED = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.clamp(max=5)


def get_inputs():
    return [torch.{}]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("inputs", ["rand(40, 50) * 2 - 1", "rand(40, 50) * 10", "randn(40, 50) * 2"])
@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        (lambda x: x.clone(), {"clamp-missing"}),
        (lambda x: x.clamp(max=4), {"clamp-bounds"}),
        (lambda x: x.clamp(0, 5), {"clamp-bounds"}),
        (lambda x: x.clamp(-5, 5), {"clamp-bounds"}),
        (lambda x: x.clamp(min=5), {"clamp-bounds", "clamp-missing"}),
        (lambda x: torch.full_like(x, 5), set()),
        (lambda x: torch.zeros_like(x), set()),
        (lambda x: torch.where(x.sin() > 0, x, 1).clamp(max=5), set()),
    ],
    ids=["forgotten", "4", "from 0", "from -5", "below", "5", "0", "1 here and there"],
)
def test_no_other_fault_than_the_clamps_is_named(
    wrong: Any, allowed: set[str], inputs: str, tmp_path: Path
) -> None:
    """Saturated values are whole numbers: truncation and shorter formats hold them too."""
    (tmp_path / "reference.py").write_text(BOUNDED.format(inputs))
    reference = Reference(tmp_path / "reference.py", "cpu")
    reference.perturb(3)
    explained = 0
    for family in (None, "shifted", "scaled", "faint", "negated", "tied"):
        draw = reference.draw(4, family)
        assert draw is not None
        output = wrong(draw.inputs[0])
        found = draw.expected.compare(output).get("finding")
        if found is not None:
            explained += 1
            case = explanation.case(reference, draw, output, "")
            finding = causes.explain(case, Finding.model_validate(found)).finding
            assert finding.kind in allowed | unsure_kinds(), (family, finding.message)
    assert explained


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([0.0] * 99, False),
        ([5.0] * 90 + [4.0] * 9, False),
        ([5.0] * 80 + [4.0] * 19, True),
        ([0.0] * 98 + [0.3, 0.7], True),
        ([0.5] * 99, False),
        ([0.3], True),
        ([3.0], False),
        ([1.0, 2.0, 3.0], True),
        ([float("nan")] * 9, True),
        ([0.0] * 50 + [float("nan")] * 49, True),
    ],
)
def test_a_constant_tells_no_faults_apart(values: list[float], told: bool) -> None:
    assert matching.telling(torch.tensor(values, dtype=torch.float64)) is told


PLAIN = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(1) if SUMS else x * 1.7


def get_inputs():
    return [torch.rand(256, 512)]


def get_init_inputs():
    return []
"""


def _added_up(folder: Path, relative: float, sums: bool) -> Finding:
    """What is said of an output whose errors, all within their limits, add up."""
    (folder / "reference.py").write_text(PLAIN.replace("SUMS", str(sums)))
    reference = Reference(folder / "reference.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    truth = draw.expected.truth
    noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    output = (truth * (1 + relative * noise.clamp(-1.5, 1.5))).float()
    found = Finding.model_validate(draw.expected.compare(output)["finding"])
    assert found.kind == "precision-loss"
    return causes.explain(explanation.case(reference, draw, output, ""), found).finding


@pytest.mark.parametrize("sums", [False, True])
def test_errors_that_only_add_up_are_called_less_precise_only_where_that_fits(
    tmp_path: Path, sums: bool
) -> None:
    finding = _added_up(tmp_path, 6e-6, sums)
    assert finding.kind == "precision-loss"
    assert "less precision" not in finding.message
    assert "neither another order of summation nor a shorter type" in finding.message
    assert "float16" in (finding.evidence or "")
    assert "orders of summation tried" in (finding.evidence or "")


def test_a_single_number_is_held_against_orders_and_shorter_types(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(PLAIN.replace("x.sum(1) if SUMS else x * 1.7", "x.sum()"))
    reference = Reference(tmp_path / "reference.py", "cpu")
    reference.perturb(3)
    explaining = explanation.Explaining(reference, "", Finding(kind="wrong-values", message="wrong"))
    for draw in filter(None, map(reference.draw, (4, 5, 6))):
        # What agrees with one number by chance does not agree with another one.
        answer = explaining.of_values(draw, draw.expected.native * (1 + 1e-3))
    assert answer["finding"]["kind"] == "unknown-cause"
    assert "orders of summation tried" in (answer["finding"]["evidence"] or "")
