"""Generation of `class ModelNew` for an operator and a reference.

Sizes are written as the constructor arguments that carry them, so that the class also fits other sizes of the
problem. A size that appears literally in the reference is written as that number. A computed size is refused.
"""

import json
from keyword import iskeyword

from agent.providers.catalogue.matching import OperatorMatch
from agent.providers.catalogue.reference import Argument, Reference

_WIDTH = 110
_ANNOTATIONS = {bool: "bool", int: "int", float: "float", str: "str"}


class Inexpressible(Exception):
    """A size of the problem is neither a constructor argument nor stated in the reference."""


def model_new(operator: OperatorMatch, reference: Reference) -> str:
    """Return the source of the class. Raises Inexpressible for a size that the reference computes."""
    statements = _state(operator, reference)
    operands = [
        "None" if tensor is None else f'self.get_parameter("{tensor.name}")'
        for tensor in operator.parameters.values()
    ]
    for name, value in {**operator.sizes, **operator.settings}.items():
        if name in operator.sizes:
            expression = _size(value, reference)
        else:
            expression = _carrier(value, reference) or _literal(value)
        if expression == _literal(value):
            operands.append(expression)
        else:
            attribute = _free(name, operator)
            statements.append(f"self.{attribute} = {expression}")
            operands.append(f"self.{attribute}")
    lines = [
        "class ModelNew(nn.Module):",
        '    """Module with the constructor arguments and the state_dict keys '
        'of the reference\'s `Model`."""',
        "",
    ]
    if reference.arguments or statements:
        lines += [f"    def __init__({_signature(reference)}) -> None:", "        super().__init__()"]
        lines += [f"        {statement}" for statement in statements] + [""]
    x = reference.input_name
    call = f"        return {operator.kernel}({', '.join([x, *operands])})"
    if len(call) > _WIDTH:
        call = f"        return {operator.kernel}(\n            {', '.join([x, *operands])}\n        )"
    lines += [f"    def forward(self, {x}: torch.Tensor) -> torch.Tensor:", call]
    return "\n".join(lines) + "\n"


def _state(operator: OperatorMatch, reference: Reference) -> list[str]:
    """Return the statements that create the named parameters. Plain modules hold nested parameters."""
    statements: list[str] = []
    owners: dict[tuple[str, ...], str] = {(): "self"}

    def owner(path: tuple[str, ...]) -> str:
        if path not in owners:
            parent, name = owner(path[:-1]), path[-1]
            if _is_attribute(name):
                statements.append(f"{parent}.{name} = nn.Module()")
                owners[path] = f"{parent}.{name}"
            else:
                statements.append(f'{parent}.add_module("{name}", nn.Module())')
                owners[path] = f'{parent}.get_submodule("{name}")'
        return owners[path]

    made = set()
    for role, tensor in operator.parameters.items():
        if tensor is None or tensor.name is None or tensor.name in made:
            continue
        made.add(tensor.name)
        *path, leaf = tensor.name.split(".")
        fill = "torch.ones" if role == "weight" else "torch.zeros"
        parameter = f"nn.Parameter({fill}({_shape(tensor.shape, reference)}))"
        target = owner(tuple(path))
        if _is_attribute(leaf):
            statements.append(f"{target}.{leaf} = {parameter}")
        else:
            statements.append(f'{target}.register_parameter("{leaf}", {parameter})')
    return statements


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _is_attribute(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name)


def _shape(shape: tuple[int, ...], reference: Reference) -> str:
    for argument in reference.arguments:
        if isinstance(argument.value, (list, tuple)) and tuple(argument.value) == shape:
            return argument.name
    return ", ".join(_size(size, reference) for size in shape)


def _size(size: object, reference: Reference) -> str:
    expression = _carrier(size, reference)
    if expression is not None:
        return expression
    if size not in reference.constants:
        raise Inexpressible(
            f"the size {size} is computed by the reference: it is no argument of Model's constructor and not "
            "stated in the text"
        )
    return str(size)


def _carrier(value: object, reference: Reference) -> str | None:
    """Return the argument, or the element of one, with this type and value, or None."""
    if isinstance(value, bool):  # two values are too few to identify an argument
        return None
    for argument in reference.arguments:
        if type(argument.value) is type(value) and argument.value == value:
            return argument.name
        if isinstance(argument.value, (list, tuple)):
            for place, item in enumerate(argument.value):
                if type(item) is type(value) and item == value:
                    return f"{argument.name}[{place}]"
    return None


def _free(name: str, operator: OperatorMatch) -> str:
    """Return `name`, with underscores appended while a parameter or its module has that name."""
    taken = {str(tensor.name).split(".")[0] for tensor in operator.parameters.values() if tensor is not None}
    while name in taken:
        name += "_"
    return name


def _signature(reference: Reference) -> str:
    parts = ["self"]
    for argument in reference.arguments:
        if argument.keyword_only and "*" not in parts:
            parts.append("*")
        default = "" if argument.default is None else f" = {argument.default}"
        parts.append(f"{argument.name}: {_annotation(argument)}{default}")
    return ", ".join(parts)


def _annotation(argument: Argument) -> str:
    if isinstance(argument.value, (list, tuple)) and all(type(item) is int for item in argument.value):
        return "tuple[int, ...]"
    return _ANNOTATIONS.get(type(argument.value), "object")
