"""End-to-end times of three architectures before and after `replace_modules` with an example, on this GPU.

    python -m benchmarks.kernels.models run --out models.jsonl  # goes on where the file ends
    python -m benchmarks.kernels.models table --out models.jsonl  # the table, in Markdown

A line for each architecture, dtype and way (eager, compile): medians of rounds by turns, of the forward
without gradients and of a training step (forward and backward), before, with single modules swapped, and
fused; how many pairs were fused and kept, and how far value and gradients are from the model as it was. TF32
is off.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from agent.kernels import replace_modules
from agent.kernels.benching import machine
from benchmarks.kernels.architectures import ARCHITECTURES, Architecture

ROUNDS, WARM = 20, 3
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
SIDES = ("before", "swapped", "fused")
Way = Callable[[nn.Module], Any]
WAYS: dict[str, Way] = {"eager": lambda model: model, "compile": torch.compile}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, one for each measurement")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    given = parser.parse_args()
    if given.what == "table":
        print("\n".join(table(known(given.out))))
        return
    if not torch.cuda.is_available():
        sys.exit("no NVIDIA GPU answers here: these times need one")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    here = asdict(machine(given.commit))
    done = {(line["model"], line["dtype"], line["way"]) for line in known(given.out)}
    for architecture in ARCHITECTURES:
        for dtype in DTYPES:
            wanted = [way for way in WAYS if (architecture.name, dtype, way) not in done]
            for line in measured(architecture, dtype, wanted) if wanted else ():
                with given.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps({**line, **here, "torch": torch.__version__}) + "\n")
                print(*table([line])[2:], flush=True)


def known(path: Path) -> list[dict[str, Any]]:
    """What was measured already; a line that was cut off is measured again."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            sys.stderr.write(f"{path}: a line is no JSON and is left out\n")
    return found


def measured(architecture: Architecture, dtype: str, ways: list[str]) -> Iterator[dict[str, Any]]:
    """One line for each way."""
    torch.manual_seed(0)
    kind = DTYPES[dtype]
    models = {"before": architecture.model(True).to("cuda", kind)}
    inputs = [
        x.to("cuda", kind if x.is_floating_point() else None) for x in architecture.inputs(True)
    ]  # fmt: skip
    models.update({side: copy.deepcopy(models["before"]) for side in SIDES[1:]})
    replace_modules(models["swapped"])
    report = replace_modules(models["fused"], tuple(inputs))
    sys.stderr.write(f"{architecture.name}, {dtype}:\n{report}\n")
    apart = distances(models["fused"], models["before"], inputs)
    for way in ways:
        torch.compiler.reset()
        calls = {side: WAYS[way](model) for side, model in models.items()}
        forward = times({side: lambda call=call: forwarded(call, inputs) for side, call in calls.items()})
        step = times({side: lambda call=call: stepped(call, inputs) for side, call in calls.items()})
        yield {
            "model": architecture.name, "dtype": dtype, "way": way, "forward_ms": forward, "step_ms": step,
            "fused": len(report.fused), "kept": len(report.kept), **apart,
        }  # fmt: skip


def distances(ours: nn.Module, native: nn.Module, inputs: list[torch.Tensor]) -> dict[str, float]:
    """Largest differences of the value, and of all gradients, as shares of their rms."""
    made = []
    for model in (ours, native):
        value = model(*inputs)
        found = torch.autograd.grad(value.float().square().mean(), list(model.parameters()))
        made.append((value.detach().double(), torch.cat([one.double().flatten() for one in found])))
    return {
        name: float((one - two).abs().max() / two.square().mean().sqrt())
        for name, one, two in zip(("value", "gradient"), *made, strict=True)
    }


def forwarded(call: Any, inputs: list[torch.Tensor]) -> None:
    with torch.no_grad():
        call(*inputs)


def stepped(call: Any, inputs: list[torch.Tensor]) -> None:
    call(*inputs).float().square().mean().backward()
    for parameter in call.parameters():
        parameter.grad = None


def times(calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Milliseconds, the median of rounds; in each round every call runs once."""
    spans: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM + ROUNDS):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            if turn >= WARM:
                spans[name].append(begin.elapsed_time(end))
    return {name: round(median(values), 4) for name, values in spans.items()}


def table(lines: list[dict[str, Any]]) -> list[str]:
    """In Markdown."""
    heads = [
        "model", "dtype", "way", *(f"{what}, {side} ms" for what in ("forward", "step") for side in SIDES),
        "pairs fused, kept", "value, gradient apart", "GPU",
    ]  # fmt: skip
    rows = [heads, ["---"] * len(heads)]
    for line in lines:
        spans = [str(line[what][side]) for what in ("forward_ms", "step_ms") for side in SIDES]
        rows.append([
            line["model"], line["dtype"], line["way"], *spans, f"{line['fused']}, {line['kept']}",
            f"{line['value']:.1e}, {line['gradient']:.1e}", line.get("gpu", ""),
        ])  # fmt: skip
    return [f"| {' | '.join(row)} |" for row in rows]


if __name__ == "__main__":
    main()
