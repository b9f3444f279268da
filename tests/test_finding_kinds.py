"""Check that every kind of finding that is looked up is also created, so that no rename fails silently.

Between Python modules a kind is a bare string. The test parses the package. It collects the strings with
which `.kind` is compared or looked up, and the places where a kind can originate.
"""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import agent
from agent.torch_shim.finding_kinds import FindingKind

PACKAGE = Path(agent.__file__).parent
OTHER_KINDS = (
    "emulator/ptx",
    "contracts",
    "emulator/replay",
    "config.py",
    "kernels",
    "store",
    "sandbox",
)
"""Files and folders where `kind` means something else."""
TABLES = (
    "mend._MENDERS",
    "harness.trial.mismatch_diagnosis.EXPLAINED",
    "harness.confirmation.confirmation.NEVER",
    "harness.oracle.explanation.UNSURE",
    "harness.trial.worker_client.python_errors.OF_BUILDS",
    "harness.confirmation.fault_localization.CAUSES",
)
"""Tables that the search has to find on its own."""


class Lookups(ast.NodeVisitor):
    """Kinds that one file looks up, with their lines. `spent` holds the ids of the nodes used for it."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.found: dict[str, str] = {}
        self.tables: set[str] = set()
        self.spent: set[int] = set()

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(map(is_kind, sides)):
            for side in sides:
                self._look(side)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if is_kind(node.slice):
            self._look(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        searched = isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        if searched and node.args and is_kind(node.args[0]):
            self._look(node.func.value)  # type: ignore[attr-defined]
        self.generic_visit(node)

    def _look(self, side: ast.expr) -> None:
        if is_kind(side):
            return
        self.spent |= {id(part) for part in ast.walk(side)}
        said: list[object] = [part.value for part in ast.walk(side) if isinstance(part, ast.Constant)]
        if not said and is_global(side):
            said = strings_of(eval_in(self.module, side))
            self.tables.add(f"{self.module}.{ast.unparse(side)}".removeprefix("agent."))
        for kind in said:
            if isinstance(kind, str) and "-" in kind:
                self.found[str(kind)] = f"{self.module}:{side.lineno}"


def is_kind(node: ast.expr) -> bool:
    """Return True for `x.kind`, `kind`, `x["kind"]` and `x.get("kind")`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "kind"
    if isinstance(node, ast.Name):
        return node.id == "kind"
    key = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".get") and node.args:
        key = node.args[0]
    return isinstance(key, ast.Constant) and key.value == "kind"


def is_global(node: ast.expr) -> bool:
    """Return True for NAME, _NAME or module.NAME, the spelling of a module's constant."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr.isupper()
    return isinstance(node, ast.Name) and node.id.isupper() and len(node.id) > 1


def strings_of(value: object) -> list[object]:
    return list(value) if isinstance(value, dict | frozenset | set | tuple) else [value]


def eval_in(module: str, node: ast.expr) -> object:
    """Return the value of a name in a module. Raises AttributeError if it does not exist."""
    value: object = import_module(module)
    for name in ast.unparse(node).split("."):
        value = getattr(value, name)
    return value


def beginnings(tree: ast.Module, spent: set[int]) -> Iterator[str]:
    """Yield the strings that can be a finding's kind at its origin.

    These are values of `kind=` or `"kind":`, first arguments of calls, first elements of tuples, assigned and
    returned values, and both branches of conditional expressions among them. The keys of a table also count
    if the file iterates over it with `for kind, ... in TABLE.items()`.
    """
    walked = {
        ast.unparse(loop.iter)
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For | ast.comprehension)
        and isinstance(loop.target, ast.Tuple)
        and is_kind(loop.target.elts[0])
    }
    for node in ast.walk(tree):
        places: list[ast.expr | None] = []
        if isinstance(node, ast.Call):
            places = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "kind")]
        elif isinstance(node, ast.Tuple):
            places = [*node.elts[:1]]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Return):
            places = [node.value]
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node.value, ast.Dict) and target and f"{ast.unparse(target)}.items()" in walked:
                places = list(node.value.keys)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            places = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "kind"]
        for place in filter(None, places):
            yield from (
                leaf.value
                for leaf in branches(place)
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str) and id(leaf) not in spent
            )


def branches(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [*branches(node.body), *branches(node.orelse)]
    return [node]


def survey(folder: Path, package: str) -> tuple[dict[str, str], set[str], set[str]]:
    """Return the kinds looked up with their places, the tables that hold them, and the kinds created."""
    looked_up: dict[str, str] = {}
    tables: set[str] = set()
    made = {str(kind) for kind in FindingKind}
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).as_posix()
        parts = [part for part in inside.removesuffix(".py").split("/") if part != "__init__"]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        lookups = Lookups(".".join((package, *parts)))
        if not inside.startswith(OTHER_KINDS):
            lookups.visit(tree)
        looked_up |= lookups.found
        tables |= lookups.tables
        if path.name != "finding_kinds.py":
            made |= set(beginnings(tree, lookups.spent))
    return looked_up, tables, made


def unmade(folder: Path, package: str) -> dict[str, str]:
    looked_up, _, made = survey(folder, package)
    return {kind: place for kind, place in looked_up.items() if kind not in made}


def test_every_kind_that_is_looked_up_is_made() -> None:
    assert unmade(PACKAGE, "agent") == {}


def test_the_search_finds_the_tables_by_itself() -> None:
    looked_up, tables, _ = survey(PACKAGE, "agent")
    assert tables >= set(TABLES)
    assert {"missing-declaration", "wrong-values", "unknown-cause", "header-gap", "shared-race"} <= set(
        looked_up
    )
    assert len(looked_up) > 40


@pytest.mark.parametrize(
    "lookup", ["found.kind == 'renamed-kind'", "found.kind in ('a', 'renamed-kind')",
               "{'renamed-kind': 1}.get(found.kind)", "{'renamed-kind': 1}[found.kind]"],
)  # fmt: skip
def test_a_renamed_kind_is_seen(lookup: str, tmp_path: Path) -> None:
    (tmp_path / "maker.py").write_text("x = Finding(kind='new-kind', message='It was renamed-kind.')\n")
    (tmp_path / "reader.py").write_text(f"def f(found):\n    return {lookup}\n")
    assert unmade(tmp_path, "planted") == {"renamed-kind": "planted.reader:2"}
    (tmp_path / "maker.py").write_text("x = Finding(kind='renamed-kind' if y else 'b-c', message='')\n")
    assert unmade(tmp_path, "planted") == {}
