"""ATen graph of a reference, traced at several sizes. Imports torch: used in the child alone."""

import ast
import operator
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.func import functional_call, functionalize
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten

from agent.compose.declined import Declined
from agent.compose.dims import Dim
from agent.problems.tracer import FILENAME, loaded
from agent.python_source import syntax_tree

_KEPT = (
    "addmm", "baddbmm", "convolution", "embedding", "gelu", "max_pool2d_with_indices", "mm", "bmm",
    "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d", "native_layer_norm", "log_softmax",
    "_log_softmax", "_softmax", "max", "min", "stack", "sum", "prod", "native_group_norm",
    "native_batch_norm", "_native_batch_norm_legit_no_training", "silu", "sigmoid", "cumsum", "cumprod",
    "slice", "select", "split", "split_with_sizes", "unbind", "unsqueeze", "squeeze", "expand",
    "logsumexp", "tril", "triu", "diag_embed",
)  # fmt: skip
"""Operators that are not decomposed, though torch has decompositions for them."""


@dataclass(frozen=True, eq=False)
class Traced:
    """One reference at one size: its graph, and the meaning of the graph's placeholders."""

    graph: torch.fx.Graph
    state: dict[str, str]
    """Name of the parameter or buffer for each placeholder."""
    buffers: frozenset[str]
    """Names that are buffers."""
    inputs: tuple[str | None | bool | int | float, ...]
    """Values of `get_inputs`, in order: the placeholder of a tensor (`str`), or the value itself."""
    integers: dict[str, int]
    """Integer attributes of modules, by the Python that reads them, such as `self.num_groups`."""
    constants: dict[str, float]
    """One-element tensors that the reference makes of a number, by node name."""
    outputs: str
    """Type that forward returns: `tensor`, `tuple` or `list`."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes of the inputs that are tensors, in order."""

    @cached_property
    def calls(self) -> list[str]:
        """Return the operators in order."""
        return [str(node.target) for node in self.graph.nodes if node.op == "call_function"]


@cache
def traced(source: str, axes: tuple[tuple[int, int, Fraction], ...] = ()) -> Traced:
    """Run the reference on fake tensors.

    `axes`: dimensions of tensors among the inputs whose sizes are multiplied, as input, dimension and ratio.
    The result is cached, because several searches need it. Raises ReferenceFault, Declined.
    """
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        model, inputs = loaded(source)
        inputs = _resized(inputs, axes)
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        state: dict[str, torch.Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        shapes: list[str] = []

        def forward(values: dict[str, torch.Tensor], given: list[Any]) -> Any:
            left = iter(given)
            every = [next(left) if isinstance(value, torch.Tensor) else value for value in inputs]
            result = functional_call(model, values, tuple(every))
            shapes.append(_kind(result, source))
            return result

        try:
            module = _recorded(forward, state, tensors)
            if any(_is_in_place(node) for node in module.graph.nodes):  # a decomposition's own
                module = _recorded(torch.fx.Interpreter(module).run, state, tensors)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            what = f"what it calls depends on the contents of tensors ({error.func})"
            raise Declined(what + placed(_line_of(error), source)) from None
        except Declined:
            raise
        except Exception as error:  # noqa: BLE001 - fake tensors refuse in many ways what eager torch runs
            raise Declined(_refusal(error) + placed(_line_of(error), source)) from None
    graph = module.graph
    graph.eliminate_dead_code()
    placeholders = [node.name for node in graph.nodes if node.op == "placeholder"]
    leaves, _ = tree_flatten((state, tensors))
    names: list[Any] = [*state, *range(len(leaves) - len(state))]
    by_place = dict(zip(placeholders, names, strict=True))
    places = iter([place for place, name in by_place.items() if isinstance(name, int)])
    return Traced(
        graph=graph,
        state={place: name for place, name in by_place.items() if isinstance(name, str)},
        buffers=frozenset(name for name, _ in model.named_buffers()),
        inputs=tuple(next(places) if isinstance(value, torch.Tensor) else _plain(value) for value in inputs),
        integers=_integers(model),
        constants=_constants(module),
        outputs=shapes[0],
        shapes=tuple(tuple(tensor.shape) for tensor in tensors),
    )


def _recorded(
    forward: Callable[..., Any], state: dict[str, torch.Tensor], tensors: list[torch.Tensor]
) -> torch.fx.GraphModule:
    """Return the graph of a function without operators in place. Each node keeps its line."""
    whole = functionalize(forward, remove="mutations")
    record = make_fx(
        whole, decomposition_table=_decompositions(), tracing_mode="real", record_stack_traces=True
    )
    with fx_traceback.preserve_node_meta():
        return record(state, tensors)


def _is_in_place(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and bool(
        getattr(getattr(node.target, "_schema", None), "is_mutable", False)
    )


def _refusal(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "mutating a non-functional tensor" in text:
        return "it changes a tensor in place that is no input, parameter or buffer"
    if "unallocated storage" in text:
        return "what it calls depends on the contents of tensors"
    return f"it cannot be traced without values: {type(error).__name__}: {text[:150]}"


def _line_of(error: BaseException) -> int | None:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILENAME]
    return frames[-1].lineno if frames else None


def placed(line: int | None, source: str) -> str:
    """Return a line of the reference as the end of a sentence."""
    if line is None:
        return ""
    text = " ".join(source.splitlines()[line - 1].split())
    return f", at line {line}: `{text[:100]}`"


def runs(source: str, axes: tuple[tuple[int, int, Fraction], ...]) -> bool:
    """Return True if the reference runs on fake tensors at these sizes. See `traced`."""
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        try:
            model, inputs = loaded(source)
            model(*_resized(inputs, axes))
        except Exception:  # noqa: BLE001 - whatever the reference's own code raises
            return False
    return True


def _resized(inputs: list[Any], axes: tuple[tuple[int, int, Fraction], ...]) -> list[Any]:
    places = [place for place, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    for number, axis, ratio in axes:
        given = inputs[places[number]]
        size = given.shape[axis] * ratio
        if size.denominator != 1:
            raise ValueError(f"{given.shape[axis]} is no multiple of {ratio.denominator}")
        shape = [*given.shape[:axis], int(size), *given.shape[axis + 1 :]]
        inputs[places[number]] = torch.empty(shape, dtype=given.dtype, device=given.device)
    return inputs


@cache
def _decompositions() -> dict[Any, Any]:
    """Return torch's own decompositions, except those to its primitives.

    The primitives are a different set of operators.
    """
    plain = {op: how for op, how in decomposition_table.items() if how.__module__.startswith("torch._decomp")}
    return {op: how for op, how in {**plain, **core_aten_decompositions()}.items() if _name(op) not in _KEPT}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise Declined(f"an input of the reference is a {type(value).__name__}")


def _name(op: Any) -> str:
    return str(getattr(op, "_schema", op)).partition("(")[0].removeprefix("aten::").partition(".")[0]


def _kind(result: Any, source: str) -> str:
    if isinstance(result, torch.Tensor):
        return "tensor"
    said = f"forward returns {type(result).__name__}, not a tensor or a tuple of tensors"
    if isinstance(result, (tuple, list)):
        if all(isinstance(item, torch.Tensor) for item in result):
            return "tuple" if isinstance(result, tuple) else "list"
        kinds = sorted({type(item).__name__ for item in result if not isinstance(item, torch.Tensor)})
        said += f" (it holds {', '.join(kinds)})"
    returns = [
        statement.lineno
        for model in syntax_tree(source).body
        if isinstance(model, ast.ClassDef) and model.name == "Model"
        for statement in ast.walk(model)
        if isinstance(statement, ast.Return)
    ]
    raise Declined(said + placed(returns[-1] if returns else None, source))


def _constants(module: torch.fx.GraphModule) -> dict[str, float]:
    found = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            tensor = getattr(module, node.target)
            value = getattr(tensor, "constant", tensor)
            if value is None or value.numel() != 1 or isinstance(value, FakeTensor):
                raise Declined("the reference keeps a tensor that is neither a parameter nor a buffer")
            found[node.name] = value.item()
    return found


def _integers(model: torch.nn.Module) -> dict[str, int]:
    found = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if type(value) is int and not name.startswith("_"):
                owner = f'self.get_submodule("{path}")' if path else "self"
                found[f"{owner}.{name}"] = value
    return found


@dataclass(frozen=True)
class Varying:
    """A number that differs between the traced sizes."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Ref:
    """A reference to the result of another node."""

    name: str


@dataclass(frozen=True)
class Node:
    """One call at all points. Its tensor arguments are Refs."""

    name: str
    op: str
    """Operator as torch spells it, `aten.add.Tensor`, or `getitem` for a part of a result."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: tuple[tuple[Dim, ...], ...]
    """Shapes of its results. An operator with one result has one entry."""
    dtypes: tuple[str, ...]
    users: int
    is_contiguous: bool = False
    """True if the first result is one whole tensor in memory, in order."""
    line: int | None = None
    """Line of the reference that makes the call."""


def nodes(graphs: Sequence[Traced]) -> tuple[list[Node], list[Ref]]:
    """Return the calls in order, and the outputs. Raises Declined if the sizes decide what is called."""
    lists = [list(one.graph.nodes) for one in graphs]
    if len({tuple((node.op, str(node.target)) for node in one if node.op != "output") for one in lists}) > 1:
        raise Declined("the reference calls other operators at other sizes")
    found = []
    outputs: list[Ref] = []
    for group in zip(*lists, strict=True):
        first = group[0]
        if first.op == "output":
            flat, _ = tree_flatten(first.args[0])
            outputs = [Ref(node.name) for node in flat]
            continue
        if first.op == "get_attr":
            values = [one.constants[node.name] for one, node in zip(graphs, group, strict=True)]
            found.append(_constant(first, _together(values), len(graphs)))
            continue
        metas = [tree_flatten(node.meta["val"])[0] for node in group]
        tensors = [list(column) for column in zip(*metas, strict=True)]
        name = "getitem" if first.target is operator.getitem else str(first.target)
        found.append(
            Node(
                name=first.name,
                op=name if first.op == "call_function" else "placeholder",
                args=_together([node.args for node in group]),
                kwargs=_together([dict(node.kwargs) for node in group]),
                shapes=tuple(_shape(column) for column in tensors),
                dtypes=tuple(
                    str(column[0].dtype).removeprefix("torch.") if column[0] is not None else ""
                    for column in tensors
                ),
                users=len(first.users),
                is_contiguous=all(_is_whole(tensor) for tensor in tensors[0]),
                line=_line(first),
            )
        )
    return found, outputs


def _line(node: torch.fx.Node) -> int | None:
    lines = re.findall(rf'File "{re.escape(FILENAME)}", line (\d+)', str(node.meta.get("stack_trace", "")))
    return int(lines[-1]) if lines else None


def _constant(node: torch.fx.Node, value: Any, points: int) -> Node:
    """Return the node of a number that is used as a tensor."""
    dtype = str(node.meta["val"].dtype if "val" in node.meta else torch.float32).removeprefix("torch.")
    shape = ((1,) * points,) * (node.meta["val"].dim() if "val" in node.meta else 0)
    return Node(node.name, "aten.scalar_tensor.default", (value,), {}, (shape,), (dtype,), len(node.users))


def _is_whole(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.is_contiguous() and tensor.storage_offset() == 0


def _shape(column: list[Any]) -> tuple[Dim, ...]:
    if column[0] is None:
        return ()
    return tuple(tuple(int(size) for size in sizes) for sizes in zip(*(t.shape for t in column), strict=True))


def _together(values: list[Any]) -> Any:
    """Return one argument, merged from those of all points."""
    first = values[0]
    if isinstance(first, torch.fx.Node):
        return Ref(first.name)
    if isinstance(first, dict):
        return {key: _together([value[key] for value in values]) for key in first}
    if isinstance(first, (tuple, list)):
        if len({len(value) for value in values}) > 1:
            raise Declined("the reference calls other operators at other sizes")
        return type(first)([_together(list(column)) for column in zip(*values, strict=True)])
    if all(value == first for value in values) or first != first:
        return first
    if all(isinstance(value, (int, float)) for value in values):
        return Varying(tuple(values))
    raise Declined("the reference calls operators with other settings at other sizes")
