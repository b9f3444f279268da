"""Rules for a candidate's Python, as tables of resolved names, and the walk that applies them."""

import ast
import sys
from collections.abc import Iterable, Iterator

from agent.screen.names import Function, Names
from agent.screen.seen import Seen

WRITABLE_VARIABLES = frozenset({"TORCH_CUDA_ARCH_LIST", "MAX_JOBS"})
"""Environment variables that affect the build and nothing else."""

REASONS = {
    "dynamic-code": "code made at run time cannot be checked; write it out",
    "forbidden-import": "a kernel needs no foreign code, process, thread, network or signal",
    "process-control": "a candidate starts and ends no process or thread",
    "patches-module": "torch and Python stay as they are",
    "introspection": "a candidate does not look into the program that runs it",
    "other-compiler": "the kernels are hand-written CUDA, compiled with load_inline",
    "file-access": "the whole candidate is one file, and it opens no other",
    "global-setting": "the numerics of torch stay as the reference finds them",
    "environment-write": f"only {' and '.join(sorted(WRITABLE_VARIABLES))} may be set",
}

_IMPORTS = {
    "dynamic-code": "importlib imp runpy code codeop marshal pickle dill cloudpickle",
    "forbidden-import": """
        ctypes _ctypes cffi subprocess socket socketserver ssl http urllib requests httpx ftplib
        multiprocessing threading _thread concurrent asyncio signal atexit mmap pty resource fcntl
    """,
    "patches-module": "builtins unittest",
    "introspection": "gc inspect dis tracemalloc",
    "other-compiler": "triton numba cupy pycuda tvm taichi jax",
}
_NAMES = {
    "dynamic-code": """
        builtins.exec builtins.eval builtins.compile builtins.__import__ builtins.__builtins__
    """,
    "forbidden-import": "torch.multiprocessing",
    "process-control": """
        os.system os.popen os.fork os.forkpty os.kill os.killpg os._exit os.abort os.execl os.execle os.execlp
        os.execv os.execve os.execvp os.execvpe os.posix_spawn os.posix_spawnp os.spawnl os.spawnv os.spawnvp
    """,
    "patches-module": """
        sys.modules sys.meta_path torch.overrides.TorchFunctionMode torch.utils._python_dispatch
        torch._C._DisableTorchDispatch torch._C._ExcludeDispatchKeyGuard torch._C._ForceDispatchKeyGuard
        torch._C._SetExcludeDispatchKeyGuard torch._C._dispatch_tls_set_dispatch_key_excluded
        torch._C._pop_torch_dispatch_stack torch._C._unset_dispatch_mode torch._C._set_dispatch_mode
    """,
    "introspection": """
        sys._getframe sys._getframemodulename sys._current_frames sys.settrace sys.setprofile
        traceback.extract_stack traceback.format_stack traceback.print_stack traceback.walk_stack
        torch._C._dispatch_keys torch._C._dispatch_tls_local_include_set
        torch._C._dispatch_tls_local_exclude_set torch._C._dispatch_dump
        torch._C._dispatch_has_kernel_for_dispatch_key torch._C._get_tracing_state
        torch.cuda.memory_allocated torch.cuda.memory_reserved torch.cuda.max_memory_allocated
        torch.cuda.max_memory_reserved torch.cuda.memory_stats torch.cuda.memory_snapshot
        torch.cuda.mem_get_info torch.cuda.memory_summary torch.cuda.memory_usage torch.cuda.utilization
        torch.cuda.list_gpu_processes torch.cuda.memory torch.cuda.host_memory_stats
        torch.cuda.device_memory_used
    """,
    "other-compiler": "torch.compile torch.jit torch._dynamo torch._inductor torch.cuda.jiterator",
    "file-access": """
        builtins.open io.open io.FileIO os.open os.fdopen os.remove os.unlink os.rename os.replace
        shutil.rmtree shutil.copy shutil.copyfile shutil.copy2 shutil.move tempfile.NamedTemporaryFile
        tempfile.TemporaryFile tempfile.mkstemp torch.load torch.save torch.hub torch.utils.cpp_extension.load
    """,
    "global-setting": """
        torch.set_float32_matmul_precision torch.set_default_dtype torch.set_default_device
        torch.set_default_tensor_type torch.set_flush_denormal torch.use_deterministic_algorithms
    """,
    "environment-write": "os.putenv os.unsetenv",
}
_MENDS = {"torch.utils.cpp_extension.load": "pass the text of its sources to load_inline"}
"""Remedy to suggest for a forbidden name."""
_HARMLESS = frozenset(
    f"torch.jit.{name}" for name in ("is_scripting", "is_tracing", "ignore", "unused", "export", "Final")
)
_MEMBERS = {
    "introspection": """
        f_locals f_globals f_back f_builtins tb_frame gi_frame __globals__ __code__ __closure__ __subclasses__
        untyped_storage _typed_storage
    """,
    "file-access": "read_text write_text read_bytes write_bytes",
}
"""Attribute names that are forbidden on any object."""

KIND_OF_IMPORT = {name: kind for kind, names in _IMPORTS.items() for name in names.split()}
KIND_OF_NAME = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_TORCHS_OWN = frozenset(("torch.signal", "torch.multiprocessing", "torch.ops", "torch.classes"))
"""Parts of torch, and namespaces for candidates' own names, that look like standard-library modules."""
_GETTERS = frozenset(("builtins.getattr", "operator.attrgetter", "operator.methodcaller"))
_RULED_MODULES = frozenset(name.split(".")[0] for name in KIND_OF_NAME)
KIND_OF_MEMBER = {name: kind for kind, names in _MEMBERS.items() for name in names.split()}


def violations(tree: ast.Module, names: Names) -> list[Seen]:
    """Return every broken rule in the Python part of a candidate, in the order of the walk."""
    walk = _Walk(names)
    walk.visit(tree)
    return walk.seen


class _Walk(ast.NodeVisitor):
    def __init__(self, names: Names) -> None:
        self.names = names
        self.seen: list[Seen] = []

    def note(self, kind: str, what: str, node: ast.AST) -> None:
        message = f"{what}: {REASONS[kind]}."
        self.seen.append(Seen(kind, message, getattr(node, "lineno", None)))

    def visit_If(self, node: ast.If) -> None:
        if runs_as_script_only(node):
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node)

    def _visit_function(self, node: Function) -> None:
        for decorator in getattr(node, "decorator_list", []):
            self.visit(decorator)
        self.visit(node.args)
        self.names.enter(node)
        for part in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(part)
        self.names.leave()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_import(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.note("file-access", "A relative import", node)
        elif node.module:
            before = len(self.seen)
            self._check_import(node.module, node)
            for alias in node.names if len(self.seen) == before else ():
                self._check_name(f"{node.module}.{alias.name}", node)
                if alias.name == "*" and node.module.split(".")[0] in _RULED_MODULES:
                    self.note("dynamic-code", f"`from {node.module} import *` hides what it brings", node)

    def _check_import(self, module: str, node: ast.AST) -> None:
        root = module.split(".")[0]
        kind = KIND_OF_IMPORT.get(root)
        if kind:
            self.note(kind, f"`{root}` is imported", node)
        elif root == "numpy":
            words = (
                "`numpy` is imported: torch runs without it, and so should a kernel that needs only torch."
            )
            self.seen.append(Seen("extra-dependency", words, getattr(node, "lineno", None), "warning"))
        elif root != "torch" and root not in sys.stdlib_module_names:
            words = f"`{root}` is imported: a candidate needs only torch and the standard library."
            self.seen.append(Seen("extra-dependency", words, getattr(node, "lineno", None)))
        else:
            self._check_name(module, node)

    def _check_name(self, path: str, node: ast.AST) -> bool:
        """Note the rule that forbids `path` or a package containing it. Return True if a rule covers it."""
        return self._check_prefixes(path, node) or any(
            self._check_prefixes(other, node) or self._check_root(other, node) for other in _through(path)
        )

    def _check_prefixes(self, path: str, node: ast.AST) -> bool:
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            name = ".".join(parts[:length])
            if name in _HARMLESS:
                return True
            if name in KIND_OF_NAME:
                mend = f" ({_MENDS[name]})" if name in _MENDS else ""
                self.note(KIND_OF_NAME[name], f"`{name.removeprefix('builtins.')}` is used{mend}", node)
                return True
        return False

    def _check_root(self, path: str, node: ast.AST) -> bool:
        kind = KIND_OF_IMPORT.get(root := path.split(".")[0])
        if kind:
            self.note(kind, f"`{root}` is used", node)
        return kind is not None

    def visit_Name(self, node: ast.Name) -> None:
        path = self.names.path(node)
        if path is not None and isinstance(node.ctx, ast.Load):
            self._check_name(path, node)
        elif node.id == "__name__" and not isinstance(node.ctx, ast.Load):
            # Setting it could make the script-only part run when the file is judged.
            self.note("patches-module", "`__name__` is changed", node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        base, path = self.names.path(node.value), self.names.path(node)
        if not isinstance(node.ctx, ast.Load) and self.names.is_imported(base):
            self._note_write(str(path), node)
        elif path is not None and self._check_name(path, node):
            return
        elif node.attr in KIND_OF_MEMBER:
            self.note(KIND_OF_MEMBER[node.attr], f"`.{node.attr}` is used", node)
        elif node.attr == "__dict__" and self.names.is_imported(base):
            self.note("patches-module", f"The namespace of `{base}` is opened", node)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        path = self.names.path(node.value)
        if not isinstance(node.ctx, ast.Load) and path is not None and self.names.is_imported(path):
            if path == "os.environ":
                self._check_variables([node.slice], node)
            elif "__dict__" not in path:
                self._note_write(path, node)
        called = self.names.path(node.value.func) if isinstance(node.value, ast.Call) else None
        if called == "builtins.globals" and not isinstance(node.ctx, ast.Load):
            name = self.names.text(node.slice)
            if name is None or name == "__name__":
                self.note("dynamic-code", f"`globals()[{name or '...'}]` is set", node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        path = self.names.path(node.func)
        owner = self.names.path(node.args[0]) if node.args else None
        if path in {"builtins.setattr", "builtins.delattr"} and self.names.is_imported(owner):
            name = self.names.text(node.args[1]) if len(node.args) > 1 else None
            self._note_write(f"{owner}.{name or '?'}", node)
        elif path == "builtins.vars" and self.names.is_imported(owner):
            self.note("patches-module", f"The namespace of `{owner}` is opened", node)
        elif path == "builtins.getattr" and self.names.is_imported(owner):
            self._check_getattr(str(owner), node)
        elif path is not None and path.startswith("os.environ."):
            self._check_environment_call(path.removeprefix("os.environ."), node)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in {"__setattr__", "__delattr__"}:
            target = owner if path is None or path.startswith("builtins.") else path.rpartition(".")[0]
            if self.names.is_imported(target):
                self._note_write(str(target), node)
        if path in _GETTERS:
            for name in filter(None, map(self.names.text, node.args)):
                for member in KIND_OF_MEMBER.keys() & set(name.split(".")):
                    self.note(KIND_OF_MEMBER[member], f"`.{member}` is used", node)
        self.generic_visit(node)

    def _check_getattr(self, owner: str, node: ast.Call) -> None:
        path = self.names.path(node)
        if path is not None:
            self._check_name(path, node)
        elif len(node.args) > 1:
            self.note("dynamic-code", f"`getattr({owner}, ...)` takes a name made at run time", node)

    def _check_environment_call(self, method: str, node: ast.Call) -> None:
        if method in {"setdefault", "__setitem__", "pop", "__delitem__"}:
            self._check_variables(node.args[:1], node)
        elif method in {"update", "__ior__"}:
            keys: list[ast.expr | None] = [ast.Constant(word.arg) for word in node.keywords]
            for argument in node.args:
                keys += argument.keys if isinstance(argument, ast.Dict) else [None]
            self._check_variables(keys, node)
        elif method in {"clear", "popitem"}:
            self._check_variables([None], node)

    def _check_variables(self, keys: Iterable[ast.expr | None], node: ast.AST) -> None:
        for key in keys:
            name = self.names.text(key) if key is not None else None
            if name not in WRITABLE_VARIABLES:
                self.note("environment-write", f"The environment variable {name or '(unknown)'} is set", node)

    def _note_write(self, path: str, node: ast.AST) -> None:
        kind = "global-setting" if path.startswith("torch.backends.") else "patches-module"
        self.note(kind, f"`{path}` is changed", node)


def _through(path: str) -> Iterator[str]:
    """Yield standard-library names reached through another module: `os.system` for `torch.os.system`."""
    parts = path.split(".")
    for at in range(1, len(parts)):
        if ".".join(parts[: at + 1]) in _TORCHS_OWN:
            return
        if parts[at] in sys.stdlib_module_names:
            yield ".".join(parts[at:])


def runs_as_script_only(node: ast.AST) -> bool:
    """Return True for `if __name__ == "__main__":`. A judged file is imported under another name."""
    if not (isinstance(node, ast.If) and isinstance(node.test, ast.Compare)):
        return False
    test = node.test
    sides = {ast.unparse(side) for side in (test.left, *test.comparators)}
    return isinstance(test.ops[0], ast.Eq) and sides == {"__name__", "'__main__'"}


def nodes_run_on_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every node that importing the file may reach: all but the script-only part."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop(0)
        yield node
        pending += (
            node.orelse
            if isinstance(node, ast.If) and runs_as_script_only(node)
            else [*ast.iter_child_nodes(node)]
        )
