"""The reference's process: it draws inputs and parameters, holds the float64 truth and compares.

It runs the user's own reference, which is trusted; it never imports candidate code and reads a
candidate's output only as raw bytes of a size it fixed itself. Started as `python -m agent.harness.oracle
SOURCE FOLDER DEVICE SHARED DESCRIPTOR`, where SHARED are the sockets for GPU memory, or -; commands and
answers are JSON lines as in the worker.

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
from agent.diagnosis import mismatch_map
from agent.harness import budget, faults, probing, wire
from agent.harness.exchange import Exchange, Files, SharedMemory
from agent.harness.explaining import Explaining
from agent.harness.reference import Reference
from agent.harness.timed import Timed
from agent.records import Finding


class Oracle(Timed):
    def __init__(self, source: Path, folder: Path, device: str, exchange: Exchange) -> None:
        super().__init__(Reference(source, device), folder, device, exchange)
        self._last: Any = None
        self._described: dict[str, Any] = {}
        self._explaining: Explaining | None = None

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
        reference cannot take them. `as_files`: they pass as files whatever the exchange is.
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
        self._make_room()
        return self._given(command)

    def do_again(self, command: dict[str, Any]) -> dict[str, Any]:
        """The inputs of the present draw once more, at another address."""
        return self._given(command | {"in_place": False})

    def _given(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._draw is not None
        draw = self._draw
        if command.get("as_files"):
            return {"inputs": wire.dump(draw.inputs, self._folder, command["stem"])}
        native, state = draw.expected.native, self._reference.state()
        given = self._exchange.give(
            draw.inputs, native, state, stem=command["stem"], in_place=bool(command.get("in_place"))
        )
        return given | {
            "state": list(state),
            "state_bytes": [tensor.numel() * tensor.element_size() for tensor in state.values()],
            "output_bytes": [t.numel() * t.element_size() for t in budget.leaves(native)],
        }

    def do_judge(self, command: dict[str, Any]) -> dict[str, Any]:
        """Structure, then what had to stay as it was, then values; see `agent.harness.budget` for the rule.

        A finding comes with the status that it leads to.
        """
        assert self._draw is not None
        expected, earlier, self._last = self._draw.expected, self._last, None
        self._described = command["outputs"]
        finding = expected.structure(command["outputs"]) or self._foreign(command["claims"])
        if finding is not None:
            return {"status": "incorrect", "finding": finding.model_dump(mode="json")}
        finding = self._tampering(command["claims"], earlier)
        if finding is not None:
            return {"status": "rejected", "finding": finding.model_dump(mode="json")}
        output = self._exchange.outputs(command["outputs"], expected.native)
        result = expected.compare(output)
        if command["repeat"] and ("finding" in result or expected.differs(output, earlier)):
            result["finding"] = faults.not_deterministic(result.get("finding")).model_dump(mode="json")
        self._last = output
        self._make_room()
        return result | {"status": "incorrect", "native_error": expected.native_error}

    def do_compare(self, command: dict[str, Any]) -> dict[str, Any]:
        """Structure and values alone, of outputs for the present draw."""
        assert self._draw is not None
        finding = self._draw.expected.structure(command["outputs"])
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        expected = self._draw.expected
        return expected.compare(self._exchange.outputs(command["outputs"], expected.native))

    def do_explain(self, command: dict[str, Any]) -> dict[str, Any]:
        """Why the output judged last is wrong."""
        assert self._draw is not None
        found = Finding.model_validate(command["finding"])
        self._explaining = Explaining(self._reference, command["source"], found)
        if found.kind != "wrong-shape":
            return self._explaining.of_values(self._draw, self._last)
        pairs = zip(self._described["tensors"], budget.leaves(self._draw.expected.native), strict=True)
        shapes = ((tuple(spec["shape"]), tuple(want.shape)) for spec, want in pairs)
        given, wanted = next(pair for pair in shapes if pair[0] != pair[1])
        return self._explaining.of_shape(self._draw, given, wanted)

    def do_map(self, command: dict[str, Any]) -> dict[str, Any]:
        """Where the output judged last is wrong; null where its structure is, or every element is right."""
        if self._draw is None or self._last is None:
            return {"map": None}
        found = self._draw.expected.wrong(self._last)
        return {"map": mismatch_map.of(found[1], found[0]).model_dump() if found else None}

    def do_narrow(self, command: dict[str, Any]) -> dict[str, Any]:
        """The same with the candidate's outputs for the present draw besides."""
        assert self._draw is not None
        assert self._explaining is not None
        if self._draw.expected.structure(command["outputs"]) is not None:
            return {}
        output = self._exchange.outputs(command["outputs"], self._draw.expected.native)
        return self._explaining.of_values(self._draw, output)

    def _tampering(self, claims: dict[str, Any], earlier: Any) -> Finding | None:
        """What the candidate changed or shares, by bytes that came back and by its process's own claims."""
        assert self._draw is not None
        state = self._reference.state()
        own = self._reference.changes
        return (
            faults.changed(set(self._exchange.changed(self._draw.inputs, earlier, state, claims, own)))
            or faults.guard_written(self._exchange.written_bands(claims))
            or faults.overlapping(claims.get("overlaps"), self._draw.overlaps)
        )

    def do_probe(self, command: dict[str, Any]) -> dict[str, Any]:
        """Which wrong answers this problem would let pass."""
        return probing.probe(self._reference, command["seed"])

    def do_rest(self, command: dict[str, Any]) -> dict[str, Any]:
        """Forgets the present draw: what comes next needs the memory."""
        self._draw = self._last = None
        torch.cuda.empty_cache()
        return {}

    def do_health(self, command: dict[str, Any]) -> dict[str, Any]:
        """Whether the GPU still does sums."""
        numbers = torch.arange(1 << 20, device=self._device, dtype=torch.int64)
        return {"healthy": int(numbers.sum()) == (1 << 19) * ((1 << 20) - 1)}

    def do_environment(self, command: dict[str, Any]) -> dict[str, Any]:
        on_gpu = self._device == "cuda"
        return {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": torch.version.cuda if on_gpu else None,
            "gpu": torch.cuda.get_device_name() if on_gpu else None,
            "driver": _driver() if on_gpu else None,
        }


def _oracle(source: str, folder: str, device: str, shared: str) -> Oracle:
    exchange = (
        Files(Path(folder)) if shared == "-" else SharedMemory([int(number) for number in shared.split(",")])
    )
    return Oracle(Path(source), Path(folder), device, exchange)


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
            oracle = oracle or _oracle(*argv[1:5])
            answer = getattr(oracle, "do_" + command["do"])(command)
        except Exception as error:  # noqa: BLE001 - the judge turns it into one line for the user
            answer = {
                "error": f"{type(error).__name__}: {error}",
                "traceback": "".join(traceback.format_exception(error))[-8_000:],
            }
        os.write(int(argv[-1]), json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv)
