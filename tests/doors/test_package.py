"""An exported kernel is built and used by an interpreter that has torch and not us."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.commands import agent
from transcripts import SETTINGS, STARTED, evaluation

from agent.api import Run
from agent.doors.package import export, named
from agent.errors import UsageError
from agent.records import Attempt, Candidate, Evaluated, Problem, RunFinished, Status, TensorSpec, Trace
from agent.store import create

REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(width))

    def forward(self, x, times):
        return times * self.weight * x, x.sum()


def get_inputs():
    return [torch.rand(3, 5), 2]


def get_init_inputs():
    return [5]
"""
CANDIDATE = (
    REFERENCE.split("def get_inputs")[0]
    .replace("class Model", "class ModelNew")
    .replace("(torch.nn.Module)", "(torch.nn.Module)")
)
"""Stands for a kernel: plain torch, so that a machine without a GPU can call it."""
USED = """\
import sys
sys.modules["agent"] = None
import torch
from {name}.operator import Kernel, forward
import {name}
kernel = Kernel()
x = torch.rand(3, 5, requires_grad={differentiable})
out, total = kernel(x, 2)
torch.testing.assert_close(out, 2 * kernel.weight * x)
torch.testing.assert_close(total, x.sum())
from torch._subclasses import FakeTensorMode
given, state = x.detach(), kernel.weight.detach()
with FakeTensorMode() as mode:
    fake = torch.ops.{name}.forward([mode.from_tensor(given)], [mode.from_tensor(state)])
assert [tuple(one.shape) for one in fake] == [(3, 5), ()]
if {differentiable}:
    out.sum().backward()
    torch.testing.assert_close(x.grad, (2 * kernel.weight).expand(3, 5))
    torch.testing.assert_close(kernel.weight.grad, 2 * x.detach().sum(0))
else:
    try:
        out.sum().backward()
    except RuntimeError:
        assert kernel.weight.grad is None
    else:
        raise AssertionError("a gradient that nobody has verified")
tests = ("test_schema", "test_faketensor")
torch.library.opcheck(forward, ([given], [state]), test_utils=tests)
print({name}.VERDICT["status"])
"""


def ended(folder: Path, *requested: str) -> Run:
    """A run whose best is the candidate."""
    trace = Trace(
        operations=(), inputs=(TensorSpec(shape=(3, 5), dtype="float32"), 2), init_inputs=(5,),
        outputs=(), state=(TensorSpec(shape=(5,), dtype="float32", name="weight"),), flops=0, min_bytes=0,
    )  # fmt: skip
    problem = Problem(name="level9/2 scaled-sums", source=REFERENCE, trace=trace)
    found = evaluation(Status.VERIFIED)
    found = found.model_copy(update={"scope": found.scope.model_copy(update={"requested": requested})})
    run = create(folder, SETTINGS)
    candidate = Candidate(problem=problem.name, source=CANDIDATE)
    with run.writer() as writer:
        writer.append(STARTED.model_copy(update={"problem": problem}))
        attempt = Attempt(number=1, candidate=candidate, evaluation=found)
        writer.append(Evaluated(round=1, attempt=attempt, seconds=1.0))
        writer.append(RunFinished(outcome="verified", best=1, reason=""))
    return Run(run)


@pytest.mark.timeout(600)  # builds a wheel and imports torch
@pytest.mark.parametrize("requested", [(), ("backward",)])
def test_the_operator_works_where_there_is_torch_alone(tmp_path: Path, requested: tuple[str, ...]) -> None:
    package = tmp_path / "package"
    export(ended(tmp_path / "runs", *requested), package, "torch-library")
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "--target", str(site), str(package)], check=True, capture_output=True)
    code = USED.format(name="k2_scaled_sums_kernel", differentiable=bool(requested))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["verified"]


def test_the_recorded_kernel_is_exported_by_the_command(tmp_path: Path) -> None:
    done = agent("export", "recorded/group_norm", "--to", "package", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = {Path(file).name for file in json.loads(done.stdout)["files"]}
    assert files == {
        "pyproject.toml",
        "README.md",
        "__init__.py",
        "candidate.py",
        "reference.py",
        "verdict.json",
    }
    source = (tmp_path / "package" / "src" / "group_norm_kernel" / "candidate.py").read_text()
    assert "class ModelNew" in source
    assert "isolation" in (tmp_path / "package" / "README.md").read_text()
    again = agent("export", "recorded/group_norm", "--to", "package", cwd=tmp_path)
    assert (again.returncode, "holds something already" in again.stderr) == (2, True)


def test_nothing_unverified_is_exported(tmp_path: Path) -> None:
    run = create(tmp_path / "runs", SETTINGS)
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(RunFinished(outcome="no_kernel", best=None, reason=""))
    with pytest.raises(UsageError, match="no verified kernel"):
        export(Run(run), tmp_path / "package", "folder")
    assert not (tmp_path / "package").exists()


@pytest.mark.parametrize("name", ["import", "a b", "../x", "1x", ""])
def test_a_name_is_that_of_a_package(tmp_path: Path, name: str) -> None:
    run = ended(tmp_path / "runs")
    if name:
        with pytest.raises(UsageError, match="no name of a Python package"):
            export(run, tmp_path / "package", "folder", name)
    assert named(f"level1/{name}").isidentifier()
