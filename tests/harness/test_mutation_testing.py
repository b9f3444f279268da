"""Problems that cannot tell right from wrong are tightened or refused; sound ones pass."""

from pathlib import Path
from typing import Any

import pytest
import torch

from agent.errors import ProblemError
from agent.harness.admission import check
from agent.harness.mutation import mutants, mutation_testing
from agent.harness.task import protocol
from agent.harness.truth.reference import Reference
from agent.harness.worker import memory_guards
from agent.problems import Shrunken
from agent.records import Admission, Problem, Trace

TEMPLATE = """
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        return {returned}


def get_inputs():
    return [{drawn}]


def get_init_inputs():
    return []
"""
RANDN = "torch.randn(24, 40)"


def probed(tmp_path: Path, returned: str, drawn: str = RANDN, made: str = "pass") -> dict[str, Any]:
    source = tmp_path / "reference.py"
    source.write_text(TEMPLATE.format(made=made, returned=returned, drawn=drawn))
    return mutation_testing.probe(Reference(source, "cpu"), 77)


@pytest.mark.parametrize(
    ("returned", "drawn", "made"),
    [
        ("torch.softmax(x, 1)", "torch.randn(8, 5000)", "pass"),
        ("F.gelu(x)", RANDN, "pass"),
        ("self.norm(x)", RANDN, "self.norm = nn.LayerNorm(40)"),
        ("self.norm(x)", "torch.rand(6, 8, 5, 5)", "self.norm = nn.BatchNorm2d(8)"),
        ("F.hardswish(self.norm(self.linear(x)))", RANDN,
         "self.linear, self.norm = nn.Linear(40, 16), nn.GroupNorm(4, 16)"),
        ("x / (x.norm(dim=1, keepdim=True) + 1e-8)", RANDN, "pass"),
        ("torch.argmax(x, 1)", RANDN, "pass"),
    ],
)  # fmt: skip
def test_a_sound_problem_kills_every_wrong_answer(
    tmp_path: Path, returned: str, drawn: str, made: str
) -> None:
    found = probed(tmp_path, returned, drawn, made)
    assert found["survivors"] == []
    assert found["killed"] == found["tried"] - len(found["equivalent"])
    assert found["tried"] >= 4


@pytest.mark.parametrize("stated", ["torch.rand(24, 40)", "torch.rand(24, 40) / 4096"])
def test_inputs_that_are_never_large_need_no_tightening(tmp_path: Path, stated: str) -> None:
    found = probed(tmp_path, "torch.relu(500 - x) * 2 + x", stated)
    assert (found["survivors"], found["tightened"]) == ([], [])


def test_inputs_that_are_never_negative_need_no_tightening(tmp_path: Path) -> None:
    found = probed(tmp_path, "torch.relu(x) * 2 + x", "torch.rand(24, 40)")
    assert (found["survivors"], found["tightened"]) == ([], [])


def test_an_operator_that_changes_nothing_is_no_reason_to_refuse(tmp_path: Path) -> None:
    found = probed(tmp_path, "torch.relu(torch.exp(x)) + x")
    assert found["survivors"] == []
    assert [name.partition(" ")[0] for name in found["equivalent"]] == ["relu"]


@pytest.mark.parametrize(
    ("returned", "equal", "words"),
    [
        ("torch.softmax(x, 1).sum(1)", "the mean everywhere", "does not depend on its inputs"),
        ("torch.softmax(x, 1).sum(1) * 3", "the answer to other inputs", "does not depend on its inputs"),
        ("x - x", "zeros", "0 whatever the inputs are"),
        ("x.clone()", "input 0 copied", "input 0 as it is"),
    ],
)
def test_an_output_that_asks_for_nothing_is_said_to(
    tmp_path: Path, returned: str, equal: str, words: str
) -> None:
    found = probed(tmp_path, returned)
    assert found["survivors"] == []
    assert equal in found["equivalent"]
    assert any(words in line for line in found["trivial"])


@pytest.mark.parametrize(
    ("returned", "passing"),
    [
        ("torch.clamp(x, -1e6, 1e6)", "input 0 copied"),
        ("torch.relu(x - 1e6)", "zeros"),
        ("torch.relu(x - 1e6).sum()", "zeros"),
        ("torch.sigmoid(x.sum(1) + 1e9)", "the mean everywhere"),
    ],
)
def test_what_equals_a_null_answer_on_likely_inputs_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: str, passing: str
) -> None:
    monkeypatch.setattr(protocol, "VARYING", ())  # these reach the thresholds
    found = probed(tmp_path, returned)
    assert passing in found["survivors"]
    assert found["trivial"] == []


@pytest.mark.parametrize("returned", ["torch.clamp(x, -1e6, 1e6)", "torch.sigmoid(x.sum(1) + 1e9)"])
def test_far_thresholds_are_reached(tmp_path: Path, returned: str) -> None:
    assert probed(tmp_path, returned)["survivors"] == []


@pytest.mark.parametrize(
    ("forward", "drawn"),
    [
        ("x.masked_fill(~mask, -1e9).softmax(1)", "torch.tril(torch.ones(24, 24, dtype=torch.bool))"),
        ("x * (torch.arange(24) < mask[:, None])", "torch.full((24,), 24)"),
        ("x * mask", "3.0"),
        ("x[mask]", "torch.arange(24)"),
    ],
)
def test_an_answer_that_ignores_an_input_is_tried_and_refused(
    tmp_path: Path, forward: str, drawn: str
) -> None:
    source = tmp_path / "reference.py"
    text = TEMPLATE.format(made="pass", returned=forward, drawn=f"torch.randn(24, 24), {drawn}")
    source.write_text(text.replace("forward(self, x)", "forward(self, x, mask)"))
    found = mutation_testing.probe(Reference(source, "cpu"), 77)
    assert found["survivors"] == []
    assert not [name for name in found["equivalent"] if name.startswith("input 1")]


def test_counts_that_float16_holds_are_no_reason_to_refuse(tmp_path: Path) -> None:
    found = probed(tmp_path, "(x > 0).cumsum(1, dtype=torch.float32)")
    assert mutation_testing.HALVED not in found["survivors"]


LOSSES = {
    "mse": ("F.mse_loss(x, 0 * x + 0.25)", "torch.rand(256, 512)"),
    "smooth l1": ("F.smooth_l1_loss(x, x.flip(0))", "torch.rand(256, 512)"),
    "huber": ("F.huber_loss(x, x.flip(0), delta=0.7)", "torch.randn(256, 512)"),
    "cross entropy": ("F.cross_entropy(x, self.labels)", "torch.rand(512, 128)"),
    "hinge": ("(1 - x * self.signs).clamp(min=0).mean()", "torch.rand(256, 512)"),
    "kl": ("F.kl_div(torch.log_softmax(x, 1), self.share, reduction='batchmean')", "torch.rand(256, 512)"),
    "triplet": ("F.triplet_margin_loss(x, x.roll(1, 0), x.roll(5, 1))", "torch.rand(256, 512)"),
    "logistic": ("F.binary_cross_entropy_with_logits(x, self.share.to(x))", "torch.randn(256, 512)"),
    "sum": ("x.sum()", "torch.rand(1 << 20)"),
    "norm": ("torch.linalg.norm(x)", "torch.randn(1 << 20)"),
    "product": ("x.flatten() @ x.flip(1).flatten()", "torch.randn(256, 512)"),
}
MADE = (
    "torch.manual_seed(3); self.labels = torch.arange(512) % 128; "
    "self.signs = torch.randn(512).sign(); self.share = torch.rand(256, 512).softmax(1)"
)


@pytest.mark.parametrize("name", LOSSES)
def test_one_number_tells_every_wrong_sum(tmp_path: Path, name: str) -> None:
    returned, drawn = LOSSES[name]
    found = probed(tmp_path, returned, drawn, MADE)
    assert found["survivors"] == []
    assert found["trivial"] == []
    assert found["killed"] == found["tried"] - len(found["equivalent"]) - len(found["unresolved"])
    assert found["tried"] >= 7
    # Of logits that are 0 each loss is log 2: a million equal additions hide single ones.
    assert found["unresolved"] == [] or name == "logistic"


def test_terms_that_are_never_large_are_said_to_be_too_fine(tmp_path: Path) -> None:
    found = probed(tmp_path, "torch.sigmoid(x).mean()", "torch.randn(1 << 18)")
    assert found["survivors"] == []
    assert any(name.endswith("the last term left out") for name in found["unresolved"])


def test_an_operator_that_no_draw_shows_beyond_the_budget_is_said_to_be_too_fine(tmp_path: Path) -> None:
    found = probed(
        tmp_path,
        "(lambda y: y * F.mish(y))(torch.logsumexp(x.clamp(-0.2, 0.2), 1, keepdim=True))",
        "torch.randn(24, 1000)",
    )
    assert found["survivors"] == []
    assert [name.partition(" ")[0] for name in found["unresolved"]] == ["mish"]


EPS, BIAS, RELU = (
    "norm (operator 3), eps doubled",
    "addmm (operator 5), bias ignored",
    "relu (operator 7), dropped",
)


@pytest.mark.parametrize(
    ("layers", "apart", "large", "fine"),
    [
        (mutation_testing.MANY, {EPS, BIAS, RELU, "zeros"}, set(), [EPS, BIAS]),
        (mutation_testing.MANY, {EPS, BIAS, RELU, "zeros"}, {BIAS}, [EPS]),
        (mutation_testing.MANY - 1, {EPS, BIAS, RELU, "zeros"}, set(), []),
        (1, {BIAS, "zeros"}, set(), [EPS, RELU]),
    ],
)
def test_only_single_terms_of_many_operators_may_hide_in_rounding(
    layers: int, apart: set[str], large: set[str], fine: list[str]
) -> None:
    left = [EPS, BIAS, RELU, "zeros", mutation_testing.HALVED, "the mean everywhere"]
    seen = mutation_testing.Seen(set(left), apart | {mutation_testing.HALVED, "the mean everywhere"}, large)
    assert mutation_testing._too_fine(left, seen, layers) == fine


def test_products_that_vanish_are_seen_on_inputs_near_one(tmp_path: Path) -> None:
    found = probed(tmp_path, "torch.cumprod(x, 1)", "torch.rand(256, 1024)")
    assert (found["survivors"], found["tightened"]) == ([], ["even"])


def problem(tmp_path: Path, returned: str) -> tuple[Problem, Shrunken]:
    source = TEMPLATE.format(made="pass", returned=returned, drawn=RANDN)
    trace = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=1, min_bytes=1)
    shrunken = Shrunken(source=source, sizes={}, trace=trace, full=True, fits=True, hard=())
    return Problem(name="probed", source=source, trace=trace), shrunken


def test_the_result_is_kept_and_a_refusal_names_what_passes(tmp_path: Path) -> None:
    spread = "(x.abs() > 16).double().mean() > 0.35 and (x.abs() < 0.0625).double().mean() > 0.35"
    rare = f"x * 0 if x.abs().max() < 6 else x / 3 if {spread} else 1 / 0"
    asked, shrunken = problem(tmp_path, rare)
    found = check.probed(asked, lambda: shrunken, tmp_path)
    assert found.survivors

    def fail() -> Shrunken:
        raise AssertionError("probed again")

    assert check.probed(asked, fail, tmp_path) == found
    with pytest.raises(ProblemError, match=r"wrong answers would be verified \(.*zeros.*--admit-any"):
        check.check(asked, found, anyway=False)
    assert check.check(asked, found, anyway=True).anyway


def test_equivalent_mutants_do_not_count() -> None:
    found = Admission(tried=10, killed=8, equivalent=("a", "b"))
    assert found.kill_rate == 1.0
    assert Admission(note="not probed").kill_rate is None


@pytest.mark.parametrize(("layer", "gates"), [("GRU", 1), ("LSTM", 3), ("RNN", 0)])
def test_a_recurrent_layer_is_mutated_whole(layer: str, gates: int) -> None:
    """One site for each fault, whatever the length of the sequence; each changes the result."""
    torch.manual_seed(0)
    module = getattr(torch.nn, layer)(6, 10, 3, bidirectional=True)
    states = torch.randn(6, 2, 10)
    given = torch.randn(50, 2, 6), (states, states + 1) if layer == "LSTM" else states
    with torch.no_grad():
        right = memory_guards.leaves(module(*given))
        with mutants.Sites() as sites:
            module(*given)
        assert [site.change for site in sites.found if "gates" not in site.change] == [
            "recurrence dropped", "input's bias ignored", "state's bias ignored", "initial state ignored",
            "last layer dropped", "reverse weights ignored", "directions swapped",
        ]  # fmt: skip
        assert len(sites.found) == 7 + gates
        assert all(str(site).endswith(mutants.CHANGES) for site in sites.found)
        for site in sites.found:
            with mutants.Mutated(site):
                wrong = memory_guards.leaves(module(*given))
            assert [y.shape for y in wrong] == [y.shape for y in right], site
            assert max(float((y - x).abs().max()) for x, y in zip(right, wrong, strict=True)) > 1e-2, site


@pytest.mark.parametrize("layer", ["GRU", "LSTM"])
def test_a_recurrent_network_kills_every_wrong_answer(tmp_path: Path, layer: str) -> None:
    made = f"self.layers = nn.{layer}(12, 20, 2, batch_first=True)"
    found = probed(tmp_path, "self.layers(x)[0]", "torch.randn(3, 24, 12)", made)
    assert (found["survivors"], found["unresolved"]) == ([], [])
    assert found["killed"] >= 8


def test_a_state_that_is_drawn_at_random_may_as_well_be_zero(tmp_path: Path) -> None:
    """And nothing else may be left out of that network."""
    made = "self.layers = nn.LSTM(12, 20, 6, batch_first=True)"
    states = "(torch.randn(6, 3, 20), torch.randn(6, 3, 20))"
    found = probed(tmp_path, f"self.layers(x, {states})[0][:, -1]", "torch.randn(3, 32, 12)", made)
    assert found["survivors"] == []
    assert found["equivalent"] == ["lstm (operator 5), initial state ignored"]
    given = probed(tmp_path, "self.layers(x, (x[:, :6, :20].transpose(0, 1).contiguous(),) * 2)[0][:, -1]",
                   "torch.randn(3, 32, 20)", made.replace("12", "20"))  # fmt: skip
    assert (given["survivors"], given["equivalent"]) == ([], [])
