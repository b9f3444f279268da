"""Checks of the docstrings' style, as far as a program can see it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BANNED = re.compile(r"(What|Whether|Of|As|The same|So many|Where|How)\b")
"""Openings that leave a sentence without a verb."""
MOST_WORDS = 45
"""Maximum number of words in a docstring's first sentence."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring, those below constants and fields included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text


def files() -> list[Path]:
    agent = ROOT / "agent"
    return [path for path in sorted(agent.rglob("*.py")) if "_shipped" not in path.parts]


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.strip().splitlines()[0]}"
        for path in files()
        for line, text in docstrings(path)
        if BANNED.match(text.strip())
    ]
    assert found == []


def test_first_sentences_are_short() -> None:
    found = []
    for path in files():
        for line, text in docstrings(path):
            first = re.split(r"(?<=[.:;])\s|\n\n", text.strip(), maxsplit=1)[0]
            if len(first.split()) > MOST_WORDS:
                found.append(f"{path.relative_to(ROOT)}:{line}: {len(first.split())} words")
    assert found == []
