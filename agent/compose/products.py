"""Products and convolutions that a shipped kernel takes over from torch, and their calls in `forward`.

A shipped kernel is called at sizes where it was measured to be faster. The file also has to be composed for
an architecture on which that kernel is fast. If nothing may stay torch's, shipped kernels take every product,
on any GPU and by their portable path on the emulator. Conditions on sizes refer to the reference's own sizes.
"""

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from agent.compose.declined import Declined
from agent.compose.dims import is_one
from agent.compose.matrices import part_of
from agent.compose.tracing import Node, Varying
from agent.compose.values import Value
from agent.kernels import sources

MATMUL, CONVOLUTION, HALF = "matmul_fp32x3", "conv_fp32x3", "matmul_half"
LEAST_OF_HALF = 80
"""Lowest GPU architecture with the instructions that matmul_half multiplies with."""
Text = Callable[[Any], str]
"""Function that gives an argument as Python."""


class Shipped:
    """Shipped kernels for GPUs of `arch`, or with their portable path. `every` leaves none to torch.

    `forms`: a convolution of one tap becomes a matrix product, and products of 16-bit numbers take a shipped
    kernel. Neither was timed on a GPU. `used`: kernels of the calls so far.
    """

    def __init__(self, arch: str | None, every: bool = False, forms: bool = False) -> None:
        self._arch, self._every, self._forms = arch, every, forms
        self.used: list[str] = []

    def call(
        self, node: Node, name: str, args: list[Any], kwargs: Mapping[str, Any], text: Text
    ) -> str | None:
        """Return the call that replaces torch's, or None if torch's stays.

        Raises Declined if torch's may not stay and no shipped kernel supports the call.
        """
        kernel = self._kernel(name, args)
        said = None
        if kernel == CONVOLUTION:
            said = _convolution(node, args, kwargs, text, self._every)
        elif kernel is not None:
            asked = _pointwise if name == "convolution" else _product
            said = asked(kernel, args, kwargs, text, self._every)
        if said is None and self._every:
            raise Declined(f"no shipped kernel takes this {name}, and torch's is not allowed")
        if said is not None and kernel is not None and kernel not in self.used:
            self.used.append(kernel)
        return said

    def _kernel(self, name: str, args: list[Any]) -> str | None:
        """Return the shipped kernel for these operands and the target GPU, or None."""
        dtypes = {operand.dtype for operand in args if isinstance(operand, Value)}
        is_product = name != "convolution" or _is_pointwise(args)
        if dtypes in ({"float16"}, {"bfloat16"}):
            is_new = self._arch is not None and int(self._arch.rstrip("af")) >= LEAST_OF_HALF
            wanted = is_new and (self._every or self._forms) or (self._every and self._arch is None)
            return HALF if wanted and is_product else None
        kernel = MATMUL if name != "convolution" or (is_product and self._forms) else CONVOLUTION
        wanted = self._every or sources.OWN_PATHS.get(kernel) == self._arch
        return kernel if wanted and dtypes == {"float32"} else None

    def parts(self) -> list[str]:
        """Return the source of each kernel that is called, with names of its own."""
        return [_part(kernel, self._arch) for kernel in self.used]


def _part(kernel: str, arch: str | None) -> str:
    text = sources.kernel_part(kernel, arch)
    about, rest = text.removeprefix('"""').split('"""\n', 1)
    rest = re.sub(r"(?<![\w./])extension(?= = load_inline|\.\w+\()", f"{kernel}_extension", rest)
    for constant in ("CPP_SOURCE", "CUDA_SOURCE"):
        rest = re.sub(rf"\b{constant}\b", f"{kernel.upper()}_{constant}", rest)
    comment = "\n".join(f"# {line}".rstrip() for line in about.strip().split("\n"))
    return f"{comment}\n{rest.strip()}\n"


def _product(kernel: str, args: list[Any], kwargs: Mapping[str, Any], text: Text, every: bool) -> str | None:
    *added, a, b = args
    *batch, m, k = (size[0] for size in a.shape)
    if not _is_worth_product(kernel, every, prod(batch), m, b.shape[-1][0], k):
        return None
    settings = {name: value for name, value in kwargs.items() if value != 1}
    if kernel == MATMUL:
        (a, a_is), (b, b_is) = part_of(a), part_of(b)
        settings |= {"parts": (a_is, b_is, "whole")} if (a_is, b_is) != ("whole", "whole") else {}
    more = [text(added[0])] if added else []
    return f"{kernel}({', '.join([text(a), text(b), *more, *(f'{n}={v!r}' for n, v in settings.items())])})"


def one_side(call: str, part: str) -> str:
    """Return the call of a shipped product, changed to compute only one side of the result."""
    whole = "'whole'))"
    if call.endswith(whole):
        return f"{call.removesuffix(whole)}{part!r}))"
    return f"{call.removesuffix(')')}, parts=('whole', 'whole', {part!r}))"


def _is_worth_product(kernel: str, every: bool, batch: int, m: int, n: int, k: int) -> bool:
    """Return True if the kernel was measured to be faster at these sizes.

    Also returns True for a kernel that is requested as another form, so that it can be measured.
    """
    from agent.kernels.matmul_fp32x3 import product

    return every or kernel == HALF or product.is_worth_at(batch, m, n, k)


def _is_pointwise(args: list[Any]) -> bool:
    """Return True if each value of a convolution is computed from a single position of its input."""
    source, weight, _, stride, padding, _, turned, _, groups = args
    ones = all(number == 1 for number in stride) and not any(padding)
    return bool(ones and all(map(is_one, weight.shape[2:])) and groups == 1 and not turned)


def _pointwise(
    kernel: str, args: list[Any], kwargs: Mapping[str, Any], text: Text, every: bool
) -> str | None:
    """Return the call that multiplies the weight with each image, whose positions are the columns."""
    source, weight, bias = args[:3]
    images, channels, *places = (size[0] for size in source.shape)
    if not _is_worth_product(kernel, every, images, weight.shape[0][0], prod(places), channels):
        return None
    given = text(source)
    operands = [f"{text(weight)}.flatten(1)", f"{given}.flatten(2)"]
    operands += [f"{text(bias)}.unsqueeze(-1)"] if bias is not None else []
    return f"{kernel}({', '.join(operands)}).unflatten(2, {given}.shape[2:])"


LEAST_DEPTH, LEAST_FEATURES, GREAT_DEPTH, LEAST_PRODUCTS = 128, 48, 1000, 1 << 30
"""Minimums for a convolution: products summed per result value, features per group, a sum long enough for
fewer features, and products in total."""
FEW_TAPS = 15
"""Maximum number of taps for which a transposed 2D convolution without stride stays cuDNN's. cuDNN has other
algorithms for it up to there."""
MANY_ELEMENTS = 1 << 27
"""Minimum number of result elements of a transposed convolution with stride. A call is several convolutions,
and each of them takes the host half a millisecond."""
MOST_TAPS, MOST_ELEMENTS = 31, 1 << 31
"""Limits of the convolution kernel: the largest sum of taps over three dimensions, and the number of elements
that an index stays below."""


def _convolution(
    node: Node, args: list[Any], kwargs: Mapping[str, Any], text: Text, every: bool
) -> str | None:
    source, weight, bias, stride, padding, dilation, turned, more, groups = args
    if any(isinstance(n, Varying) for n in (*stride, *padding, *dilation, *more)):
        return None
    rank = len(source.shape) - 2
    if len(source.shape) < 3 or not _is_counted(node, args) or not (every or _is_worth(node, args)):
        return None
    ways = ", ".join(
        f"{tuple(given) * (rank if len(given) == 1 else 1)!r}" for given in (stride, padding, dilation)
    )
    operands = ", ".join(map(text, (source, weight, bias)))
    if turned:
        more = tuple(more) * (rank if len(more) == 1 else 1)
        return f"conv_transpose_fp32x3({operands}, ({ways}), {more!r}, {text(groups)})"
    return f"{CONVOLUTION}({operands}, ({ways}), {text(groups)})"


def _is_counted(node: Node, args: list[Any]) -> bool:
    """Return True if the sizes are within the limits of the convolution kernel."""
    source, result = args[0], [size[0] for size in node.shapes[0]]
    taps = [size[0] for size in args[1].shape[2:]]
    largest = max(prod(size[0] for size in source.shape[1:]), prod(result) // result[1])
    return bool(sum(taps) + 3 - len(taps) <= MOST_TAPS and largest < MOST_ELEMENTS)


def _is_worth(node: Node, args: list[Any]) -> bool:
    """Return True if the kernel was measured to be faster on an H200 (docs/composer.md).

    A large transposed convolution with stride always is: cuDNN also visits the positions that the stride
    leaves out.
    """
    source, weight, stride, turned, groups = args[0], args[1], args[3], args[6], args[8]
    groups = int(groups.values[0]) if isinstance(groups, Varying) else groups
    taps = [size[0] for size in weight.shape[2:]]
    result = [size[0] for size in node.shapes[0]]
    channels, features = source.shape[1][0] // groups, result[1] // groups
    rank = len(taps)
    skipped = prod(tuple(stride) * (rank if len(stride) == 1 else 1)) if turned else 1
    depth: float = channels * prod(taps) / skipped
    if prod(taps) == 1 or prod(taps) < skipped:
        return False
    if prod(result) * depth < LEAST_PRODUCTS or (
        turned and rank == 2 and skipped == 1 and prod(taps) <= FEW_TAPS
    ):
        return False
    if skipped > 1:
        return prod(result) >= MANY_ELEMENTS
    return depth >= LEAST_DEPTH and (features >= LEAST_FEATURES or depth >= GREAT_DEPTH)
