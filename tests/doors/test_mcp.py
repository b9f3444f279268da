"""Every tool of `agent mcp`, by the official SDK's own client over both transports."""

from pathlib import Path

import anyio
import httpx2
import pytest
from doors.serving import RIGHT, UNDECLARED, WRONG, Transport, asked, connected, furnished, refused
from e2e.commands import agent, shown
from mcp import Client
from mcp.shared.exceptions import MCPError

TOOLS = {"describe", "judge", "mend", "profile", "compare", "submit", "list_runs", "read_run"}


@pytest.mark.timeout(900)  # judges ten times; a busy machine takes minutes
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_loop_of_a_coding_agent(
    transport: Transport, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if transport == "http" and not request.config.getoption("--all-kernels"):
        pytest.skip("the same loop, judged over HTTP; --all-kernels runs it")
    options = furnished(tmp_path)
    anyio.run(_loop, transport, tmp_path, options)
    (folder,) = [path for path in (tmp_path / "runs").iterdir() if (path / "run.toml").exists()]
    document = shown(folder.name, tmp_path)
    assert document["outcome"] == "verified"
    statuses = [[one["evaluation"]["status"] for one in entry["attempts"]] for entry in document["rounds"]]
    assert statuses == [["incorrect"], ["build_error", "verified"]]
    assert "class ModelNew" in (folder / "best.py").read_text()
    assert agent("show", folder.name, cwd=tmp_path).returncode == 0


async def _loop(transport: Transport, folder: Path, options: tuple[str, ...]) -> None:
    async with connected(transport, folder, *options) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        described = await asked(client, "describe", problem="twice.py")
        assert described["inputs"] == ["float32 (37, 129)"]
        assert described["operators"][0]["op"].startswith("aten.mul")
        assert described["floor_ms"] > 0

        steps: list[str] = []

        async def step(progress: float, total: float | None, message: str | None) -> None:
            steps.append(message or "")

        given = {"problem": "twice.py", "candidate": "wrong.py", "quick": True}
        answer = await client.call_tool("judge", given, progress_callback=step)
        assert answer.structured_content is not None
        assert answer.structured_content["status"] == "incorrect"
        assert answer.structured_content["findings"][0]["message"]
        assert steps

        mended = await asked(client, "mend", problem="twice.py", candidate=UNDECLARED, quick=True)
        assert [one["status"] for one in mended["verdicts"]] == ["build_error", "verified"]
        assert "+" in mended["changes"][0]
        profiled = await asked(client, "profile", problem="twice.py", candidate=RIGHT)
        assert profiled["verdict"]["accepted"]
        assert profiled["note"] == "not measured: the emulator has no times"
        await _submitted(client)


async def _submitted(client: Client) -> None:
    begun = await asked(client, "submit", problem="twice.py", rounds=3)
    run = begun["run"]
    assert (begun["state"], begun["best"]) == ("awaiting an answer", None)
    task = await client.get_prompt("next_answer", {"run": run})
    assert "ModelNew" in task.model_dump_json()
    first = await asked(client, "submit", run=run, candidate=WRONG)
    assert [one["status"] for one in first["new"]] == ["incorrect"]
    assert first["told"]
    second = await asked(client, "submit", run=run, candidate=UNDECLARED)
    assert [one["status"] for one in second["new"]] == ["build_error", "verified"]
    assert (second["outcome"], second["best"]) == ("verified", 3)
    assert "has ended" in await refused(client, "submit", run=run, candidate=RIGHT)
    best = await asked(client, "compare", run=run)
    assert best["best_source"].count("class ModelNew") == 1
    beside = await asked(client, "compare", run=run, candidate=WRONG, quick=True)
    assert (beside["better"], beside["candidate"]["accepted"]) == (False, False)
    listed = (await asked(client, "list_runs"))["result"]
    assert listed[0]["run"] == run
    read = await asked(client, "read_run", run=run, attempt=1)
    assert "scale_cuda(x, 3.0)" in read["source"]
    whole = await asked(client, "read_run", run=run)
    assert len(whole["new"]) == 3


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_what_can_be_read(transport: Transport, tmp_path: Path) -> None:
    anyio.run(_reading, transport, tmp_path)


async def _reading(transport: Transport, folder: Path) -> None:
    async with connected(transport, folder, "--executor", "emulator") as client:
        for address, word in (
            ("kernelwright://problems", "level1/softmax"),
            ("kernelwright://cards/H200", "Hopper"),
            ("kernelwright://docs/findings", "missing-declaration"),
            ("kernelwright://docs/verdicts", "verified"),
            ("kernelwright://docs/limits", "emulator"),
            ("kernelwright://docs/coding-agents", "agent mcp"),
            ("kernelwright://runs/recorded/group_norm", "affine-ignored"),
            ("kernelwright://rounds/2/recorded/group_norm", "statistics"),
        ):
            (content,) = (await client.read_resource(address)).contents
            assert word in content.model_dump_json(), address
        task = await client.get_prompt("task", {"problem": "level1/softmax"})
        assert "load_inline" in task.model_dump_json()
        unknown = ("docs/secrets", "cards/none", "runs/../../etc", "rounds/99/recorded/group_norm")
        for address in unknown:
            with pytest.raises(MCPError):
                await client.read_resource(f"kernelwright://{address}")


HOSTILE: tuple[tuple[str, dict[str, object], str], ...] = (
    ("judge", {"problem": "level1/softmax", "candidate": "/etc/passwd"}, "no folder of candidates"),
    ("judge", {"problem": "/etc/passwd", "candidate": RIGHT}, "no folder of references"),
    ("judge", {"problem": "kernelbench:1/../../x", "candidate": RIGHT}, "two numbers"),
    ("judge", {"problem": "level1/softmax", "candidate": "../../x:1"}, "no id of a run"),
    ("judge", {"problem": "level1/softmax", "candidate": "\n" * 2**20 + "x"}, "at most 1 MiB"),
    ("judge", {"problem": "level1/softmax", "candidate": "a\0b"}, "no path"),
    ("judge", {"problem": "level1/softmax", "candidate": RIGHT, "executor": "rm"}, "executor"),
    ("describe", {"problem": "x" * 10_000}, "no path"),
    ("describe", {}, "problem"),
    ("compare", {"run": "../runs"}, "no id of a run"),
    ("submit", {"candidate": RIGHT}, "no folder of references"),
    ("submit", {"run": "recorded/group_norm", "candidate": RIGHT}, "takes its answers from scripted"),
    ("read_run", {"run": "recorded/group_norm", "attempt": 9}, "has no attempt 9"),
    ("list_runs", {"most": -1}, "most"),
)


def test_hostile_arguments_are_refused_in_a_line(tmp_path: Path) -> None:
    async def ask() -> None:
        async with connected("stdio", tmp_path, "--executor", "emulator") as client:
            for tool, arguments, why in HOSTILE:
                assert why in await refused(client, tool, **arguments), (tool, why)

    anyio.run(ask)
    assert not list(tmp_path.glob("runs/*/run.toml"))


def test_http_answers_its_own_name_alone(tmp_path: Path) -> None:
    async def ask() -> None:
        async with connected("http", tmp_path) as client:
            url = str(client.server)
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            accept = {"accept": "application/json, text/event-stream"}
            async with httpx2.AsyncClient() as http:
                foreign = await http.post(url, json=body, headers={**accept, "host": "evil.example"})
                page = await http.post(url, json=body, headers={**accept, "origin": "http://evil.example"})
            assert (foreign.status_code, page.status_code) == (421, 403)

    anyio.run(ask)
