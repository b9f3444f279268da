"""The table of exit codes, which scripts rely on, and the exceptions that end a command with one."""

import re
from collections.abc import Iterator

from agent import errors
from agent.cli import eval as judging
from agent.cli import run as running
from docs.reference import FOLDER


def raised(kind: type[errors.AgentError] = errors.AgentError) -> Iterator[int]:
    yield kind.exit_code
    for lower in kind.__subclasses__():
        yield from raised(lower)


def test_every_exit_code_has_its_row_and_no_other() -> None:
    table = (FOLDER / "commands.md").read_text(encoding="utf-8").split("\n## ")[0]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert listed == {0, *raised(), *judging.EXITS.values(), *running.EXITS.values()}
