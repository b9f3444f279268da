"""`agent serve` with the real judge, its client, and the commands that judge elsewhere."""

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from doors.serving import REFERENCE, RIGHT, WRONG
from e2e.commands import COMMAND, agent, environment
from interrupting import interruptible

import agent as api
from agent.errors import ProblemError, UsageError
from agent.records import Candidate

CHECKS = api.Checks(quick=True)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[str, str]]:
    """Address and token of a service with the folder."""
    with subprocess.Popen(
        [*COMMAND, "serve", "--folder", "service", "--port", "0", "--executor", "emulator", *options],
        cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, preexec_fn=interruptible,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            yield url, (folder / "service" / "tokens").read_text().strip()
        finally:
            process.terminate()


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    for name, text in (("twice.py", REFERENCE), ("right.py", RIGHT), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.timeout(900)  # judges six times; a busy machine takes minutes
def test_a_laptop_judges_elsewhere(twice: Path) -> None:
    with serving(twice, "--trust-references", "--jobs", "2") as (url, token):
        mode = os.stat(twice / "service" / "tokens").st_mode  # noqa: PTH116
        assert stat.S_IMODE(mode) == 0o600
        service = api.connect(url, token)
        problem = api.load_problem(twice / "twice.py")
        found = service.evaluate_all(problem, [twice / "right.py", twice / "wrong.py"] * 4, CHECKS)
        assert [str(one.status) for one in found] == ["verified", "incorrect"] * 4
        assert found[0].scope.isolation != "process"
        words = ("twice.py", "wrong.py", "--quick", "--executor", url)
        judged = agent("eval", *words, cwd=twice, AGENT_SERVICE_TOKEN=token)
        assert (judged.returncode, judged.stdout[:9]) == (1, "incorrect"), judged.stderr
        ran = agent(
            "run", "twice.py", "--quick", "--executor", url, "--provider", "file:right.py", cwd=twice,
            AGENT_SERVICE_TOKEN=token,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert list(twice.glob("runs/*/best.py"))
        refused = agent("eval", *words, cwd=twice, AGENT_SERVICE_TOKEN="another one")
        assert (refused.returncode, refused.stderr.count("refuses the token")) == (2, 1)


@pytest.mark.timeout(600)
def test_references_of_others_are_refused_unless_they_are_trusted(twice: Path) -> None:
    with serving(twice) as (url, token):
        service = api.connect(url, token)
        with pytest.raises(UsageError, match="--trust-references"):
            service.evaluate(api.load_problem(twice / "twice.py"), twice / "right.py", CHECKS)
        with pytest.raises((UsageError, ProblemError), match="no reference of this service"):
            service.evaluate(str(twice / "twice.py"), twice / "right.py", CHECKS)
        shipped = api.load_problem("level1/softmax")
        nothing = Candidate(problem=shipped.name, source="import os", origin="file")
        assert service.evaluate(shipped, nothing, CHECKS).status is api.Status.REJECTED
        about = service.about()
        assert (about.executor, about.gpu, about.architecture) == ("emulator", None, None)


def test_it_does_not_start_without_a_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from types import SimpleNamespace

    from agent import config, sandbox
    from agent.doors.service.running import Plan, serve
    from agent.errors import EnvironmentFault

    monkeypatch.setattr(sandbox, "strongest", lambda: SimpleNamespace(name="process"))
    plan = Plan(folder=tmp_path / "s", host="127.0.0.1", port=0, jobs=1, most_queued=1, a_minute=1)
    settings = config.load({"executor": "emulator"}, offline=True).settings
    with pytest.raises(EnvironmentFault, match="cannot be isolated"):
        serve(settings, plan, lambda address: None)
    assert not (tmp_path / "s").exists()


def test_a_project_file_may_not_name_who_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent import config

    monkeypatch.chdir(tmp_path)
    for name in ("executor", "service"):
        (tmp_path / "agent.toml").write_text(f'{name} = "http://elsewhere.example"\n')
        with pytest.raises(UsageError, match="may not name a judge service"):
            config.load({}, offline=True)
    (tmp_path / "agent.toml").unlink()
    assert config.load({"executor": "http://127.0.0.1:1"}).settings.service == "http://127.0.0.1:1"
