"""A real open-source server, `transformers serve`, answers: both APIs, streamed and whole, and a whole run.

Its packages take a minute to install, more than all other tests of providers together, so that they are an
extra of their own: `make server-test`. The server listens on the loopback alone and is offline.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from e2e.commands import ANSWERS, agent, environment, shown
from interrupting import PATIENCE_S
from providers.asking import PROMPT, _bare_environment, settings  # noqa: F401 - an autouse fixture

from agent.providers.openai_compat import OpenAICompat
from agent.records import RetryScheduled

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="transformers is not installed: make server-test",
)
ANSWER = ANSWERS / "4.md"
MODEL_SCRIPT = Path(__file__).resolve().parents[1] / "tiny_model.py"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


class Server:
    """Where it listens, and what its one model is called."""

    def __init__(self, base_url: str, model: str) -> None:
        self.base_url, self.model = base_url, model


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("model")
    known = environment(**OFFLINE, HF_HOME=str(tmp_path_factory.mktemp("home")))
    subprocess.run([sys.executable, MODEL_SCRIPT, folder, ANSWER], check=True, env=known)
    port = free_port()
    command = [
        sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--host", "127.0.0.1",
        "--port", str(port), "--device", "cpu",
    ]  # fmt: skip
    log = folder / "serve.log"
    with log.open("wb") as words, subprocess.Popen(command, stdout=words, stderr=words, env=known) as process:
        try:
            wait_for(port, process, log)
            yield Server(f"http://127.0.0.1:{port}/v1", str(folder))
        finally:
            process.terminate()


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"the server does not listen:\n{log.read_text()[-2000:]}")


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_answer_arrives_whole(server: Server, api: str, stream: bool) -> None:
    retries: list[RetryScheduled] = []
    progress: list[Any] = []
    asked = settings(
        server.base_url, model=server.model, api=api, stream=stream, max_output_tokens=2000,
        timeout_s=PATIENCE_S, idle_s=PATIENCE_S, retry_for_s=0,
    )  # fmt: skip
    provider = OpenAICompat(asked, on_retry=retries.append, on_progress=progress.append)
    completion = provider.complete(PROMPT)
    assert completion.text == ANSWER.read_text()
    assert completion.finish_reason == "stop"
    assert (completion.usage.input_tokens or 0) > 20
    assert (completion.usage.output_tokens or 0) > 20
    assert (len(progress) > 20) == stream
    assert [retry.reason for retry in retries if "asked again" not in retry.reason] == []


def test_a_run_is_answered(server: Server, tmp_path: Path) -> None:
    done = agent(
        "run", "level1/group_norm", "--executor", "emulator", "--quick", "--base-url", server.base_url,
        "--model", server.model, "--json", cwd=tmp_path, AGENT_MAX_OUTPUT_TOKENS="2000",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["outcome"] == "verified"
    (entry,) = shown(result["run"], tmp_path)["rounds"]
    assert entry["completion"]["text"] == ANSWER.read_text()
    assert entry["completion"]["usage"]["output_tokens"] > 20
    assert os.fspath(server.model) in entry["completion"]["model"]
