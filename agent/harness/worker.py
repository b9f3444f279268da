"""The candidate's process: the only place where candidate code runs. Standalone; never imports `agent`.

Started as `python -I worker.py EXECUTOR SETTINGS DESCRIPTOR` in a folder that holds this file, `wire.py`,
`evidence.py`, `timing.py`, `candidate.py`, the exchange files and, for the emulator, the package `guest`.
Commands arrive as JSON lines on standard input, one answer each on DESCRIPTOR. Whatever it answers is a
claim: it may refuse the candidate, never accept it.
"""

import importlib.util
import inspect
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch.utils import cpp_extension

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evidence  # type: ignore[import-not-found]  # noqa: E402 - copies beside this file
import timing  # type: ignore[import-not-found]  # noqa: E402
import wire  # type: ignore[import-not-found]  # noqa: E402


class Worker:
    """State between commands: the module, the present instance, the outputs that must not change."""

    def __init__(self, executor: str, settings: dict[str, Any], commands: BinaryIO, answers: int) -> None:
        self.device = "cuda" if executor == "cuda" else "cpu"
        self._commands = commands
        self._answers = answers
        self._module: Any = None
        self._model: Any = None
        self._inputs: Any = None
        self._called = False
        self._places: Any = None
        self._kept: Any = []
        self._guest: Any = None
        if executor == "emulator":
            import guest  # type: ignore[import-not-found]

            self._guest = guest
            guest.install(settings["runtime"], self._build, settings["threads"], record=True)
        else:
            self._record_builds()
            if settings.get("fast"):
                import guest

                guest.build_before(cpp_extension.load_inline, self._build)

    def serve(self) -> None:
        while line := self._commands.readline():
            command = json.loads(line)
            try:
                answer = getattr(self, "do_" + command["do"])(command)
            except BaseException as error:  # noqa: BLE001 - candidate code raises what it likes; all is reported
                answer = {"error": _described(error)}
            self._answer(answer | self._device_report())

    def do_load(self, command: dict[str, Any]) -> dict[str, Any]:
        spec = importlib.util.spec_from_file_location("candidate", HERE / "candidate.py")
        assert spec is not None
        assert spec.loader is not None
        self._module = importlib.util.module_from_spec(spec)
        sys.modules["candidate"] = self._module
        spec.loader.exec_module(self._module)
        if not isinstance(getattr(self._module, "ModelNew", None), type):
            raise AttributeError("the file defines no class ModelNew")
        return {"torch": torch.__version__}

    def do_instance(self, command: dict[str, Any]) -> dict[str, Any]:
        """A new ModelNew that holds the given parameters."""
        arguments = self._given("init", command["init_inputs"])
        state = self._given("state", command["state"])
        self._model = self._module.ModelNew(*arguments)
        if self.device == "cuda":
            self._model = self._model.cuda()
        try:
            self._model.load_state_dict(state, strict=True)
        except RuntimeError as error:
            return {"error": _described(error) | {"kind": "state-dict-mismatch"}}
        self._model.eval()
        self._places = evidence.Inputs(self.device)
        return {}

    def do_call(self, command: dict[str, Any]) -> dict[str, Any]:
        """Runs forward, writes its outputs, and looks at what it should have left alone.

        `checked`: on the emulator, memory accesses are checked on the way (bands around inputs would hide
        some). `in_place`: the inputs take the memory of the call before. `send_back`: the bytes of inputs,
        parameters and the outputs before go back under this stem; without one only a hash is compared.
        """
        checked = bool(command.get("checked"))
        inputs = self._placed(command["inputs"], checked, bool(command.get("in_place")))
        state = self._state(command.get("state", []))
        watched = [inputs, list(state.values()), self._kept]
        send_back: str | None = command.get("send_back")
        before = None if send_back else [evidence.fingerprint(group) for group in watched]
        if self._guest is not None:
            self._guest.check(checked)
        else:
            evidence.poison(command["output_bytes"])
        with torch.no_grad():
            outputs = self._model(*inputs)
        self._synchronize()
        if self._guest is not None:
            self._guest.check_outputs(outputs)
            record = self._guest.record(outputs)
            if record is not None:
                (HERE / "record.jsonl").write_text(record)
        answer: dict[str, Any] = {"outputs": wire.dump(outputs, HERE, command["stem"])}
        if before is None and send_back:
            self._send_back(send_back, inputs, command["state"])
        elif before is not None:
            after = [evidence.fingerprint(group) for group in watched]
            kinds = ("input", "parameter", "earlier output")
            answer["changed"] = [
                kind for kind, old, new in zip(kinds, before, after, strict=True) if old != new
            ]
        groups = {"input": inputs, "parameter": state, "earlier output": self._kept}
        answer |= {
            "overlaps": evidence.overlaps(outputs, groups),
            "written_bands": self._places.written_bands(),
            "types": [type(leaf).__name__ for leaf in evidence.leaves(outputs)],
            "devices": [leaf.device.type for leaf in evidence.leaves(outputs)],
        }
        # All of them, where they are small: a ring of buffers shows when it comes round.
        self._kept = [*(self._kept if send_back else ()), evidence.leaves(outputs)]
        self._inputs = inputs
        return answer

    def do_real_shapes(self, command: dict[str, Any]) -> dict[str, Any]:
        """One call of a new ModelNew at sizes that are not there, for its addresses: see `guest`."""
        self._model = self._inputs = self._kept = None
        return dict(self._guest.run_at_real_shapes(self._module.ModelNew, command))

    def _placed(self, description: dict[str, Any], checked: bool, in_place: bool) -> Any:
        self._inputs, first, self._called = None, not self._called, True
        if self._guest is not None and (checked or first):
            # The first call is also the one that is recorded, at the addresses that were handed in.
            self._places = evidence.Inputs(self.device)
            return self._given("inputs", description)
        return self._places.place(wire.load(description, HERE, "cpu"), in_place)

    def _state(self, names: list[str]) -> dict[str, Any]:
        """The parameters and buffers that were given, as far as they are still there."""
        present = self._model.state_dict()
        return {name: present[name] for name in names if isinstance(present.get(name), torch.Tensor)}

    def _send_back(self, stem: str, inputs: Any, names: list[str]) -> None:
        """One file for each input, each given parameter and each output of the call before."""
        wire.dump(evidence.leaves(inputs), HERE, stem + "-input")
        wire.dump(self._kept[-1] if self._kept else [], HERE, stem + "-output")
        state = self._state(names)
        for number, name in enumerate(names):
            if name in state:
                wire.dump(state[name], HERE, f"{stem}-parameter.{number}")

    def do_time(self, command: dict[str, Any]) -> dict[str, Any]:
        """Milliseconds of each of `repeats` calls on the present inputs, the L2 cache flushed before each."""
        self._kept = []
        return {
            "ms": timing.time_calls(
                lambda: self._model(*self._inputs), command["repeats"], command["budget_s"]
            )
        }

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        self._answer({"request": "build", "build": request})
        return dict(json.loads(self._commands.readline()))

    def _given(self, what: str, description: dict[str, Any]) -> Any:
        """What the judge handed in."""
        if self._guest is None:
            return wire.load(description, HERE, self.device)
        return self._guest.given(what, lambda: wire.load(description, HERE, self.device))

    def _record_builds(self) -> None:
        """Tells the judge what the stock `load_inline` was asked to build, and what came of it."""
        stock = cpp_extension.load_inline
        signature = inspect.signature(stock)

        def load_inline(*args: Any, **kwargs: Any) -> Any:
            asked = signature.bind(*args, **kwargs).arguments
            request = {
                key: value for key, value in asked.items() if isinstance(value, (str, list, dict, tuple))
            }
            started = time.monotonic()
            log = None
            try:
                return stock(*args, **kwargs)  # type: ignore[no-untyped-call]
            except Exception as error:
                log = str(error)[-200_000:]
                raise
            finally:
                self._build(request | {"seconds": time.monotonic() - started, "log": log})

        load_inline.__signature__ = signature  # type: ignore[attr-defined]
        cpp_extension.load_inline = load_inline

    def _synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()
        elif self._guest is not None:
            self._guest.synchronize()

    def _device_report(self) -> dict[str, Any]:
        if self._guest is None:
            return {}
        return {"launches": self._guest.launches(), "device_findings": self._guest.findings()}

    def _answer(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._answers, data) :]


def _described(error: BaseException) -> dict[str, Any]:
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(HERE / "candidate.py")
    ]
    return {
        "type": type(error).__name__,
        "message": str(error)[:60_000],
        "line": frames[-1].lineno if frames else getattr(error, "lineno", None),
        "traceback": "".join(traceback.format_exception(error))[-8_000:],
    }


def main(argv: list[str]) -> None:
    executor, settings, answers = argv[1], json.loads(argv[2]), int(argv[-1])
    # The candidate gets an empty standard input: it must not be able to swallow commands by reading it.
    commands = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    torch.set_num_threads(settings.get("torch_threads", 1))
    Worker(executor, settings, commands, answers).serve()


if __name__ == "__main__":
    main(sys.argv)
