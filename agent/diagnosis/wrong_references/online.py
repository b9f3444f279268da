"""Faults of online softmax: earlier sums are not rescaled to the new maximum.

A softmax computed tile by tile, or by lanes and parts joined at the end, keeps its sums relative to the
maximum known so far. The sum of the weights, the weighted values, or both may lack the rescaling.
"""

from collections.abc import Callable, Iterator

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
KIND = "rescale-missing"
_TOKENS = "exp|max"
Known = Callable[[Tensor], Tensor]
"""Function of rows that returns the maximum used for each element's weight."""


def _running(tile: int) -> Known:
    def run(r: Tensor) -> Tensor:
        size = r.shape[-1]
        ends = (torch.arange(size, device=r.device) // tile * tile + tile - 1).clamp_max(size - 1)
        return r.cummax(-1)[0][..., ends]

    return run


def _of_part(part_of: Tensor) -> Known:
    def run(r: Tensor) -> Tensor:
        parts = int(part_of.max()) + 1
        index = part_of.to(r.device).expand(r.shape)
        largest = r.new_full((*r.shape[:-1], parts), -torch.inf)
        return largest.scatter_reduce(-1, index, r, "amax").gather(-1, index)

    return run


def _known(count: int, site: Site) -> Iterator[tuple[str, Known]]:
    """Yield the stale maxima of the sums: of the tiles so far, or of the element's own lane or part."""
    blocks = [block for block in site.facts.blocks() if block < count]
    yield "after each element", _running(1)
    for block in blocks:
        yield f"after each tile (block) of {block}", _running(block)
    place = torch.arange(count)
    for block in blocks:
        yield f"where {block} lanes (threads) that go in turn are combined", _of_part(place % block)
        yield f"where parts of {block} neighbours are combined", _of_part(place // block)
        yield f"where {block} parts are combined", _of_part(place // -(-count // block))


_SAID = {
    "both": "the sum and the weighted values",
    "values": "the weighted values",
    "sum": "the sum of the weights",
}


def _first(one: Tensor, other: Tensor) -> Tensor:
    return torch.where(torch.isnan(other), other, one)


@rule("logaddexp", "logaddexp2")
def _one_of_two(site: Site) -> Iterator[Variant]:
    """Yield variants with one summand, the maximum or the plain sum in place of a logaddexp."""
    forms: tuple[tuple[str, str, Callable[[Tensor, Tensor], Tensor]], ...] = (
        ("operator-missing", "with the first summand of {} alone: the other one is left out", _first),
        ("operator-missing", "with the second (last) summand of {} alone: the other one is left out",
         lambda a, b: _first(b, a)),
        ("wrong-combine", "with the larger one (maximum) for {}", torch.maximum),
        ("wrong-combine", "with a plain sum for {}", torch.add),
    )  # fmt: skip
    for kind, words, change in forms:
        run = lambda given, f=change: f(given["self"], given["other"])  # noqa: E731
        yield site.variant(kind, words.format(site.label), run, 1, "log|exp")


@rule("_softmax", "_safe_softmax", late=True)
def _not_rescaled(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    if not x.dim() or x.shape[dim] < 2:
        return
    for when, known in _known(x.shape[dim], site):
        for which, said in _SAID.items():

            def run(given: Arguments, known: Known = known, which: str = which) -> Tensor:
                r = given["self"].movedim(dim, -1)
                largest = r.amax(-1, keepdim=True)
                right = (r - largest).exp()
                stale = (r - known(r)).exp().nan_to_num(0.0)
                above, below = (right if which == "sum" else stale), (right if which == "values" else stale)
                return torch.as_tensor(above / below.sum(-1, keepdim=True)).movedim(-1, dim)

            words = f"with {said} of {site.label} not rescaled to the new maximum {when}"
            yield site.variant(KIND, words, run, 4, _TOKENS)


@rule("logsumexp", "_log_softmax", late=True)
def _sum_not_rescaled(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    dim = dim[0] if isinstance(dim, (list, tuple)) and len(dim) == 1 else dim
    if not isinstance(dim, int) or not x.dim() or x.shape[dim] < 2:
        return
    for when, known in _known(x.shape[dim], site):

        def run(given: Arguments, known: Known = known) -> Tensor:
            r = given["self"].movedim(dim, -1)
            largest = r.amax(-1, keepdim=True)
            made = largest + (r - known(r)).exp().nan_to_num(0.0).sum(-1, keepdim=True).log()
            made = torch.as_tensor(r - made if site.call.name == "_log_softmax" else made)
            return made.movedim(-1, dim) if given.get("keepdim", True) else made.squeeze(-1)

        words = f"with the sum of {site.label} not rescaled to the new maximum {when}"
        yield site.variant(KIND, words, run, 4, _TOKENS)


@rule("exp", late=True)
def _written_out(site: Site) -> Iterator[Variant]:
    """Yield variants of a written-out softmax without a rescale, for one or all users of the exponentials."""
    moved = site.tape.maker(site.given["self"])
    below = site.tape.maker(moved.given.get("other")) if moved is not None and moved.name == "sub" else None
    if moved is None or below is None or below.name not in ("amax", "max", "maximum"):
        return
    x = moved.given["self"]
    dim = below.given.get("dim")
    dim = dim[0] if isinstance(dim, (list, tuple)) and len(dim) == 1 else dim
    if not isinstance(dim, int) or not isinstance(x, Tensor) or x.shape[dim] < 2:
        return
    users = [call for call in site.tape.users(site.call) if not call.written]
    for when, known in _known(x.shape[dim], site):

        def stale(result: Tensor, known: Known = known) -> Tensor:
            largest = x.amax(dim, keepdim=True)
            return result * (largest - known(x.movedim(dim, -1)).movedim(-1, dim)).exp().nan_to_num(0.0)

        words = f"with the sums of {site.label} not rescaled to the new maximum {when}"
        yield site.variant(KIND, words, site.around(stale), 4, _TOKENS)
        for user in users if len(users) > 1 else []:
            keys = [name for name, given in user.given.items() if given is site.call.result]
            if len(keys) == 1:
                label = Site(user, site.tape, site.facts).label
                changed = Site(user, site.tape, site.facts).changed(**{keys[0]: stale})
                said = f"with what {site.label} gives {label} not rescaled to the new maximum {when}"
                yield Variant(KIND, said, {user.number: changed}, 4, _TOKENS)
