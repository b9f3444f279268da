"""The environment for `verifiers`: its client here, and the library itself in an environment of its own.

Its dependencies do not go together with ours and take a minute to install: `make environment-test`.
"""

import asyncio
import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from doors.pretended import TOKEN
from doors.test_service import Process
from doors.test_service_judges import serving
from endpoint import Behaviour, Endpoint, raw
from integrity import corpus, earned
from integrity.corpus import Program

from agent import resources, reward

PACKAGE = Path(reward.__file__).parent / "doors" / "environment"
PROBLEMS = ("softmax", "tanh_scale")
"""Of most of the corpus."""
PYTHON = os.environ.get("KERNELWRIGHT_ENVIRONMENT_PYTHON", "")
installed = pytest.mark.skipif(not PYTHON, reason="verifiers is not installed: make environment-test")


def client() -> ModuleType:
    """The package's client of the service, without the package, which needs the library."""
    file = PACKAGE / "kernelwright_environment" / "service.py"
    spec = importlib.util.spec_from_file_location("kernelwright_environment_service", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_client_asks_and_is_refused_as_the_service_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", TOKEN)
    process, module = Process(tmp_path), client()
    try:
        service = module.Service(process.url, "A_TOKEN", 5.0)
        assert "level1/softmax" in service.problems()
        assert service.prompt("a problem", {})[0]["content"] == "Write a kernel for a problem."
        answers = ("```python\nclass ModelNew: pass\n```", "No.")
        scores = [asyncio.run(service.score("a problem", one, {"quick": True})) for one in answers]
        assert [score["total"] for score in scores] == [pytest.approx(0.1), 0.0]
        with pytest.raises(module.ServiceError, match="422: no such reference"):
            asyncio.run(service.score("another", answers[0], {}))
        with pytest.raises(module.ServiceError, match="401"):
            module.Service(process.url, "NO_TOKEN", 5.0).problems()
    finally:
        process.kill()
    with pytest.raises(module.ServiceError, match="does not answer"):
        module.Service(process.url, "A_TOKEN", 0.0).problems()


def test_it_records_the_parts_of_a_score() -> None:
    text = (PACKAGE / "kernelwright_environment" / "taskset.py").read_text(encoding="utf-8")
    assert f"PARTS = {json.dumps(get_args(reward.Part))}".replace("[", "(").replace("]", ")") in text


def sample(whole: bool) -> list[Program]:
    """Of each kind and category one program or two, or all, of those whose verdict is recorded."""
    known = {name for rows in earned.totals().values() for name, _ in rows}
    found: dict[tuple[str, str], list[Program]] = {}
    for program in corpus.programs():
        if program.problem in PROBLEMS and program.name in known and not program.harmless:
            found.setdefault((program.kind, program.category), []).append(program)
    return [one for programs in found.values() for one in (programs if whole else programs[:2])]


def said(text: str) -> Behaviour:
    """A whole answer as the library wants it."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    kind = {"id": "1", "object": "chat.completion", "created": 0, "model": "local"}
    return raw(json.dumps({**kind, "choices": [choice], "usage": usage}).encode())


def evaluated(
    folder: Path, reference: Path, answers: list[str], url: str, token: str
) -> list[dict[str, Any]]:
    """The library's own record of each answer, in their order."""
    with Endpoint([said(text) for text in answers]) as endpoint:
        options = {
            "-m": "local", "-r": str(len(answers)), "-c": "1", "--output-dir": str(folder),
            "--client.base-url": endpoint.base_url, "--client.api-key-var": "NO_KEY_IS_NEEDED",
            "--env.taskset.references": json.dumps([str(reference)]), "--env.taskset.task.service": url,
        }  # fmt: skip
        words = [word for option in options.items() for word in option]
        command = [str(Path(PYTHON).with_name("vf-eval")), "kernelwright-environment", *words]
        done = subprocess.run(
            [*command, "--no-rich", "--no-push"], cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "AGENT_SERVICE_TOKEN": token},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*/traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    return [trace for episode in episodes for trace in episode["traces"]]


@installed
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_library_rewards_honest_answers_and_no_attack(
    problem: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    programs = [one for one in sample(pytestconfig.getoption("--all-kernels")) if one.problem == problem]
    reference = corpus.PROBLEMS / f"{problem}.py"
    if not reference.exists():
        reference = resources.folder("references") / f"{problem}.py"
    (tmp_path / "out").mkdir()
    with serving(tmp_path, "--trust-references", "--jobs", "2", "--rate", "10000") as (url, token):
        answers = [f"```python\n{one.source}\n```" for one in programs]
        traces = evaluated(tmp_path / "out", reference, answers, url, token)
    assert [trace["errors"] for trace in traces] == [[]] * len(programs)
    totals: dict[str, dict[str, float]] = {kind: {} for kind in corpus.KINDS}
    for program, trace in zip(programs, traces, strict=True):
        totals[program.kind][program.name] = sum(one["score"] for one in trace["rewards"].values())
    (tmp_path / "totals.json").write_text(json.dumps(totals, indent=1))
    wrong = earned.WRONG
    assert wrong is not None
    assert {name: total for name, total in totals["honest"].items() if total <= wrong} == {}
    assert {name: total for name, total in totals["buggy"].items() if total > wrong + 1e-9} == {}
    assert {name: total for name, total in totals["attacks"].items() if total > wrong + 1e-9} == {}


@installed
@pytest.mark.timeout(5400)
def test_a_policy_is_trained_by_what_its_kernels_earn(tmp_path: Path) -> None:
    with serving(tmp_path, "--trust-references", "--jobs", "2", "--rate", "10000") as (url, token):
        done = subprocess.run(
            [PYTHON, str(PACKAGE / "examples" / "training_step.py"), "--service", url, "--steps", "6"],
            capture_output=True, text=True, check=False, env={**os.environ, "AGENT_SERVICE_TOKEN": token},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    first = steps[0]["earned"]
    honest = first.pop("kernel 2.0f declared")
    assert honest > max(first.values())
    # An eighth before the first step.
    assert 0.125 < steps[0]["honest"] < steps[-1]["honest"]
    assert steps[-1]["honest"] > 0.5
