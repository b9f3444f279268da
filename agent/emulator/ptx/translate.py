"""Translator from a PTX module to one C++ translation unit over `kw/runtime.h`.

Every instruction becomes one statement under the `#line` of its position in the candidate's source.
Debuggers and sanitizers therefore report that source. Unsupported PTX raises Untranslated.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agent.emulator.ptx import control, in_flight, parse, recursion, warpgroup
from agent.emulator.ptx.frame import Binding, Frame
from agent.emulator.ptx.instructions import HANDLERS
from agent.emulator.ptx.module import bind_module, declarations, definitions, function_head
from agent.emulator.ptx.step import Step
from agent.emulator.ptx.syntax import (
    Block,
    Function,
    Instruction,
    Label,
    Module,
    Place,
    Prototype,
    Statement,
    Targets,
    Untranslated,
    Variable,
    named_once,
)
from agent.emulator.ptx.types import TYPES

_GENERATED = "kernel entry"
"""File name in `#line` for generated code that has no line in the candidate's source."""
_INCLUDE = '#include "kw/ptx.h"\n'
_INCLUDES = {
    "library": '#include "kw/ptx_library.h"\n',
    "matrix": '#include "kw/ptx_matrix.h"\n',
    "warpgroup": '#include "kw/ptx_warpgroup.h"\n',
    "bulk": '#include "kw/ptx_bulk.h"\n',
}
"""#include lines of headers that only some PTX modules need, by the feature that needs them."""


@dataclass(frozen=True)
class Entry:
    """Kernel in the C++ unit. Its symbol takes the addresses of the arguments, `void (*)(void**)`."""

    name: str
    symbol: str
    parameter_bytes: tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    text: str
    entries: tuple[Entry, ...]
    variables: tuple[str, ...]
    """Names of the module's variables in global and constant memory."""


def unit(
    ptx: str,
    sources: Sequence[str],
    outside: Collection[str] = (),
    shared_lines: Mapping[str, int] = MappingProxyType({}),
) -> Unit:
    """Translate `ptx`, which nvcc compiled from `sources`, to C++; lines refer to the first source.

    Another translation unit defines the variables in `outside`, under their own names. `shared_lines` maps
    shared variables to their source lines, which PTX does not contain. Raise Untranslated for unsupported
    PTX, including addresses and initialisers that have no C++ equivalent.
    """
    source = sources[0]
    module = parse.module(ptx, sources)
    names = bind_module(module, control.is_library)
    features: set[str] = set()
    deeper = recursion.recursive(module)
    bodies = [
        _function(function, names, source, features, is_recursive=function.name in deeper)
        for function in module.functions
        if function.body is not None
    ]
    heads = [f"{function_head(f, names)};\n" for f in module.functions if f.body is not None]
    parts = [_INCLUDE, *(_INCLUDES[feature] for feature in _INCLUDES if feature in features)]
    parts += ["namespace {\n", *heads, "}\n"]
    parts += [*declarations(module, names, outside, shared_lines), *definitions(module, names, outside)]
    parts += [
        "namespace {\n",
        *bodies,
        "}  // namespace\n",
        *(_entry_symbol(e, names) for e in _entries(module)),
    ]
    entries = tuple(
        Entry(f.name, symbol_of(f.name), tuple(_bytes(p) for p in f.parameters)) for f in _entries(module)
    )
    visible = tuple(v.name for v in module.variables if v.space in ("global", "const"))
    return Unit("".join(parts), entries, visible)


def symbol_of(kernel: str) -> str:
    """Return the C symbol of the kernel with that (mangled) name."""
    return f"kw_ptx_{kernel.replace('$', '_S')}"


def _entries(module: Module) -> list[Function]:
    return [function for function in module.functions if function.is_entry and function.body is not None]


def _entry_symbol(function: Function, names: dict[str, Binding]) -> str:
    visible = '__attribute__((visibility("default")))'
    return (
        f'#line 1 "{_GENERATED}"\nextern "C" {visible} void {symbol_of(function.name)}(void* arguments) {{\n'
        f"    {names[function.name].code}(static_cast<char**>(arguments));\n}}\n"
    )


def _bytes(parameter: Variable) -> int:
    return TYPES[parameter.type].bits // 8 * (parameter.count or 0)


def _function(
    function: Function, names: dict[str, Binding], source: str, features: set[str], *, is_recursive: bool
) -> str:
    scope: dict[str, Binding] = {}
    frame = Frame(
        [names, scope], function.is_entry, function.place, in_flight=in_flight.track_registers(function)
    )
    for index, parameter in enumerate((*function.returns, *function.parameters)):
        if parameter.space != "param":
            raise Untranslated(f".{parameter.space} parameter", function.place.line)
        scope[parameter.name] = Binding(
            "param", f"arguments[{index}]" if function.is_entry else f"argument_{index}"
        )
    writer = _Writer(frame, source)
    assert function.body is not None
    frame.named_once = named_once(function.body)
    writer.block(function.body, scope)
    features |= frame.features
    prologue = [f"const uint32_t {offset} = offset_of({site});" for site, offset in frame.shared.items()]
    if "carry" in frame.features:
        prologue.append("uint32_t carry = 0;")
    if frame.in_flight is not None:
        prologue += frame.in_flight.declarations()
    if is_recursive:
        prologue.append(f"const Deeper deeper({recursion.frame_bytes(function)}, {function.place.line});")
    start = f'#line {max(function.place.line, 1)} "{source}"\n'
    head = f"{start}{function_head(function, names)} {{ char* const shared = kw_shared_base;"
    return " ".join([head, *prologue, *frame.declarations, *writer.code, "\n}\n"])


class _Writer:
    """Writer of one function's C++ statements; all statements of one candidate line share a line of C++."""

    def __init__(self, frame: Frame, source: str) -> None:
        self.code: list[str] = []
        self._frame = frame
        self._source = source
        self._line = 0

    def block(self, block: Block, scope: dict[str, Binding]) -> None:
        """Write a block. Bind its labels first, because a jump may go forwards."""
        for statement in block.statements:
            if isinstance(statement, Label):
                scope[statement.name] = Binding("label", self._frame.fresh(f"L{statement.name}"))
            elif isinstance(statement, Targets):
                scope[statement.name] = Binding("targets", "", labels=statement.labels)
            elif isinstance(statement, Prototype):
                scope[statement.name] = Binding("prototype", "")
        for statement in block.statements:
            self._statement(statement, scope)

    def _statement(self, statement: Statement, scope: dict[str, Binding]) -> None:
        frame = self._frame
        if isinstance(statement, Instruction):
            self._place(statement.place)
            self.code.append(_translated(frame, statement))
        elif isinstance(statement, Variable):
            _declare(frame, statement, scope)
        elif isinstance(statement, Label):
            self.code.append(f"{scope[statement.name].code}:;")
        elif isinstance(statement, Block):
            inner: dict[str, Binding] = {}
            frame.scopes.append(inner)
            self.block(statement, inner)
            frame.scopes.pop()

    def _place(self, place: Place) -> None:
        self._frame.place = place
        if place.line and place.line != self._line:
            self.code.append(f'\n#line {place.line} "{self._source}"\n')
            self._line = place.line


def _translated(frame: Frame, instruction: Instruction) -> str:
    handler = HANDLERS.get(instruction.opcode)
    step = Step(frame, instruction)
    if handler is None:
        raise step.unknown()
    code = handler(step)
    step.finish()
    if frame.in_flight is not None:
        code = frame.in_flight.around(instruction, code, warpgroup.adds(step))
    if instruction.guard is None:
        return code
    return f"if ({frame.read(instruction.guard, TYPES['pred'])}) {{ {code} }}"


def _declare(frame: Frame, variable: Variable, scope: dict[str, Binding]) -> None:
    """Declare a PTX register, or a local or parameter variable of a function, in C++ and bind its name."""
    type = TYPES.get(variable.type)
    if type is None:
        raise Untranslated(f".{variable.type}", frame.place.line)
    if variable.space == "reg":
        names = (
            [f"{variable.name}{i}" for i in range(variable.count or 0)]
            if variable.is_range
            else [variable.name]
        )
        codes = [frame.fresh(name) for name in names]
        for name, code in zip(names, codes, strict=True):
            scope[name] = Binding("register", code, type)
        if codes:
            frame.declarations.append(f"{type.stored} {' = 0, '.join(codes)} = 0;")
        return
    if variable.space == "shared":
        return  # bound with the module's variables, because its memory belongs to the block
    if variable.space not in ("local", "param") or variable.count is None:
        raise Untranslated(f".{variable.space} {variable.name}", frame.place.line)
    code = frame.fresh(variable.name)
    size = max(type.bits // 8 * variable.count, 1)
    scope[variable.name] = Binding(variable.space, code)
    frame.declarations.append(f"alignas({max(variable.align, type.bits // 8)}) char {code}[{size}];")
