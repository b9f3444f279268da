"""The file with `ModelNew`: the reference's constructor, the kernels, and a forward that launches them."""

import ast

from agent.compose import cuda
from agent.compose.body import STATES
from agent.compose.declined import Declined, ProductsAlone
from agent.compose.program import Launch, Program
from agent.python_source import syntax_tree

_LEFT_OUT = ("get_inputs", "get_init_inputs")


def written(
    source: str, program: Program, given: tuple[list[str], list[str]], said: tuple[str, list[str]], name: str
) -> str:
    """Return the whole file. `given` are the arguments of forward, and those of them that are tensors.

    `said` is the expression that forward returns, and the sources of the shipped kernels that it calls.
    Raises Declined if the reference's text cannot be taken over.
    """
    (arguments, tensors), (returned, parts) = given, said
    launches = [statement for statement in program.statements if isinstance(statement, Launch)]
    if not launches and not parts:
        raise ProductsAlone
    tree = syntax_tree(source)
    model = _model(tree)
    body = [f"{name} = {name}.contiguous()" for name in tensors]
    names = cuda.alike(launches)
    device = f"{tensors[0]}.device" if tensors else "next(self.parameters()).device"
    for statement in program.statements:
        body += _launch(statement, device, names) if isinstance(statement, Launch) else [statement]
    launches = [launch for launch in launches if names[launch.kernel.name] == launch.kernel.name]
    body.append(f"return {returned}")
    forward = "\n".join(
        f"    {line}"
        for line in [f"def forward(self, {', '.join(arguments)}):", *(f"    {line}" for line in body)]
    )
    kept = _kept(tree, model)
    return "\n".join(
        [
            f'"""Composed for {name}: {_what(len(launches), len(parts))}."""',
            "",
            *([kept["future"]] if kept["future"] else []),
            "from torch.utils.cpp_extension import load_inline",
            kept["head"],
            "",
            *parts,
            *(_stages(launches) if launches else []),
            "",
            kept["model"],
            "",
            forward,
            "",
        ]
    )


def _what(kernels: int, parts: int) -> str:
    if not kernels:
        return "shipped products alone"
    around = "shipped products" if parts else "torch's products and convolutions"
    return f"{kernels} {'kernel' if kernels == 1 else 'kernels'} around {around}"


def _stages(launches: list[Launch]) -> list[str]:
    return [
        f"CUDA = r'''{cuda.text(launches)}'''",
        "",
        f"CPP = '''#include <torch/extension.h>\n#include <vector>\n{cuda.declarations(launches)}\n'''",
        "",
        "stages = load_inline(",
        '    name="composed",',
        "    cpp_sources=CPP,",
        "    cuda_sources=CUDA,",
        f"    functions={[launch.kernel.name for launch in launches]!r},",
        ")",
        "",
    ]


def _launch(launch: Launch, device: str, names: dict[str, str]) -> list[str]:
    """Return the statements of a launch. `names` maps each kernel to the one that is written for it."""
    out, shape = launch.out, ", ".join(launch.shape)
    tensors = [buffer.name for buffer in launch.kernel.pointers]
    if out.dtype in STATES:
        shape = f"{shape}, {STATES[out.dtype]}" if shape else str(STATES[out.dtype])
    dtype = "float32" if out.dtype in STATES else out.dtype
    made = [f"{out.name} = torch.empty([{shape}], dtype=torch.{dtype}, device={device})"]
    return [
        *([] if launch.is_in_place else made),
        f"stages.{names[launch.kernel.name]}({', '.join(tensors)}, [{', '.join(launch.given)}])",
    ]


def argument_names(source: str) -> list[str]:
    """Return the names of the reference's forward arguments. Raises Declined if they are not fixed."""
    model = _model(syntax_tree(source))
    forward = [node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    if not forward:
        raise Declined("Model has no forward of its own")
    given = forward[-1].args
    if given.vararg or given.kwarg or given.kwonlyargs:
        raise Declined("forward takes * or ** arguments")
    return [argument.arg for argument in (*given.posonlyargs, *given.args)][1:]


def _model(tree: ast.Module) -> ast.ClassDef:
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    if not classes:
        raise Declined("the reference's text has no class Model at module level")
    return classes[-1]


class _Renamed(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:  # noqa: N802 - the name that ast calls
        return ast.copy_location(ast.Name("ModelNew", node.ctx), node) if node.id == "Model" else node


def _kept(tree: ast.Module, model: ast.ClassDef) -> dict[str, str]:
    """Return the text that the constructor needs: `head` and `model`.

    `head` has the imports, and the classes, functions and constants that are used. `model` is the class
    without its forward.
    """
    model.body = [
        node for node in model.body if not (isinstance(node, ast.FunctionDef) and node.name == "forward")
    ] or [ast.Pass()]
    model = _Renamed().visit(model)
    model.name = "ModelNew"
    others = [node for node in tree.body if node is not model]
    needed, count = _free(model), 0
    while count < len(needed):  # a class may use one that is defined below it
        count = len(needed)
        for node in others:
            if _bound(node) & needed and not _bound(node) & set(_LEFT_OUT):
                needed |= _free(_bare(node))
    head = "\n".join(
        ast.unparse(node)
        for node in others
        if not _is_future(node)
        and (
            isinstance(node, (ast.Import, ast.ImportFrom))
            or (_bound(node) & needed and not _bound(node) & set(_LEFT_OUT))
        )
    )
    future = "\n".join(ast.unparse(node) for node in others if _is_future(node))
    if "import torch\n" not in head + "\n":
        head = f"import torch\n{head}"
    return {"future": future, "head": head, "model": ast.unparse(model)}


def _is_future(node: ast.stmt) -> bool:
    """Return True for an import that Python takes at the beginning of a file alone."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _free(node: ast.AST) -> set[str]:
    """Return the names that the node reads from the module. Parameters of a function are not among them."""
    if isinstance(node, ast.Name):
        return {node.id}
    found = {name for child in ast.iter_child_nodes(node) for name in _free(child)}
    if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
        return found
    given = node.args
    defaults = [value for value in (*given.defaults, *given.kw_defaults) if value is not None]
    own = {argument.arg for argument in ast.walk(given) if isinstance(argument, ast.arg)}
    return found - own | {name for value in defaults for name in _free(value)}


def _bare(node: ast.stmt) -> ast.stmt:
    """Return a class without its forward. A module that only holds parameters needs none."""
    if isinstance(node, ast.ClassDef):
        node.body = [
            part for part in node.body if not (isinstance(part, ast.FunctionDef) and part.name == "forward")
        ] or [ast.Pass()]
    return node


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return {node.name}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
    return set()
