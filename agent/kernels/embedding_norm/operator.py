"""Embedding with LayerNorm or RMSNorm: operator `kernelwright::embedding_norm_forward`.

The norm's backward is that of add_layer_norm and add_rms_norm. For the table's gradient torch sorts long
lists of ids, so that one warp or block adds the rows of an entry in their order.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.add_rows import AddRows, Grads
from agent.kernels.operators import Direction, Gradient, Gradients, Operator, Tensors, address, stream
from agent.kernels.rows import Parameters, Rows

KERNEL = "embedding_norm"
ENVELOPE = (
    "a table [entries, features] of at most 8192 features, below 2^31 entries; int64 numbers of any shape",
    "positions [places, features] that are added, for numbers [*, places]; or none",
    "weight and bias in the table's dtype or float32, each optional; not in half precision under autocast",
    "both results: the norm and the embedding; a number that is no entry makes NaN",
    "the table's gradient by float32 sums, in the same order on every run",
)
MAX_FEATURES = 8192
MOST_ENTRIES = 2**31 - 2
FORWARD = "16qd2q"
TABLE = "12q"
"""Struct format of `TableBackward` in csrc/table.cuh."""
MOST_UNSORTED, MOST_DEALT = 2**14, 2**25
"""Maximum rows and entries for which csrc/table_unsorted.cuh takes the ids unsorted."""
NO_PADDING = -1
_SUMS = {
    True: AddRows("add_layer_norm", Rows("layer_norm", centred=True)),
    False: AddRows("add_rms_norm", Rows("rms_norm", centred=False)),
}
"""Kernels that provide the norm's backward: for LayerNorm (True) and RMSNorm (False)."""


def embedding_layer_norm(
    ids: torch.Tensor, table: torch.Tensor, weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, eps: float = 1e-5, *, positions: torch.Tensor | None = None,
    padding_idx: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return (LayerNorm(e), e) for e = F.embedding(ids, table, padding_idx) + positions, over the features.

    ids are [*, places], positions [places, features]. The norm sees e rounded to its dtype. Falls back to
    torch and records why if the kernel does not support the call. Raises whatever torch raises for sizes that
    do not fit.
    """
    parameters = Parameters(weight, bias)
    return _embedded(ids, (table, positions), parameters, eps, padding_idx, centred=True)


def embedding_rms_norm(
    ids: torch.Tensor, table: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None, *,
    positions: torch.Tensor | None = None, padding_idx: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return (RMSNorm(e), e), with e, arguments and errors as in `embedding_layer_norm`."""
    exact = torch.finfo(table.dtype).eps if eps is None else eps
    return _embedded(ids, (table, positions), Parameters(weight), exact, padding_idx, centred=False)


def _embedded(
    ids: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor | None], parameters: Parameters, eps: float,
    padding_idx: int | None, centred: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    table, positions = tables
    if not _fits(ids, table, positions, parameters) or not _takes(ids, table, positions, parameters):
        return in_torch(ids, tables, parameters, eps, padding_idx, centred)
    padding = NO_PADDING if padding_idx is None else padding_idx % table.shape[0]
    y, embedded = _OPERATOR.several(table, ids, positions, *parameters, centred, eps, padding)
    return y, embedded


def in_torch(
    ids: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor | None], parameters: Parameters, eps: float,
    padding_idx: int | None, centred: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the norm and the embedding, computed in torch's operators."""
    table, positions = tables
    embedded = F.embedding(ids, table, padding_idx)
    if positions is not None:
        embedded = embedded + positions
    shape = table.shape[1:]
    if centred:
        return F.layer_norm(embedded, shape, *parameters, eps), embedded
    return F.rms_norm(embedded, shape, parameters.weight, eps), embedded


def _fits(
    ids: torch.Tensor, table: torch.Tensor, positions: torch.Tensor | None, parameters: Parameters
) -> bool:
    """Return True if torch accepts these shapes without broadcasting and the result is not empty."""
    if table.dim() != 2 or ids.dim() == 0 or ids.numel() == 0 or table.numel() == 0:
        return False
    features = table.shape[1:]
    for one in parameters:
        if one is not None and one.shape != features:
            return False
    return positions is None or positions.shape == (ids.shape[-1], table.shape[1])


def _takes(
    ids: torch.Tensor, table: torch.Tensor, positions: torch.Tensor | None, parameters: Parameters
) -> bool:
    if routing.is_disabled():
        return False
    reason = None
    if ids.dtype != torch.int64 or ids.device != table.device:
        reason = "the numbers are not int64 on the device of the table"
    elif table.shape[1] > MAX_FEATURES:
        reason = f"there are more than {MAX_FEATURES} features"
    elif table.shape[0] > MOST_ENTRIES:
        reason = f"there are more than {MOST_ENTRIES} entries"
    elif positions is not None and (positions.dtype != table.dtype or positions.device != table.device):
        reason = "the positions have another dtype or device than the table"
    elif routing.widened(table) is not table:
        reason = "autocast may want a norm in float32 of an embedding in half precision"
    if reason is not None:
        routing.fall_back(KERNEL, reason)
    return reason is None and routing.takes(KERNEL, table, *parameters)


def _launch(
    table: torch.Tensor, ids: torch.Tensor, positions: torch.Tensor | None, weight: torch.Tensor | None,
    bias: torch.Tensor | None, centred: bool, eps: float, padding: int, statistics: bool = True,
) -> Tensors:  # fmt: skip
    table, ids = table.contiguous(), ids.contiguous()
    beside = None if positions is None else positions.contiguous()
    parameters = Parameters(weight, bias).contiguous()
    y, embedded, mean, rstd = _shapes(table, ids, positions, weight, bias, centred, eps, padding)
    kept = (mean if centred else None, rstd) if statistics else (None, None)
    device = table.device.index
    routing.library(KERNEL, device).launch(
        "forward", FORWARD,
        ids.data_ptr(), table.data_ptr(), address(beside), *map(address, parameters), y.data_ptr(),
        embedded.data_ptr(), *map(address, kept), ids.numel(), table.shape[1], len(table), ids.shape[-1],
        centred, routing.DTYPES[table.dtype], routing.DTYPES[parameters.dtype or table.dtype], eps,
        stream(table), device,
    )  # fmt: skip
    return (y, embedded, mean, rstd)


def _compute(
    table: torch.Tensor, ids: torch.Tensor, positions: torch.Tensor | None, weight: torch.Tensor | None,
    bias: torch.Tensor | None, centred: bool, eps: float, padding: int, statistics: bool = True,
) -> Tensors:  # fmt: skip
    embedded = F.embedding(ids, table)
    if positions is not None:
        embedded = embedded + positions
    y, *stats = _SUMS[centred].rows.compute_forward(embedded, Parameters(weight, bias), 1, eps)
    return (y, embedded.contiguous(), *([stats[0]] if centred else [table.new_empty(0)]), stats[-1])


def _launch_table(dx: torch.Tensor, ids: torch.Tensor, entries: int, padding: int) -> torch.Tensor:
    """Return the table's gradient from a contiguous dx [*, features]. Ids outside the table are ignored."""
    unsorted = in_order = order = None
    if ids.numel() <= MOST_UNSORTED and entries <= MOST_DEALT:
        unsorted = ids.contiguous()
    else:
        # The sort takes one pass per byte of its keys.
        keys = ids.reshape(-1).clamp(-1, entries).to(torch.int16 if entries < 2**15 else torch.int32)
        in_order, order = keys.sort(stable=True)
        in_order = in_order.int()
    made = dx.new_empty(entries, dx.shape[-1])
    device = dx.device.index
    routing.library(KERNEL, device).launch(
        "table_backward", TABLE,
        dx.data_ptr(), *map(address, (unsorted, in_order, order)), made.data_ptr(), ids.numel(), dx.shape[-1],
        entries, padding, routing.DTYPES[dx.dtype], stream(dx), device,
    )  # fmt: skip
    return made


def _compute_table(dx: torch.Tensor, ids: torch.Tensor, entries: int, padding: int) -> torch.Tensor:
    made: torch.Tensor = torch.ops.aten.embedding_dense_backward(dx, ids, entries, padding, False)
    return made


def _backward_by(launched: bool) -> Any:
    """Return the backward for the norm's and the embedding's gradients, on CUDA if `launched`, else on the
    CPU.
    """

    def backward(
        grad: torch.Tensor, of_embedded: torch.Tensor | None, embedded: torch.Tensor, ids: torch.Tensor,
        weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor, rstd: torch.Tensor,
        entries: int, padding: int, centred: bool, wanted: Sequence[bool],
    ) -> Gradients:  # fmt: skip
        sums = _SUMS[centred]
        computed = sums.launch_backward if launched else sums.compute_backward
        rows = [wanted[0] or wanted[1], *wanted[2:]]
        stats = (mean, rstd) if centred else (rstd,)
        dx, *others = computed(Grads(grad, of_embedded), embedded, Parameters(weight, bias), stats, rows)
        empty = embedded.new_empty(0)
        of_table = of_positions = empty
        if wanted[0] and dx is not None:
            scattered = _launch_table if launched else _compute_table
            of_table = scattered(dx, ids, entries, padding)
        if wanted[1] and dx is not None:
            of_positions = dx.reshape(-1, *dx.shape[-2:]).sum(0)
        return (of_table, of_positions, *others)

    return backward


def _shapes(
    table: torch.Tensor,
    ids: torch.Tensor,
    positions: Any,
    weight: Any,
    bias: Any,
    centred: bool,
    *others: Any,
) -> Tensors:
    """Return uninitialised tensors for the norm, the embedding and the statistics."""
    exact = torch.float64 if table.dtype == torch.float64 else torch.float32
    shape = (*ids.shape, table.shape[1])
    mean = table.new_empty(ids.shape if centred else 0, dtype=exact)
    return (
        table.new_empty(shape), table.new_empty(shape), mean, table.new_empty(ids.shape, dtype=exact)
    )  # fmt: skip


def _backward_shapes(
    grad: Any, of_embedded: Any, embedded: torch.Tensor, ids: Any, weight: torch.Tensor | None,
    bias: torch.Tensor | None, mean: Any, rstd: Any, entries: int, padding: int, centred: bool,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    places, features = embedded.shape[-2:]
    shapes = ((entries, features), (places, features))
    made = [embedded.new_empty(shape if want else 0) for shape, want in zip(shapes, wanted, strict=False)]
    for one, want in zip((weight, bias), wanted[2:], strict=True):
        made.append(torch.empty_like(one) if one is not None and want else embedded.new_empty(0))
    return tuple(made)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    table, ids, _, weight, bias = inputs[:5]
    return (results[1], ids, weight, bias, *results[2:], table.new_empty(1).expand(table.shape))


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grads: Sequence[Any]
) -> Sequence[Any]:
    *kept, shape = saved
    embedded, ids, weight, bias, mean, rstd = kept
    centred, _, padding = settings[5:]
    of_norm, of_embedded = grads
    of_norm = torch.zeros_like(embedded) if of_norm is None else of_norm
    wanted = [needed[0], *needed[2:5]]
    entries = shape.shape[0]
    made = _OPERATOR.backward(
        of_norm, of_embedded, embedded, ids, weight, bias, mean, rstd, entries, padding, centred, wanted
    )
    given = [one if want else None for one, want in zip(made, wanted, strict=True)]
    return (given[0], None, *given[1:], None, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor table, Tensor ids, Tensor? positions, Tensor? weight, Tensor? bias, bool centred, float eps,"
        " int padding) -> (Tensor, Tensor, Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor? of_embedded, Tensor embedded, Tensor ids, Tensor? weight, Tensor? bias,"
        " Tensor mean, Tensor rstd, SymInt entries, int padding, bool centred, bool[] wanted)"
        " -> (Tensor, Tensor, Tensor, Tensor)",
        cpu=_backward_by(launched=False), cuda=_backward_by(launched=True), fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
    values=2,
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
