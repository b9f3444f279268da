"""Depthwise convolutions, which are bound by memory and become kernels like any other operator."""

from typing import Any

from agent.compose.dims import Digit, Dim, Index, divided, is_one
from agent.compose.expressions import Sizes
from agent.compose.kernel import Kernel
from agent.compose.tracing import Node, Varying
from agent.compose.values import Pointwise, Value
from agent.compose.views import moved, offset
from agent.compose.windows import count, pooled, settings, with_bias


def depthwise(node: Node, args: list[Any], sizes: Sizes, every: bool) -> Value | None:
    """Return the value of a convolution with as many groups as channels, or None for any other.

    `every`: accept several features per channel and transposed convolutions as well.
    """
    source, weight, bias, step, pad, apart, turned, more, groups = args
    rank = len(source.shape) - 2
    channels, points = source.shape[1], len(source.shape[1])
    wanted = tuple(int(v) for v in groups.values) if isinstance(groups, Varying) else (groups,) * points
    features = divided(node.shapes[0][1], channels)
    if wanted != channels or features is None or len(set(features)) > 1 or max(channels) < 2:
        return None
    if not every and (turned or not is_one(features)):
        return None
    if any(len(set(size)) > 1 for size in weight.shape[2:]):
        return None
    numbers = [settings([given], rank, 0, []) for given in (step, pad, apart)]
    window = [[size[0] for size in weight.shape[2:]], *numbers]
    past = settings([more], rank, 0, []) if turned else []
    for axis in range(rank):
        given = sizes.text(source.shape[axis - rank])
        own = [number[axis] for number in window]
        text = _turned_count(given, own, past[axis]) if turned else count(given, own)
        sizes.define(node.shapes[0][axis - rank], text)
    made = _turned if turned else _straight
    taps = made(node, source, weight, window)
    return taps if bias is None else with_bias(taps, bias)


def _straight(node: Node, source: Value, weight: Value, window: list[list[int]]) -> Value:
    of_feature, each = source, divided(node.shapes[0][1], source.shape[1])
    if each is not None and not is_one(each):
        shape = (source.shape[0], node.shapes[0][1], *source.shape[2:])
        of_feature = moved(
            source, shape,
            lambda kernel, index: (index[0], _channel(kernel, index[1], source, each[0]), *index[2:]),
        )  # fmt: skip

    def factor(kernel: Kernel, index: Index, loops: list[str]) -> str:
        return kernel.at(weight, (index[1], (), *_taps(loops, weight)))

    how = ("0.0f", lambda name, value: f"{name} += {value};", None)
    return pooled(of_feature, node, tuple(window), how, factor)


def _turned(node: Node, source: Value, weight: Value, window: list[list[int]]) -> Value:
    """Return a transposed convolution.

    Each result element gathers the source elements that contribute to it.
    """
    width, step, pad, apart = window
    each = weight.shape[1][0]

    def element(kernel: Kernel, index: Index) -> str:
        loops = {kernel.body.fresh("w"): str(size) for size in width}
        channel = _channel(kernel, index[1], source, each)
        feature = offset(kernel, index[1], f"{{}} % {each}", weight.shape[1])

        def one(name: str) -> None:
            tests, places = [], list[tuple[Digit, ...]]()
            for axis, loop in enumerate(loops):
                size = source.shape[2 + axis]
                behind = f"int64_t({kernel.radix.number(index[2 + axis])}) + {pad[axis]}"
                at = kernel.body.temp(f"{behind} - {loop} * {apart[axis]}", "int64")
                place = kernel.body.temp(f"{at} / {step[axis]}", "int64") if step[axis] > 1 else at
                tests.append(f"{at} >= 0 && {place} < {kernel.size(size)}")
                tests += [f"{at} % {step[axis]} == 0"] if step[axis] > 1 else []
                places.append(() if is_one(size) else (Digit(place, size),))

            def line() -> str:
                value = kernel.at(source, (index[0], channel, *places))
                tap = kernel.at(weight, (channel, feature, *_taps(list(loops), weight)))
                return f"{name} += {value} * {tap};"

            kernel.body.when(" && ".join(tests), line)

        return kernel.body.window("0.0f", source.dtype, loops, one)

    work = 2
    for size in width:
        work *= size
    return Pointwise(node.shapes[0], node.dtypes[0], "convolution", (source, weight), element, work)


def _channel(kernel: Kernel, digits: tuple[Digit, ...], source: Value, each: int) -> tuple[Digit, ...]:
    """Return the index of the channel that a feature belongs to. Each channel has `each` features."""
    return digits if each == 1 else offset(kernel, digits, f"{{}} / {each}", source.shape[1])


def _taps(loops: list[str], weight: Value) -> Index:
    sizes: tuple[Dim, ...] = weight.shape[2:]
    return tuple(
        () if is_one(size) else (Digit(loop, size),) for loop, size in zip(loops, sizes, strict=True)
    )


def _turned_count(given: str, window: list[int], past: int) -> str:
    """Return the size of a transposed convolution's result as Python."""
    width, step, pad, apart = window
    return f"({given} - 1) * {step} + {(width - 1) * apart + 1 + past - 2 * pad}"
