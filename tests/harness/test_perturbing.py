"""Parameters are perturbed as strongly as float32 allows, and never so little that one could be ignored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agent.harness.mutation import mutants, mutation_testing
from agent.harness.task import protocol
from agent.harness.truth import perturbation, scales, tolerance
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for _ in range(LAYERS):
            layers += [nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), ACTIVATION]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        for conv, norm, activation in zip(*[iter(self.layers)] * 3):
            x = activation(x + norm(conv(x)))
        return x


def get_inputs():
    return [torch.rand(2, 8, 6, 6)]


def get_init_inputs():
    return []
"""
CHAOTIC, TAME = "nn.ReLU6()", "nn.LeakyReLU(0.9)"
SEEDS = (3, 11)


def reference(folder: Path, layers: int, activation: str) -> Reference:
    source = folder / "reference.py"
    source.write_text(SOURCE.replace("LAYERS", str(layers)).replace("ACTIVATION", activation))
    return Reference(source, "cpu")


def drawn(made: Reference, seed: int) -> Draw:
    made.perturb(seed)
    draw = made.draw(seed + 1)
    assert draw is not None
    return draw


def test_full_strength_stays_where_float32_holds_or_layers_are_few(tmp_path: Path) -> None:
    few = reference(tmp_path, perturbation.DEEP - 1, CHAOTIC)
    tame = reference(tmp_path, perturbation.DEEP, TAME)
    for made in (few, tame):
        made.perturb(3)
        assert made.strength == made.least_strength == 1
        full = {name: tensor.clone() for name, tensor in made.constructed.items()}
        perturbation.perturb(full, 4, 1.0)
        assert all(torch.equal(tensor, full[name]) for name, tensor in made.state().items())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_deep_network_is_perturbed_less_until_float32_holds(tmp_path: Path, seed: int) -> None:
    made = reference(tmp_path, 32, CHAOTIC)
    draw = drawn(made, seed)
    assert perturbation.LEAST <= made.strength < 1
    assert draw.expected.native_share <= 10 * tolerance.UNSTABLE
    state = {name: tensor.clone() for name, tensor in made.state().items()}
    for other in (made, reference(tmp_path, 32, CHAOTIC)):
        other.perturb(seed + 1)
        other.perturb(seed)
        assert all(torch.equal(tensor, state[name]) for name, tensor in other.state().items())


Ignored = Callable[[Reference], dict[str, torch.Tensor]]


def _ones(ending: str, value: float) -> Ignored:
    return lambda made: {
        name: torch.full_like(tensor, value) if name.endswith(ending) else tensor
        for name, tensor in made.state().items()
    }


def _layer(number: int) -> Ignored:
    return lambda made: (
        made.state()
        | {
            name: made.constructed[name]
            for name in made.state()
            if name.startswith(f"layers.{3 * number + 1}.")
        }
    )


IGNORED: dict[str, Ignored] = {
    "all parameters": lambda made: dict(made.constructed),
    "every weight of a normalisation": lambda made: {
        name: torch.ones_like(t) if name.endswith("weight") and t.dim() == 1 else t
        for name, t in made.state().items()
    },
    "every bias": _ones("bias", 0.0),
    "every mean": _ones("running_mean", 0.0),
    "every variance": _ones("running_var", 1.0),
    "the first normalisation": _layer(0),
    "one normalisation in the middle": _layer(16),
    "the last normalisation": _layer(31),
}


@pytest.mark.parametrize("activation", [CHAOTIC, TAME])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_that_ignores_parameters_is_refused_even_at_the_least_strength(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, activation: str, seed: int
) -> None:
    monkeypatch.setattr(Reference, "_stable", lambda *_: False)
    made = reference(tmp_path, 32, activation)
    draw = drawn(made, seed)
    assert made.strength == perturbation.LEAST
    assert draw.expected.accepts([draw.expected.native])
    perturbed = {name: tensor.clone() for name, tensor in made.state().items()}
    for what, ignored in IGNORED.items():
        made.model.load_state_dict(ignored(made))
        with torch.no_grad():
            answer = made.model(*draw.inputs)
        assert not draw.expected.accepts([answer]), what
        made.model.load_state_dict(perturbed)


@pytest.mark.parametrize("activation", [CHAOTIC, TAME])
def test_an_answer_that_ignores_every_eps_is_refused_even_at_the_least_strength(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, activation: str
) -> None:
    monkeypatch.setattr(Reference, "_stable", lambda *_: False)
    made = reference(tmp_path, 32, activation)
    draw = drawn(made, 3)
    for layer in made.model.layers[1::3]:
        layer.eps = 0.0
    with torch.no_grad():
        assert not draw.expected.accepts([made.model(*draw.inputs)])


def _probed(folder: Path, activation: str) -> dict[str, Any]:
    return mutation_testing.probe(reference(folder, perturbation.DEEP, activation), 77)


@pytest.mark.timeout(1200)  # a whole admission of a deep network
@pytest.mark.parametrize("activation", [CHAOTIC, TAME])
def test_admission_tries_each_term_of_all_layers_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, activation: str
) -> None:
    monkeypatch.setattr(Reference, "_stable", lambda *_: False)
    found = _probed(tmp_path, activation)
    assert found["strength"] == perturbation.LEAST
    assert found["survivors"] == []
    left = (*found["unresolved"], *found["equivalent"])
    assert not any(name.startswith(mutants.EVERY) for name in left)


def test_admission_refuses_where_a_term_of_all_layers_could_be_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that no variance, no weight and no bias differs from that of a new layer by more than rounding.
    monkeypatch.setattr(Reference, "_stable", lambda *_: False)
    monkeypatch.setattr(perturbation, "LEAST", 2.0**-40)
    # Slices of other sizes, and limits by column, would show what the parameters hide.
    monkeypatch.setattr(protocol, "VARYING", ())
    monkeypatch.setattr(scales, "local", lambda *_: None)
    found = _probed(tmp_path, CHAOTIC)
    assert any(name.startswith(mutants.EVERY) for name in found["survivors"])


def test_a_verdict_names_a_perturbation_that_was_not_full() -> None:
    assert protocol.weakened(1.0) == ()
    (words,) = protocol.weakened(0.25)
    assert words.startswith("full perturbation of the parameters (1/4 of it)")


FACTORS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))
        self.weight = nn.Parameter(torch.linspace(-1, 1, 64))

    def forward(self, x):
        return x * FACTOR * self.weight


def get_inputs():
    return [torch.rand(4, 64)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("factor", "widens"), [("self.scale", True), ("self.scale.log()", False)])
def test_factors_have_other_signs_and_sizes_where_the_reference_takes_that(
    tmp_path: Path, factor: str, widens: bool
) -> None:
    source = tmp_path / "reference.py"
    source.write_text(FACTORS.replace("FACTOR", factor))
    made = Reference(source, "cpu")
    made.perturb(5)
    plain = {name: tensor.clone() for name, tensor in made.state().items()}
    made.perturb(5, wide=True)
    wide = made.state()
    assert torch.equal(wide["weight"], plain["weight"])
    assert torch.equal(wide["scale"], plain["scale"]) != widens
    if widens:
        assert 0.2 < float((wide["scale"] < 0).float().mean()) < 0.3
        assert float(wide["scale"].abs().max()) > 4
    made.perturb(6)
    made.perturb(5)
    assert torch.equal(made.state()["scale"], wide["scale"])
