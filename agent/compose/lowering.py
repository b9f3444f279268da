"""Translation of a graph's calls to values, and of the calls that stay torch's to statements."""

from typing import Any

from agent.compose import (
    extremes,
    formulas,
    lookups,
    matrices,
    ordering,
    pointwise,
    reductions,
    scattering,
    strides,
    views,
    windows,
)  # fmt: skip
from agent.compose.body import C_TYPES
from agent.compose.declined import Declined
from agent.compose.depthwise import depthwise
from agent.compose.dims import Dim
from agent.compose.pointwise import applied
from agent.compose.products import MATMUL, Shipped, one_side
from agent.compose.program import Program
from agent.compose.tracing import Node, Ref, Varying
from agent.compose.values import Buffer, Value, View

PRODUCTS = {
    "mm": "torch.mm", "bmm": "torch.bmm", "addmm": "torch.addmm", "baddbmm": "torch.baddbmm",
    "convolution": "torch.convolution",
}  # fmt: skip
"""Matrix products and convolutions, with the torch function for each."""
FUSED_WORK = 120
"""Maximum number of instructions that are repeated for a second reader. Above it the result is stored."""


class Lowering:
    """One pass over the calls, after which every result is a value."""

    def __init__(self, program: Program, arch: str | None = None, own_products: bool = False) -> None:
        """Start without values. With `own_products`, no product or convolution stays torch's."""
        self.program = program
        self.shipped = Shipped(arch, own_products, bool(program.change.get("forms")))
        self._takes_few = own_products or bool(program.change.get("forms"))
        self._products: dict[Value, int] = {}
        """Places of the shipped products' calls among the statements."""
        self._shared: set[str] = set()
        """Names of the results that several calls read."""
        self._values: dict[str, Value | tuple[Value, ...]] = {}
        self._work: dict[Value, int] = {}
        self._contiguous: set[str] = set()

    def place(self, name: str, buffer: Buffer) -> None:
        """Register an input or a parameter. Raises Declined for an unsupported dtype."""
        if buffer.dtype not in C_TYPES:
            raise Declined(f"numbers of {buffer.dtype} are not composed yet ({buffer.name})")
        self._values[name] = buffer

    def note(self, node: Node) -> None:
        """Record whether the result lies in memory in order, and whether several calls read it."""
        if node.is_contiguous:
            self._contiguous.add(node.name)
        if node.users > 1:
            self._shared.add(node.name)

    def value(self, ref: Ref) -> Value:
        found = self._values[ref.name]
        assert isinstance(found, Value)
        return found

    def call(self, node: Node) -> None:
        """Lower one call. Raises Declined for an unknown operator."""
        if unknown := [dtype for dtype in node.dtypes if dtype and dtype not in C_TYPES]:
            raise Declined(f"numbers of {unknown[0]} are not composed yet ({node.op})")
        self.note(node)
        if ".as_strided" in node.op and node.args[0].name not in self._contiguous:
            raise Declined("strides of a tensor that is a view itself are not composed yet")
        args, kwargs = self._resolved(node.args), self._resolved(node.kwargs)
        if node.op == "getitem":
            results = self._values[node.args[0].name]
            self._values[node.name] = results[node.args[1]] if isinstance(results, tuple) else args[0]
            return
        name = node.op.split(".")[1]
        if name == "convolution":
            channels = depthwise(node, list(args), self.program.sizes, self._takes_few)
            if channels is not None:
                self._values[node.name] = channels
                return
        if name == "copy_":
            self._values[node.name] = self._replaced(node, args[0], args[1])
            return
        few = self._of_few(node, name, list(args), kwargs)
        if few is not None:
            self._values[node.name] = few
            return
        if name in PRODUCTS:
            self._values[node.name] = self._product(node, name, list(args), kwargs)
            return
        found = self._side(name, list(args)) or self._lowered(node, name, list(args), kwargs)
        if found is None:
            raise Declined(f"the operator {node.op} is not composed yet")
        self._values[node.name] = found
        if isinstance(found, Value):
            self._keep_if_dear(found, node.users)

    def _of_few(self, node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value | None:
        """Return a product as a kernel like any other, or None for any other product or operator."""
        found = matrices.by_a_diagonal(node, name, args) or reductions.matrix_vector(node, name, args)
        if found is None and self._takes_few:
            found = matrices.of_few(node, name, args, kwargs, self.program.in_memory)
        return found

    def _side(self, name: str, args: list[Any]) -> Value | None:
        """Return a shipped product of which only one side is wanted, or None for anything else.

        The call of the product is changed so that it computes no other side.
        """
        place = self._products.get(args[0]) if args and isinstance(args[0], Value) else None
        part = {"tril": "lower", "triu": "upper"}.get(name)
        if place is None or part is None or (len(args) > 1 and args[1] != 0):
            return None
        if any(value is args[0] for name, value in self._values.items() if name in self._shared):
            return None
        call = self.program.statements[place]
        assert isinstance(call, str)
        self.program.statements[place] = one_side(call, part)
        product: Value = args[0]
        return product

    def _replaced(self, node: Node, target: Value, source: Value) -> Value:
        """Return the new value of a tensor that another one is copied into.

        Calls that have read the tensor before keep the old value.
        """
        views = (value for value in self._values.values() if isinstance(value, View))
        if isinstance(target, (View, Buffer)) or any(view.operands[0] is target for view in views):
            raise Declined("an operator in place on a tensor that has other names is not composed yet")
        result = applied("{0}", [source], node.shapes[0], node.dtypes[0])
        for name in [name for name, value in self._values.items() if value is target]:
            self._values[name] = result
        return result

    def _lowered(
        self, node: Node, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Value | tuple[Value, ...] | None:
        if not node.shapes or any(0 in size for size in node.shapes[0]):
            raise Declined(f"{node.op} gives a tensor without elements")
        return (
            views.parts(node, name, args)
            or views.lower(node, name, args, kwargs)
            or lookups.lower(node, name, args)
            or scattering.lower(node, name, args, kwargs)
            or ordering.lower(node, name, args, kwargs)
            or matrices.lower(node, name, args)
            or strides.lower(node, name, args)
            or extremes.lower(node, name, args)
            or reductions.lower(node, name, args, kwargs)
            or windows.lower(node, name, args, kwargs, self.program.sizes)
            or formulas.lower(node, name, args, kwargs)
            or pointwise.lower(node, name, args, kwargs)
        )

    def _keep_if_dear(self, value: Value, users: int) -> None:
        """Store a value in memory if it is expensive to compute and several calls read it."""
        own = getattr(value, "work", 1)
        below = sum(self._work.get(read, 0) for read in value.reads)
        self._work[value] = own + below * (own if own > 8 and len(value.reads) == 1 else 1)
        if users > 1 and self._work[value] > FUSED_WORK:
            self.program.realized(value)
            self._work[value] = 0

    def _resolved(self, thing: Any) -> Any:
        if isinstance(thing, Ref):
            return self._values[thing.name]
        if isinstance(thing, dict):
            return {key: self._resolved(value) for key, value in thing.items()}
        if isinstance(thing, (list, tuple)):
            return type(thing)(self._resolved(value) for value in thing)
        return thing

    def _product(self, node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value:
        out = Buffer(node.shapes[0], node.dtypes[0], name, self.program.named(name))
        own = self.shipped.call(node, name, args, kwargs, self._python)
        if own is not None:
            if own.startswith(f"{MATMUL}(") and name != "convolution":
                self._products[out] = len(self.program.statements)
            self.program.statements.append(f"{out.name} = {own}")
            self.program.sizes.add(out.name, out.shape)
            return out
        scale = ", ".join(f"{key}={value!r}" for key, value in kwargs.items())
        bias = args[2] if name == "convolution" else None
        if bias is not None:  # on a GPU torch adds it with a separate kernel, and ours fuses it
            args[2] = None
        texts = [self._python(argument) for argument in args]
        call = f"{PRODUCTS[name]}({', '.join([*texts, *([scale] if scale else [])])})"
        self.program.statements.append(f"{out.name} = {call}")
        self.program.sizes.add(out.name, out.shape)
        return out if bias is None else windows.with_bias(out, bias)

    def _python(self, argument: Any) -> str:
        if isinstance(argument, Value):
            return self.program.python(argument)
        if isinstance(argument, Varying):
            return self.program.sizes.text(_whole(argument))
        if isinstance(argument, (list, tuple)):
            return f"[{', '.join(self._python(item) for item in argument)}]"
        return repr(argument)


def _whole(value: Varying) -> Dim:
    if not all(isinstance(number, int) for number in value.values):
        raise Declined(f"a setting of a product, {value.values[0]:g}, follows from no size")
    return tuple(int(number) for number in value.values)
