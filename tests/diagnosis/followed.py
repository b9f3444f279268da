"""Answers in a few lines of torch, as if a replay had told what each of their kernels wrote."""

from pathlib import Path
from typing import Any

import torch

from agent.diagnosis.mismatch.case import Case
from agent.diagnosis.where.following import Followed, Kernel, Output, Writers, Writing
from agent.harness.oracle import explanation
from agent.harness.truth.reference import Reference
from agent.records import Finding

Tensor = torch.Tensor
Wrote = tuple[str, tuple[Tensor, ...]]
"""A kernel and what it wrote, each to a piece of memory of its own."""


def case(folder: Path, text: str, output: Any, source: str = "") -> tuple[Case, Finding]:
    """What is to be explained; `output` is computed from the module and its inputs."""
    file = folder / "reference.py"
    file.write_text(text)
    reference = Reference(file, "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    with torch.no_grad():
        given = output(reference.model, *draw.inputs)
    verdict = draw.expected.compare(given)
    assert "finding" in verdict, "the judge takes this answer for right"
    return explanation.case(reference, draw, given, source), Finding.model_validate(verdict["finding"])


def inputs(case: Case) -> list[Tensor]:
    """In float32."""
    return [t.float() if t.is_floating_point() else t for t in case.inputs]


def cells(count: int, launch: int, threads: int = 32, several: Tensor | None = None) -> Writers:
    """One thread for each word, blocks of so many."""
    place = torch.arange(count)
    alone = torch.zeros(count, dtype=torch.bool)
    return Writers(
        torch.full((count,), launch),
        place // threads,
        place % threads,
        torch.zeros(count, dtype=torch.int64),
        alone if several is None else several,
        alone,
    )


def followed(wrote: list[Wrote], outputs: list[Tensor], writers: Writers | None = None) -> Followed:
    """Kernels one after the other; the last one wrote the outputs besides."""
    launches = [Kernel(name, 10 * (k + 1), (4, 1, 1), (32, 1, 1)) for k, (name, _) in enumerate(wrote)]
    writings: list[Writing] = []
    for launch, (_, tensors) in enumerate(wrote, 1):
        for tensor in tensors:
            words = tensor.numel() * tensor.element_size() // 4
            values = tensor.contiguous().reshape(-1).view(torch.uint8)
            writings.append(Writing(launch, launch, len(writings), values, cells(words, launch)))
    made = [Output(y, writers or cells(y.numel(), len(wrote))) for y in outputs]
    return Followed(launches, writings, made)
