"""Preconditions on operand values that torch checks on a CPU but a GPU asserts in a kernel or ignores.

A failed assertion in a kernel ends the CUDA context of the whole process. A wrong reference may compute any
value, so every run in search of a cause takes place under `checked`. It tests the operands of these operators
before they run, and raises Unmet where a CPU would raise. The table is keyed by operator, so it covers every
caller: a rule, a mutation, the reference's own code or a composite function of torch.

Only values are tested here. Torch checks shapes and types on the host for every device.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis.graph import Arguments
from agent.diagnosis.tape import bound, operator_name

Tensor = torch.Tensor
Check = Callable[[Arguments], None]


class Unmet(RuntimeError):
    """Raised when an operand holds a value that the operator does not accept."""


def _within(values: Any, low: float, high: float, name: str) -> None:
    """Raise Unmet unless `low` <= each value <= `high`; NaN fails the test."""
    if not isinstance(values, Tensor) or not values.numel() or values.is_meta:
        return
    if values.dtype is torch.bool:
        least, most = torch.stack(torch.aminmax(values.to(torch.uint8))).tolist()
    else:
        least, most = torch.stack(torch.aminmax(values.detach())).tolist()
    if not (low <= least and most <= high):
        raise Unmet(f"{name} has values from {least} to {most}, not within {low} to {high}")


def _true(condition: Tensor, said: str) -> None:
    """Raise Unmet unless the condition holds everywhere."""
    if not bool(condition.all()):
        raise Unmet(said)


def _extent(tensor: Tensor, dim: int) -> int:
    return int(tensor.shape[dim]) if tensor.dim() else 1


def _along_dim(given: Arguments) -> None:
    """Test `index` against the size of dimension `dim` of `self`; negative indices are not accepted."""
    _within(given["index"], 0, _extent(given["self"], given["dim"]) - 1, "index")


def _along_dim_from_the_end(given: Arguments) -> None:
    """Test `index` against dimension `dim`, where negative indices count from its end."""
    size = _extent(given["self"], given["dim"])
    _within(given["index"], -size, size - 1, "index")


def _flat(given: Arguments) -> None:
    """Test `index` against all elements of `self`."""
    size = given["self"].numel()
    _within(given["index"], -size, size - 1, "index")


def _by_dims(given: Arguments) -> None:
    """Test each of `indices` against its dimension; a mask covers as many dimensions as it has."""
    shape, at = given["self"].shape, 0
    for index in given["indices"]:
        if index is None:
            at += 1
        elif index.dtype in (torch.bool, torch.uint8):
            at += index.dim()
        elif at < len(shape):
            _within(index, -shape[at], shape[at] - 1, "indices")
            at += 1


def _rows(given: Arguments) -> None:
    table = given["weight"] if "weight" in given else given["self"]
    _within(given["indices"], 0, _extent(table, 0) - 1, "indices")


def _rows_backward(given: Arguments) -> None:
    _within(given["indices"], 0, given["num_weights"] - 1, "indices")


def _ascending(offsets: Any, size: int, name: str) -> None:
    """Test that offsets lie within 0 and `size` and never decrease."""
    if isinstance(offsets, Tensor) and offsets.numel():
        _within(offsets, 0, size, name)
        _true(offsets.diff() >= 0, f"{name} go back")


def _bags(given: Arguments) -> None:
    _rows(given)
    _ascending(given["offsets"], given["indices"].numel(), "offsets")


def _classes(given: Arguments) -> None:
    """Test the classes of a negative log likelihood; `ignore_index` may be any number."""
    target, x, ignored = given["target"], given["self"], given.get("ignore_index", -100)
    count = _extent(x, 0 if x.dim() == 1 else 1)
    if isinstance(target, Tensor) and not 0 <= ignored < count:
        target = target.masked_fill(target == ignored, 0)
    _within(target, 0, count - 1, "target")


def _margin_classes(given: Arguments) -> None:
    _within(given["target"], 0, _extent(given["self"], -1) - 1, "target")


def _label_lists(given: Arguments) -> None:
    """Test lists of labels that end with -1."""
    _within(given["target"], -1, _extent(given["self"], -1) - 1, "target")


def _labels_of_sequences(given: Arguments) -> None:
    """Test the labels of connectionist temporal classification; padding of a target may be any number."""
    scores, targets = given["log_probs"], given["targets"]
    lengths = torch.as_tensor(given["target_lengths"], device=targets.device)
    steps = torch.as_tensor(given["input_lengths"])
    _within(steps, 0, scores.shape[0], "input_lengths")
    if targets.dim() == 2:
        _within(lengths, 0, targets.shape[1], "target_lengths")
        places = torch.arange(targets.shape[1], device=targets.device)
        targets = targets.masked_fill(places >= lengths.reshape(-1, 1), 0)
    else:
        _within(lengths, 0, targets.numel(), "target_lengths")
        _within(lengths.sum(), 0, targets.numel(), "the sum of target_lengths")
    _within(targets, 0, scores.shape[-1] - 1, "targets")


def _unpooled(given: Arguments) -> None:
    _within(given["indices"], 0, math.prod(given["output_size"]) - 1, "indices")


def _samples(given: Arguments) -> None:
    _within(given["random_samples"], 0, 1, "random_samples")


def _repeated(given: Arguments) -> None:
    repeats, size = given["repeats"], given.get("output_size")
    if isinstance(repeats, Tensor):
        _within(repeats, 0, math.inf, "repeats")
        if size is not None:
            _within(repeats.sum(), size, size, "the sum of repeats")


def _as_many_as_masked(given: Arguments) -> None:
    mask = given["mask"].logical_and(given["mask"].new_ones(()).expand(given["self"].shape))
    _within(mask.sum(), 0, given["source"].numel(), "the number of masked elements")


def _probabilities(given: Arguments) -> None:
    if isinstance(given.get("p"), Tensor) or "p" not in given:
        _within(given.get("p", given["self"]), 0, 1, "a probability")


def _weights_of_choices(given: Arguments) -> None:
    weights = given["self"]
    _within(weights, 0, torch.finfo(weights.dtype).max, "a weight")
    _true(weights.sum(-1) > 0, "weights that are all zero")


def _rates(given: Arguments) -> None:
    _within(given["self"], 0, math.inf, "a rate")


def _cross_entropy(given: Arguments) -> None:
    _within(given["self"], 0, 1, "a probability")
    _within(given["target"], 0, 1, "target")


def _asserted(given: Arguments) -> None:
    _true(given["self"] != 0, "an assertion of the reference")


def _whole_divisor(given: Arguments) -> None:
    """Test that no integer is divided by zero, for which a GPU gives an arbitrary number."""
    x, divisor = given["self"], given["other"]
    is_whole = [
        not (t.is_floating_point() or t.is_complex()) if isinstance(t, Tensor) else isinstance(t, int)
        for t in (x, divisor)
    ]
    if all(is_whole):
        _true(torch.as_tensor(divisor) != 0, "a whole number divided by zero")


def _rounded_quotient(given: Arguments) -> None:
    """Test a division that rounds; every other division converts integers to floating point first."""
    if given.get("rounding_mode") is not None:
        _whole_divisor(given)


def _segments(given: Arguments) -> None:
    size = _extent(given["data"], given["axis"])
    if isinstance(given["lengths"], Tensor):
        _within(given["lengths"], 0, size, "lengths")
        _within(given["lengths"].sum(-1), 0, size, "the sum of lengths")
    _ascending(given["offsets"], size, "offsets")


def _groups(given: Arguments) -> None:
    x = given["self"]
    # Offsets split the rows of the first matrix, or the summed dimension if both have two dimensions.
    _ascending(given["offs"], max(x.shape[-2:]), "offs")


def _jagged(given: Arguments) -> None:
    rows = given["values"].shape[0] if "values" in given else math.inf
    for offsets in given["offsets"]:
        _within(offsets, 0, rows, "offsets")


def _packed(given: Arguments) -> None:
    x = given["input"]
    _within(given["lengths"], 1, x.shape[1 if given["batch_first"] else 0], "lengths")


def _sorter(given: Arguments) -> None:
    sequence = given["sorted_sequence"]
    _within(given["sorter"], 0, _extent(sequence, -1) - 1, "sorter")


def _coordinates(given: Arguments) -> None:
    for row, size in zip(given["indices"], given["size"], strict=False):
        _within(row, 0, size - 1, "indices")


def _compressed(given: Arguments) -> None:
    _within(given["compressed_indices"], 0, given["plain_indices"].shape[-1], "compressed_indices")
    size = given.get("size")
    _within(given["plain_indices"], 0, max(size[-2:]) - 1 if size else math.inf, "plain_indices")


CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(
        ("gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add", "index_copy",
         "index_reduce"),
        _along_dim,
    ),
    "index_fill": _along_dim_from_the_end,
    **dict.fromkeys(("take", "put"), _flat),
    **dict.fromkeys(
        ("index", "index_put", "_index_put_impl", "_unsafe_index", "_unsafe_index_put"), _by_dims
    ),
    **dict.fromkeys(("embedding", "embedding_renorm"), _rows),
    "embedding_dense_backward": _rows_backward,
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _bags),
    **dict.fromkeys(
        ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"), _classes
    ),
    **dict.fromkeys(("multi_margin_loss", "multi_margin_loss_backward"), _margin_classes),
    **dict.fromkeys(
        ("multilabel_margin_loss_forward", "multilabel_margin_loss_backward"), _label_lists
    ),
    **dict.fromkeys(("_ctc_loss", "_cudnn_ctc_loss", "_ctc_loss_backward"), _labels_of_sequences),
    **dict.fromkeys(("max_unpool2d", "max_unpool3d"), _unpooled),
    **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool3d"), _samples),
    "repeat_interleave": _repeated,
    "masked_scatter": _as_many_as_masked,
    "bernoulli": _probabilities,
    "multinomial": _weights_of_choices,
    "poisson": _rates,
    "binary_cross_entropy": _cross_entropy,
    **dict.fromkeys(("_assert_async", "_functional_assert_async"), _asserted),
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), _whole_divisor),
    "div": _rounded_quotient,
    "segment_reduce": _segments,
    "_grouped_mm": _groups,
    **dict.fromkeys(("_jagged_to_padded_dense_forward", "_padded_dense_to_jagged_forward"), _jagged),
    "_pack_padded_sequence": _packed,
    "searchsorted": _sorter,
    "_sparse_coo_tensor_with_dims_and_tensors": _coordinates,
    "sparse_compressed_tensor": _compressed,
}  # fmt: skip
"""Checks that run before an operator, by its name without overload and trailing underscore."""


@cache
def _check(func: Any) -> Check | None:
    """Return the check of an operator; None for harmless operators and those of other libraries."""
    return CHECKS.get(operator_name(func)) if func.namespace == "aten" else None


class _Checked(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that tests the operands of each operator with a precondition."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Returning False keeps the first operator from importing torch's compiler, which takes longer than a
        # diagnosis.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        check = _check(func)
        if check is not None:
            check(bound(func, args, kwargs or {}))
        return func(*args, **kwargs or {})


CHECKS_ITSELF = frozenset({"cpu", "meta"})
"""Device types on which operators check their operands themselves."""


def checked(tensors: Iterable[Tensor]) -> contextlib.AbstractContextManager[Any]:
    """Return a context that raises Unmet instead of running an operator on unacceptable values.

    Nothing is tested if every tensor is on a device that checks by itself. A dispatch mode takes as long as a
    small operator on a CPU, and the search for a cause has little time.
    """
    if all(tensor.device.type in CHECKS_ITSELF for tensor in tensors):
        return contextlib.nullcontext()
    return _Checked()  # type: ignore[no-untyped-call]
