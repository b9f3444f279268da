"""Renders what `products` and `convolutions` printed on a GPU: errors, times, and what the library takes.

    python -m benchmarks.kernels.page benchmarks/results/products/*.jsonl > docs/products.md

Of each part the last run counts that is among the files, in the order given.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from agent.kernels.conv_fp32x3 import worth
from agent.kernels.matmul_fp32x3 import product
from benchmarks.kernels.convolution_shapes import FUSED, HELD_BACK, KERNELBENCH, NETWORKS

Line = dict[str, Any]
Parts = dict[str, list[Line]]
INTRODUCTION = """# Products and convolutions: errors and times

Rendered from `benchmarks/results/products/` by `python -m benchmarks.kernels.page`; how the documents are
made stands in `benchmarks/kernels/README.md`. What is timed is the tensor cores' path, also where the
library, by its present rules, leaves a call to torch. Of kernels that have changed since the commit named
below, errors and times are in their READMEs and in `docs/limits.md` until both are measured anew."""
SHAPES = {shape.name: shape for shape in (*FUSED, *HELD_BACK, *KERNELBENCH, *NETWORKS)}


def takes_product(line: Line) -> bool:
    """Whether the library does not leave it to torch."""
    *batch, m, k = line["a"]
    n = line["b"][-1]
    return product.is_worth_at(prod(batch), m, n, k) or (not batch and product.is_read_once_at(m, n, k))


def takes_convolution(line: Line) -> bool:
    """The same of a convolution."""
    shape = SHAPES[line["name"]]
    return worth.is_worth_at(shape.x, shape.weight, shape.window)


def read(files: Sequence[Path]) -> Parts:
    """The lines of each part."""
    parts: Parts = {}
    for file in files:
        fresh: Parts = {}
        for text in file.read_text().splitlines():
            line = json.loads(text)
            fresh.setdefault(line.pop("part"), []).append(line)
        parts.update(
            {name: [line for line in lines if "seconds" not in line] for name, lines in fresh.items()}
        )
    return parts


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """In Markdown."""
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]


def errors(lines: list[Line]) -> list[str]:
    """The worst depth of each family of operands."""
    sides = (("fp32x3", "torch"), ("fp32x4", "torch"))
    named = [{**line, "at": " x ".join(str(size) for size in line["mnk"])} for line in lines]
    return table(("operands", "fp32x3", "at m x n x k", "fp32x4", "at"), worst_of(named, sides))


def linear_errors(lines: list[Line]) -> list[str]:
    """The same of linear layers."""
    sides = (("linear", "torch"), ("fused", "torch_fused"))
    named = [{**line, "at": " x ".join(str(size) for size in line["mnk"])} for line in lines]
    return table(("operands", "linear", "at m x n x k", "fused", "at"), worst_of(named, sides))


def convolution_errors(lines: list[Line]) -> list[str]:
    """The same of convolutions."""
    sides = (("fp32x3", "sgemm"), ("fp32x3", "cudnn"))
    named = [{**line, "at": line["shape"]} for line in lines]
    return table(("operands", "over SGEMM's", "at a depth of", "over cuDNN's", "at"), worst_of(named, sides))


def worst_of(lines: list[Line], sides: Sequence[tuple[str, str]]) -> list[list[str]]:
    """A row for each family: of each of the sides how often its error is the other's, where that is most."""
    families: dict[str, list[Line]] = {}
    for line in lines:
        families.setdefault(line["family"], []).append(line)
    rows = []
    for family, each in families.items():
        row = [family]
        for one, other in sides:
            ratios = [(_over(line[one], line[other]), line["at"]) for line in each]
            over, at = max(ratios, key=lambda ratio: ratio[0])
            row += [f"{over:.2f}", at]
        rows.append(row)
    return rows


def _over(ours: float, theirs: float) -> float:
    """1 where both are exact."""
    if ours == theirs:
        return 1.0
    return float("inf") if theirs == 0 else ours / theirs


def products(lines: list[Line]) -> list[str]:
    """Times in ms."""
    rows = [
        (line["name"], _shape(line["a"]), _shape(line["b"]), f"{line['fp32x3']:.4f}", f"{line['fp32x4']:.4f}",
         f"{line['torch']:.4f}", f"{line['speed']:.2f}", "" if takes_product(line) else "left to torch")
        for line in lines
    ]  # fmt: skip
    return table(("product", "a", "b", "fp32x3", "fp32x4", "torch", "times", ""), rows)


def triangular(lines: list[Line]) -> list[str]:
    """Times in ms and errors."""
    rows = [
        (" x ".join(line["parts"]), line["size"], f"{line['fp32x3']:.4f}", f"{line['torch']:.4f}",
         f"{line['speed']:.2f}", f"{line['rms'] / line['torch_rms']:.2f}")
        for line in lines
    ]  # fmt: skip
    return table(("operands", "size", "fp32x3", "torch", "times", "error over torch's"), rows)


def _shape(sizes: Sequence[int]) -> str:
    return str(list(sizes))


def convolutions(lines: list[Line]) -> list[str]:
    """Each set by its mean, with 1 for what is left to torch, and then each shape."""
    sets: dict[str, list[Line]] = {}
    for line in lines:
        sets.setdefault(line["set"], []).append(line)
    means = []
    for name, each in sets.items():
        taken = [line["speed"] for line in each if takes_convolution(line)]
        mean = geometric_mean([line["speed"] if takes_convolution(line) else 1.0 for line in each])
        best = geometric_mean([max(line["speed"], 1.0) for line in each])
        means.append(
            (name, len(each), len(taken), f"{mean:.2f}", f"{best:.2f}", f"{min(taken, default=1):.2f}")
        )
    head = ("set", "shapes", "taken", "times, mean", "with the best rule", "least of those taken")
    rows = [
        (line["set"], line["name"], f"{line['ours_ms']:.4f}", f"{line['torch_ms']:.4f}",
         f"{line['speed']:.2f}", f"{line['rms'] / line['torch_rms']:.2f}",
         "" if takes_convolution(line) else "left to torch")
        for line in lines
    ]  # fmt: skip
    return [
        *table(head, means), "",
        *table(("set", "convolution", "ours", "torch", "times", "error over torch's", ""), rows),
    ]  # fmt: skip


RENDERED = {
    "errors": ("Root mean square errors over SGEMM's, the worst depth of each kind of operands", errors),
    "linear_errors": (
        "The same of linear layers, alone and before a norm and the minimum",
        linear_errors,
    ),
    "convolution_errors": (
        "Convolutions: root mean square errors over those of SGEMM on the unfolded image and of cuDNN",
        convolution_errors,
    ),
    "times": ("Products, in ms", products),
    "triangular": ("Triangular operands, in ms; torch multiplies them whole", triangular),
    "tuned": ("Convolutions, in ms, beside the best of cuDNN's algorithms", convolutions),
}


def page(parts: Parts) -> str:
    """The whole of it."""
    text = [INTRODUCTION, *("\n" + line["text"] for line in parts.get("note", []))]
    for name, (title, rendered) in RENDERED.items():
        if name in parts:
            text += ["", f"## {title}", "", *rendered(parts[name])]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    print(page(read([Path(name) for name in sys.argv[1:]])), end="")
