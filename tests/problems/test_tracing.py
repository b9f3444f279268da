"""Whole problems through the tracing child: what hangs, exits or crashes ends in one line.

Each child imports torch, which takes seconds: all of them start together, once.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent import problems
from agent.errors import AgentError, EnvironmentFault, ProblemError
from agent.problems import child
from agent.records import Problem, TensorSpec

BODY = """import os, sys, time
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        {forward}


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
"""
FORWARDS = {
    "raises": "raise ValueError('bad\\n shape')",
    "hangs": "time.sleep(1000)",
    "spins": "while True: pass",
    "ends": "os._exit(0)",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "dies": "os.kill(os.getpid(), 9)",
    "prints": "print('y' * 10_000_000); sys.stderr.write('{}'); return x",
    "compiles": "return torch.compile(lambda y: y + 1)(x)",
    "forks": "os.fork() or time.sleep(1000); return x + 1",
}
EXPECTED = {
    "raises": ":8: forward raised ValueError: bad shape",
    "hangs": ":8: forward did not finish within 3 s",
    "spins": ":8: forward did not finish within 3 s",
    "ends": ":8: forward ends the process (os._exit)",
    "crashes": ":8: forward was killed by SIGSEGV",
    "dies": ": forward was killed by SIGKILL, out of memory?",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("references")
    for name, forward in FORWARDS.items():
        (folder / f"{name}.py").write_text(BODY.replace("{forward}", forward))
    return folder


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the children of this module get their folders."""
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(scratch))
        yield scratch


@pytest.fixture(scope="module")
def ends(folder: Path, scratch: Path) -> Mapping[str, Problem | AgentError]:
    """Every reference of FORWARDS and a shipped one, loaded two at a time."""

    def loaded(address: str) -> Problem | AgentError:
        hanging = Path(address).stem in {"hangs", "spins"}
        try:
            return problems.load(address, time_limit_s=3 if hanging else 60)
        except AgentError as error:
            return error

    addresses = {name: str(folder / f"{name}.py") for name in FORWARDS} | {"shipped": "group_norm"}
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(addresses, pool.map(loaded, addresses.values()), strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_reference_that_does_not_end_well(
    name: str, ends: Mapping[str, Problem | AgentError], folder: Path
) -> None:
    error = ends[name]
    assert isinstance(error, ProblemError)
    assert str(error) == f"{folder / name}.py{EXPECTED[name]}"


def test_the_traceback_travels_as_a_note(ends: Mapping[str, Problem | AgentError]) -> None:
    (note,) = ends["raises"].__notes__  # type: ignore[union-attr]
    assert note.startswith("Traceback")
    assert 'File "<reference>", line 8, in forward' in note


def test_noise_and_children_of_the_reference_do_no_harm(ends: Mapping[str, Problem | AgentError]) -> None:
    for name in ("prints", "forks"):
        assert isinstance(ends[name], Problem), ends[name]


def test_compiled_parts_show_their_operators(ends: Mapping[str, Problem | AgentError]) -> None:
    compiled = ends["compiles"]
    assert isinstance(compiled, Problem), compiled
    assert [op.op for op in compiled.trace.operations] == ["add"]


def test_nothing_of_a_child_stays(ends: Mapping[str, Problem | AgentError], scratch: Path) -> None:
    assert len(ends) == len(FORWARDS) + 1
    assert list(scratch.iterdir()) == []
    running = [_command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert [line for line in running if str(scratch) in line] == []


def _command_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def test_a_shipped_problem_has_its_name_and_trace(ends: Mapping[str, Problem | AgentError]) -> None:
    problem = ends["shipped"]
    assert isinstance(problem, Problem)
    assert problem.name == "level1/group_norm"
    assert problem.trace.inputs == (TensorSpec(shape=(112, 64, 512, 512), dtype="float32"),)
    assert problem.trace.min_bytes == 4 * (2 * 112 * 64 * 512 * 512 + 128)


def test_a_tracer_that_does_not_start_is_no_fault_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(
        "#!/bin/sh\necho 'ImportError: libtorch.so: cannot open shared object' >&2\nexit 1\n"
    )
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with pytest.raises(
        EnvironmentFault, match="does not start with .*python: ImportError: libtorch"
    ) as caught:
        child.trace(BODY, "x.py", 2)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def test_the_package_imports_no_torch() -> None:
    code = "import sys, agent.problems; print([m for m in ('torch', 'numpy', 'openai') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
