"""`agent eval` and `agent replay` on the recorded answers, and what they say where nothing can be judged."""

import json
import os
import shutil
from pathlib import Path

import endpoint
import pytest
from e2e.commands import agent
from mend.candidates import MENDABLE

from agent.build import nvcc
from agent.kernels import auditing, sources

VERDICTS = [(1, "build_error", 1), (2, "incorrect", 1), (3, "incorrect", 1), (4, "verified", 0)]


@pytest.mark.parametrize(("number", "status", "code"), VERDICTS)
def test_recorded_answers_get_their_verdicts(number: int, status: str, code: int, tmp_path: Path) -> None:
    done = agent(
        "eval", "level1/group_norm", f"recorded/group_norm:{number}", "--executor", "emulator", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    evaluation = json.loads(done.stdout)
    assert evaluation["status"] == status
    assert evaluation["measurement"] is None
    assert evaluation["scope"]["sizes"]["batch_size"] == [112, 6]
    if number == 1:
        assert evaluation["findings"][0]["kind"] == "missing-declaration"
        assert evaluation["findings"][0]["location"]["line"] > 1


def test_timings_show_where_the_time_went(tmp_path: Path) -> None:
    done = agent(
        "eval", "level1/group_norm", "recorded/group_norm:1", "--executor", "emulator", "--timings",
        cwd=tmp_path, COLUMNS="80",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    table = done.stdout[done.stdout.index("\nphase ") :].split("\n")[1:-1]
    assert all(len(line) <= 80 for line in table)
    rows = dict(line.rsplit(maxsplit=1) for line in table[1:])
    assert {"starting", "building", "in all"} <= rows.keys()
    *parts, whole = map(float, rows.values())
    assert sum(parts) == pytest.approx(whole, abs=0.1)


@pytest.mark.parametrize("name", sources.FUSED)
def test_a_fused_kernel_needs_none_of_torchs_operators(name: str, tmp_path: Path) -> None:
    (tmp_path / "candidate.py").write_text(sources.candidate(name))
    done = agent(
        "eval", auditing.PROBLEMS[name], "candidate.py", "--executor", "emulator", "--library-ops", "none",
        "--quick", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)
    assert evaluation["status"] == "verified"
    assert evaluation["correctness"]["error_budget_ratio"] < 0.5


@pytest.mark.skipif(nvcc.find() is None, reason="no nvcc: PTX cannot be made from CUDA here")
def test_a_path_for_one_architecture_is_judged_without_such_a_gpu(tmp_path: Path) -> None:
    """A sample of `agent kernels verify --all --arch 90a --executor emulator`, which takes half an hour."""
    name = "conv_group_norm_tanh_hardswish_residual_logsumexp"
    done = agent(
        "kernels",
        "verify",
        name,
        "--arch",
        "90a",
        "--executor",
        "emulator",
        "--quick",
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    [judged] = json.loads(done.stdout)["kernels"]
    scope = judged["evaluation"]["scope"]
    assert judged["evaluation"]["status"] == "verified"
    assert scope["unexercised"] == []
    assert any("NVIDIA's code alone" in what for what in scope["skipped"])


SCALE = """
import torch
import torch.nn as nn

rows = 64
columns = 100


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [2.0]
"""


@pytest.mark.parametrize(("option", "statuses", "code"), [
    ((), ["build_error"], 1),
    (("--mend",), ["build_error", "verified"], 0),
])  # fmt: skip
def test_a_mend_is_judged_beside_what_it_mends(
    option: tuple[str, ...], statuses: list[str], code: int, tmp_path: Path
) -> None:
    (tmp_path / "scale.py").write_text(SCALE)
    (tmp_path / "candidate.py").write_text(MENDABLE["no declaration"][1])
    done = agent(
        "eval",
        "scale.py",
        "candidate.py",
        "--executor",
        "emulator",
        "--quick",
        "--json",
        *option,
        cwd=tmp_path,
    )
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    attempts = document["attempts"] if option else [{"evaluation": document}]
    assert [attempt["evaluation"]["status"] for attempt in attempts] == statuses
    if option:
        assert [attempt["candidate"]["origin"] for attempt in attempts] == ["file", "mend"]
        assert "+torch::Tensor scale_cuda(torch::Tensor x, double factor);" in document["diffs"][0]


def test_a_changed_verdict_makes_replay_exit_1(tmp_path: Path) -> None:
    """The stored verdict of attempt 1 is altered: the fresh one has to contradict it."""
    from agent import resources

    run = tmp_path / "runs" / "altered"
    shutil.copytree(resources.folder("recorded") / "group_norm", run)
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    lines = lines[: next(i for i, line in enumerate(lines) if '"kind":"evaluated"' in line) + 1]
    lines[-1] = lines[-1].replace('"status":"build_error"', '"status":"incorrect"')
    (run / "events.jsonl").write_text("".join(lines))
    done = agent("replay", "altered", "--executor", "emulator", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "CHANGED" in done.stdout


def test_without_a_compiler_the_emulator_is_exit_3(tmp_path: Path) -> None:
    """A PATH that holds everything but g++."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if tool.name not in ("g++", "c++") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    done = agent(
        "eval",
        "level1/gelu",
        "recorded/group_norm:4",
        "--executor",
        "emulator",
        cwd=tmp_path,
        PATH=str(tools),
    )
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("error: no C++ compiler")
    assert "apt-get install g++" in done.stderr


def test_an_endpoint_that_is_down_is_exit_4_and_resumable(tmp_path: Path) -> None:
    with endpoint.Endpoint([]) as server:
        address = server.base_url
    done = agent(
        "run", "level1/gelu", "--executor", "emulator", "--base-url", address, "--model", "m", cwd=tmp_path,
        AGENT_RETRY_FOR="1",
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "--resume" in done.stderr.splitlines()[-1]
    (folder,) = (tmp_path / "runs").iterdir()
    assert "retry_scheduled" in (folder / "events.jsonl").read_text()


def test_429_for_longer_than_the_patience_is_exit_4(tmp_path: Path) -> None:
    with endpoint.Endpoint([endpoint.status(429, retry_after="0")] * 200) as server:
        done = agent(
            "run", "level1/gelu", "--executor", "emulator", "--base-url", server.base_url, "--model", "m",
            cwd=tmp_path, AGENT_RETRY_FOR="1",
        )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "429" in done.stderr.splitlines()[-1]
