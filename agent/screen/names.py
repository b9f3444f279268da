"""Resolution of names in the candidate: `F.gelu` is `torch.nn.functional.gelu` after its import.

It follows imports, single assignments of imported things (`t = torch`) and `getattr` with a literal. A
function's own parameters and variables hide imports of the same name. It follows nothing through containers,
object attributes or calls. An unresolved name is None, and the candidate's run has to show what it does.
"""

import ast
import builtins
from collections import Counter
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Names:
    """Resolver of dotted names in one module; `enter` and `leave` track the functions that enclose a node."""

    def __init__(self, tree: ast.Module) -> None:
        self._paths: dict[str, str] = {}
        self._constants: dict[str, ast.expr] = {}
        self._hidden: list[set[str]] = []
        self._defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for node in ast.walk(tree):
            self._add_import(node)
        stored = Counter(name for name, _ in _stores(tree))
        for name, value in _stores(tree):
            if value is not None and stored[name] == 1 and name not in self._paths:
                self._constants[name] = value
        for name, value in self._constants.items():
            path = self.path(value) if isinstance(value, (ast.Name, ast.Attribute, ast.Call)) else None
            if path is not None:
                self._paths[name] = path

    def enter(self, function: Function) -> None:
        arguments = function.args
        hidden = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        hidden |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a}
        hidden |= {name for name, _ in _stores(function) if name not in self._constants}
        self._hidden.append(hidden)

    def leave(self) -> None:
        self._hidden.pop()

    def path(self, node: ast.AST) -> str | None:
        """Return the dotted name that `node` refers to, with `builtins.` for built-ins; None if unknown."""
        if isinstance(node, ast.Name):
            return self._of_name(node.id)
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            return f"{base}.{node.attr}" if base else None
        if isinstance(node, ast.Call):
            return self._of_call(node)
        return None

    def is_imported(self, path: str | None) -> bool:
        return path is not None and not path.startswith("builtins.")

    def assigned(self, name: str) -> ast.expr | None:
        """Return the only expression that the file assigns to `name`; None if there are several or none."""
        return self._constants.get(name)

    def text(self, node: ast.AST, within: frozenset[str] = frozenset()) -> str | None:
        """Return the value of a string expression of literals and names of literals; None if unknown.

        `within` holds the names whose values enclose `node`, because a name defined by itself has no value.
        """
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.text(node.left, within), self.text(node.right, within)
            return None if left is None or right is None else left + right
        if isinstance(node, ast.Name) and node.id not in within:
            value = self.assigned(node.id)
            return self.text(value, within | {node.id}) if value is not None else None
        return None

    def _of_name(self, name: str) -> str | None:
        if any(name in hidden for hidden in self._hidden):
            return None
        if name in self._paths:
            return self._paths[name]
        own = name in self._defined or name in self._constants
        builtin = hasattr(builtins, name) or name == "__builtins__"
        return f"builtins.{name}" if builtin and not own else None

    def _of_call(self, node: ast.Call) -> str | None:
        called = self.path(node.func)
        if called == "builtins.getattr" and len(node.args) >= 2:
            base, name = self.path(node.args[0]), self.text(node.args[1])
            return f"{base}.{name}" if base and name else None
        if called in {"builtins.__import__", "importlib.import_module"} and node.args:
            return self.text(node.args[0])
        if called == "builtins.vars" and node.args:
            base = self.path(node.args[0])
            return f"{base}.__dict__" if base else None
        return None

    def _add_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                self._paths[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                self._paths[alias.asname or alias.name] = f"{node.module}.{alias.name}"


def _stores(tree: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield every name bound by assignment below `tree`, with its value if the assignment is a plain one."""
    plain: dict[int, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            plain[id(node.targets[0])] = node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            plain[id(node.target)] = node.value
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, plain.get(id(node))
