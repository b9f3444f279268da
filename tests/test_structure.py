"""Limits of the house style: small files, small functions, few arguments."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_ARGUMENTS = 8


def sources() -> list[Path]:
    paths = [
        *(ROOT / "agent").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
    ]
    return sorted(paths)


def is_operator(path: Path) -> bool:
    """Return True for a kernel's file whose function signatures follow the operator's schema."""
    return path.name in ("operator.py", "reference.py") and path.parent.parent.name == "kernels"


def is_called_by_a_library(path: Path) -> bool:
    """Return True for a file whose function signatures are given by verifiers."""
    return path.name == "harness.py" and path.parent.name == "kernelwright_environment"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_are_small() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in sources()
        if (n := len(p.read_text().splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def test_functions_are_small() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": length
        for path in sources()
        for node in functions(path)
        if (length := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_functions_take_few_arguments() -> None:
    """Count arguments without `self`; options of commands or the API and libraries' signatures are exempt."""
    many = {}
    for path in sources():
        if (
            path.parent.name in ("cli", "api", "torch_shim")
            or is_operator(path)
            or is_called_by_a_library(path)
        ):
            continue
        for node in functions(path):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            count = len([name for name in names if name not in ("self", "cls")])
            if count > MAX_ARGUMENTS:
                many[f"{path.relative_to(ROOT)}:{node.name}"] = count
    assert many == {}


def test_every_module_says_its_contract() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources()
        if ROOT / "agent" in path.parents and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []
