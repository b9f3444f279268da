"""Draw docstrings and comments for a reader who does not see the code.

    python -m benchmarks.reading --seed 45 > sample.md

The reader says of each text what it means; somebody else compares that with the code. docs/reading.md has the
results. The same commit and seed always draw the same texts.
"""

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCSTRINGS, COMMENTS = 100, 50
_C_FILES = (".cu", ".cuh", ".cpp", ".h")
_DIRECTIVE = re.compile(r"(?:noqa|type:|fmt:|pragma|ruff:|mypy:)")


class Text(NamedTuple):
    """One docstring or comment."""

    place: str
    """File and line."""
    name: str
    """Name of the documented item; empty for a comment."""
    text: str


def main() -> None:
    """Print the sample as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=45)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    docstrings, comments = [], []
    for path in sorted((ROOT / "agent").rglob("*")):
        if "_shipped" in path.parts or not path.is_file():
            continue
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            docstrings += list(_docstrings(path, ast.parse(text)))
            comments += list(_comments(path, text, "#"))
        elif path.suffix in _C_FILES:
            comments += list(_comments(path, path.read_text(encoding="utf-8"), "//"))
    drawn = [*chance.sample(docstrings, DOCSTRINGS), *chance.sample(comments, COMMENTS)]
    for number, each in enumerate(drawn, 1):
        head = f"{each.place} `{each.name}`" if each.name else f"{each.place}, a comment"
        sys.stdout.write(f"## {number}. {head}\n\n{each.text}\n\n")


def _docstrings(path: Path, tree: ast.Module) -> Iterator[Text]:
    """Yield the docstrings of modules, classes, functions, constants and fields."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for place, statement in enumerate(body):
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                continue
            if isinstance(statement.value.value, str):
                above = body[place - 1] if place else node
                text = "\n".join(line.strip() for line in statement.value.value.strip().splitlines())
                yield Text(_place(path, statement.lineno), _name(above, path), text)


def _name(node: ast.AST, path: Path) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{node.name}({ast.unparse(node.args)})"
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return ", ".join(map(ast.unparse, targets))
    return f"module {path.stem}"


def _comments(path: Path, text: str, mark: str) -> Iterator[Text]:
    """Yield each run of lines that are comments alone."""
    run: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        if bare.startswith(mark) and not _DIRECTIVE.search(bare):
            run.append(bare.removeprefix(mark).strip("/ "))
        elif run:
            said = " ".join(run).strip()
            if len(said.split()) > 2:
                yield Text(_place(path, number - len(run)), "", said)
            run = []


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


if __name__ == "__main__":
    main()
