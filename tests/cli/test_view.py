"""Tests of `agent view`: the exported file, the server's end, and errors for missing things."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from interrupting import PATIENCE_S, interruptible
from typer.testing import CliRunner, Result

from agent.cli.app import app


def agent(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_run_is_written_to_one_file() -> None:
    done = agent("view", "recorded/group_norm", "--export", "run.html", "--json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    file = Path("run.html")
    assert (document["file"], document["bytes"]) == ("run.html", file.stat().st_size)
    assert document["bytes"] < 2_000_000
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert (
        "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-"
        in page.replace("&#39;", "'")
    )
    assert all(f'id="attempt-{number}"' in page for number in (1, 2, 3, 4))


def test_an_export_names_its_run_and_can_be_written() -> None:
    none = agent("view", "--export", "run.html")
    assert none.exit_code == 2
    assert "--export needs a run" in none.stderr
    nowhere = agent("view", "recorded/group_norm", "--export", "no/such/run.html")
    assert nowhere.exit_code == 3
    assert "cannot write no/such/run.html" in nowhere.stderr
    assert agent("view", "recorded/nothing", "--export", "run.html").exit_code == 2


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "agent.viewer.server", raising=False)
    shown = agent("view")
    assert shown.exit_code == 3
    assert shown.stderr.strip().splitlines() == [
        "error: agent view needs packages that are not installed: pip install 'kernelwright[view]'"
    ]
    assert agent("view", "recorded/group_norm", "--export", "run.html").exit_code == 0


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        shown = agent("view", "--port", str(port))
    assert shown.exit_code == 2
    assert f"port {port} cannot be opened" in shown.stderr


def test_an_interrupt_ends_the_server_cleanly() -> None:
    command = [sys.executable, "-m", "agent.cli", "view", "recorded/group_norm"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=interruptible) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as page:
            assert b"level1/group_norm" in page.read()
        os.kill(server.pid, signal.SIGINT)
        rest, said = server.communicate(timeout=PATIENCE_S)
        assert server.returncode == 0
    assert rest == ""
    assert "Traceback" not in said
    assert said.strip().endswith("press Ctrl-C to stop the server")
