"""What explaining a mismatch takes: `python -m tests.diagnosis.timings`.

Measured is the computing of `Explaining.of_values`, as the oracle calls it, in seconds of its thread: a busy
machine changes little, where OMP_WAIT_POLICY is passive as the oracle's is. The wrong answers are those of
`faults.py` at the corpus's sizes, and two over a million elements, about the most that the emulator judges:
one that mixes samples, and noise, for which every hypothesis is tried. Writes
benchmarks/results/diagnosis/timings.json.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from agent.harness.oracle import explanation
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference
from agent.records import Finding
from benchmarks import storage

from .faults import FAULTS
from .labels import PROBLEMS

RECORD = storage.DIAGNOSIS / "timings.json"
LARGE = "group_norm of a million elements"
BATCH = 1387
"""Samples of `problems/group_norm.py` that make a million elements."""


def measured(reference: Reference, draw: Draw, output: Any) -> float:
    found = Finding.model_validate(draw.expected.compare(output)["finding"])
    started = time.thread_time()
    explanation.Explaining(reference, "", found).of_values(draw, output)
    return round(time.thread_time() - started, 2)


def drawn(file: Path) -> tuple[Reference, Draw]:
    reference = Reference(file, "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    return reference, draw


def small() -> dict[str, float]:
    seconds = {}
    for problem, faults in FAULTS.items():
        reference, draw = drawn(PROBLEMS / f"{problem}.py")
        for name, _, wrong in faults:
            with torch.no_grad():
                seconds[f"{problem}: {name}"] = measured(
                    reference, draw, wrong(reference.model, *draw.inputs)
                )
    return seconds


def large(folder: Path) -> dict[str, float]:
    file = folder / "reference.py"
    file.write_text((PROBLEMS / "group_norm.py").read_text().replace("batch = 3", f"batch = {BATCH}"))
    reference, draw = drawn(file)
    x, norm = draw.inputs[0], reference.model.norm
    v = x.reshape(BATCH, 4, -1)
    y = (v - v.mean((0, 2), keepdim=True)) * (v.var((0, 2), keepdim=True, correction=0) + norm.eps).rsqrt()
    with torch.no_grad():
        mixed = y.reshape(x.shape) * norm.weight.reshape(1, -1, 1, 1) + norm.bias.reshape(1, -1, 1, 1)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
    return {
        f"{LARGE}: batch": measured(reference, draw, mixed),
        f"{LARGE}: noise": measured(reference, draw, noise),
    }


def read() -> dict[str, float]:
    """Name of the wrong answer -> seconds."""
    seconds: dict[str, float] = json.loads(RECORD.read_text(encoding="utf-8"))["seconds"]
    return seconds


def main() -> None:
    import tempfile

    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        seconds = large(Path(folder)) | small()
    storage.write(RECORD, {"threads": 2, "seconds": seconds})
    sys.stdout.write(f"{len(seconds)} mismatches, {max(seconds.values())} s at most\n")


if __name__ == "__main__":
    main()
