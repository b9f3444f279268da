"""What a request says beside the prompt: recorded with the run, and said again by whoever resumes it."""

import json
from pathlib import Path

import endpoint
from e2e.commands import agent, answer, shown


def test_parameters_are_sent_recorded_and_sent_again_by_resume(tmp_path: Path) -> None:
    options: tuple[str, ...] = ("--seed", "7", "--stop", "</file>", "--reasoning-effort", "high")
    options = (*options, "--extra-body", '{"top_k": 5}')
    with endpoint.Endpoint([endpoint.status(401, "wrong key"), endpoint.stream(answer(4))]) as server:
        failed = agent(
            "run", "level1/group_norm", "--executor", "emulator", "--quick", "--base-url", server.base_url,
            "--model", endpoint.MODEL, *options, cwd=tmp_path,
        )  # fmt: skip
        assert failed.returncode == 4, failed.stderr
        (folder,) = (tmp_path / "runs").iterdir()
        resumed = agent("run", "--resume", folder.name, "--base-url", server.base_url, "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["outcome"] == "verified"
    first, second = (request.body for request in server.completions)
    assert first == second
    expected = {"seed": 7, "stop": ["</file>"], "reasoning_effort": "high", "top_k": 5}
    assert first.items() >= expected.items()
    assert 'extra_body = "{\\"top_k\\": 5}"' in (folder / "run.toml").read_text()


def test_several_models_share_a_run_and_a_resumed_one_knows_who_was_asked(tmp_path: Path) -> None:
    script: list[endpoint.Behaviour] = [endpoint.stream("In words."), endpoint.status(401, "wrong key")]
    script.append(endpoint.stream(answer(4)))
    with endpoint.Endpoint(script) as server:
        asked = ("--base-url", server.base_url, "--json")
        failed = agent(
            "run", "level1/group_norm", "--executor", "emulator", "--quick", "--model", "first, second",
            *asked, cwd=tmp_path,
        )  # fmt: skip
        assert failed.returncode == 4, failed.stderr
        (folder,) = (tmp_path / "runs").iterdir()
        resumed = agent("run", "--resume", folder.name, *asked, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert [request.body["model"] for request in server.completions] == ["first", "second", "second"]
    rounds = shown(folder.name, tmp_path)["rounds"]
    assert [entry["completion"]["asked"] for entry in rounds] == ["first", "second"]
