"""End-to-end times of three architectures before and after `replace_modules` with an example, on this GPU.

    python -m benchmarks.kernels.models run --out models.jsonl --seconds 60  # goes on where the file ends
    python -m benchmarks.kernels.models table --out models.jsonl  # the tables, in Markdown
    python -m benchmarks.kernels.models found  # on any machine, at small sizes: what is fused, and its errors

A line for each architecture, dtype and way (eager, compile): medians of rounds by turns, of the forward
without gradients and of a training step (forward and backward), before, with single modules swapped, and
fused; how many pairs were fused and kept, and how far value and gradients are from the model as it was. TF32
is off. Every side has a process of its own, so that all compile at the same time; nothing compiles while one
is timed, and one is timed at a time. The kernels are built first, all at once.
"""

import argparse
import contextlib
import copy
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from agent.kernels import replace_modules, routing
from agent.kernels.benching import disable_tf32, machine
from agent.kernels.replaced import Replaced
from benchmarks.kernels.architectures import ARCHITECTURES, Architecture

ROUNDS, WARM = 12, 3
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
SIDES = ("before", "swapped", "fused")
WAYS = {"eager": SIDES, "compile": ("before", "fused")}
"""And the sides that are timed so."""
DIRECTIONS = ("forward", "step")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table", "found"))
    parser.add_argument("--out", type=Path, help="JSON lines, one for each measurement")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES), help="default: both")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so long")
    given = parser.parse_args()
    if given.what == "found":
        print("\n".join(found()))
        return
    if given.out is None:
        parser.error(f"{given.what} needs --out FILE")
    if given.what == "table":
        print("\n".join((*table(known(given.out)), "", *patterns(known(given.out)))))
        return
    if not torch.cuda.is_available():
        sys.exit("no NVIDIA GPU answers here: these times need one")
    until = time.monotonic() + given.seconds
    here = {**asdict(machine(given.commit)), "torch": torch.__version__}
    done = {(line["model"], line["dtype"], line["way"]) for line in known(given.out)}
    build(given.dtypes)
    for dtype in given.dtypes:
        for line in measured(dtype, done, until):
            with given.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps({**line, **here}) + "\n")
            print(*table([line])[2:], flush=True)


def build(dtypes: list[str]) -> None:
    """All kernels at once: left to the sides' first calls, they would be built one after the other."""
    chosen = (word for dtype in dtypes for word in ("--dtype", dtype))
    command = (sys.executable, "-m", "agent.cli", "kernels", "build", "--all", *chosen)
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        sys.stderr.write("the kernels were not all built: what is missing is torch's\n")


def known(path: Path) -> list[dict[str, Any]]:
    """What was measured already; a line that was cut off is measured again."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            sys.stderr.write(f"{path}: a line is no JSON and is left out\n")
    return found


def measured(dtype: str, done: set[tuple[str, str, str]], until: float) -> Iterator[dict[str, Any]]:
    """One line for each architecture and way that is not done."""
    chosen = [one for one in ARCHITECTURES if any((one.name, dtype, way) not in done for way in WAYS)]
    context = multiprocessing.get_context("spawn")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"  # of each process; Inductor asks when it is imported
    lock, sides, processes = context.Lock(), {}, []
    for one in chosen:
        for side in SIDES:
            sides[one.name, side], theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, lock, one.name, dtype, side), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
    try:
        facts = {key: answer(pipe, until) for key, pipe in sides.items()}
        for way, timed in WAYS.items():
            wanted = [one for one in chosen if (one.name, dtype, way) not in done]
            pipes = {one.name: {side: sides[one.name, side] for side in timed} for one in wanted}
            for pipe in (pipe for of_one in pipes.values() for pipe in of_one.values()):
                pipe.send(way)
            for pipe in (pipe for of_one in pipes.values() for pipe in of_one.values()):
                answer(pipe, until)
            for name, of_one in pipes.items():
                spans = {what: rounds(what, of_one, until) for what in DIRECTIONS}
                yield {"model": name, "dtype": dtype, "way": way, **spans, **facts[name, "fused"]}
    except TimeoutError:
        sys.stderr.write(f"{dtype}: time is up; another run goes on\n")
    except EOFError:
        sys.stderr.write(f"{dtype}: a side ended, for what it wrote above\n")
    finally:
        for process in processes:
            process.kill()


def rounds(what: str, pipes: dict[str, Any], until: float) -> dict[str, float]:
    """Milliseconds of each side, the median of rounds; in each round every side runs once."""
    spans: dict[str, list[float]] = {side: [] for side in pipes}
    for turn in range(WARM + ROUNDS):
        for side, pipe in pipes.items():
            pipe.send(what)
            span = answer(pipe, until)
            if turn >= WARM:
                spans[side].append(span)
    return {side: round(median(values), 4) for side, values in spans.items()}


def answer(pipe: Any, until: float) -> Any:
    """Raises TimeoutError when time is up, and EOFError where the side has failed."""
    if not pipe.poll(max(0.0, until - time.monotonic())):
        raise TimeoutError
    return pipe.recv()


def serve(pipe: Any, lock: Any, name: str, dtype: str, side: str) -> None:
    """One side: says what was fused and how far that is from the model, then does what it is told."""
    disable_tf32()
    (architecture,) = (one for one in ARCHITECTURES if one.name == name)
    # What a pair gains is timed while the models are fused: one at a time.
    with lock if side == "fused" else contextlib.nullcontext():
        model, inputs, facts = made(architecture, dtype, side)
        torch.cuda.empty_cache()
    pipe.send(facts)
    call = model
    while True:
        told = pipe.recv()
        if told in WAYS:
            call = torch.compile(model, dynamic=False) if told == "compile" else model
            for what in DIRECTIONS:
                run(what, call, inputs)
            torch.cuda.empty_cache()
            pipe.send(told)
        else:
            pipe.send(milliseconds(told, call, inputs))


def made(
    architecture: Architecture, dtype: str, side: str
) -> tuple[nn.Module, list[torch.Tensor], dict[str, Any]]:
    """The model as this side has it, its inputs, and what is known of the fused one."""
    torch.manual_seed(0)
    kind = DTYPES[dtype]
    with torch.device("cuda"):  # random weights of a decoder take long on a CPU
        model = architecture.model(True).to(kind)
        inputs = [x.to(kind) if x.is_floating_point() else x for x in architecture.inputs(True)]
    if side == "before":
        return model, inputs, {}
    if side == "swapped":
        replace_modules(model)
        return model, inputs, {}
    native = copy.deepcopy(model)
    report = replace_modules(model, tuple(inputs))
    sys.stderr.write(f"{architecture.name}, {dtype}:\n{report}\n")
    counts = {"fused": len(report.fused), "kept": len(report.kept), "patterns": by_pattern(report)}
    return model, inputs, {**counts, **distances(model, native, inputs)}


def by_pattern(report: Replaced) -> dict[str, dict[str, float]]:
    """How many of each, the largest error of the calls in their place, and of the operations before."""
    made: dict[str, dict[str, float]] = {}
    for fusion in report.fused.values():
        one = made.setdefault(fusion.pattern, {"pairs": 0, "error": 0.0, "error_before": 0.0})
        one["pairs"] += 1
        one["error"] = max(one["error"], fusion.error)
        one["error_before"] = max(one["error_before"], fusion.error_before)
    return made


def found() -> list[str]:
    """What is fused in the small architectures in float32, the kernels' formulas computing on the CPU."""
    routing.obstacle = lambda *_: None  # type: ignore[assignment]
    lines = []
    for architecture in ARCHITECTURES:
        torch.manual_seed(0)
        model, inputs = architecture.model(False), architecture.inputs(False)
        native = copy.deepcopy(model)
        report = replace_modules(model, inputs)
        facts = distances(model, native, list(inputs))
        lines.append({
            "model": architecture.name, "dtype": "float32", **facts, "patterns": by_pattern(report)
        })  # fmt: skip
    return patterns(lines)


def patterns(lines: list[dict[str, Any]]) -> list[str]:
    """What was fused in each model, in Markdown; of a model and dtype once."""
    rows = [["model", "dtype", "fused", "pairs", "error", "error of the operations as they stood"]]
    rows.append(["---"] * len(rows[0]))
    told = set()
    for line in lines:
        if (line["model"], line["dtype"]) in told:
            continue
        told.add((line["model"], line["dtype"]))
        for name, one in line.get("patterns", {}).items():
            errors = f"{one['error']:.1e}", f"{one['error_before']:.1e}"
            rows.append([line["model"], line["dtype"], name, f"{one['pairs']}", *errors])
        apart = f"value {line['value']:.1e}, gradients {line['gradient']:.1e} apart"
        rows.append([line["model"], line["dtype"], "the whole model", "", apart, ""])
    return [f"| {' | '.join(row)} |" for row in rows]


def distances(ours: nn.Module, native: nn.Module, inputs: list[torch.Tensor]) -> dict[str, float]:
    """Largest differences of the value, and of all gradients, as shares of their rms."""
    made = []
    for model in (ours, native):
        value = model(*inputs)
        found = torch.autograd.grad(value.float().square().mean(), list(model.parameters()))
        made.append((value.detach().float(), torch.cat([one.float().flatten() for one in found])))
    return {
        name: float((one - two).abs().max() / two.square().mean().sqrt())
        for name, one, two in zip(("value", "gradient"), *made, strict=True)
    }


def run(what: str, call: Any, inputs: list[torch.Tensor]) -> None:
    if what == "forward":
        with torch.no_grad():
            call(*inputs)
        return
    call(*inputs).float().square().mean().backward()
    for parameter in call.parameters():
        parameter.grad = None


def milliseconds(what: str, call: Any, inputs: list[torch.Tensor]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    run(what, call, inputs)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def table(lines: list[dict[str, Any]]) -> list[str]:
    """In Markdown."""
    heads = [
        "model", "dtype", "way", *(f"{what}, {side} ms" for what in DIRECTIONS for side in SIDES),
        "pairs fused, kept", "value, gradient apart", "GPU",
    ]  # fmt: skip
    rows = [heads, ["---"] * len(heads)]
    for line in lines:
        spans = [
            f"{line[what][side]:.4g}" if side in line[what] else "" for what in DIRECTIONS for side in SIDES
        ]
        rows.append([
            line["model"], line["dtype"], line["way"], *spans, f"{line['fused']}, {line['kept']}",
            f"{line['value']:.1e}, {line['gradient']:.1e}", line.get("gpu", ""),
        ])  # fmt: skip
    return [f"| {' | '.join(row)} |" for row in rows]


if __name__ == "__main__":
    main()
