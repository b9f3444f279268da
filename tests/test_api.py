"""Tests of the public API: its examples, its imports, and its use by the command line."""

import ast
import doctest
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import agent

MODULES = ("checks", "judge", "listening", "runs", "solving")


@pytest.mark.parametrize("name", MODULES)
def test_examples_do_as_they_say(name: str) -> None:
    module = import_module(f"agent.api.{name}")
    names = {"load_problem": agent.load_problem, "Run": agent.Run}
    found = doctest.testmod(module, extraglobs=names)
    assert found.failed == 0


def test_importing_agent_loads_neither_torch_nor_the_api() -> None:
    heavy = ("torch", "openai", "pydantic", "agent.api")
    code = f"import agent, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_described() -> None:
    for name in agent.__all__:
        assert getattr(agent, name) is not None
        assert name == "__version__" or getattr(agent, name).__doc__


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match="no 'Solver'; it has Budget, Checks"):
        agent.Solver  # noqa: B018 - the access itself is tested


def test_commands_that_judge_go_through_the_api() -> None:
    """Require that `run`, `eval` and `replay` import little besides the API, records, errors and settings."""
    allowed = ("agent.api", "agent.cli", "agent.config", "agent.errors", "agent.records")
    shared = {"agent": {"config", "mend", "prompts", "store"}}
    for command in ("run", "eval", "replay"):
        tree = ast.parse((Path(agent.__file__).parent / "cli" / f"{command}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agent"):
                names = {alias.name for alias in node.names}
                assert str(node.module).startswith(allowed) or names <= shared.get(str(node.module), set())


def test_progress_is_one_function_or_an_object() -> None:
    heard: list[str] = []
    problem = agent.load_problem("level1/softmax", progress=heard.append)
    assert problem.name == "level1/softmax"
    assert heard == ["tracing level1/softmax"]


def test_a_warning_is_a_python_warning_unless_somebody_listens() -> None:
    with pytest.warns(UserWarning, match="not checked"):
        agent.Listener().warn("passed on to the model, not checked: fast")


@pytest.mark.timeout(900)  # builds and judges twice, which takes minutes on a busy machine
def test_the_run_of_a_candidate_that_is_verified(tmp_path: Path) -> None:
    """Solve a reference and judge the stored kernel again, using only the API."""
    heard: list[str] = []
    run = agent.solve(
        "level1/softmax", provider="catalogue", executor="emulator", checks=agent.Checks(quick=True),
        runs_dir=tmp_path, progress=heard.append,
    )  # fmt: skip
    assert run.best is not None
    assert run.best_source is not None
    assert run.best_source.startswith('"""Verified kernel for level1/softmax')
    assert run.finished is not None
    assert run.finished.outcome == "verified"
    assert any(text.startswith("round 1: attempt 1 verified") for text in heard)
    again = agent.Run.open(run.id, runs_dir=tmp_path)
    assert [attempt.number for attempt in again.attempts] == [1]
    verdict = agent.evaluate(
        "level1/softmax", str(run.best_file), executor="emulator", checks=agent.Checks(quick=True)
    )
    assert verdict.status is agent.Status.VERIFIED
