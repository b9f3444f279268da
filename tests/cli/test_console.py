"""Tests of the terminal output and of the boundary that reports errors."""

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agent import __version__
from agent.cli import app as application
from agent.cli import console
from agent.errors import (
    AgentError,
    BudgetExceeded,
    EndpointError,
    EnvironmentFault,
    Interrupted,
    ProblemError,
    UsageError,
)

ROOT = Path(__file__).parent.parent.parent


def agent(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *python, "-m", "agent.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """Build the application with a single command, `fail`, that raises the error."""

    def fail(verbose: console.Verbose = False) -> None:
        raise error

    monkeypatch.setattr(console, "fail", fail, raising=False)
    command = application.Command("fail", "agent.cli.console:fail", "Fail.", "agent fail")
    monkeypatch.setattr(application, "COMMANDS", (command,))
    return application.build_app()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\tb\nc\r\nd", "a\tb\nc\nd"),
        ("\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1Hhome", "red home"),
        ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink"),
        ("\x1bPdevice\x1b\\after \x1b(B", "after "),
        ("back\x08space\rover\x00\x7f\x9b31m", "backspaceover31m"),
        ("right\u202eleft\u2066", "rightleft"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("größer 中文 🙂 [bold]not markup[/bold]", "größer 中文 🙂 [bold]not markup[/bold]"),
        ("\x1b]52;c;unterminated", ""),
    ],
)
def test_plain_leaves_only_text(text: str, kept: str) -> None:
    assert console.plain(text) == kept


def test_nothing_is_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.reset()
    console.show("[red]x[/red] [/nope] :smile:", console.line("a [b]\nc"))
    console.say("[bold]said[/bold] [/x]")
    console.warn("[bold]warned[/bold]")
    captured = capsys.readouterr()
    assert captured.out == "[red]x[/red] [/nope] :smile:\na [b] c\n"
    assert "[bold]said[/bold] [/x]" in captured.err
    assert captured.err.endswith("warning: [bold]warned[/bold]\n")


def test_quiet_silences_progress_and_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    console.reset()
    console._set_quiet(True)
    console.say("working")
    console.detail("deep")
    with console.live("preparing") as work:
        work.update("header 1", 1, 2)
    console.warn("careful")
    assert capsys.readouterr().err == "warning: careful\n"


def test_without_a_terminal_progress_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console.reset()
    with console.live("preparing") as work:
        for done in range(3):
            work.update("headers", done, 3)
        work.update("runtime")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[-1] for line in lines] == ["preparing", "headers", "runtime"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1:00"),
        (187, "3:07"),
        (3723, "1:02:03"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert console.duration(seconds) == text


def test_json_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit_json(
        {"inf": float("inf"), "nan": [float("nan")], "path": Path("a"), "bad": "\ud800\x1b[31m"}
    )
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {"inf": "inf", "nan": ["nan"], "path": "a", "bad": "\ud800\x1b[31m"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AgentError("x"), 1),
        (UsageError("x"), 2),
        (ProblemError("x"), 2),
        (EnvironmentFault("x"), 3),
        (EndpointError("x"), 4),
        (BudgetExceeded("x"), 124),
        (Interrupted("x"), 130),
    ],
)
def test_each_error_is_one_line_and_its_code(
    error: AgentError, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = CliRunner().invoke(failing(error, monkeypatch), ["fail"])
    assert result.exit_code == code
    assert result.stderr == "error: x\n"
    assert result.stdout == ""


def test_a_defect_is_one_line_and_v_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(failing(ZeroDivisionError("by \x1b[31mzero"), monkeypatch), ["fail"])
    assert result.exit_code == 1
    assert (
        result.stderr
        == "error: ZeroDivisionError: by zero (a bug in kernelwright; run again with -v for the traceback)\n"
    )
    result = CliRunner().invoke(failing(ZeroDivisionError("by zero"), monkeypatch), ["fail", "-v"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("error: ZeroDivisionError: by zero\n")


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(failing(KeyboardInterrupt(), monkeypatch), ["fail"])
    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")


def test_usage_is_exit_2_with_what_is_valid() -> None:
    unknown = agent("shwo")
    assert (unknown.returncode, "show" in unknown.stderr) == (2, True)
    for arguments in (
        ["show"],
        ["show", "x", "--round", "0"],
        ["show", "--nope", "x"],
        ["cache", "--clear=x"],
    ):
        failed = agent(*arguments)
        assert failed.returncode == 2, arguments
        assert "Traceback" not in failed.stderr
        assert failed.stdout == ""


def test_version_and_help() -> None:
    assert agent("--version").stdout == f"kernelwright {__version__}\n"
    helped = agent("--help")
    assert helped.returncode == 0
    for command in application.COMMANDS:
        assert f"{command.name} " in helped.stdout
        assert command.summary in helped.stdout


@pytest.mark.parametrize("command", application.COMMANDS, ids=lambda command: command.name)
def test_every_help_has_its_example_and_fits(command: application.Command) -> None:
    result = CliRunner().invoke(application.app, [command.name, "--help"])
    assert result.exit_code == 0
    assert f"Example: {command.example}" in " ".join(result.stdout.split())
    # A group has no options of its own, so check its commands.
    inside = [[command.name, name] for name in getattr(command.load(), "commands", ())] or [[command.name]]
    for name in inside:
        page = CliRunner().invoke(application.app, [*name, "--help"]).stdout
        assert f"Example: agent {' '.join(name)}" in page or name == [command.name]
        assert max(map(len, page.splitlines())) <= 80
        assert "--json" in page
        assert "--verbose" in page
        assert "--quiet" in page


@pytest.mark.parametrize("arguments", [["--help"], ["show", "nothing"], ["runs"], ["config"]])
def test_what_is_heavy_is_not_imported(arguments: list[str]) -> None:
    imported = agent(*arguments, python=("-X", "importtime")).stderr
    names = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in imported.splitlines() if "|" in line}
    assert "typer" in names
    assert not names & {"torch", "openai", "jinja2", "numpy", "tenacity"}


def test_a_reader_that_leaves_early_hears_nothing() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "agent.cli", "config"]
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        command, stdout=write, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        os.close(write)
        _, said = process.communicate()
    assert said == ""


def on_a_terminal(body: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the text that `body` writes to stderr if it is a terminal."""
    main, side = pty.openpty()
    seen = bytearray()

    def read() -> None:
        # On Linux, reading fails with EIO once the other side is closed.
        with suppress(OSError):
            while data := os.read(main, 65536):
                seen.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(side, "w", encoding="utf-8") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        body()
    reader.join()
    os.close(main)
    return seen.decode()


def test_on_a_terminal_there_is_a_bar_that_goes_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")

    def work() -> None:
        console.reset()
        with console.live("preparing [red]") as drawn:
            drawn.update("headers [/x]", 1, 2)
            with console.live("inside another"):
                console.say("said [b]above[/b]")
            console.show("a result")

    seen = on_a_terminal(work, monkeypatch)
    assert "headers [/x]" in seen
    assert "\x1b[2K" in seen
    assert seen.index("\x1b[2K") < seen.index("said [b]above[/b]\r\n")
    assert "inside another" in seen
    assert "a result" not in seen
    assert capsys.readouterr().out == "a result\n"
