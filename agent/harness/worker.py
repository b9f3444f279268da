"""The candidate's process: the only place where candidate code runs. Standalone; never imports `agent`.

Started as `python -I worker.py EXECUTOR SETTINGS DESCRIPTOR` in a folder that holds this file, `wire.py`,
`evidence.py`, `handover.py`, `layouts.py`, `requested.py`, `shared.py`, `timing.py`, `candidate.py`, the
exchange files and, for the emulator, the package `guest`. Commands arrive as JSON lines on standard input,
one answer each on DESCRIPTOR. Whatever it answers is a claim: it may refuse the candidate, never accept it.
"""

import ctypes
import faulthandler
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
from torch import profiler
from torch.utils import cpp_extension

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evidence  # type: ignore[import-not-found]  # noqa: E402 - copies beside this file
import handover  # type: ignore[import-not-found]  # noqa: E402
import requested  # type: ignore[import-not-found]  # noqa: E402
import timing  # type: ignore[import-not-found]  # noqa: E402
import wire  # type: ignore[import-not-found]  # noqa: E402


class Worker:
    """State between commands: the module, the present instance, the outputs that must not change."""

    def __init__(self, executor: str, settings: dict[str, Any], commands: BinaryIO, answers: int) -> None:
        self.device = "cuda" if executor == "cuda" else "cpu"
        self._commands = commands
        self._answers = answers
        self._patience_s: float = settings["patience_s"]
        self._module: Any = None
        self._model: Any = None
        self._inputs: Any = None
        self._called = False
        self._kept: Any = []
        self._timer: Any = None
        self._guest: Any = None
        shared, private = settings.get("shared", "-"), bool(settings.get("private"))
        self._handover = (
            handover.Files(HERE) if shared == "-" else handover.SharedMemory(int(shared), private)
        )
        if executor == "emulator":
            import guest  # type: ignore[import-not-found]

            self._guest = guest
            guest.install(settings["runtime"], self._build, settings["threads"], record=True)
            guest.tell_running(str(HERE / "running"))
        else:
            self._record_builds()
            if settings.get("fast"):
                import guest

                guest.build_before(cpp_extension.load_inline, self._build)

    def serve(self) -> None:
        while line := self._commands.readline():
            command = json.loads(line)
            # Whoever has to end this process finds in its log where it was; a build has a limit of its own.
            faulthandler.dump_traceback_later(0.9 * self._patience_s, exit=False)
            try:
                answer = getattr(self, "do_" + command["do"])(command)
            except BaseException as error:  # noqa: BLE001 - candidate code raises what it likes; all is reported
                answer = {"error": _described(error)}
            finally:
                faulthandler.cancel_dump_traceback_later()
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
        """A new ModelNew that holds the given parameters; with a `dtype` it is converted before."""
        arguments = self._given("init", command["init_inputs"])
        state = self._given("state", command["state"])
        self._model = self._module.ModelNew(*arguments)
        self._model = self._model.cuda() if self._guest is None else self._guest.on_device(self._model)
        if "dtype" in command:
            self._model = self._model.to(getattr(torch, command["dtype"]))
        try:
            self._model.load_state_dict(state, strict=True)
        except RuntimeError as error:
            return {"error": _described(error) | {"kind": "state-dict-mismatch"}}
        self._model.eval()
        self._handover.forget()
        return {}

    def do_call(self, command: dict[str, Any]) -> dict[str, Any]:
        """Runs forward, hands in its outputs, and with them what it should have left alone.

        `checked`: on the emulator, memory accesses are checked on the way (bands around inputs would hide
        some). `in_place`: the inputs take the memory of the call before. `keep_all`: outputs stay alive.
        """
        checked = bool(command.get("checked"))
        inputs = self._placed(command["inputs"], checked, bool(command.get("in_place")))
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
        present = self._model.state_dict()
        state = {n: present[name] for n, name in enumerate(command["state"])
                 if isinstance(present.get(name), torch.Tensor)}  # fmt: skip
        groups = {"input": inputs, "parameter": list(state.values()), "earlier output": self._kept}
        answer: dict[str, Any] = {
            "overlaps": evidence.overlaps(outputs, groups),
            "types": [type(leaf).__name__ for leaf in evidence.leaves(outputs)],
            "devices": [leaf.device.type for leaf in evidence.leaves(outputs)],
        }
        earlier = self._kept[-1] if self._kept else []
        answer |= self._handover.hand_in(outputs, inputs, state, earlier, command)
        # All of them, where they are small: a ring of buffers shows when it comes round.
        self._kept = [*(self._kept if command["keep_all"] else ()), evidence.leaves(outputs)]
        self._inputs = inputs
        return answer

    def do_beside(self, command: dict[str, Any]) -> dict[str, Any]:
        """A call of the present instance outside the protocol's order: see `requested`."""
        return dict(requested.answer(self._model, command, HERE, self.device, self._guest))

    def do_real_shapes(self, command: dict[str, Any]) -> dict[str, Any]:
        """One call of a new ModelNew at sizes that are not there, for its addresses: see `guest`."""
        self._model = self._inputs = self._kept = None
        return dict(self._guest.run_at_real_shapes(self._module.ModelNew, command))

    def _placed(self, description: dict[str, Any], checked: bool, in_place: bool) -> Any:
        self._inputs, first, self._called = None, not self._called, True
        if self._guest is not None and (checked or first):
            # The first call is also the one that is recorded, at the addresses that were handed in.
            self._handover.forget()
            return self._given("inputs", description)
        return self._handover.inputs(description, in_place)

    def do_profile(self, command: dict[str, Any]) -> dict[str, Any]:
        """What the GPU does during one call on the present inputs, by the CUDA profiler."""
        watched = [profiler.ProfilerActivity.CUDA]
        with torch.no_grad(), profiler.profile(activities=watched, acc_events=True) as seen:
            self._model(*self._inputs)
            torch.cuda.synchronize()
        return {
            "kernels": [
                {"name": event.name, "us": event.device_time, "stream": event.device_resource_id}
                for event in seen.events()
                if event.device_type.name == "CUDA"
            ]
        }

    def do_ablate(self, command: dict[str, Any]) -> dict[str, Any]:
        """One call on the present inputs in which the launches of the candidate's libraries are left out."""
        suppress = ctypes.CDLL(None).kw_suppress
        evidence.poison(command["output_bytes"])
        before = suppress(1)
        try:
            with torch.no_grad():
                outputs = self._model(*self._inputs)
            torch.cuda.synchronize()
        finally:
            left_out = suppress(0) - before
        return {"left_out": left_out, **self._handover.answer(outputs)}

    def do_timed(self, command: dict[str, Any]) -> dict[str, Any]:
        """Milliseconds of one call on the present inputs, and where its outputs are."""
        self._kept = []
        if self._timer is None:
            torch.cuda.empty_cache()
            self._timer = timing.Timer()
        milliseconds, outputs = self._timer.timed(lambda: self._model(*self._inputs))
        return {"ms": milliseconds} | self._timed(outputs)

    def do_repeated(self, command: dict[str, Any]) -> dict[str, Any]:
        """So many calls on the present inputs; the outputs of the last."""
        return self._timed(timing.repeated(lambda: self._model(*self._inputs), command["times"]))

    def do_prepare_row(self, command: dict[str, Any]) -> dict[str, Any]:
        """Memory for calls in a row, each on inputs of its own."""
        self._handover.prepare_row(command["row"])
        return {}

    def do_row(self, command: dict[str, Any]) -> dict[str, Any]:
        """So many calls, each on inputs of its own, and the outputs of all of them."""
        return {"there": self._handover.in_a_row(self._model, command["times"])}

    def _timed(self, outputs: Any) -> dict[str, Any]:
        return {
            **self._handover.answer(outputs),
            "types": [type(leaf).__name__ for leaf in evidence.leaves(outputs)],
            "devices": [leaf.device.type for leaf in evidence.leaves(outputs)],
        }

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        self._answer({"request": "build", "build": request})
        return dict(json.loads(self._commands.readline()))

    def _given(self, what: str, description: dict[str, Any]) -> Any:
        """What the judge handed in."""
        if self._guest is None:
            return wire.load(description, HERE, "cuda")
        return self._guest.given(what, lambda: wire.load(description, HERE, "cuda"))

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
