"""An explanation takes bounded memory, and ends with the plain finding where that is too little."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch import case as cases
from agent.diagnosis.mismatch import causes, samples
from agent.diagnosis.tape import TooLarge, record
from agent.harness.oracle import explanation
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference
from agent.records import Finding

Tensor = torch.Tensor
MOST = 1 << 20
SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)).relu() * 3


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
"""
FOUND = Finding(kind="wrong-values", message="wrong")


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the size in bytes of the largest float64 tensor that is made."""

    bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        made = [t for t in tensors(result) if t.dtype is torch.float64 and not func.is_view]
        self.bytes = max([self.bytes, *(t.numel() * t.element_size() for t in made)])
        return result


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Reference, Draw]:
    """A draw whose inputs are too large as they are, and a sample of which is small."""
    for module in (explanation, samples, cases):
        monkeypatch.setattr(module, "MOST_BYTES", MOST)
    monkeypatch.setattr(explanation, "FEW_ELEMENTS", MOST // 128)
    monkeypatch.setattr(samples, "AT_ONCE", MOST // 128)
    monkeypatch.setattr(explanation, "MOST_LOOKED_AT", MOST // 16)
    return _drawn(tmp_path, SOURCE)


def _drawn(folder: Path, source: str) -> tuple[Reference, Draw]:
    (folder / "reference.py").write_text(source)
    reference = Reference(folder / "reference.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    return reference, draw


def test_a_large_output_is_explained_by_samples_without_a_copy_of_all(drawn: tuple[Reference, Draw]) -> None:
    reference, draw = drawn
    x = draw.inputs[0]
    with Largest() as largest:  # type: ignore[no-untyped-call]
        explaining = explanation.Explaining(reference, "", FOUND)
        told = explaining.of_values(draw, x.relu() * 3)
    assert told["named"]
    assert explanation.ON_SAMPLES in told["finding"]["evidence"]
    assert 0 < largest.bytes < x.numel() * torch.float64.itemsize / 2


@pytest.mark.usefixtures("drawn")
def test_a_large_output_whose_samples_depend_keeps_its_plain_finding(tmp_path: Path) -> None:
    reference, draw = _drawn(tmp_path, SOURCE.replace("mean(-1", "mean(0"))
    noise = torch.randn(draw.inputs[0].shape, generator=torch.Generator().manual_seed(5))
    with Largest() as largest:  # type: ignore[no-untyped-call]
        told = explanation.Explaining(reference, "", FOUND).of_values(draw, noise)
    assert (told["finding"]["kind"], told["finding"]["message"]) == (FOUND.kind, FOUND.message)
    assert told["finding"]["evidence"] == explanation.NO_MEMORY
    assert not told["named"]
    assert not told["open"]
    assert largest.bytes < noise.numel() * torch.float64.itemsize / 2


def test_a_large_output_of_another_shape_keeps_its_plain_finding(drawn: tuple[Reference, Draw]) -> None:
    reference, draw = drawn
    told = explanation.Explaining(reference, "", FOUND).of_shape(draw, (512, 256), (256, 512))
    assert told["finding"]["evidence"] == explanation.NO_MEMORY


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), TooLarge(),
     RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory")],
    ids=["python", "gpu", "tape", "cpu"],
)  # fmt: skip
def test_an_explanation_that_runs_out_of_memory_costs_nothing(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explain(*given: Any) -> Any:
        raise error

    monkeypatch.setattr(causes, "explain", explain)
    reference, draw = _drawn(tmp_path, SOURCE.replace("256, 512", "4, 32"))
    told = explanation.Explaining(reference, "", FOUND).of_values(draw, draw.expected.native + 1)
    assert told["finding"]["message"] == FOUND.message
    assert told["finding"]["evidence"] == explanation.NO_MEMORY


def test_another_error_of_an_explanation_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, drawn: tuple[Reference, Draw]
) -> None:
    def part(*given: Any) -> Any:
        raise RuntimeError("of ours")

    monkeypatch.setattr(samples, "part", part)
    with pytest.raises(RuntimeError, match="of ours"):
        explanation.Explaining(drawn[0], "", FOUND).of_values(drawn[1], drawn[1].expected.native + 1)


def test_a_run_is_recorded_up_to_a_size() -> None:
    x = torch.zeros(1000, dtype=torch.float64)
    assert len(record(lambda: (x + 1).view(10, 100).t() + 1, {}, 16000).calls) == 4
    with pytest.raises(TooLarge):
        record(lambda: x + 1 + 1 + 1, {}, 16000)
