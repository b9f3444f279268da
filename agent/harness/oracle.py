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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from agent import sandbox
from agent.harness import budget, faults, probing, wire
from agent.harness.reference import Draw, Reference
from agent.harness.timing import time_calls
from agent.records import Finding


class Oracle:
    def __init__(self, source: Path, folder: Path, device: str) -> None:
        self._folder, self._device = folder, device
        self._reference = Reference(source, device)
        self._draw: Draw | None = None
        self._last: Any = None

    def do_parameters(self, command: dict[str, Any]) -> dict[str, Any]:
        """A new set of perturbed parameters, written for the candidate."""
        arguments = self._reference.perturb(command["seed"])
        state, self._last = self._reference.state(), None
        return {
            "init_inputs": wire.dump(arguments, self._folder, command["stem"] + "-init"),
            "state": wire.dump(state, self._folder, command["stem"] + "-state"),
        }

    def do_draw(self, command: dict[str, Any]) -> dict[str, Any]:
        """Fresh inputs for the candidate; the truth about them stays here.

        With a `family` they are derived from the draw of that seed; `{"left_out": reason}` where the
        reference cannot take them.
        """
        self._draw, family = None, command.get("family")
        try:
            draw = self._reference.draw(command["seed"], family)
            reason = draw.expected.obstacle() if draw else "no floating-point input"
        except Exception as error:
            if family is None:
                raise
            draw, reason = None, f"the reference raises {type(error).__name__}"
        if draw is None or (family is not None and reason is not None):
            return {"left_out": reason}
        self._draw = draw
        sizes = [tensor.numel() * tensor.element_size() for tensor in budget.leaves(draw.expected.native)]
        return {
            "inputs": wire.dump(draw.inputs, self._folder, command["stem"]),
            "state": list(self._reference.state()),
            "output_bytes": sizes,
        }

    def do_judge(self, command: dict[str, Any]) -> dict[str, Any]:
        """Structure, then what had to stay as it was, then values; see `agent.harness.budget` for the rule.

        A finding comes with the status that it leads to.
        """
        assert self._draw is not None
        expected, earlier, self._last = self._draw.expected, self._last, None
        finding = expected.structure(command["outputs"]) or self._foreign(command["claims"])
        if finding is not None:
            return {"status": "incorrect", "finding": finding.model_dump(mode="json")}
        finding = self._tampering(command["claims"], command["send_back"], earlier)
        if finding is not None:
            return {"status": "rejected", "finding": finding.model_dump(mode="json")}
        output = wire.load(command["outputs"], self._folder, self._device)
        result = expected.compare(output)
        if command["repeat"] and ("finding" in result or expected.differs(output, earlier)):
            result["finding"] = faults.not_deterministic(result.get("finding")).model_dump(mode="json")
        self._last = output
        return result | {"status": "incorrect", "native_error": expected.native_error}

    def do_compare(self, command: dict[str, Any]) -> dict[str, Any]:
        """Structure and values alone, of outputs for the present draw."""
        assert self._draw is not None
        finding = self._draw.expected.structure(command["outputs"])
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        return self._draw.expected.compare(wire.load(command["outputs"], self._folder, self._device))

    def _foreign(self, claims: dict[str, Any]) -> Finding | None:
        """An output that is no plain tensor, or not on the GPU."""
        devices = claims.get("devices") if self._device == "cuda" else None
        return faults.foreign_output(claims.get("types"), devices)

    def _tampering(self, claims: dict[str, Any], stem: str | None, earlier: Any) -> Finding | None:
        """What the candidate changed or shares, by bytes that came back and by its process's own claims."""
        assert self._draw is not None
        changed = set(claims.get("changed") or ()) - self._reference.changes
        if stem is not None:
            changed |= set(self._changed(stem, earlier))
        return (
            faults.changed(changed)
            or faults.guard_written(claims.get("written_bands"))
            or faults.overlapping(claims.get("overlaps"), self._draw.overlaps)
        )

    def _changed(self, stem: str, earlier: Any) -> Iterator[str]:
        """Kinds of tensors whose bytes, as sent back, are not those that were given."""
        assert self._draw is not None
        own = self._reference.changes
        for number, tensor in enumerate(budget.leaves(self._draw.inputs)):
            if "input" not in own and self._other_bytes(f"{stem}-input.{number}", tensor):
                yield "input"
        for number, (name, tensor) in enumerate(self._reference.state().items()):
            file = f"{stem}-parameter.{number}.0"
            # One that is gone was replaced, as packing does; one that is there must be as it was.
            if name not in own and (self._folder / file).exists():
                same_size = (self._folder / file).stat().st_size == tensor.numel() * tensor.element_size()
                if not same_size or self._other_bytes(file, tensor):
                    yield "parameter"
        for number, tensor in enumerate(budget.leaves(earlier)):
            if self._other_bytes(f"{stem}-output.{number}", tensor):
                yield "earlier output"

    def _other_bytes(self, file: str, tensor: torch.Tensor) -> bool:
        given = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return not torch.equal(wire.read_tensor(self._folder / file, tuple(given.shape), "uint8"), given)

    def do_probe(self, command: dict[str, Any]) -> dict[str, Any]:
        """Which wrong answers this problem would let pass."""
        return probing.probe(self._reference, command["seed"])

    def do_time(self, command: dict[str, Any]) -> dict[str, Any]:
        """Cold-L2 times of the reference, eager or under torch.compile, on the present inputs."""
        assert self._draw is not None
        inputs, model = self._draw.inputs, self._reference.model
        self._draw.expected.forget()
        self._last = None
        self._reference.forget()
        torch.cuda.empty_cache()
        model = torch.compile(model) if command["compiled"] else model
        return {"ms": time_calls(lambda: model(*inputs), command["repeats"], command["budget_s"])}

    def do_environment(self, command: dict[str, Any]) -> dict[str, Any]:
        on_gpu = self._device == "cuda"
        return {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": torch.version.cuda if on_gpu else None,
            "gpu": torch.cuda.get_device_name() if on_gpu else None,
            "driver": _driver() if on_gpu else None,
        }


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
