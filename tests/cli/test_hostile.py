"""Tests that text from a model or candidate cannot control the terminal, whatever its size."""

import json
from pathlib import Path

import pytest
from transcripts import SETTINGS, STARTED, attempt, candidate, completion, prompt
from typer.testing import CliRunner

from agent.cli import console
from agent.cli.app import app
from agent.records import (
    Attempt,
    Build,
    Completed,
    Evaluated,
    Evaluation,
    Feedback,
    Finding,
    KernelResources,
    Location,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    Scope,
    Status,
)
from agent.store import Run, create

RUNS = Path("runs")
HOSTILE = (
    "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x00\x07\x08\x9b31m\r"
    "\u202egnp.exe\u2066\u200f\u061c[bold]markup[/bold][/nope]<script>alert(1)</script>\ud800"
)
FORBIDDEN = "\x1b\x00\x07\x08\x9b\r\u202e\u2066\u200f\u061c\ud800"
HUGE = "x" * 10_000_000


def written(text: str) -> Run:
    """Write a run in which every text from outside is `text`."""
    run = create(RUNS, SETTINGS.model_copy(update={"model": "m"}))
    finding = Finding(
        kind="wrong-values", message=text, location=Location(line=1, text=text, kernel=text), evidence=text
    )
    build = Build(seconds=1.0, backend="load_inline", warnings=(text,), kernels=(KernelResources(name=text),))
    evaluation = Evaluation(
        status=Status.INCORRECT,
        stage="verify",
        scope=Scope(executor="emulator", skipped=(text,)),
        findings=(finding,),
        build=build,
    )
    judged = Attempt(number=1, candidate=candidate(f"# {text}\n", note=text), evaluation=evaluation)
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(Prompted(round=1, prompt=prompt(text)))
        writer.append(RetryScheduled(reason=text, wait_seconds=1.0, tries=1))
        answer = completion(text, reasoning=text).model_copy(update={"model": text, "finish_reason": text})
        writer.append(Completed(round=1, prompt_id="p", completion=answer))
        writer.append(Evaluated(round=1, attempt=judged, seconds=1.0))
        writer.append(Evaluated(round=1, attempt=attempt(2, parent=judged.candidate.id), seconds=1.0))
        writer.append(Prompted(round=2, prompt=prompt("b")))
        writer.append(ReplyRejected(round=2, feedback=Feedback(attempt=None, kind="no-code", text=text)))
        writer.append(RunFinished(outcome="failed", best=None, reason=text))
    return run


VIEWS = (
    ("show", "RUN"),
    ("show", "RUN", "--round", "1", "-v"),
    ("show", "RUN", "--round", "2"),
    ("show", "RUN", "--prompt", "1"),
    ("show", "RUN", "--diff", "1", "2"),
    ("show", "RUN", "--follow"),
    ("runs",),
    ("runs", "--verify"),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("hostile"))
        run = written(HOSTILE)
        return Run(run.path.resolve(), run.address)


@pytest.mark.parametrize("view", VIEWS, ids=" ".join)
def test_nothing_of_it_reaches_the_terminal(hostile: Run, view: tuple[str, ...]) -> None:
    arguments = [str(hostile.path) if word == "RUN" else word for word in view]
    if view[0] == "runs":
        arguments += ["--runs-dir", str(hostile.path.parent)]
    result = CliRunner().invoke(app, arguments)
    # The run's prompt id is not the hash of its prompt, which --verify reports.
    assert result.exit_code == (1 if "--verify" in view else 0)
    for character in FORBIDDEN:
        assert character not in result.stdout
        assert character not in result.stderr
    if view[0] == "show":
        assert "gnp.exe[bold]markup[/bold][/nope]<script>" in "".join(result.stdout.split())


def test_json_carries_it_escaped_and_whole(hostile: Run) -> None:
    result = CliRunner().invoke(app, ["show", str(hostile.path), "--json"])
    assert result.stdout.isascii()
    assert not set(result.stdout) & set(FORBIDDEN)
    document = json.loads(result.stdout)
    assert document["rounds"][0]["completion"]["text"] == HOSTILE
    assert document["rounds"][0]["attempts"][0]["evaluation"]["findings"][0]["evidence"] == HOSTILE


def test_a_line_of_ten_million_characters_is_cut_where_people_read() -> None:
    run = written(HUGE)
    for view in VIEWS[:6]:
        result = CliRunner().invoke(app, [run.id if word == "RUN" else word for word in view])
        assert result.exit_code == 0, result.stderr
        assert len(result.stdout) < 100_000
    shown = CliRunner().invoke(app, ["show", run.id]).stdout
    assert max(map(len, shown.splitlines())) <= 80
    full = CliRunner().invoke(app, ["show", run.id, "--round", "1"]).stdout
    assert f"[{10_000_000 - console.LINE_CHARS:,} more characters; --json has them]" in full
    assert len(json.loads(CliRunner().invoke(app, ["show", run.id, "--json"]).stdout)["rounds"]) == 2


@pytest.mark.parametrize(
    ("text", "kept"),
    [("short", "short"), ("a  b\nc", "a b c"), ("x" * 10, "x" * 10), ("x" * 11, "x" * 9 + "…"), ("", "")],
)
def test_short_texts(text: str, kept: str) -> None:
    assert console.short(text, 10) == kept


def test_an_escape_that_is_not_ended_hides_no_other_line() -> None:
    assert console.plain("a\x1b]0;hidden\nseen") == "a\nseen"
