"""The tracing child: it runs a reference under fake tensors and records its operators.

Started as `python -m agent.problems.tracer FOLDER`, it reads a job from FOLDER/job.json, writes
FOLDER/result.json and exits. A fault of the reference is a result (`fault`: line, message, traceback). A hang
ends with a stack dump in FOLDER/stack, an exit with its line in FOLDER/exit. stdout and stderr carry nothing.
It trusts the reference as much as the user who named it: this is not a sandbox.
"""

import faulthandler
import json
import linecache
import logging
import os
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._pytree import tree_leaves

from agent.problems.constants import ConstantValues
from agent.problems.planning import Limits
from agent.problems.recording import Recorder, json_value
from agent.problems.recurrent import RecurrentLayers
from agent.problems.scaling import Scaling
from agent.records import TensorSpec, Trace

FILENAME = "<reference>"
REAL_TENSORS_MAX_BYTES = 64 * 2**20
"""Maximum bytes of inputs and parameters that become real if fake ones cannot follow the code."""
_NEEDS_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)


class ReferenceFault(Exception):
    """A reference that cannot be traced; `line` is in its source, `detail` is the full traceback."""

    def __init__(self, message: str, line: int | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.detail = detail


def trace(source: str, note_step: Callable[[str], object] = lambda step: None) -> Trace:
    """Return the trace of a reference, without memory or a GPU unless its code depends on tensor values.

    Raises ReferenceFault with the line and the cause. `note_step` is called with the name of each part.
    """
    steps = _Steps(note_step)
    try:
        return _run(source, steps, fake=True)
    except ReferenceFault as fault:
        if steps.size_bytes is None:
            raise
        if steps.size_bytes > REAL_TENSORS_MAX_BYTES:
            if not steps.needs_values:
                raise
            raise ReferenceFault(
                f"{fault}: the code depends on tensor values, and {steps.size_bytes / 2**20:,.0f} MiB of "
                f"inputs and parameters are too much to trace with real ones "
                f"(limit {REAL_TENSORS_MAX_BYTES >> 20} MiB)",
                fault.line,
                fault.detail,
            ) from None
    return _run(source, _Steps(note_step), fake=False)


class _Steps:
    """Tracker of the running part of the reference and of the facts known so far."""

    def __init__(self, note: Callable[[str], object]) -> None:
        self._note = note
        self.size_bytes: int | None = None
        self.needs_values = False

    @contextmanager
    def step(self, name: str, fallback_line: int | None = None) -> Iterator[None]:
        """Turn any exception of the reference into a ReferenceFault with its line."""
        self._note(name)
        try:
            yield
        except ReferenceFault:
            raise
        # Boundary to foreign code: SystemExit and errors of any class are the reference's fault.
        except BaseException as error:  # noqa: BLE001
            self.needs_values = isinstance(error, _NEEDS_VALUES)
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILENAME]
            line = frames[-1].lineno if frames else fallback_line
            text = " ".join(str(error).split())[:300]
            kind = type(error).__name__
            what = "exits: SystemExit" if isinstance(error, SystemExit) else f"raised {kind}"
            detail = "".join(traceback.format_exception(error))
            if "Sparse" in text and isinstance(error, (NotImplementedError, RuntimeError)):
                said = f"{name} uses a sparse tensor, which references cannot; make it dense"
                raise ReferenceFault(said, line, detail) from None
            raise ReferenceFault(f"{name} {what}{': ' if text else ''}{text}", line, detail) from None


def _run(source: str, steps: _Steps, *, fake: bool) -> Trace:
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else None
    constants = ConstantValues(mode) if mode else nullcontext()
    with torch.no_grad(), _conversions_replace_parameters(), mode or nullcontext():
        with constants:
            module = _load(source, steps)
            init_inputs = _listed(module, "get_init_inputs", steps)
            model = _constructed(module, init_inputs, steps)
        inputs = _listed(module, "get_inputs", steps)
        state = model.state_dict(keep_vars=True)
        named = {**state, **dict(model.named_buffers())}
        tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
        steps.size_bytes = sum(t.numel() * t.element_size() for t in [*tensors, *named.values()])
        recorder = Recorder(named)
        with steps.step("forward", _line_of(type(model).forward)), recorder, RecurrentLayers(recorder):
            result = model(*inputs)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if not outputs:
            line = _line_of(type(model).forward)
            raise ReferenceFault(f"forward returns {type(result).__name__}, no tensor", line)
        return _trace(recorder, list(inputs), list(init_inputs), state, outputs)


def loaded(source: str) -> tuple[torch.nn.Module, list[Any]]:
    """Return the model, in eval mode, and its inputs; the caller's modes decide which tensors they hold.

    Raises ReferenceFault.
    """
    steps = _Steps(lambda step: None)
    with _conversions_replace_parameters():
        module = _load(source, steps)
        model = _constructed(module, _listed(module, "get_init_inputs", steps), steps)
        return model, list(_listed(module, "get_inputs", steps))


def _constructed(module: Any, init_inputs: Sequence[Any], steps: _Steps) -> torch.nn.Module:
    with steps.step("Model(...)", _line_of(module.Model)):
        model = module.Model(*init_inputs)
        if not isinstance(model, torch.nn.Module):
            raise ReferenceFault("Model is no torch.nn.Module", _line_of(module.Model))
        return model.eval()


@contextmanager
def _conversions_replace_parameters() -> Iterator[None]:
    """Make `.half()`, `.to()` and similar calls put new parameters into a module.

    Normally they swap the contents of two tensors, which fake tensors refuse because weak references exist.
    """
    apply = torch.nn.Module._apply

    def replace(module: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
        for child in module.children() if recurse else ():
            child._apply(fn)  # type: ignore[no-untyped-call]
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(fn(parameter), parameter.requires_grad)
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else fn(buffer)
        return module

    torch.nn.Module._apply = replace  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module._apply = apply  # type: ignore[method-assign]


def _trace(
    recorder: Recorder,
    inputs: Sequence[Any],
    init_inputs: Sequence[Any],
    state: dict[str, torch.Tensor],
    outputs: Sequence[torch.Tensor],
) -> Trace:
    operations = recorder.finished(outputs)
    distinct = {
        id(t): t for t in [*tree_leaves(list(inputs)), *state.values()] if isinstance(t, torch.Tensor)
    }
    read = sum(recorder.bytes_read(tensor) for tensor in distinct.values())
    written = sum(tensor.numel() * tensor.element_size() for tensor in outputs)
    return Trace(
        operations=operations,
        inputs=tuple(recorder.spec(i) if isinstance(i, torch.Tensor) else json_value(i) for i in inputs),
        init_inputs=tuple(json_value(value) for value in init_inputs),
        outputs=tuple(recorder.spec(output) for output in outputs),
        state=tuple(
            TensorSpec(shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."), name=name)
            for name, t in state.items()
        ),
        flops=sum(operation.flops for operation in operations),
        min_bytes=read + written,
    )


def _load(source: str, steps: _Steps) -> Any:
    """Return the reference as a module; `inspect` and tracebacks can still find its source."""
    module = types.ModuleType("reference")
    linecache.cache[FILENAME] = (len(source), None, source.splitlines(keepends=True), FILENAME)
    sys.modules["reference"] = module
    with steps.step("the file"):
        exec(compile(source, FILENAME, "exec"), module.__dict__)
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(getattr(module, name, None)):
                raise ReferenceFault(f"{name} is missing or cannot be called")
    return module


def _listed(module: Any, name: str, steps: _Steps) -> Sequence[Any]:
    function = getattr(module, name)
    with steps.step(name, _line_of(function)):
        values = function()
        if not isinstance(values, (list, tuple)):
            kind = "Tensor" if isinstance(values, torch.Tensor) else type(values).__name__
            raise ReferenceFault(f"{name} returns {kind}, not a list", _line_of(function))
    return values


def _line_of(thing: Any) -> int | None:
    """Return the first line of a function, or of a class's constructor or else its `forward`."""
    functions = (
        [vars(thing).get(name) for name in ("__init__", "forward")] if isinstance(thing, type) else [thing]
    )
    codes = [getattr(function, "__code__", None) for function in functions]
    lines = [code.co_firstlineno for code in codes if code is not None and code.co_filename == FILENAME]
    return lines[0] if lines else None


def _job(job: dict[str, Any], note_step: Callable[[str], object]) -> dict[str, Any]:
    source = job["source"]
    if job["kind"] == "trace":
        return {"trace": trace(source, note_step).model_dump_json()}

    def attempt(changed: str) -> Trace | None:
        try:
            return trace(changed, note_step)
        except ReferenceFault:
            return None

    scaling = Scaling(source, Trace.model_validate_json(job["trace"]), attempt)
    least = scaling.least(*map(Limits.model_validate, job["tiers"]))
    return {"plan": None if least is None else least.model_dump_json()}


def main(
    folder: Path, do: Callable[[dict[str, Any], Callable[[str], object]], dict[str, Any]] = _job
) -> NoReturn:
    """Do the job in `folder` and exit, whatever threads the reference has started."""
    leave = os._exit
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, sys.stderr.fileno())
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))

    def exit_seen(status: int) -> NoReturn:
        frame = sys._getframe(1)
        line = frame.f_lineno if frame.f_code.co_filename == FILENAME else None
        (folder / "exit").write_text(json.dumps({"line": line}), encoding="utf-8")
        leave(status)

    os._exit = exit_seen
    with (folder / "stack").open("w") as stack:
        faulthandler.enable(stack)
        with FakeTensorMode():
            torch.ones(1) + 1  # loads what fake tensors need before the clock starts
        faulthandler.dump_traceback_later(job["time_limit_s"], exit=True, file=stack)
        try:
            result = do(job, lambda step: (folder / "step").write_text(step, encoding="utf-8"))
        except ReferenceFault as fault:
            result = {"fault": {"line": fault.line, "message": str(fault), "detail": fault.detail}}
        # The child's outermost boundary: a defect of the tracer must not look like a fault of the reference.
        except Exception as error:  # noqa: BLE001
            result = {"defect": {"message": repr(error), "detail": traceback.format_exc()}}
        faulthandler.cancel_dump_traceback_later()
    unfinished = folder / "result.part"
    unfinished.write_text(json.dumps(result), encoding="utf-8")
    unfinished.rename(folder / "result.json")
    leave(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
