"""The plan of draws holds what the protocol promises, and says what it leaves out."""

from functools import partial
from pathlib import Path

import pytest
import torch

from agent.harness.task import protocol
from agent.harness.truth import discrete, input_distributions, mixtures
from agent.harness.truth.reference import Reference


def test_the_full_plan_has_five_stated_draws_every_family_and_one_repeat() -> None:
    first, second = protocol.plan("full")
    draws = [*first, *second]
    assert sum(draw.family is None and not draw.repeat for draw in draws) == 5
    assert {draw.family for draw in draws} == {None, protocol.NEAR, *protocol.FAMILIES, *protocol.VARYING}
    assert [draw.repeat for draw in draws].count(True) == 1
    assert [draw.checked for draw in first] == [True] + [False] * (len(first) - 1)
    assert [draw.checked for draw in second] == [True] + [False] * (len(second) - 1)
    assert protocol.skipped("full") == ()


def test_memory_is_checked_at_one_more_place_that_any_draw_but_the_repeated_one_may_be() -> None:
    plan = protocol.plan("full")
    unchecked = [draw for draws in plan for draw in draws if not draw.checked]
    seen = set()
    for number in range(len(unchecked) - 1):
        hidden = protocol.with_secret_check(plan, partial(min, number))
        places = [(n, m) for n, draws in enumerate(hidden) for m, draw in enumerate(draws) if draw.checked]
        assert len(places) == 3
        assert {(0, 0), (1, 0)} < set(places)
        assert [hidden[n][m].secret for n, m in places].count(True) == 1
        assert not hidden[0][0].secret
        assert not hidden[1][0].secret
        assert [[d._replace(checked=False, secret=False) for d in s] for s in hidden] == [
            [d._replace(checked=False, secret=False) for d in s] for s in plan
        ]
        assert not any(draw.repeat and draw.checked for draws in hidden for draw in draws)
        seen |= set(places)
    assert len(seen) == len(unchecked) - 1 + 2
    assert protocol.with_secret_check(protocol.plan("quick"), lambda below: 0) == protocol.plan("quick")


def test_a_check_that_is_owed_is_made_in_secret() -> None:
    planned, other = protocol.Draw(checked=True), protocol.Draw("shifted")
    assert protocol.checking(planned, True) == planned
    assert protocol.checking(other, False) == other
    assert protocol.checking(other, True) == other._replace(checked=True, secret=True)
    assert protocol.checking(other._replace(checked=True, secret=True), True).secret


def test_tightened_families_join() -> None:
    draws = [draw.family for group in protocol.plan("full", ("negated", "even")) for draw in group]
    assert "negated" in draws
    assert "even" in draws


@pytest.mark.parametrize(("name", "stated"), [("quick", 3), ("reduced", 2)])
def test_what_is_left_out_is_named(name: protocol.Name, stated: int) -> None:
    draws = [draw for group in protocol.plan(name) for draw in group]
    assert sum(draw.family is None and not draw.repeat for draw in draws) >= stated
    (words,) = protocol.skipped(name)
    for family in (*protocol.FAMILIES, *protocol.VARYING):
        assert (family in words) != (family in {draw.family for draw in draws})


def test_costly_calls_are_fewer_and_keep_what_the_problem_needs() -> None:
    first, second = protocol.plan("reduced", ("negated", "even"))
    draws = [draw.family for draw in (*first, *second)]
    assert len(draws) <= len([draw for group in protocol.plan("full") for draw in group]) // 2 + 2
    assert {None, protocol.NEAR, *protocol.REDUCED, "negated", "even"} == set(draws)
    assert first[0].checked
    assert second[0].checked


def test_every_family_of_the_protocol_is_made_and_has_words() -> None:
    names = {*protocol.FAMILIES, *protocol.TIGHTENING, protocol.NEAR}
    assert names | set(protocol.VARYING) == set(protocol.WORDS)
    milder = {name for chain in input_distributions.MILDER.values() for name in chain}
    known = {*input_distributions.FAMILIES, *discrete.VARIANTS, *mixtures.REACHES, *mixtures.EDGED}
    assert names | set(protocol.VARYING) | milder == known


def test_families_change_floats_and_nothing_else() -> None:
    x = torch.randn(16, 40, generator=torch.Generator().manual_seed(2))
    x[3, 3] = float("-inf")
    index = torch.arange(40)
    for family in input_distributions.FAMILIES:
        changed = input_distributions.derived(family, [x, {"index": index}, 3], seed=5)
        assert changed is not None
        assert not torch.equal(changed[0], x), family
        assert changed[0][3, 3] == float("-inf")
        assert torch.equal(changed[1]["index"], index)
        assert changed[2] == 3
    assert input_distributions.derived("scaled", [index, 3], seed=5) is None


def test_what_families_are_for() -> None:
    x = torch.rand(64, 64, generator=torch.Generator().manual_seed(2))
    (sparse,), (tied,) = (input_distributions.derived(name, [x], seed=1) or [] for name in ("sparse", "tied"))
    assert 0.8 < float((sparse == 0).float().mean()) < 0.99
    assert not bool(sparse[0].any())
    assert tied.unique().numel() < 12
    (near,) = input_distributions.derived("near", [x], seed=1) or []
    assert 1 <= int((near != x).sum()) <= 8


@pytest.mark.parametrize("size", [1e-12, 1.0, 700.0])
def test_vast_inputs_overflow_an_exponential_whatever_is_stated(size: float) -> None:
    x = torch.rand(16, 16, generator=torch.Generator().manual_seed(3)) * size
    (vast,) = input_distributions.derived("vast", [x], seed=1) or []
    assert float(vast.max()) >= 1024
    assert bool((vast / x >= 1024).all())
    (nothing,) = input_distributions.derived("vast", [torch.zeros(4)], seed=1) or []
    assert torch.equal(nothing, torch.zeros(4))


def test_no_family_makes_infinities() -> None:
    x = torch.randn(16, 16, generator=torch.Generator().manual_seed(3)).half() * 1000
    for family in input_distributions.FAMILIES:
        (changed,) = input_distributions.derived(family, [x], seed=1) or []
        assert bool(torch.isfinite(changed).all()), family


def test_every_plan_but_the_quick_one_has_vast_inputs() -> None:
    for name in ("full", "reduced", "further"):
        assert "vast" in {draw.family for draws in protocol.plan(name) for draw in draws}, name
    assert "minute" in {draw.family for draws in protocol.plan("full") for draw in draws}


def test_special_numbers_stand_among_sparse_inputs_of_their_signs_and_sizes() -> None:
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(3))
    (sparse,) = input_distributions.derived("sparse", [x], seed=1) or []
    for number in (1.0, -1.0):
        assert bool((sparse == number).any())
    assert bool(((sparse != 0) & (sparse.abs() < 1e-30)).any())
    assert not sparse[0].any()
    (small,) = input_distributions.derived("sparse", [x.abs() / 100], seed=1) or []
    assert float(small.max()) < 1
    assert float(small.min()) == 0
    (half,) = input_distributions.derived("sparse", [x.half()], seed=1) or []
    assert bool(torch.isfinite(half).all())


def test_a_reference_that_takes_no_vast_inputs_gets_large_ones(tmp_path: Path) -> None:
    source = tmp_path / "reference.py"
    source.write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return torch.where(x.abs() > 1e4, torch.inf, x)\n"
        "def get_inputs():\n    return [torch.rand(8, 8)]\ndef get_init_inputs():\n    return []\n"
    )
    made = Reference(source, "cpu")
    made.perturb(1)
    draw = made.draw(2, "vast")
    assert draw is not None
    assert draw.expected.obstacle() is None
    assert 500 < float(draw.inputs[0].max()) < 1e4
