"""Trace of one module's forward as a torch.fx graph, with its children as leaves; or the reason why there is
none.

A symbolic trace records the operations on tensors and drops all other effects of a forward. So effects that a
graph cannot hold are detected: changed modes of torch, writes to attributes or buffers, random numbers drawn
in Python, new tensors. A forward is traced in each mode that it may ask for (training, evaluation), and has
to give the same graph in all. An argument that differs only by `self.training` reads the flag at run time.
"""

import operator
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn

from agent.kernels.fusing.calls import Call, Unfit, is_plain

IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor")
"""In-place operators, which torch.fx would record as operators that make a new tensor."""


class _Proxy(fx.Proxy):
    pass


def _in_place(name: str) -> Callable[[fx.Proxy, Any], Any]:
    def recorded(self: fx.Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", getattr(operator, name), (self, other), {})

    return recorded


for _name in IN_PLACE:
    setattr(_Proxy, f"__{_name}__", _in_place(_name))


class _Tracer(fx.Tracer):
    trace_asserts = True
    proxy_buffer_attributes = True

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call
        self._modes = _modes()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        given = {
            name: self.create_proxy("placeholder", name, (), {})
            if name in self._call.traced
            else self._call.constants[name]
            for name in self._call.names
        }
        return lambda: root_fn(self.root, **given), []

    def create_node(self, *arguments: Any, **options: Any) -> fx.Node:
        if _modes() != self._modes:
            raise Unfit("its forward changes a mode of torch (no_grad, autocast, checkpoint)")
        return super().create_node(*arguments, **options)

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, torch.Tensor) and not self._is_known(a):
            raise Unfit("its forward makes a tensor that no argument leads to")
        return super().create_arg(a)

    def _is_known(self, a: torch.Tensor) -> bool:
        known = (*self.root.parameters(), *self.root.buffers(), *self.tensor_attrs)
        return any(a is one for one in known)


def traced(module: nn.Module, call: Call) -> fx.Graph:
    """Return the graph of a call of this form, with a placeholder for each traced parameter.

    Raises Unfit if the forward cannot be traced, or if its graph is not the same in all modes.
    """
    first = _merged(module, call)
    for grad in (True, False):
        for autocast in (True, False):
            with _in_modes(grad, autocast):
                if str(_merged(module, call)) != str(first):
                    raise Unfit("its forward asks for torch's modes (grad or autocast)")
    return first


def _merged(module: nn.Module, call: Call) -> fx.Graph:
    """Return one graph for both modes; arguments that follow `self.training` read the flag at run time."""
    graphs = {}
    was = module.training
    for training in (True, False):
        module.training = training
        try:
            graphs[training] = _once(module, call)
        finally:
            module.training = was
    pairs = list(zip(graphs[True].nodes, graphs[False].nodes, strict=False))
    if len(graphs[True].nodes) != len(graphs[False].nodes) or any(
        (one.op, one.target, one.name) != (two.op, two.target, two.name) for one, two in pairs
    ):
        raise Unfit("its forward does other things in training than in evaluation")
    for one, two in pairs:
        _read_flag(graphs[True], one, two)
    return graphs[True]


def _read_flag(graph: fx.Graph, one: fx.Node, two: fx.Node) -> None:
    arguments: list[tuple[Any, Any]] = [
        *enumerate(one.args), *((name, value) for name, value in one.kwargs.items())
    ]  # fmt: skip
    for place, value in arguments:
        other = two.args[place] if isinstance(place, int) else two.kwargs[place]
        if str(value) == str(other):
            continue
        if value is not True or other is not False:
            raise Unfit("its forward does other things in training than in evaluation")
        with graph.inserting_before(one):
            flag = graph.create_node("get_attr", "training")
        if isinstance(place, int):
            one.update_arg(place, flag)
        else:
            one.update_kwarg(place, flag)


def _once(module: nn.Module, call: Call) -> fx.Graph:
    if "forward" in module.__dict__:
        raise Unfit("its forward was replaced on the object itself")
    numbers = (random.getstate(), torch.get_rng_state())
    with _unchanged(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = _Tracer(call).trace(module)
        except Unfit:
            raise
        except Exception as error:  # noqa: BLE001 - a forward may raise anything when it meets a proxy
            raise Unfit(f"its forward does not trace: {line(error)}") from error
        finally:
            moved = random.getstate() != numbers[0] or not torch.equal(torch.get_rng_state(), numbers[1])
            random.setstate(numbers[0])
            torch.set_rng_state(numbers[1])
    if moved:
        raise Unfit("its forward draws random numbers beside its tensors")
    kept = [node for node in graph.nodes if node.op == "get_attr"]
    if any(user.args[:1] == (node,) and _is_in_place(user) for node in kept for user in node.users):
        raise Unfit("its forward writes to its buffers")
    return graph


def _is_in_place(node: fx.Node) -> bool:
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    return node.target in [getattr(operator, name) for name in IN_PLACE]


@contextmanager
def _unchanged(module: nn.Module) -> Iterator[None]:
    """Restore the state that the trace changed in the module and its children. Raises Unfit for a change."""
    before = [(one, *_written(one)) for one in module.modules()]
    versions = [buffer._version for buffer in module.buffers()]
    try:
        yield
    finally:
        changed = []
        for one, attributes, inner in before:
            if not (_is_equal(one.__dict__, attributes) and all(map(_is_equal, _inner(one), inner))):
                changed.append(type(one).__name__)
            one.__dict__.clear()
            one.__dict__.update(attributes)
            for place, kept in zip(_inner(one), inner, strict=True):
                place.clear()
                place.update(kept)
    if changed:
        raise Unfit(f"its forward changes attributes of {changed[0]}")
    if versions != [buffer._version for buffer in module.buffers()]:
        raise Unfit("its forward writes to its buffers")


def _inner(module: nn.Module) -> list[dict[str, Any]]:
    return [module._parameters, module._buffers, module._modules]


def _written(module: nn.Module) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return dict(module.__dict__), [dict(place) for place in _inner(module)]


def _is_equal(now: dict[str, Any], then: dict[str, Any]) -> bool:
    return now.keys() == then.keys() and all(
        now[name] is value or (is_plain(value) and is_plain(now[name]) and now[name] == value)
        for name, value in then.items()
    )


def _modes() -> tuple[object, ...]:
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None)
    return (
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"), hooks(True) is None,
    )  # fmt: skip


@contextmanager
def _in_modes(grad: bool, autocast: bool) -> Iterator[None]:
    was = {device: torch.is_autocast_enabled(device) for device in ("cpu", "cuda")}
    try:
        for device in was:
            torch.set_autocast_enabled(device, autocast)
        with torch.set_grad_enabled(grad):
            yield
    finally:
        for device, enabled in was.items():
            torch.set_autocast_enabled(device, enabled)


def line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
