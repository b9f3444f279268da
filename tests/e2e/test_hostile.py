"""Candidates that loop, crash, flood, exit, fork or lie get a finding, past a screen that is switched off."""

from pathlib import Path

import pytest

from agent import config, problems, sandbox, screen
from agent.emulator.compile import toolchain
from agent.harness.backends import workspace
from agent.harness.judge import evaluate
from agent.harness.task.job import Job
from agent.records import Candidate, Evaluation, Problem, Status

REFERENCE = """
import torch
from torch import nn

rows = 16
columns = 48


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return torch.tanh(x) * self.scale


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [columns]
"""
HONEST = """
import os, sys, time
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r'''
#include <ATen/cuda/CUDAContext.h>
__global__ void kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}
torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    return y;
}
''',
    functions=["tanh_scale"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        BODY
        return ext.tanh_scale(x.contiguous(), self.scale)
"""
TIMEOUT_S = 15.0


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("reference") / "tanh_scale.py"
    path.write_text(REFERENCE)
    return problems.load(str(path))


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "check", lambda reference, candidate, permits: ())


def judged(problem: Problem, source: str) -> Evaluation:
    cache = config.load({}, offline=True).settings.cache_dir
    toolchain.prepare(cache)
    job = Job(
        problem=problem,
        candidate=Candidate(problem=problem.name, source=source),
        executor="emulator",
        candidate_timeout_s=TIMEOUT_S,
        cache_dir=str(cache),
        shrunken=problems.shrink(problem),
    )
    return evaluate.evaluate(job, lambda what: None)


def test_the_honest_one_is_verified_and_sees_nothing_of_its_judge(problem: Problem) -> None:
    secrets = [str(Path(evaluate.__file__)), "../oracle/reference.py", "/etc/shadow"]
    looked = f"assert not [place for place in {secrets} if os.path.exists(place)]"
    isolated = sandbox.strongest().name != "process"
    evaluation = judged(problem, HONEST.replace("BODY", looked if isolated else "pass"))
    assert evaluation.status is Status.VERIFIED, evaluation.findings
    assert evaluation.scope.isolation == sandbox.strongest().name
    assert set(sandbox.strongest().gaps) <= set(evaluation.scope.skipped)
    assert evaluation.scope.shapes == "full"
    assert evaluation.measurement is None


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ("while True: pass", Status.TIMEOUT, "timeout"),
        ("import ctypes; ctypes.string_at(0)", Status.RUNTIME_ERROR, "process-ended"),
        ("os._exit(0)", Status.RUNTIME_ERROR, "process-ended"),
        ("sys.exit(0)", Status.RUNTIME_ERROR, "python-error"),
        ("while True: sys.stdout.write('x' * 65536)", Status.RUNTIME_ERROR, "output-flood"),
        ("x.zero_()", Status.REJECTED, "input-modified"),
        ("return torch.tanh(x) * self.scale", Status.REJECTED, "no-kernel-launched"),
        ("return torch.tanh(x)", Status.INCORRECT, "weight-ignored"),
        ("return x[:1]", Status.INCORRECT, "wrong-shape"),
        ("return [x]", Status.INCORRECT, "wrong-structure"),
        ("return x.double()", Status.INCORRECT, "wrong-dtype"),
        ("return 1 / 0", Status.RUNTIME_ERROR, "python-error"),
    ],
)
def test_a_fault_is_named(problem: Problem, body: str, status: Status, kind: str) -> None:
    evaluation = judged(problem, HONEST.replace("BODY", body))
    assert (evaluation.status, evaluation.headline and evaluation.headline.kind) == (status, kind)
    assert evaluation.correctness is None
    # Where values are wrong, and not the structure they stand in, the judge draws where.
    drawn = evaluation.mismatch
    assert (drawn.shape if drawn else None) == ((16, 48) if kind == "weight-ignored" else None)


def test_an_output_kept_from_call_to_call_is_refused(problem: Problem) -> None:
    kept = HONEST.replace("BODY", "pass").replace(
        "return ext.tanh_scale(x.contiguous(), self.scale)",
        "y = ext.tanh_scale(x.contiguous(), self.scale)\n"
        "        self.__dict__.setdefault('kept', torch.empty_like(y)).copy_(y)\n"
        "        return self.kept",
    )
    evaluation = judged(problem, kept)
    assert evaluation.status is Status.REJECTED
    assert [finding.kind for finding in evaluation.findings] == ["output-reused"]


PIPE = (
    "[n for n in map(int, os.listdir('/proc/self/fd')) if n > 2 and os.path.islink(f'/proc/self/fd/{n}')"
    " and os.readlink(f'/proc/self/fd/{n}').startswith('pipe:') and __import__('fcntl').fcntl(n, 3) & 1][-1]"
)
"""The descriptor of the pipe for answers: the one beyond the standard streams that can be written."""


def test_a_forged_answer_on_the_pipe_does_not_help(problem: Problem) -> None:
    forged = (
        "import json\n"
        "        told = json.dumps({'outputs': {'stem': 'draw1-out', 'tree': ['tensor', 0], 'tensors': "
        "[{'shape': [16, 48], 'dtype': 'float32'}]}, 'launches': 9}).encode()\n"
        "        open('draw1-out.0', 'wb').write(b'\\0' * 3072)\n"
        f"        os.write({PIPE}, told + b'\\n'); time.sleep(1e6)"
    )
    evaluation = judged(problem, HONEST.replace("BODY", forged))
    assert evaluation.headline is not None
    # The inputs that have to come back are missing from what it says.
    assert (evaluation.status, evaluation.headline.kind) == (Status.REJECTED, "protocol-violation")


@pytest.mark.parametrize(
    "line",
    [
        '{"request": 1}', "[" * 1200 + "]" * 1200, '{"outputs": ' + "[" * 900 + "]" * 900 + "}",
        '{"launches": 1, "device_findings": [{"kind": "race", "message": "m", "count": "many"}]}',
        '{"request": "build", "build": {"name": 1, "seconds": "x"}}', '{"error": 1}', '{"error": null}', "{}",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_a_protocol_violation(problem: Problem, line: str) -> None:
    said = f"os.write({PIPE}, {line!r}.encode() + b'\\n'); time.sleep(1e6)"
    evaluation = judged(problem, HONEST.replace("BODY", said))
    assert evaluation.headline is not None
    assert (evaluation.status, evaluation.headline.kind) == (Status.REJECTED, "protocol-violation")


def test_nothing_is_left_behind(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "_roomy", lambda needed: tmp_path)
    judged(problem, HONEST.replace("BODY", "[os.fork() for _ in range(5)]; time.sleep(1e6)"))
    assert list(tmp_path.iterdir()) == []
