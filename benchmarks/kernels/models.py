"""End-to-end times of three architectures before and after `replace_modules` with an example, on this GPU.

    python -m benchmarks.kernels.models run --out models.jsonl --seconds 60  # goes on where the file ends
    python -m benchmarks.kernels.models table --out models.jsonl  # the tables, in Markdown
    python -m benchmarks.kernels.models found  # on any machine, at small sizes: what is fused, and its errors

A line for each architecture, dtype and way (eager, compile): medians of the forward without gradients and
of a training step (forward and backward), before, with single modules swapped, and fused; how far apart the
quartiles are; how many pairs were fused and kept, and how far value and gradients are from the model as it
was. TF32 is off. Every side has a process of its own (`sides.py`), so that all compile at the same time;
nothing compiles while one is timed, and one is timed at a time, in blocks by turns. The kernels are built
first, all at once.
"""

import argparse
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
from statistics import median, quantiles
from typing import Any

import torch

from agent.kernels import replace_modules, routing
from agent.kernels.benching import machine
from benchmarks.kernels.architectures import ARCHITECTURES
from benchmarks.kernels.sides import DIRECTIONS, DTYPES, SIDES, WAYS, by_pattern, distances, serve

BLOCKS = 3


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
    for dtype in given.dtypes:
        for line in measured(dtype, done, until):
            with given.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps({**line, **here}) + "\n")
            print(*table([line])[2:], flush=True)


def build(dtype: str) -> None:
    """All kernels at once: left to the sides' first calls, they would be built one after the other."""
    command = (sys.executable, "-m", "agent.cli", "kernels", "build", "--all", "--dtype", dtype)
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
        build(dtype)  # while the sides import torch
        for pipe in sides.values():
            pipe.send("built")
        facts = {key: answer(pipe, until) for key, pipe in sides.items()}
        for way, timed in WAYS.items():
            wanted = [one for one in chosen if (one.name, dtype, way) not in done]
            pipes = {one.name: {side: sides[one.name, side] for side in timed} for one in wanted}
            for pipe in (pipe for of_one in pipes.values() for pipe in of_one.values()):
                pipe.send(way)
            for pipe in (pipe for of_one in pipes.values() for pipe in of_one.values()):
                answer(pipe, until)
            for name, of_one in pipes.items():
                spans = {what: by_turns(what, of_one, until) for what in DIRECTIONS}
                yield {
                    "model": name, "dtype": dtype, "way": way, **facts[name, "fused"],
                    **{what: summed(one) for what, one in spans.items()},
                    "spread": max(map(spread, spans.values())),
                }  # fmt: skip
    except TimeoutError:
        sys.stderr.write(f"{dtype}: time is up; another run goes on\n")
    except EOFError:
        sys.stderr.write(f"{dtype}: a side ended, for what it wrote above\n")
    finally:
        for process in processes:
            process.kill()


def by_turns(what: str, pipes: dict[str, Any], until: float) -> dict[str, list[float]]:
    """Milliseconds of each side, of all rounds of its blocks, which the sides run by turns."""
    spans: dict[str, list[float]] = {side: [] for side in pipes}
    for _ in range(BLOCKS):
        for side, pipe in pipes.items():
            pipe.send(what)
            spans[side] += answer(pipe, until)
    return spans


def summed(spans: dict[str, list[float]]) -> dict[str, float]:
    """The median of each side."""
    return {side: round(median(values), 4) for side, values in spans.items()}


def spread(spans: dict[str, list[float]]) -> float:
    """How far apart the quartiles of a side are, as a share of its median; the largest."""
    shares = []
    for values in spans.values():
        first, middle, third = quantiles(values, n=4)
        shares.append((third - first) / middle)
    return round(max(shares), 4)


def answer(pipe: Any, until: float) -> Any:
    """Raises TimeoutError when time is up, and EOFError where the side has failed."""
    if not pipe.poll(max(0.0, until - time.monotonic())):
        raise TimeoutError
    return pipe.recv()


def found() -> list[str]:
    """What is fused in the small architectures in float32, the kernels' formulas computing on the CPU."""
    routing.obstacle = lambda *_: None
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


def table(lines: list[dict[str, Any]]) -> list[str]:
    """In Markdown."""
    heads = [
        "model", "dtype", "way", *(f"{what}, {side} ms" for what in DIRECTIONS for side in SIDES),
        "quartiles apart", "pairs fused, kept", "value, gradient apart", "GPU",
    ]  # fmt: skip
    rows = [heads, ["---"] * len(heads)]
    for line in lines:
        spans = [
            f"{line[what][side]:.4g}" if side in line[what] else "" for what in DIRECTIONS for side in SIDES
        ]
        rows.append([
            line["model"], line["dtype"], line["way"], *spans, f"{line.get('spread', 0):.1%}",
            f"{line['fused']}, {line['kept']}",
            f"{line['value']:.1e}, {line['gradient']:.1e}", line.get("gpu", ""),
        ])  # fmt: skip
    return [f"| {' | '.join(row)} |" for row in rows]


if __name__ == "__main__":
    main()
