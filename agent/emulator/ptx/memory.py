"""Loads, stores, atomic operations and addresses.

Global, constant, local and generic addresses are addresses of this process. A shared address is an offset
into the block's shared memory; `cvta` converts it to a generic address and back.
"""

from agent.emulator.ptx.step import Step
from agent.emulator.ptx.syntax import Operand
from agent.emulator.ptx.types import TYPES, Type

_SPACES = (
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "const",
    "param",
    "param::entry",
    "param::func",
)
_CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel")
_ATOMIC_INTEGERS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_U32, _U64 = TYPES["u32"], TYPES["u64"]
_FENCE = "__atomic_thread_fence(__ATOMIC_SEQ_CST);"
_BLOCK_FENCE = "__atomic_thread_fence(__ATOMIC_ACQ_REL);"


def load(step: Step) -> str:
    """Translate ld, ldu and ld.global.nc."""
    step.several(2)
    space, volatile, order = _qualifiers(step)
    width = {"v2": 2, "v4": 4, None: 1}[step.choice("v2", "v4")]
    type = _element(step)
    address = step.frame.address(step.operands[1], space)
    if width > 1:
        return _load_vector(step, type, width, (space, address))
    if order is not None:
        code = step.write(type, f"load_atomically(reinterpret_cast<{type.c}*>({address}))")
        return _scoped(step, order, code)
    if volatile:
        return step.write(type, f"load_volatile<{type.c}>({address})")
    if "nc" in step.instruction.modifiers:
        return step.write(type, f"load_read_only<{type.c}>({address})")
    return step.write(type, f"*reinterpret_cast<const {type.c}*>({address})")


def _scoped(step: Step, order: str | None, code: str) -> str:
    """Return `code` with a fence before a release, and within a BlockScope if its scope is the block."""
    in_block = "cta" in step.instruction.modifiers
    fence = "" if order not in ("release", "acq_rel") else _BLOCK_FENCE if in_block else _FENCE
    scope = "const BlockScope scope;" if in_block else ""
    return f"{{ {fence} {scope} {code} }}" if fence or scope else code


def _load_vector(step: Step, type: Type, width: int, place: tuple[str, str]) -> str:
    """Translate a vector load.

    Unused elements in shared memory are not read, because a struct loaded whole may have unwritten padding.
    In other memory they are read, because the load may go past the end of an allocation.
    """
    space, address = place
    parts = step.operands[0].parts
    if step.operands[0].kind != "vector" or len(parts) != width:
        raise step.unknown()
    unused = {"_", *(step.frame.named_once if space == "shared" else ())}
    used = [(index, part) for index, part in enumerate(parts) if part.text not in unused]
    writes = " ".join(step.frame.write(part, type, f"loaded[{index}]") for index, part in used)
    kind = f"vector<{type.c}, {width}>"
    whole = f"*reinterpret_cast<const {kind}*>({address})"
    if "nc" in step.instruction.modifiers:
        whole = f"load_read_only<{kind}>({address})"
    if len(used) == width or space != "shared":
        return f"{{ const {kind} loaded = {whole}; {writes} }}"
    elements = f"const {type.c}* const loaded = reinterpret_cast<const {type.c}*>(&whole)"
    return f"{{ const {kind}& whole = {whole}; {elements}; {writes} }}"


def store(step: Step) -> str:
    if "async" in step.instruction.modifiers:
        return _store_async(step)
    step.several(2)
    space, volatile, order = _qualifiers(step)
    width = {"v2": 2, "v4": 4, None: 1}[step.choice("v2", "v4")]
    type = _element(step)
    address = step.frame.address(step.operands[0], space)
    if width > 1:
        parts = step.operands[1].parts
        if step.operands[1].kind != "vector" or len(parts) != width:
            raise step.unknown()
        values = ", ".join(step.frame.read(part, type) for part in parts)
        kind = f"vector<{type.c}, {width}>"
        return f"*reinterpret_cast<{kind}*>({address}) = {kind}{{{values}}};"
    value = step.read(1, type)
    if order is not None:
        code = f"store_atomically(reinterpret_cast<{type.c}*>({address}), {type.c}({value}));"
        return _scoped(step, order, code)
    if volatile:
        return f"store_volatile<{type.c}>({address}, {value});"
    return f"*reinterpret_cast<{type.c}*>({address}) = {value};"


def _store_async(step: Step) -> str:
    """Translate `st.async [a], value, [mbarrier]`; both addresses are in the cluster's shared memory."""
    step.several(3)
    step.flag("weak")
    told = step.flag("async") and step.flag("mbarrier::complete_tx::bytes") and step.flag("shared::cluster")
    width = {"v2": 2, "v4": 4, None: 1}[step.choice("v2", "v4")]
    type = step.type()
    if not told or type.bits < 32:
        raise step.unknown()
    parts = step.operands[1].parts if width > 1 else (step.operands[1],)
    if len(parts) != width:
        raise step.unknown()
    values = ", ".join(step.frame.read(part, type) for part in parts)
    to, barrier = (step.frame.address(step.operands[index], "shared::cluster") for index in (0, 2))
    size = type.bits // 8 * width
    return f"{{ {type.c} sent[] = {{{values}}}; kw_store_async({to}, sent, {size}, {barrier}); }}"


def _qualifiers(step: Step) -> tuple[str, bool, str | None]:
    """Return the state space ("" for generic), True if volatile, and the memory order of a strong access.

    Cache hints are consumed and ignored.
    """
    space = step.choice(*_SPACES) or ""
    step.choice(*_CACHE)
    for hint in step.instruction.modifiers:
        if hint.startswith(("L1::", "L2::")):
            step.flag(hint)
    volatile = step.flag("volatile")
    step.flag("weak")
    order = step.choice("relaxed", "acquire", "release")
    if order is not None:
        step.choice(*_SCOPES)
    return plain(space), volatile, order


def plain(space: str) -> str:
    """Return a state space without its `::` qualifier, except for `shared::cluster`.

    Shared memory of the cluster needs a different address computation from the block's own.
    """
    return space if space == "shared::cluster" else space.split("::")[0]


def _element(step: Step) -> Type:
    type = step.type()
    if type.kind == "p":
        raise step.unknown()
    return TYPES[f"b{type.bits}"] if type.is_half or type.is_pair else type


def move(step: Step) -> str:
    step.several(2)
    return step.write(step_type := _move_type(step), step.read(1, step_type))


def _move_type(step: Step) -> Type:
    type = step.type()
    return TYPES[f"b{type.bits}"] if type.is_half or type.is_pair else type


def cvta(step: Step) -> str:
    """Translate cvta. Only shared addresses differ from generic ones, by the start of shared memory."""
    step.several(2)
    to_space, space = step.flag("to"), step.choice(*_SPACES)
    type = step.type()
    if space is None or type.bits != 64:
        raise step.unknown()
    value = step.read(1, _U64)
    if space.startswith("shared"):  # shared::cluster included: mapa's addresses stay unchanged
        value = f"from_generic(shared, {value})" if to_space else f"to_generic(shared, {value})"
    return step.write(_U64, value)


def is_space(step: Step) -> str:
    """Translate isspacep for shared memory. Raise Untranslated for any other state space."""
    step.several(2)
    if step.flag("shared::cluster"):
        return step.write(TYPES["pred"], f"kw_is_cluster_shared({step.read(1, _U64)}) != 0")
    if step.choice("shared", "shared::cta") is None:
        raise step.unknown()
    return step.write(TYPES["pred"], f"is_shared(shared, {step.read(1, _U64)})")


def atomic(step: Step) -> str:
    """Translate atom and red."""
    order = next((order for order in _ORDERS if order in step.instruction.modifiers), None)
    return _scoped(step, order, _atomic(step))


def _atomic(step: Step) -> str:
    returns = step.instruction.opcode == "atom"
    space = plain(step.choice(*_SPACES) or "")
    step.choice(*_ORDERS)
    step.choice(*_SCOPES)
    step.flag("noftz")
    width = {"v2": 2, "v4": 4, "v8": 8, None: 1}[step.choice("v2", "v4", "v8")]
    operation = step.choice(*_ATOMIC_INTEGERS, "cas", "exch")
    type = step.type()
    if space not in ("", "global", "shared", "shared::cluster") or operation is None:
        raise step.unknown()
    step.several((4 if operation == "cas" else 3) - (0 if returns else 1))
    address = step.frame.address(step.operands[int(returns)], space)
    values = step.operands[int(returns) + 1 :]
    if width > 1:
        return _atomic_vector(step, type, width, (operation, address))
    if operation in ("cas", "exch"):
        return _swap(step, type, operation, (address, *(step.frame.read(value, type) for value in values)))
    code = f"{_updater(step, type, operation)}({address}, {step.frame.read(values[0], _carrier(type))})"
    return step.write(_carrier(type), code) if returns else f"{code};"


def _carrier(type: Type) -> Type:
    """Return the type in which the operand of an atomic operation is passed; halves are passed as bits."""
    return TYPES[f"b{type.bits}"] if type.is_half or type.is_pair else type


def _updater(step: Step, type: Type, operation: str) -> str:
    if type.kind == "f" and operation not in ("add", "min", "max"):
        raise step.unknown()
    if type.is_half or type.is_pair:
        return f"atomic_{operation}_{type.name}"
    if type.bits < 32 or (operation in ("and", "or", "xor")) != (type.kind == "b") or type.kind == "p":
        raise step.unknown()
    return f"atomic_{operation}<{type.c}>"


def _swap(step: Step, type: Type, operation: str, arguments: tuple[str, ...]) -> str:
    """Translate cas and exch, as used in locks; the runtime is notified if the value does not change."""
    if type.kind != "b":
        raise step.unknown()
    line = step.instruction.place.line
    code = f"atomic_{operation}<{type.c}>({', '.join(arguments)}, {line})"
    return step.write(type, code) if step.instruction.opcode == "atom" else f"{code};"


def _atomic_vector(step: Step, type: Type, width: int, what: tuple[str, str]) -> str:
    """Translate a vector atom or red, which is atomic per element (PTX ISA, vector atom)."""
    operation, address = what
    returns = step.instruction.opcode == "atom"
    values = step.operands[-1].parts
    targets: tuple[Operand | None, ...] = step.operands[0].parts if returns else (None,) * width
    if len(values) != width or len(targets) != width:
        raise step.unknown()
    carrier, updater = _carrier(type), _updater(step, type, operation)
    statements = []
    for index, (target, value) in enumerate(zip(targets, values, strict=True)):
        code = f"{updater}({address} + {index * type.bits // 8}, {step.frame.read(value, carrier)})"
        statements.append(step.frame.write(target, carrier, code) if target else f"{code};")
    return f"{{ {' '.join(statements)} }}"


def copy_async(step: Step) -> str:
    """Translate cp.async. The copy runs when it is waited for, which is the latest moment that PTX allows."""
    if not step.flag("async"):
        raise step.unknown()
    other = step.choice("commit_group", "wait_group", "wait_all")
    if other is not None:
        if (other == "wait_group") != (len(step.operands) == 1):
            raise step.unknown()
        return {
            "commit_group": "kw_commit_copies();",
            "wait_all": "kw_wait_all_copies();",
            "wait_group": f"kw_wait_copies({''.join(operand.text for operand in step.operands)});",
        }[other]
    step.choice("ca", "cg")
    spaces = step.choice("shared", "shared::cta"), step.choice("global")
    for hint in step.instruction.modifiers:
        if hint.startswith("L2::"):
            step.flag(hint)
    if None in spaces or len(step.operands) not in (3, 4):
        raise step.unknown()
    size = step.operands[2]
    if size.kind != "immediate" or size.text not in ("4", "8", "16"):
        raise step.unknown()
    to, source = (
        step.frame.address(step.operands[0], "shared"),
        step.frame.address(step.operands[1], "global"),
    )
    used = step.read(3, _U32) if len(step.operands) == 4 else f"{size.text}u"
    return f"copy_to_shared({to}, {source}, {size.text}, {used});"


def policy(step: Step) -> str:
    """Translate createpolicy to the constant 0, because the emulator ignores cache policies."""
    for modifier in step.instruction.modifiers:
        step.flag(modifier)
    return step.write(_U64, "0ul")


def nothing(step: Step) -> str:
    """Translate instructions that change no value, such as prefetch and setmaxnreg, to an empty statement.

    griddepcontrol is one of them, because the preceding grid has always completed.
    """
    for modifier in step.instruction.modifiers:
        step.flag(modifier)
    return ";"


def fence(step: Step) -> str:
    """Translate membar and fence."""
    allowed = ("sc", "acq_rel", "acquire", "release", "cta", "gl", "gpu", "sys", "cluster")
    for modifier in allowed:
        step.flag(modifier)
    return _BLOCK_FENCE if "cta" in step.instruction.modifiers else _FENCE
