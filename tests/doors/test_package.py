"""An exported kernel is built and used by an interpreter that has torch and not us."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from doors import builder_manifest
from e2e.commands import agent, install
from pydantic import ValidationError
from transcripts import SETTINGS, STARTED, evaluation

from agent.api import Run
from agent.doors.package import FORMATS, export, named, origins
from agent.errors import UsageError
from agent.kernels import manifest, sources
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
    fake = {ops}.forward([mode.from_tensor(given)], [mode.from_tensor(state)])
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


def used(site: Path, name: str, ops: str, differentiable: bool) -> subprocess.CompletedProcess[str]:
    """Has an interpreter without us use what lies in the folder."""
    code = USED.format(name=name, ops=ops, differentiable=differentiable)
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"],
        capture_output=True, text=True, check=False, cwd=site,
    )  # fmt: skip


@pytest.mark.timeout(600)  # builds a wheel and imports torch
def test_the_operator_works_where_there_is_torch_alone(tmp_path: Path) -> None:
    package, site = tmp_path / "package", tmp_path / "site"
    export(origins.of_run(ended(tmp_path / "runs")), package, "torch-library")
    install(site, package)
    name = "k2_scaled_sums_kernel"
    done = used(site, name, f"torch.ops.{name}", False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["verified"]


OPS = """\
import torch

_OPS_NAME = "_k2_scaled_sums_kernel_cuda_abcdefg"
ops = getattr(torch.ops, _OPS_NAME)


def add_op_namespace_prefix(op_name: str) -> str:
    return f"{_OPS_NAME}::{op_name}"
"""
"""What the kernel builder writes beside a kernel: a namespace for each build."""


@pytest.mark.timeout(600)  # imports torch
def test_the_project_for_the_hub_is_one_that_its_builder_takes_and_has_gradients(tmp_path: Path) -> None:
    project, name = tmp_path / "project", "k2_scaled_sums_kernel"
    files = export(origins.of_run(ended(tmp_path / "runs", "backward")), project, "hf-kernels")
    found = builder_manifest.read(project)
    assert found.general.name == name.replace("_", "-")
    package = project / "torch-ext" / name
    taken = {f".{ending}" for ending in found.torch_noarch.pyext or ["py", "pyi"]}
    assert {file.suffix for file in files if file.is_relative_to(package)} <= taken
    assert {"flake.nix", "CARD.md"} <= {file.name for file in files}
    # Where the builder has copied it to, a kernel is loaded from a path and not by the name of its project.
    (package / "_ops.py").write_text(OPS)
    done = used(project / "torch-ext", name, "torch.ops._k2_scaled_sums_kernel_cuda_abcdefg", True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("edition = 5", "edition = 4"),
        ('license = "other"\n', ""),
        ("k2-scaled", "k2_scaled"),
        ('"cuda"', '"opencl"'),
        ("pyext", "extensions"),
    ],
)
def test_the_schema_refuses_what_the_builder_would(tmp_path: Path, right: str, wrong: str) -> None:
    export(origins.of_run(ended(tmp_path / "runs")), tmp_path / "project", "hf-kernels")
    file = tmp_path / "project" / "build.toml"
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))
    with pytest.raises(ValidationError):
        builder_manifest.read(tmp_path / "project")


def test_a_shipped_kernel_is_exported_with_the_verdicts_on_its_file(tmp_path: Path) -> None:
    origin = origins.of_kernel("group_norm")
    for form in FORMATS:
        export(origin, tmp_path / form, form)
        (source,) = tmp_path.glob(f"{form}/*/group_norm_kernel/candidate.py")
        assert source.read_text() == sources.candidate("group_norm")
        verdict = json.loads(source.with_name("verdict.json").read_text())
        assert verdict["status"] == "verified"
        # A GPU has judged the file with a path of its own, which this one is not.
        assert {one["executor"] for one in verdict["verdicts"]} == {"emulator"}
        assert "any group count" in "".join(file.read_text() for file in tmp_path.glob(f"{form}/*.md"))


def test_a_path_for_one_gpu_is_exported_with_the_verdict_of_such_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of which kernels, and whether a GPU has judged the files as they are now, is not this test's matter.
    name, files = next(
        (name, one.files)
        for name in sources.OWN_PATHS
        for one in manifest.load(name).verified
        if one.executor == "cuda" and one.status == "verified"
    )
    monkeypatch.setattr(manifest, "fingerprint", lambda name: files)
    origin = origins.of_kernel(name, "90a")
    assert {one["executor"] for one in json.loads(origin.verdict)["verdicts"]} == {"cuda"}
    export(origin, tmp_path / "project", "hf-kernels")
    assert builder_manifest.read(tmp_path / "project").torch_noarch.cuda_capabilities == ["9.0a"]
    with pytest.raises(UsageError, match="has no path for 80; it has one for 90a"):
        origins.of_kernel(name, "80")
    with pytest.raises(UsageError, match="leave out --arch"):
        origins.of_kernel("layer_norm", "90a")


def test_a_kernel_whose_files_have_changed_since_is_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "fingerprint", lambda name: "another")
    with pytest.raises(UsageError, match="no verdict speaks for its portable file"):
        origins.of_kernel("softmax")


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


def test_a_name_of_nothing_is_told_of_runs_and_kernels(tmp_path: Path) -> None:
    for name, hint in (
        ("softmx", "did you mean softmax or masked_softmax?"),
        ("xyz", "see agent kernels list"),
    ):
        done = agent("export", name, "--to", "package", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: no run '{name}' in runs; there are: recorded/")
        assert done.stderr.endswith(f"; no kernel has that name either: {hint}\n")


def test_nothing_unverified_is_exported(tmp_path: Path) -> None:
    run = create(tmp_path / "runs", SETTINGS)
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(RunFinished(outcome="no_kernel", best=None, reason=""))
    with pytest.raises(UsageError, match="no verified kernel"):
        origins.of_run(Run(run))


@pytest.mark.parametrize("name", ["import", "a b", "../x", "1x", ""])
def test_a_name_is_that_of_a_package(tmp_path: Path, name: str) -> None:
    run = origins.of_run(ended(tmp_path / "runs"))
    if name:
        with pytest.raises(UsageError, match="no name of a Python package"):
            export(run, tmp_path / "package", "folder", name)
    assert named(f"level1/{name}").isidentifier()
