"""The installed command as a user runs it, and the recorded answers as a model would give them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).resolve().parents[1] / "recorded" / "group_norm"
COMMAND = (sys.executable, "-m", "agent.cli")


def answer(number: int) -> str:
    """The text of recorded answer 1, 2, 3 or 4."""
    return (ANSWERS / f"{number}.md").read_text()


def environment(**given: str) -> dict[str, str]:
    """This process's environment without settings of ours, plus what is given."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "AGENT_"))} | given


def agent(*arguments: str, cwd: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment(**given),
        timeout=250,
    )


def shown(run: str, cwd: Path) -> dict[str, Any]:
    """The document of `agent show RUN --json`."""
    document: dict[str, Any] = json.loads(agent("show", run, "--json", cwd=cwd).stdout)
    return document


def install(target: Path, project: Path) -> None:
    """Puts a wheel or a project of setuptools there, without its dependencies and without a network."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    build = [] if project.is_file() else ["--no-build-isolation"]
    subprocess.run([*pip, *build, "--target", str(target), str(project)], check=True, capture_output=True)
