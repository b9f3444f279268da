"""Module scope of PTX: names of functions, and variables in global, constant and shared memory."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from agent.emulator.ptx.frame import Binding
from agent.emulator.ptx.syntax import Block, Function, Module, Untranslated, Variable
from agent.emulator.ptx.types import TYPES, Type

_ADDRESS = re.compile(r"([A-Za-z_$%][\w$]*)(?:\+(\d+))?")


def bind_module(module: Module, is_library: Callable[[str], bool]) -> dict[str, Binding]:
    """Return the C++ names of functions and of variables in global, constant and shared memory.

    Shared variables declared in functions are included. Raise Untranslated for other state spaces.
    """
    names: dict[str, Binding] = {}
    for function in module.functions:
        declared_only = function.body is None and names.get(function.name) is None
        kind = "library" if declared_only and is_library(function.name) else "function"
        if function.body is not None or kind == "library":
            names[function.name] = Binding(kind, f"function_{len(names)}")
    for variable in _variables(module):
        if variable.space == "shared":
            kind = "dynamic" if variable.count is None else "shared"
            names[variable.name] = Binding(kind, f"site_{len(names)}")
        elif variable.space in ("global", "const"):
            names[variable.name] = Binding("global", f"global_{len(names)}")
        else:
            raise Untranslated(f".{variable.space} {variable.name}")
    return names


def function_head(function: Function, names: dict[str, Binding]) -> str:
    """Return the C++ signature of a kernel or device function.

    A kernel takes the addresses of its arguments, a device function those of its results and parameters.
    """
    code = names[function.name].code
    if function.is_entry:
        return f"void {code}(char** arguments)"
    count = len(function.returns) + len(function.parameters)
    return f"void {code}({', '.join(f'char* argument_{index}' for index in range(count))})"


def declarations(
    module: Module, names: dict[str, Binding], outside: Collection[str], lines: Mapping[str, int]
) -> Iterator[str]:
    """Yield declarations of shared variables, and of global and constant variables by their address.

    `lines` maps names of shared variables to the source lines that declare them.
    """
    for variable in _variables(module):
        code, type = names[variable.name].code, _element(variable)
        if variable.space == "shared":
            if variable.count is not None:
                size, name = type.bits // 8 * variable.count, _readable(variable.name)
                line = lines.get(name) or _line(module, variable)
                yield f'static kw_shared_site {code} = {{{size}, "{name}", {line}, 0, 0}};\n'
        elif variable.name in outside:
            hidden = '__attribute__((visibility("hidden")))'
            yield f'extern "C" {hidden} char {code}[] __asm__("{variable.name}");\n'
        elif variable.count is None or variable.linkage == "extern":
            raise Untranslated(f".{variable.space} {variable.name}[]")
        else:
            yield f"extern {type.c} {code}_memory[{variable.count}];\n"
            yield f"static char* const {code} = reinterpret_cast<char*>({code}_memory);\n"


def definitions(module: Module, names: dict[str, Binding], outside: Collection[str]) -> Iterator[str]:
    """Yield C++ definitions of global and constant variables; the linker resolves addresses in values."""
    for variable in _variables(module):
        if variable.space == "shared" or variable.name in outside:
            continue
        code, type = names[variable.name].code, _element(variable)
        values = ", ".join(_value(value, type, names) for value in variable.initial)
        align = max(variable.align, type.bits // 8)
        yield f"alignas({align}) {type.c} {code}_memory[{variable.count}] = {{{values}}};\n"


def _element(variable: Variable) -> Type:
    type = TYPES.get(variable.type)
    if type is None or type.kind == "p":
        raise Untranslated(f".{variable.type} {variable.name}")
    return TYPES[f"b{type.bits}"] if type.is_half or type.is_pair else type


def _value(text: str, type: Type, names: dict[str, Binding]) -> str:
    floating = re.fullmatch(r"0([fFdD])([0-9a-fA-F]+)", text)
    if floating and type.kind == "f":
        return f"as_{type.c}(0x{floating[2]}{'ul' if type.bits == 64 else 'u'})"
    if re.fullmatch(r"-?\d\w*", text):
        word = int(text.rstrip("U"), 0) % (1 << type.bits)
        return f"{type.c}({word}{'ul' if type.bits == 64 else 'u'})"
    address = _ADDRESS.fullmatch(text)
    target = names.get(address[1]) if address else None
    if address is None or target is None or type.bits != 64 or target.kind not in ("global", "function"):
        raise Untranslated(f"initialiser {text}")
    memory = f"{target.code}_memory" if target.kind == "global" else f"&{target.code}"
    return f"reinterpret_cast<uint64_t>({memory}) + {address[2] or 0}"


def _variables(module: Module) -> Iterator[Variable]:
    yield from module.variables
    for function in module.functions:
        if function.body is not None:
            yield from _shared_within(function.body)


def _shared_within(block: Block) -> Iterator[Variable]:
    for statement in block.statements:
        if isinstance(statement, Block):
            yield from _shared_within(statement)
        elif isinstance(statement, Variable) and statement.space == "shared":
            yield statement


def _line(module: Module, variable: Variable) -> int:
    """Return the line of the function that declares `variable`, or 0.

    PTX gives line numbers for functions but not for their variables.
    """
    for function in module.functions:
        if function.body is not None and variable in function.body.statements:
            return function.place.line
    return 0


def _readable(name: str) -> str:
    """Return a variable's name in the source: `tile` for _ZZ6kernelPfE4tile, a variable of kernel(float*)."""
    match = re.search(r"E(\d+)([A-Za-z_]\w*?)(?:_\d+)?$", name) if name.startswith("_ZZ") else None
    plain = match[2][: int(match[1])] if match else name
    return re.sub(r"\W", "_", plain)
