"""The reference's process: it draws inputs and parameters, holds the float64 truth and compares.

It runs the user's own reference, which is trusted; it never imports candidate code and reads a
candidate's output only as raw bytes of a size it fixed itself. Started as `python -m
agent.harness.oracle SOURCE FOLDER DEVICE DESCRIPTOR`; commands and answers are JSON lines as in the worker.

Both sides run in eval mode without gradients and with TF32 off, for matrix products and for cuDNN.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from agent import sandbox
from agent.harness import budget, wire
from agent.harness.timing import time_calls

NOISE = 0.3
"""Perturbation of every parameter relative to its own scale: an ignored affine shows, training-like
values stay; the size is the protocol page's `order 0.3`."""


class Oracle:
    def __init__(self, source: Path, folder: Path, device: str) -> None:
        self._folder, self._device = folder, device
        self._space: dict[str, Any] = {"__name__": "reference", "__file__": str(source)}
        exec(compile(source.read_text(), str(source), "exec"), self._space)
        self._model: Any = None
        self._inputs: Any = None
        self._truth: Any = None
        self._native: Any = None

    def do_parameters(self, command: dict[str, Any]) -> dict[str, Any]:
        """A new set of perturbed parameters, written for the candidate."""
        torch.manual_seed(command["seed"])
        arguments = self._space["get_init_inputs"]()
        self._model = self._space["Model"](*arguments).eval()
        generator = torch.Generator().manual_seed(command["seed"] + 1)
        for name, tensor in self._model.state_dict().items():
            _perturb(name, tensor, generator)
        self._model.to(self._device)
        return {
            "init_inputs": wire.dump(list(arguments), self._folder, command["stem"] + "-init"),
            "state": wire.dump(dict(self._model.state_dict()), self._folder, command["stem"] + "-state"),
        }

    def do_draw(self, command: dict[str, Any]) -> dict[str, Any]:
        """Fresh inputs for the candidate; the truth about them stays here."""
        self._truth = self._native = self._inputs = None
        inputs = self._drawn(command["seed"])
        description = wire.dump(inputs, self._folder, command["stem"])
        with torch.no_grad():
            self._native = _tree_map(lambda t: t.to(self._device), self._model(*inputs))
            model64 = self._copy64()
            self._truth = model64(*_tree_map(_to64, inputs))
            del model64
        self._inputs = inputs
        bad = budget.non_finite(self._native)
        shapes = [[list(t.shape), str(t.dtype).removeprefix("torch.")] for t in budget.leaves(self._native)]
        return {"inputs": description, "output_shapes": shapes, "reference_non_finite": bad}

    def do_compare(self, command: dict[str, Any]) -> dict[str, Any]:
        """Structure before values; see `agent.harness.budget` for the rule."""
        finding = budget.structure(command["outputs"], self._native)
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        output = wire.load(command["outputs"], self._folder, self._device)
        return budget.compare(output, self._native, self._truth, command["summands"])

    def do_time(self, command: dict[str, Any]) -> dict[str, Any]:
        """Cold-L2 times of the reference, eager or under torch.compile, on the present inputs."""
        self._truth = self._native = None
        torch.cuda.empty_cache()
        model = torch.compile(self._model) if command["compiled"] else self._model
        return {"ms": time_calls(lambda: model(*self._inputs), command["repeats"], command["budget_s"])}

    def do_environment(self, command: dict[str, Any]) -> dict[str, Any]:
        on_gpu = self._device == "cuda"
        return {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": torch.version.cuda if on_gpu else None,
            "gpu": torch.cuda.get_device_name() if on_gpu else None,
            "driver": _driver() if on_gpu else None,
        }

    def _drawn(self, seed: int) -> list[Any]:
        torch.manual_seed(seed)
        if self._device == "cuda":
            try:
                with torch.device("cuda"):
                    return list(_tree_map(lambda t: t.cuda(), self._space["get_inputs"]()))
            except RuntimeError:
                # An input made from numpy or from a CPU generator cannot be drawn on the GPU.
                torch.manual_seed(seed)
        return list(_tree_map(lambda t: t.to(self._device), self._space["get_inputs"]()))

    def _copy64(self) -> Any:
        arguments = self._space["get_init_inputs"]()
        model = self._space["Model"](*arguments).eval().to(self._device).double()
        model.load_state_dict({name: _to64(t) for name, t in self._model.state_dict().items()})
        return model


def _perturb(name: str, tensor: torch.Tensor, generator: torch.Generator) -> None:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return
    scale = float(tensor.double().pow(2).mean().sqrt()) or 1.0
    with torch.no_grad():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        tensor.add_((NOISE * scale * noise).to(tensor.dtype))
        if name.endswith("running_var"):
            tensor.abs_().add_(0.1)


def _tree_map(change: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_tree_map(change, item) for item in value)
    if isinstance(value, dict):
        return {key: _tree_map(change, item) for key, item in value.items()}
    return value


def _to64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _driver() -> str | None:
    version = Path("/proc/driver/nvidia/version")
    if not version.is_file():
        return None
    words = version.read_text().split("Kernel Module", 1)[-1].split()
    return next((word for word in words if word[0].isdigit()), None)


def main(argv: list[str]) -> None:
    sandbox.hide()
    commands = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    oracle: Oracle | None = None
    for line in commands:
        command = json.loads(line)
        try:
            oracle = oracle or Oracle(Path(argv[1]), Path(argv[2]), argv[3])
            answer = getattr(oracle, "do_" + command["do"])(command)
        except Exception as error:  # noqa: BLE001 - the judge turns it into one line for the user
            answer = {
                "error": f"{type(error).__name__}: {error}",
                "traceback": "".join(traceback.format_exception(error))[-8_000:],
            }
        os.write(int(argv[-1]), json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv)
