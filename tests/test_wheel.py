"""Tests that the wheel ships prompts, references and the recorded run, and works outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from e2e.commands import install

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel without a network, with the build backend of the test environment."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.whl")
    return path


def test_the_shipped_files_are_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "agent/_shipped/prompts/system.jinja2",
        "agent/_shipped/references/level1/group_norm.py",
        "agent/_shipped/recorded/group_norm/events.jsonl",
        "agent/emulator/cpp/runtime/block.cpp",
        "agent/emulator/cpp/include/torch/extension.h",
        "agent/torch_shim/__init__.py",
        "agent/viewer/static/viewer.css",
        "agent/viewer/static/viewer.js",
        "agent/viewer/templates/run.html",
        "agent/viewer/templates/panels/source.html",
        "agent/kernels/softmax/candidate.py",
        "agent/kernels/softmax/csrc/launch.cuh",
        "agent/kernels/csrc/block.cuh",
        "agent/doors/skill.md",
        "agent/doors/package/templates/operator.py.in",
        "agent/doors/environment/pyproject.toml",
        "agent/doors/environment/kernelwright_environment/taskset.py",
        "agent/_shipped/docs/reference/findings.md",
        "agent/_shipped/docs/guides/coding-agents.md",
        "agent/py.typed",
    ):
        assert name in names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_installed_command_judges_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Install only the wheel, using the interpreter's dependencies and nothing from the checkout."""
    site, here = tmp_path / "site", tmp_path / "here"
    install(site, wheel)
    here.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "AGENT_"))}
    kept["PYTHONPATH"] = str(site)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, cwd=here, env=kept
        )

    assert run("-c", "import agent; print(agent.__file__)").stdout.startswith(str(site))
    agent = str(site / "bin" / "agent")
    shown = run(agent, "show", "recorded/group_norm")
    assert shown.returncode == 0, shown.stderr
    assert "attempt 4, verified" in shown.stdout
    ran = run(agent, "run", "level1/gelu", "--provider", "catalogue", "--executor", "emulator")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("verified on CPU emulator")
    assert list(here.glob("runs/*/best.py"))
