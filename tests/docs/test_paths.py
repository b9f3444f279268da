"""Files and names of code that the pages for maintainers mention exist, and no room is left out."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.reference import ROOT

ARCHITECTURE = "docs/architecture.md"
PAGES = (ARCHITECTURE, "docs/contracts.md", "docs/emulator.md", "CONTRIBUTING.md")
EMULATOR = ROOT / "agent" / "emulator"
BASES = (ROOT, ROOT / "agent", EMULATOR, EMULATOR / "cpp", EMULATOR / "cpp" / "include")
"""What the paths of these pages are relative to."""
_PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|cpp|cuh?|h|toml|json|md)|(?:[\w.-]+/)+)(?::([\w.]+))?`")
_OF_EACH = {"best.py", "candidate.py", "kernel.json", "csrc/library.cu", "operator.py", "csrc/"}
"""Of each run, of each candidate's folder, or of each kernel's."""


def mentioned(text: str) -> Iterator[tuple[str, str | None]]:
    """Each path in the text that is meant to be one file or folder of the tree, with the name in it."""
    for path, name in _PATH.findall(text):
        if path not in _OF_EACH:
            yield path, name or None


def lacking(path: str, name: str | None) -> str | None:
    """What is not there; None where all is."""
    found = next((base / path for base in BASES if (base / path).exists()), None)
    if found is None:
        return path
    return None if name is None or name in names(found) else f"{path}:{name}"


def names(file: Path) -> set[str]:
    """What a Python file defines at its top level, and the members of its classes as `Class.member`."""
    return set(_defined(ast.parse(file.read_text(encoding="utf-8")).body))


def _defined(body: list[ast.stmt], within: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield within + node.name
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (within + target.id for target in targets if isinstance(target, ast.Name))


def rooms() -> list[str]:
    """The rooms as the table has them, from the top."""
    text = (ROOT / ARCHITECTURE).read_text(encoding="utf-8")
    table = text.split("## Rooms\n")[1].split("\n## ")[0]
    return [room.rstrip("/").removesuffix(".py") for room in re.findall(r"^\| `([\w./]+)` \|", table, re.M)]


def layers(contract: str) -> list[list[str]]:
    """The modules of an import contract, layer by layer."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {c["name"]: c for c in settings["tool"]["importlinter"]["contracts"]}
    return [layer.split(" | ") for layer in contracts[contract]["layers"]]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    found = list(mentioned((ROOT / page).read_text(encoding="utf-8")))
    assert found
    assert [missing for one in found if (missing := lacking(*one))] == []


def test_most_of_the_architecture_is_named_to_the_function() -> None:
    found = list(mentioned((ROOT / ARCHITECTURE).read_text(encoding="utf-8")))
    assert len([path for path, name in found if name]) > 120


@pytest.mark.parametrize(
    "text",
    ["`harness/no_such_file.py`", "`no_such_room/`", "`loop.py:no_such_function`", "`loop.py:Terms.none`"],
)
def test_what_is_not_there_is_found_out(text: str) -> None:
    (one,) = mentioned(text)
    assert lacking(*one) is not None


def test_every_room_has_its_line_in_the_order_of_the_imports() -> None:
    listed = rooms()
    for contract, prefix in (("one direction", ""), ("rooms of the judge", "harness/")):
        inside = [name.removeprefix(prefix) for name in listed if name.startswith(prefix)]
        inside = [name for name in inside if "/" not in name]
        depth = {name: number for number, layer in enumerate(layers(contract)) for name in layer}
        assert sorted(inside) == sorted(depth)
        assert [depth[name] for name in inside] == sorted(depth[name] for name in inside)


@pytest.mark.parametrize("package", ["diagnosis", "emulator"])
def test_rooms_within_a_package_are_listed(package: str) -> None:
    there = {f"{package}/{p.parent.name}" for p in (ROOT / "agent" / package).glob("*/__init__.py")}
    assert there == {name for name in rooms() if name.startswith(f"{package}/")}


def test_the_folder_of_the_pages_holds_no_rows() -> None:
    """Measured rows belong into benchmarks/results."""
    kinds = {path.suffix for path in (ROOT / "docs").rglob("*") if path.is_file()}
    assert kinds == {".md", ".png", ".svg"}
