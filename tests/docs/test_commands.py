"""Every command in the README and in docs is one that the CLI takes; those that need nothing are run.

Of those that judge candidates on the emulator, which takes a while, one is run; tests/e2e has the others.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.commands import environment
from typer.main import get_command
from typer.testing import CliRunner

from agent.cli.app import app
from docs.reference import ROOT

PAGES = sorted(
    {ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "results" / "README.md",
     *(ROOT / "docs").rglob("*.md"), *(ROOT / "agent" / "kernels").rglob("README.md")}
)  # fmt: skip
READING = {"config", "cache", "runs", "show", "view", "export", "kernels list", "kernels info"}
"""Commands that need neither a GPU nor an endpoint, build nothing, and write only where they are."""
PROBLEM = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
"""
_COMMAND = re.compile(r"(?:^|&& |\$ )((?:[A-Z_]+=\S+ )*(?:agent|make|python -m tests\.docs\S*) ?[^#&|]*)")


def blocks(text: str) -> Iterator[str]:
    """The lines of code blocks, fenced as sh or without a language, or indented."""
    fence: str | None = None
    for line in text.splitlines():
        if line.startswith("```"):
            fence = line[3:].strip() if fence is None else None
        elif fence in ("", "sh", "bash", "console") or (fence is None and line.startswith("    ")):
            yield line.strip()


def commands() -> list[tuple[str, tuple[str, ...]]]:
    """Page and words of each command, without its environment variables; each command once."""
    found: dict[tuple[str, ...], str] = {}
    for page in PAGES:
        for line in blocks(page.read_text(encoding="utf-8")):
            for match in _COMMAND.findall(line):
                words = [word for word in shlex.split(match) if not re.match(r"[A-Z_]+=", word)]
                if words[:2] != ["agent", "(CLI)"]:
                    found.setdefault(tuple(words), page.relative_to(ROOT).as_posix())
    return [(page, words) for words, page in found.items()]


COMMANDS = commands()
OURS = [(page, words[1:]) for page, words in COMMANDS if words[0] == "agent"]


def spelled(case: object) -> str:
    return " ".join(case) if isinstance(case, tuple) else str(case)


def parse(words: tuple[str, ...]) -> tuple[str, ...]:
    """The name of the command whose parser takes the words. Raises the parser's error."""
    group: Any = get_command(app)
    context = group.make_context("agent", list(words))
    name, command, rest = group.resolve_command(context, list(words))
    names: tuple[str, ...] = (name,)
    if hasattr(command, "commands"):
        inside = command.make_context(name, list(rest), parent=context)
        name, command, rest = command.resolve_command(inside, list(rest))
        names = (*names, name)
    command.make_context(names[-1], list(rest), parent=context)
    return names


def runs_here(words: tuple[str, ...]) -> bool:
    """Whether it needs nothing, and names nothing that is a placeholder or serves until it is stopped."""
    name = " ".join(words[:2]) if words[0] == "kernels" else words[0]
    dry = words[0] == "run" and "--dry-run" in words
    serves = words[0] == "view" and "--export" not in words
    return (name in READING or dry) and not serves and not {"RUN", "NAME", "--open"} & set(words)


def test_the_pages_hold_commands_of_every_kind() -> None:
    names = {words[0] for _, words in OURS}
    assert {"run", "eval", "replay", "runs", "show", "view", "kernels", "doctor"} <= names
    assert len([words for _, words in OURS if runs_here(words)]) > 15


@pytest.mark.parametrize(("page", "words"), OURS, ids=spelled)
def test_the_parser_takes_it(page: str, words: tuple[str, ...]) -> None:
    assert parse(words)[0] == words[0]


@pytest.mark.parametrize(
    "words",
    [("run", "problem.py", "--no-such-option"), ("nothing",), ("kernels", "lists"), ("show",)],
    ids=spelled,
)
def test_a_wrong_command_is_not_parsed(words: tuple[str, ...]) -> None:
    with pytest.raises(Exception, match=r"(?i)no such|missing"):
        parse(words)


@pytest.mark.parametrize("words", [words for _, words in OURS if runs_here(words)], ids=spelled)
def test_it_runs_where_there_is_neither_gpu_nor_endpoint(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output


@pytest.mark.timeout(600)  # builds and judges a candidate, also on a busy machine
def test_the_tutorial_ends_with_a_verified_kernel(tmp_path: Path) -> None:
    words = ("run", "problem.py", "--provider", "catalogue", "--executor", "emulator")
    assert ("docs/tutorial.md", words) in OURS
    (tmp_path / "problem.py").write_text(PROBLEM)
    done = subprocess.run(
        [sys.executable, "-m", "agent.cli", *words],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (best,) = tmp_path.glob("runs/*/best.py")
    assert "class ModelNew" in best.read_text(encoding="utf-8")


def test_every_target_of_make_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    asked = {words[1] for _, words in COMMANDS if words[0] == "make"}
    assert asked
    assert asked - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"`[^`]*`", "", text))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert {p for p in pages if f"({p})" not in index and not p.startswith("adr/")} == {"README.md"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150
