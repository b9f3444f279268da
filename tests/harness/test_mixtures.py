"""Inputs whose slices come from several families, and inputs at thresholds."""

import pytest
import torch

from agent.harness.truth import mixtures
from agent.harness.truth.usage import FloatUse

PLAIN = FloatUse([], [], False, False, False)


def test_slices_come_from_different_families() -> None:
    x = torch.randn(64, 100, generator=torch.Generator().manual_seed(1))
    new = mixtures.derived(x, PLAIN, "mixed", 4)
    assert new is not None
    sizes = new.abs().amax(1)
    assert float(sizes.max() / sizes.min()) > 1e6
    assert bool((new == x).all(1).any())
    assert bool(torch.isfinite(new).all())


def test_large_values_stand_outside_a_sampled_prefix() -> None:
    x = torch.randn(64, 1000, generator=torch.Generator().manual_seed(1))
    new = mixtures.derived(x, PLAIN, "mixed", 4)
    assert new is not None
    same = (new[:, :250] == x[:, :250]).all(1)
    assert bool((new[same].abs().amax(1) > 20).any())


def test_rows_of_a_factor_keep_their_scale() -> None:
    x = torch.randn(64, 100, generator=torch.Generator().manual_seed(1))
    new = mixtures.derived(x, PLAIN._replace(is_multiplied=True), "mixed", 4)
    assert new is not None
    assert float(new.abs().max()) < 64
    assert not torch.equal(new, x)


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 5), (3, 0), (2, 3, 4)])
@pytest.mark.parametrize("name", list(mixtures.REACHES))
def test_any_shape_can_be_mixed(shape: tuple[int, ...], name: str) -> None:
    x = torch.ones(shape)
    if x.numel():
        new = mixtures.derived(x, PLAIN, name, 4)
        assert new is not None
        assert new.shape == x.shape


def test_thresholds_are_met_exactly_and_on_either_side() -> None:
    x = torch.randn(50, 100, generator=torch.Generator().manual_seed(1))
    use = PLAIN._replace(exact=[torch.tensor([0.5, 0.1], dtype=torch.float64)])
    new = mixtures.derived(x, use, "edges", 2)
    assert new is not None
    assert bool((new == 0.5).any())
    assert bool(((new > 0.5) & (new < 0.500001)).any())
    assert bool(((new < 0.5) & (new > 0.499999)).any())
    # 0.1 is none of float32's numbers, so its nearest one lies on another side in float64.
    assert not bool((new == torch.tensor(0.1)).any())
    assert mixtures.derived(x, PLAIN, "edges", 2) is None


def test_non_finite_values_come_where_the_reference_handles_them() -> None:
    x = torch.randn(50, 100)
    use = PLAIN._replace(takes_non_finite=True)
    new = mixtures.derived(x, use, "edges", 2)
    assert new is not None
    assert bool(new.isnan().any()) and bool((new == torch.inf).any())  # noqa: PT018
    assert mixtures.derived(x, use, "finite edges", 2) is None
