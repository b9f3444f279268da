"""Pairs of transformers: an embedding and its norm, scores that are scaled and masked, and their softmax."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernels.fused_models import IDS, K, OfHeads, OfIds, Q, alike, counted_calls
from torch import nn

from agent.kernels import masked_softmax, replace_modules
from agent.kernels.fusing import embeddings, scores

pytestmark = pytest.mark.usefixtures("taken")


EMBEDDED: dict[str, tuple[Callable[..., Any], str]] = {
    "norm": (lambda m, ids: m.norm(m.table(ids)), "embedding + norm"),
    "rms": (lambda m, ids: m.rms(m.table(ids)), "embedding + norm"),
    "both results": (lambda m, ids: (h := m.table(ids), m.norm(h)), "embedding + norm"),
    "positions": (
        lambda m, ids: m.norm(m.table(ids) + m.places.weight[: ids.shape[1]]), "embedding + positions + norm"
    ),
    "another embedding": (
        lambda m, ids: m.rms(m.table(ids) + m.places(torch.arange(ids.shape[1], device=ids.device))),
        "embedding + positions + norm",
    ),
    "one row of positions, in the other order": (
        lambda m, ids: m.norm(m.places.weight[None, : ids.size(1)] + m.table(ids)),
        "embedding + positions + norm",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedding_and_its_norm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, pattern = EMBEDDED[name]
    model = OfIds(body)
    native = copy.deepcopy(model)
    done = replace_modules(model, IDS)
    assert [fusion.pattern for fusion in done.fused.values()] == [pattern]
    which = "embedding_rms_norm" if "rms" in name or "another" in name else "embedding_layer_norm"
    seen = counted_calls(monkeypatch, embeddings, which, getattr(embeddings, which))
    alike(model, native, IDS)
    alike(model, native, IDS[:, :3])
    assert len(seen) == 2
    done.restore()
    alike(model, native, IDS)
    assert len(seen) == 2


def test_positions_of_each_image_of_a_batch_stay() -> None:
    model = OfIds(lambda m, ids: m.norm(m.table(ids) + m.places(ids % 6)))
    done = replace_modules(model, IDS)
    assert done.fused == {}
    assert "what is added to the embedding has the shape (2, 5, 8)" in str(done)


def test_an_embedding_that_is_scaled_on_the_way_or_sparse_is_none() -> None:
    model = OfIds(lambda m, ids: m.norm(m.table(ids)))
    model.table = nn.Embedding(10, 8, max_norm=1.0)
    assert replace_modules(model, IDS).fused == {}
    model.table = nn.Embedding(10, 8, sparse=True)
    assert replace_modules(model, IDS).fused == {}


MASKED: dict[str, tuple[Callable[..., Any], str]] = {
    "filled": (
        lambda m, q, k: F.softmax((q @ k.mT * m.scale).masked_fill(m.ahead, -math.inf), dim=-1),
        "mask + softmax",
    ),
    "filled where it is 0": (
        lambda m, q, k: (
            (q @ k.transpose(-2, -1)) * m.scale
        ).masked_fill(m.below[: q.size(2), : q.size(2)] == 0, float("-inf")).softmax(-1),
        "mask + softmax",
    ),
    "filled otherwise": (
        lambda m, q, k: torch.softmax(torch.masked_fill(torch.matmul(q, k.mT), ~~m.ahead, -math.inf), -1),
        "mask + softmax",
    ),
    "added, learned, after a division": (
        lambda m, q, k: m.softmax(torch.matmul(q, k.mT) / math.sqrt(8) + m.near), "mask + softmax"
    ),
    "added in the other order": (
        lambda m, q, k: F.softmax(m.near + torch.einsum("bhid,bhjd->bhij", q, k), -1), "mask + softmax"
    ),
    "scaled": (lambda m, q, k: torch.softmax(m.scale * (q @ k.mT), dim=-1), "scale + softmax"),
    "divided": (lambda m, q, k: (q @ k.mT).div(2).softmax(dim=-1), "scale + softmax"),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
def test_scores_that_are_scaled_and_masked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, pattern = MASKED[name]
    model = OfHeads(body)
    native = copy.deepcopy(model)
    done = replace_modules(model, (Q, K))
    assert [fusion.pattern for fusion in done.fused.values()] == [pattern]
    seen = counted_calls(monkeypatch, scores, "masked_softmax", masked_softmax)
    alike(model, native, Q, K)
    scale = {"added in the other order": 1.0, "filled otherwise": 1.0, "divided": 0.5}.get(name, 8**-0.5)
    assert [options["scale"] for options in seen] == [pytest.approx(scale)]


def test_a_row_in_which_nothing_takes_part_is_zero() -> None:
    """The one value that differs from torch's, which is NaN there."""
    model = OfHeads(lambda m, q, k: torch.softmax((q @ k.mT).masked_fill(k[..., :1] > 5, -math.inf), -1))
    assert replace_modules(model, (Q, K)).fused
    assert model(Q, K + 9).count_nonzero() == 0


UNLIKE_SCORES: dict[str, Callable[..., Any]] = {
    "another dimension": lambda m, q, k: torch.softmax((q @ k.mT) * m.scale, 1),
    "a type": lambda m, q, k: torch.softmax((q @ k.mT) * m.scale, -1, dtype=torch.float64),
    "nothing but scores": lambda m, q, k: torch.softmax(q @ k.mT, -1),
    "not minus infinity": lambda m, q, k: (q @ k.mT).masked_fill(m.ahead, -1e4).softmax(-1),
    "nothing that is a score": lambda m, q, k: torch.softmax(q + k, -1),
}


@pytest.mark.parametrize("name", UNLIKE_SCORES)
def test_other_softmaxes_stay(name: str) -> None:
    model = OfHeads(UNLIKE_SCORES[name])
    wanted = model(Q, K)
    assert replace_modules(model, (Q, K)).fused == {}
    assert torch.equal(model(Q, K), wanted)


def test_a_mask_that_widens_the_scores_stays() -> None:
    model = OfHeads(lambda m, q, k: torch.softmax(q[:1] @ k[:1].mT + (q * k).sum(-1, keepdim=True), -1))
    done = replace_modules(model, (Q, K))
    assert done.fused == {}
    assert "its mask of (2, 3, 5, 1) does not broadcast to scores of (1, 3, 5, 5)" in str(done)
