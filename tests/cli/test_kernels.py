"""Tests of the output and exit codes of `agent kernels` without a GPU."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.api.judge import architecture, present_architecture
from agent.cli import console
from agent.cli.app import app
from agent.config import Settings
from agent.errors import EnvironmentFault
from agent.harness.backends import gpu_lock
from agent.harness.backends.fifo_lock import FifoLock, Taken
from agent.kernels import benching, manifest, sources
from agent.kernels.case import Case
from agent.kernels.manifest import Manifest, Measured


def ran(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["kernels", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_list_names_every_kernel() -> None:
    code, out, _ = ran("list", "--json")
    document: dict[str, Any] = json.loads(out)
    assert code == 0
    assert [one["name"] for one in document["kernels"]] == list(sources.NAMES)
    assert all(name in ran("list")[1] for name in sources.NAMES)


def test_info_shows_one() -> None:
    code, out, _ = ran("info", "softmax")
    assert code == 0
    assert out.startswith("softmax, version 1")
    assert json.loads(ran("info", "softmax", "--json")[1])["name"] == "softmax"


def test_promoted_kernels_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    (tmp_path / "promoted" / "mine").mkdir(parents=True)
    manifest.save(Manifest(name="promoted/mine", source="run 20261120-1, attempt 2"))
    rows = json.loads(ran("list", "--json")[1])["kernels"]
    assert [row["name"] for row in rows] == [*sources.NAMES, "promoted/mine"]
    assert "promoted/mine" in ran("list")[1]
    assert ran("info", "promoted/mine")[1].startswith("promoted/mine, version 1, run 20261120-1, attempt 2")
    code, _, err = ran("bench", "promoted/mine")
    assert (code, "a promoted ModelNew file, not an operator" in err) == (2, True)


@pytest.mark.parametrize(
    "arguments", [["info", "nope"], ["verify"], ["build", "nope"], ["bench", "gelu", "--all"]], ids=" ".join
)
def test_a_name_that_is_none_is_a_usage_error(arguments: list[str]) -> None:
    code, _, err = ran(*arguments)
    assert code == 2
    assert "gelu, group_norm, layer_norm" in err


@pytest.mark.parametrize(
    "arguments", [["promote", "some"], ["bench", "gelu"], ["build", "gelu"]], ids=" ".join
)
def test_without_a_gpu_the_environment_is_at_fault(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.executors.select.gpu_name", lambda: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, _, err = ran(*arguments)
    assert code == 3
    assert "GPU" in err


def test_bench_waits_for_its_turn_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gpu_lock, "identity", lambda *_: "this")
    monkeypatch.setattr(benching, "machine", lambda commit: benching.Machine("GPU", "1", commit))
    place = tmp_path / "gpus" / "this.queue"
    evaluation = FifoLock(place)
    evaluation.acquire(lambda ahead: None, 1.0)
    shown = console._Lines.update

    def update(self: Any, text: str, done: float | None = None, total: float | None = None) -> None:
        """End the other evaluation as soon as this one reports that it waits."""
        shown(self, text, done, total)
        if text.startswith("waiting"):
            evaluation.release()

    def measured(case: Case, here: benching.Machine) -> Measured:
        with pytest.raises(Taken):
            FifoLock(place).acquire(lambda ahead: None, 0.0)
        return manifest.load("gelu").measured[0]

    monkeypatch.setattr(console._Lines, "update", update)
    monkeypatch.setattr(benching, "measured", measured)
    code, _, err = ran("bench", "gelu", "--no-write")
    assert code == 0
    assert err.count("waiting for the GPU: 1 before this one") == 1
    evaluation.acquire(lambda ahead: None, 0.0)
    evaluation.release()


def test_one_answer_to_what_the_gpu_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.executors.choose", lambda executor: executor)
    monkeypatch.setattr("agent.build.present_gpu.capability", lambda: (9, 0))
    assert architecture(Settings(executor="cuda")) == present_architecture() == "90a"
    assert architecture(Settings(executor="emulator")) is None
    monkeypatch.setattr("agent.build.present_gpu.capability", lambda: None)
    with pytest.raises(EnvironmentFault, match="no usable NVIDIA GPU found"):
        present_architecture()
