"""The candidate's process: the only place where candidate code runs. Standalone; never imports `agent`.

The judge starts it as `python -I worker.py EXECUTOR SETTINGS DESCRIPTOR` in a folder that
`harness/backends/workspace.py` fills. Commands, declared by `worker_commands`, arrive as JSON lines on
standard input, with one answer each on DESCRIPTOR. Every answer is a claim: it may refuse the candidate but
never verify it.
"""

import faulthandler
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch.utils import cpp_extension

HERE = Path(__file__).resolve().parent
CANDIDATE = "candidate.py"
sys.path.insert(0, str(HERE))
import caller_state  # type: ignore[import-not-found]  # noqa: E402 - copies beside this file
import construction  # type: ignore[import-not-found]  # noqa: E402
import held_outputs  # type: ignore[import-not-found]  # noqa: E402
import load_inline_watch  # type: ignore[import-not-found]  # noqa: E402
import memory_guards  # type: ignore[import-not-found]  # noqa: E402
import messages  # type: ignore[import-not-found]  # noqa: E402
import optional_checks  # type: ignore[import-not-found]  # noqa: E402
import profiled  # type: ignore[import-not-found]  # noqa: E402
import surroundings  # type: ignore[import-not-found]  # noqa: E402
import timing  # type: ignore[import-not-found]  # noqa: E402
import transport  # type: ignore[import-not-found]  # noqa: E402
import wire  # type: ignore[import-not-found]  # noqa: E402
import worker_commands  # type: ignore[import-not-found]  # noqa: E402


class Worker:
    """Worker: runs the judge's commands on a candidate.

    It keeps the candidate's module, the current instance, and the outputs that must not change.
    """

    def __init__(self, executor: str, settings: dict[str, Any], commands: BinaryIO, answers: int) -> None:
        self.device = "cuda" if executor == "cuda" else "cpu"
        self._commands = commands
        self._answers = answers
        self._file = HERE / CANDIDATE
        self._patience_s: float = settings["patience_s"]
        self._module: Any = None
        self._instance: Any = None
        """Command that made the current instance."""
        self._model: Any = None
        self._former: list[Any] = []
        """Previous instance in a list, if the judge may call it again; otherwise empty."""
        self._inputs: Any = None
        self._called = self._ahead = False
        self._kept: Any = []
        self._timer: Any = None
        self._shim: Any = None
        shared, private = settings.get("shared", "-"), bool(settings.get("private"))
        self._transport = (
            transport.Files(HERE) if shared == "-" else transport.SharedMemory(int(shared), private)
        )
        if executor == "emulator":
            import torch_shim  # type: ignore[import-not-found]

            self._shim = torch_shim
            torch_shim.install(settings["runtime"], self._build, settings["threads"], record=True)
            torch_shim.tell_running(str(HERE / "running"))
            torch_shim.lock()
        else:
            load_inline_watch.record(self._build)
            if settings.get("slim"):
                import torch_shim

                torch_shim.build_before(cpp_extension.load_inline, self._build)

    def serve(self) -> None:
        while line := self._commands.readline():
            self._watch()
            try:
                answer = self.answer(line)
            except BaseException as error:  # noqa: BLE001 - candidate code raises what it likes; all is reported
                answer = {"error": _described(error, self._file)}
            finally:
                faulthandler.cancel_dump_traceback_later()
            self._answer(answer | self._device_report())

    def answer(self, line: bytes | str) -> dict[str, Any]:
        """Return the answer to one command. For an invalid command, it says that the judge is at fault."""
        try:
            command = messages.decoded(line, worker_commands.Command)
        except messages.Malformed as error:
            return {worker_commands.REFUSED: str(error)}
        return dict(getattr(self, "do_" + messages.tag(type(command)))(command))

    def do_load(self, command: worker_commands.Load) -> dict[str, Any]:
        self._ahead = command.ahead
        self._file = HERE / f"{command.name}.py"  # a name that does not reveal the judge
        self._file.write_bytes((HERE / CANDIDATE).read_bytes())
        sys.argv[:] = [str(self._file)]
        if self._shim is not None:
            self._shim.watch_file(str(self._file))
        spec = importlib.util.spec_from_file_location(command.name, self._file)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        self._module = importlib.util.module_from_spec(spec)
        sys.modules[command.name] = self._module
        with caller_state.kept("importing the file"):
            spec.loader.exec_module(self._module)
        if not isinstance(getattr(self._module, "ModelNew", None), type):
            raise AttributeError("the file defines no class ModelNew")
        return {"torch": torch.__version__}

    def do_instance(self, command: worker_commands.Instance) -> dict[str, Any]:
        """Make a ModelNew, converted to `dtype` if one is given, and load the parameters into it."""
        self._instance = command
        self._former = [self._model] if command.keeps_former and self._model is not None else []
        arguments = self._given("init", command.init_inputs)
        state = self._given("state", command.state)
        with construction.skip_initialisation(state):
            self._model = self._module.ModelNew(*arguments)
        self._model = self._model.cuda() if self._shim is None else self._shim.on_device(self._model)
        if command.dtype is not None:
            self._model = self._model.to(getattr(torch, command.dtype))
        try:
            self._model.load_state_dict(state, strict=True)
        except RuntimeError as error:
            misfit = _described(error, self._file) | {"kind": "state-dict-mismatch"}
            return {"error": misfit, "held": self._held()}
        self._model.eval()
        self._transport.forget()
        return {}

    def do_call(self, command: worker_commands.Call) -> dict[str, Any]:
        """Run forward and pass its outputs, with the tensors that it had to leave unchanged, to the oracle.

        With `checked`, the emulator checks memory accesses, and inputs have no guard bands, which would hide
        some errors. With `in_place`, inputs lie in the previous call's memory. With `keep_all`, outputs stay
        alive.
        """
        if command.stateful:
            self.do_instance(self._instance)
        inputs = self._placed(command.inputs, command.checked, command.in_place)
        if self._shim is None:
            memory_guards.poison(command.output_bytes, command.fresh)
        else:
            self._shim.check(command.checked, command.conditions)
        with surroundings.apply_conditions(self._model, command.conditions), caller_state.kept("forward"):
            outputs = self._model(*inputs)
        self._synchronize()
        caller_state.check_inputs(memory_guards.leaves(inputs))
        if self._shim is not None:
            self._shim.check_outputs(outputs)
            (HERE / "record.jsonl").write_text(self._shim.record(outputs) or "")
        present = memory_guards.held(self._model)
        state = {n: present[name] for n, name in enumerate(command.state)
                 if isinstance(present.get(name), torch.Tensor)}  # fmt: skip
        groups = {"input": inputs, "parameter": list(state.values()), "earlier output": self._kept}
        overlaps = memory_guards.overlaps(outputs, groups)
        # The judge itself reports outputs that share memory with other tensors, unless this is allowed.
        apart = [leaf for leaf, shared in zip(memory_guards.leaves(outputs), overlaps, strict=True)
                 if command.may_alias or not shared]  # fmt: skip
        caller_state.check_outputs(apart, command.may_overlap)
        answer: dict[str, Any] = {
            "overlaps": overlaps,
            "types": [type(leaf).__name__ for leaf in memory_guards.leaves(outputs)],
            "devices": [leaf.device.type for leaf in memory_guards.leaves(outputs)],
        }
        earlier = self._kept[-1] if self._kept else []
        answer |= self._transport.hand_in(outputs, inputs, state, earlier, command)
        self._kept = [*(self._kept if command.keep_all else ()), memory_guards.leaves(outputs)]
        self._inputs = inputs
        if self._shim is None:
            memory_guards.leave_room()
        return answer

    def do_former(self, command: worker_commands.Former) -> dict[str, Any]:
        """Swap the current and the former instance. With `ends`, then release the former one."""
        self._model, self._former = self._former[0], [self._model]
        if command.ends:
            caller_state.released(self._former, self._kept[-1] if self._kept else [], self._synchronize)
        return {}

    def do_further(self, command: worker_commands.Further) -> dict[str, Any]:
        """Make more calls of the current instance and keep their outputs alive; see `held_outputs`."""
        return dict(held_outputs.run(self._model, self._inputs, self._kept, command, self._shim))

    def do_beside(self, command: worker_commands.Beside) -> dict[str, Any]:
        """Make a call that is not part of the protocol; see `optional_checks`."""
        return dict(optional_checks.answer(self._model, command, HERE, self.device, self._shim))

    def do_real_shapes(self, command: worker_commands.RealShapes) -> dict[str, Any]:
        """Call a new ModelNew at the real sizes, on memory that is not backed; see `torch_shim`."""
        self._model = self._inputs = self._kept = None
        return dict(self._shim.run_at_real_shapes(self._module.ModelNew, vars(command)))

    def do_kernels(self, command: worker_commands.Kernels) -> dict[str, Any]:
        """Return the kernels that the emulator has launched so far."""
        return {"kernels": self._shim.kernels()}

    def _placed(self, description: dict[str, Any], checked: bool, in_place: bool) -> Any:
        self._inputs, first, self._called = None, not self._called, True
        if self._shim is None:
            return self._transport.inputs(description, in_place)
        if checked or first:
            self._transport.forget()
            return self._given("inputs", description)
        return self._shim.given("inputs", lambda: self._transport.inputs(description, in_place))

    def do_profile(self, command: worker_commands.Profile) -> dict[str, Any]:
        """Return the GPU work of one call on the current inputs, by the CUDA profiler."""
        return {"kernels": profiled.kernels(lambda: self._model(*self._inputs))}

    def do_ablate(self, command: worker_commands.Ablate) -> dict[str, Any]:
        """Make one call on the current inputs without the launches of the candidate's libraries."""
        outputs, left_out = optional_checks.without_kernels(lambda: self._model(*self._inputs), command)
        answer = {"left_out": left_out, **self._transport.answer(outputs)}
        del outputs
        memory_guards.leave_room()  # the oracle next computes a ground truth, which takes a lot of memory
        return answer

    def do_timed(self, command: worker_commands.Timed) -> dict[str, Any]:
        """Return the times of one call on the current inputs, and the description of its outputs."""
        self._kept = []
        if self._timer is None:
            torch.cuda.empty_cache()
            self._timer = timing.Timer()
        times, outputs = self._timer.timed(lambda: self._model(*self._inputs), command.flushes)
        return {**times._asdict(), **self._timed(outputs)}

    def do_repeated(self, command: worker_commands.Repeated) -> dict[str, Any]:
        """Make `times` calls on the current inputs and return the outputs of the last."""
        return self._timed(timing.repeated(lambda: self._model(*self._inputs), command.times))

    def do_prepare_row(self, command: worker_commands.PrepareRow) -> dict[str, Any]:
        """Map the memory for calls in a row, each with its own inputs."""
        self._transport.prepare_row(command.row)
        return {}

    def do_row(self, command: worker_commands.Row) -> dict[str, Any]:
        """Make `times` calls in a row, each on its own inputs, and copy all outputs."""
        return {"there": self._transport.in_a_row(self._model, command.times)}

    def _timed(self, outputs: Any) -> dict[str, Any]:
        return {
            **self._transport.answer(outputs),
            "types": [type(leaf).__name__ for leaf in memory_guards.leaves(outputs)],
            "devices": [leaf.device.type for leaf in memory_guards.leaves(outputs)],
        }

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        memory_guards.begin(self._ahead)
        self._answer({"request": "build", "build": request})
        answer = dict(json.loads(self._commands.readline()))
        self._watch()
        return answer

    def _watch(self) -> None:
        """Have tracebacks written to the log shortly before a call's time limit, unless called again."""
        faulthandler.dump_traceback_later(0.9 * self._patience_s, exit=False)

    def _given(self, what: str, description: dict[str, Any]) -> Any:
        """Return the value that a command describes, such as inputs or parameters."""
        if self._shim is None:
            if "segment" in description:
                return dict(self._transport.state(description))
            return wire.load(description, HERE, "cuda")
        return self._shim.given(what, lambda: wire.load(description, HERE, "cuda"))

    def _held(self) -> list[list[Any]]:
        """Return name, shape and dtype of each state_dict entry, and True if it is a parameter."""
        parameters = dict(self._model.named_parameters(remove_duplicate=False))
        return [
            [name, list(tensor.shape), str(tensor.dtype), name in parameters]
            for name, tensor in self._model.state_dict().items()
        ]

    def _synchronize(self) -> None:
        (torch.cuda if self._shim is None else self._shim).synchronize()

    def _device_report(self) -> dict[str, Any]:
        if self._shim is None:
            return {}
        return {"launches": self._shim.launches(), "device_findings": self._shim.findings()}

    def _answer(self, message: dict[str, Any]) -> None:
        text = json.dumps(message)
        data = (text if "request" in message else text.replace(self._file.name, CANDIDATE)).encode() + b"\n"
        while data:
            data = data[os.write(self._answers, data) :]


def _described(error: BaseException, file: Path) -> dict[str, Any]:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    return {
        "type": type(error).__name__,
        "message": str(error)[:60_000],
        "line": line if isinstance(line, int) else None,
        "traceback": "".join(traceback.format_exception(error))[-8_000:],
        "kind": None,
    }


def main(argv: list[str]) -> None:
    executor, settings, answers = argv[1], json.loads(argv[2]), int(argv[-1])
    # The candidate gets an empty standard input, so that it cannot swallow commands by reading it.
    commands = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    torch.set_num_threads(settings.get("torch_threads", 1))
    # Match the reference's process: by default, a convolution left to torch uses TF32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    Worker(executor, settings, commands, answers).serve()


if __name__ == "__main__":
    main(sys.argv)
