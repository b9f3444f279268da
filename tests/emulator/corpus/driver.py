"""Runs the corpus in a process that has torch and the package torch_shim, and no `agent`.

argv: the directory of the package torch_shim, the runtime library, and a JSON object {"correct": program
files, "broken": {source file: names of its functions}, "workers": OS threads, "checked": bool, "seed": int,
"memory" and "order": numbers of kw_draw}.

Speaks JSON lines on stdout: `build` requests (answered on stdin), `begin` before and `result` after each
kernel, `done` at the end. What kernels print goes to a file, whose text comes with `done`.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO


class Session:
    """The protocol, the emulated device and what has been found so far."""

    def __init__(self, place: str, runtime: str, task: dict[str, Any]) -> None:
        self._wire: TextIO = os.fdopen(os.dup(1), "w")
        self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        os.dup2(self._printed.fileno(), 1)
        sys.path.insert(0, place)
        self.torch_shim = importlib.import_module("torch_shim")
        self.torch = importlib.import_module("torch")
        self._program = ""
        self._outputs_seen = 0
        self.torch_shim.install(runtime, self._build, task["workers"])
        self._c = ctypes.CDLL(runtime)
        conditions = SimpleNamespace(memory=task["memory"], order=task["order"], seed=task["seed"], stream=0)
        self.torch_shim.check(task["checked"], conditions)
        self.torch.manual_seed(task["seed"])

    def send(self, **message: Any) -> None:
        self._wire.write(json.dumps(message) + "\n")
        self._wire.flush()

    def _build(self, request: dict[str, object]) -> dict[str, object]:
        self.send(build=request, program=self._program)
        answer: dict[str, object] = json.loads(sys.stdin.readline())
        return answer

    def correct(self, path: Path) -> None:
        """Every case of a program; findings belong to the program as a whole."""
        self._program = str(path)
        self.send(begin=path.stem)
        self._c.kw_clear_findings()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        launched = self.torch_shim.launches()
        pairs = module.cases()
        self.torch_shim.synchronize()
        self.torch_shim.check_outputs([ours for ours, _ in pairs.values()])
        cases = {name: self._difference(*pair) for name, pair in pairs.items()}
        launched = self.torch_shim.launches() - launched
        self.send(result={"cases": cases, "launches": launched, "findings": self._new_findings()})

    def _new_findings(self) -> list[dict[str, Any]]:
        """Those since the runtime's were cleared; what was found in outputs stays with the torch_shim."""
        found = self.torch_shim.findings()
        outputs = [finding for finding in found if finding["kind"] == "unwritten-output"]
        new, self._outputs_seen = outputs[self._outputs_seen :], len(outputs)
        return [finding for finding in found if finding["kind"] != "unwritten-output"] + new

    def _difference(self, ours: Any, expected: Any) -> str:
        """Empty where the result is the one that PyTorch gives."""
        if ours.shape != expected.shape or ours.dtype != expected.dtype:
            return f"{ours.dtype} {tuple(ours.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
        coarse = expected.dtype in (self.torch.float16, self.torch.bfloat16)
        tolerances = (2e-2, 2e-2) if coarse else (1e-4, 1e-5)
        if self.torch.allclose(ours.double(), expected.double(), *tolerances):
            return ""
        return f"differs by up to {(ours.double() - expected.double()).abs().max().item():g}"

    def broken(self, path: Path, functions: list[str]) -> None:
        """Each function on a device without errors."""
        self._program = str(path)
        text = path.read_text()
        inline = importlib.import_module("torch.utils.cpp_extension")
        declarations = "".join(f"torch::Tensor {name}(torch::Tensor x);" for name in functions)
        try:
            ops = inline.load_inline(path.stem, [declarations], [text], functions=functions)
        except RuntimeError:
            ops = None  # the other side has the findings of the build
        for name in functions:
            self.send(begin=name)
            if ops is None:
                self.send(result={"refused": True})
                continue
            x = self.torch.randn(1000, device="cuda")
            self._c.kw_clear_findings()
            raised = None
            try:
                result = getattr(ops, name)(x)
                self.torch_shim.synchronize()
                self.torch_shim.check_outputs(result)
            except RuntimeError as error:
                raised = str(error)
            found = self._new_findings()
            self._c.cudaDeviceReset()
            self.send(result={"findings": found, "raised": raised})

    def end(self) -> None:
        ctypes.CDLL(None).fflush(None)
        self._printed.seek(0)
        self.send(done=self._printed.read())


def main() -> None:
    place, runtime, text = sys.argv[1:]
    task = json.loads(text)
    session = Session(place, runtime, task)
    try:
        for program in task["correct"]:
            session.correct(Path(program))
        for source, functions in task["broken"].items():
            session.broken(Path(source), functions)
    except Exception:  # noqa: BLE001 - the other side of the pipe has to learn of it
        session.send(error=traceback.format_exc())
    session.end()


if __name__ == "__main__":
    main()
