"""Tests of tables at 80 columns: no line is wider, and no name, path or verdict is broken."""

from pathlib import Path

import pytest
from transcripts import SETTINGS
from typer.testing import CliRunner

from agent.cli import columns, judging
from agent.cli.app import app
from agent.config import Settings
from agent.kernels import manifest, sources
from agent.records import Evaluation, Finding, Scope, Status
from agent.store import Run, create

PARTS = ("emulator", "builds", "sizes", "kernels", "admission")


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def fits(text: str) -> bool:
    return all(len(line) <= 80 for line in text.splitlines())


def test_every_kernel_is_on_one_line_with_its_name_whole() -> None:
    text = printed("kernels", "list")
    assert fits(text)
    words = text.split()
    assert all(words.count(name) == 1 for name in sources.NAMES)


def test_a_kernel_with_a_long_name_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"promoted/{'_'.join(['long_name'] * 7)}"
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    (tmp_path / name).mkdir(parents=True)
    manifest.save(manifest.Manifest(name=name, source="run 20261120-1, attempt 2"))
    text = printed("kernels", "list")
    assert name in text.splitlines()
    assert fits(text)


@pytest.mark.parametrize("options", [[], ["-v"]], ids=["plain", "verbose"])
def test_settings_keep_their_names_and_values(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cache = f"/srv/{'a-folder-with-a-long-name/' * 2}cache"
    monkeypatch.setenv("AGENT_CACHE_DIR", cache)
    text = printed("config", *options)
    words = text.split()
    assert fits(text)
    assert cache in words
    assert all(name in words for name in Settings.model_fields)


def test_the_parts_of_the_cache_are_whole() -> None:
    text = printed("cache")
    assert all(part in text.split() for part in PARTS)
    # The first line is the path of the cache, which may exceed the width.
    assert fits(text.split("\n", 1)[1])


def test_runs_keep_their_ids(finished: Run) -> None:
    other = create(Path("runs"), SETTINGS)
    text = printed("runs")
    assert fits(text)
    assert {finished.id, other.id} <= set(text.split())


def test_a_table_that_does_not_fit_has_its_cells_below_the_name() -> None:
    rows = [("first", "a long description of the first", "12"), ("second", "short", "3")]
    wide = ["".join(text for text, _ in line) for line in columns.lines(("n", "what", "s"), rows, 80, (2,))]
    assert wide[1:] == [
        "first   a long description of the first  12",
        "second  short                             3",
    ]
    narrow = ["".join(text for text, _ in line) for line in columns.lines(("n", "what", "s"), rows, 24)]
    assert narrow == ["first", "    what: a long", "        description of", "        the first", "    s: 12",
                      "second", "    what: short", "    s: 3"]  # fmt: skip


def test_a_verdict_is_folded_behind_its_first_words() -> None:
    scope = Scope(
        executor="emulator", shapes="shrunken", sizes={f"dimension_{n}": (512, 8) for n in range(9)}
    )
    message = "The output equals the reference with `affine` ignored. " * 5
    finding = Finding(kind="affine-ignored", severity="error", message=message)
    text = judging.verdict(
        Evaluation(status=Status.INCORRECT, stage="verify", scope=scope, findings=(finding,))
    )
    first, *others = text.plain.splitlines()
    assert fits(text.plain)
    assert first.startswith("incorrect on CPU emulator, shrunken shapes (dimension_0 512->8,")
    (begun,) = (line for line in others if not line.startswith("    "))
    assert begun.startswith("  affine-ignored: The output")
    assert text.plain.split()[-1] == "ignored."
    assert [(span.start, span.end, span.style) for span in text.spans] == [(0, len("incorrect"), "red")]
