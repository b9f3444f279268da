"""Further runs of a reference in which every choice among equal elements is made one way: first or last.

torch leaves open which of equal elements `topk`, a sort that is not stable, `kthvalue`, `median`, `nanmedian`
and `mode` pick. `argmax`, `argmin`, `max` and `min` over a dimension are documented to return the first of
equal elements and stay unchanged. Results that differ between the two runs are not determined by the
reference.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis.tape import bound

_SINGLE = {"aten::kthvalue", "aten::median", "aten::nanmedian", "aten::mode"}
_SEVERAL = {"aten::topk", "aten::sort", "aten::argsort"}


def is_open(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if torch leaves open which of equal elements the call picks."""
    name = func._schema.name
    if name not in _SINGLE | _SEVERAL or "out" in kwargs or not args or args[0].dim() == 0:
        return False
    given = bound(func, args, kwargs)
    # The median over all elements, without `dim`, returns a value and no index.
    return "dim" in given if name in _SINGLE else not given.get("stable")


class Chosen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that picks the first of equal elements, or the last."""

    def __init__(self, last: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._last = last

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not is_open(func, args, kwargs or {}):
            return func(*args, **kwargs or {})
        given = bound(func, args, kwargs or {})
        if func._schema.name in _SINGLE:
            values, indices = func(*args, **kwargs or {})
            return values, self._place_of(args[0], values, given["dim"], indices.dim() == args[0].dim())
        name, x, dim = func._schema.name, args[0], given.get("dim", -1)
        descending = given["largest"] if name == "aten::topk" else given.get("descending", False)
        order = self._order(x, dim, bool(descending))
        if name == "aten::argsort":
            return order
        order = order.narrow(dim, 0, given["k"]) if name == "aten::topk" else order
        return x.gather(dim, order), order

    def _order(self, x: torch.Tensor, dim: int, descending: bool) -> torch.Tensor:
        order = self._turned(x, dim).sort(dim=dim, descending=descending, stable=True).indices
        return x.shape[dim] - 1 - order if self._last else order

    def _place_of(self, x: torch.Tensor, value: torch.Tensor, dim: int, kept: bool) -> torch.Tensor:
        wanted = value if kept else value.unsqueeze(dim)
        same = (x == wanted) | ((x != x) & (wanted != wanted))
        place = self._turned(same, dim).int().argmax(dim, keepdim=kept)
        return x.shape[dim] - 1 - place if self._last else place

    def _turned(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        return x.flip(dim) if self._last else x


def chosen_both_ways(run: Callable[[], Any]) -> tuple[Any, Any]:
    """Return two results of `run`: with the first and with the last of equal elements picked."""
    with Chosen(last=False):
        first = run()
    with Chosen(last=True):
        return first, run()
