"""Asynchronous operations: mbarriers, bulk copies, and the fence between the generic and async proxies."""

from dataclasses import replace

from agent.emulator.ptx import memory
from agent.emulator.ptx.step import Step
from agent.emulator.ptx.syntax import Operand
from agent.emulator.ptx.types import TYPES, Type

_U16, _U32, _U64, _S32, _PRED, _B64 = (TYPES[name] for name in ("u16", "u32", "u64", "s32", "pred", "b64"))
_SHARED = ("shared::cluster", "shared::cta", "shared")
_ORDERS = ("release", "acquire", "relaxed")
_SCOPES = ("cta", "cluster")
_TOLD = "mbarrier::complete_tx::bytes"
_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"), "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",), "dec": ("u32",),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
}  # fmt: skip

_MAP_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16")
"""Element types of tensor maps and their reductions, in the order of CUtensorMapDataType."""


def shared(step: Step, operand: Operand) -> str:
    """Return the C++ address of shared memory in this block or another block of its cluster."""
    return step.frame.address(operand, "shared::cluster")


def mbarrier(step: Step) -> str:
    kind = step.choice(
        "init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "expect_tx", "complete_tx"
    )
    step.choice(*_ORDERS)
    step.choice(*_SCOPES)
    space = step.choice(*_SHARED)
    if kind is None or not step.flag("b64"):
        raise step.unknown()

    def at(index: int) -> str:
        operand = step.operands[index]
        return shared(step, operand) if space else step.frame.address(operand, "")

    match kind:
        case "init":
            step.several(2)
            return f"kw_mbarrier_init({at(0)}, {step.read(1, _U32)});"
        case "inval":
            step.several(1)
            return f"kw_mbarrier_invalidate({at(0)});"
        case "expect_tx" | "complete_tx":
            step.several(2)
            sign = "-" if kind == "complete_tx" else ""
            return f"kw_mbarrier_expect({at(0)}, {sign}int64_t({step.read(1, _U32)}));"
        case "arrive" | "arrive_drop":
            return _arrival(step, at(len(step.operands) > 1 and step.operands[1].kind == "address"), kind)
    step.several(3, 4)
    question = "parity" if step.flag("parity") else "state"
    told = step.read(2, _U32 if question == "parity" else _U64)
    return step.write(_PRED, f"kw_mbarrier_{question}_over({at(1)}, {told}) != 0")


def _arrival(step: Step, address: str, kind: str) -> str:
    """Translate an arrival, `state, [address]{, count}`; a remote arrival has no state."""
    operands = list(step.operands)
    target = None if operands[0].kind == "address" else operands.pop(0)
    count, expected = "1u", "0"
    expects = step.flag("expect_tx") or "expect_tx" in step.instruction.modifiers
    step.flag("noComplete")
    if len(operands) == 2:
        value = step.frame.read(operands[1], _U32)
        count, expected = ("1u", f"int64_t({value})") if expects else (value, "0")
    elif len(operands) != 1 or expects:
        raise step.unknown()
    drops = int(kind == "arrive_drop")
    code = f"kw_mbarrier_arrive({address}, {count}, {expected}, {drops})"
    return f"{code};" if target is None else step.frame.write(target, _B64, code)


def copy(step: Step) -> str:
    """Translate cp.async, cp.async.bulk and cp.reduce.async.bulk, with and without a tensor map."""
    if "mbarrier" in step.instruction.modifiers:
        return _copies_arrive(step)
    if "bulk" not in step.instruction.modifiers:
        return memory.copy_async(step)
    reduces = step.flag("reduce")
    if not (step.flag("async") and step.flag("bulk")):
        raise step.unknown()
    other = step.choice("commit_group", "wait_group", "prefetch")
    if other is not None:
        return _groups(step, other)
    if "tensor" in step.instruction.modifiers:
        return _tensor(step, reduces=reduces)
    to, source = step.choice("shared::cluster", "global"), None
    if to is None:
        raise step.unknown()
    source = step.choice("shared::cta", "global")
    if to == "global" and source == "shared::cta" and step.flag("bulk_group"):
        return _store(step, reduces=reduces)
    if to == "shared::cluster" and source == "global" and not reduces and len(step.operands) == 4:
        if not step.flag(_TOLD):
            raise step.unknown()
        places = shared(step, step.operands[0]), step.frame.address(step.operands[1], "global")
        return (
            f"kw_bulk_load({places[0]}, {places[1]}, {step.read(2, _U32)}, {shared(step, step.operands[3])});"
        )
    if to == "shared::cluster" and source is not None and step.flag(_TOLD) and not reduces:
        return _to_peers(step, source)
    raise step.unknown()


def _to_peers(step: Step, source: str) -> str:
    """Translate a bulk copy between blocks of a cluster, or a multicast from global memory to blocks."""
    several = step.flag("multicast::cluster")
    step.several(5 if several else 4)
    places = [shared(step, step.operands[index]) for index in (0, 3)]
    size = step.read(2, _U32)
    if source == "shared::cta" and not several:
        return f"kw_bulk_to_peer({places[0]}, {shared(step, step.operands[1])}, {size}, {places[1]});"
    if source != "global" or not several:
        raise step.unknown()
    begin = step.frame.address(step.operands[1], "global")
    return f"kw_bulk_multicast({places[0]}, {begin}, {size}, {places[1]}, {step.read(4, _U16)});"


def _tensor(step: Step, *, reduces: bool) -> str:
    """Translate a load by tensor map into shared memory of the cluster, or a store from the block's own."""
    step.flag("tensor")
    mode = step.choice("tile", "im2col", "im2col_no_offs") or "tile"
    dims = {f"{count}d": count for count in range(1, 6)}
    count = dims.get(step.choice(*dims) or "", 0)
    loads = step.flag("shared::cluster")
    there = step.flag("global") and (loads or step.flag("shared::cta"))
    operation = step.choice(*_REDUCTIONS) if reduces else None
    told_by = step.flag(_TOLD if loads else "bulk_group")
    if not (count and there and told_by) or (reduces and (loads or operation is None)):
        raise step.unknown()
    if mode == ("im2col_no_offs" if loads else "im2col") or (mode != "tile" and count < 3):
        raise step.unknown()
    several, offsets = step.flag("multicast::cluster"), mode == "im2col"
    step.several(2 if not loads else 3 + int(several) + int(offsets))
    base, place, arrays = _place(step, step.operands[1 if loads else 0], count, mode)
    if not loads:
        source = shared(step, step.operands[1])
        table, by_type = (_reductions(step, operation), "by_type") if operation else ("", "nullptr")
        return f"{{ {arrays} {table}kw_tensor_store({base}, {place}, {source}, {by_type}); }}"
    ranks = step.read(3 + int(offsets), _U16) if several else "0"
    to, told = shared(step, step.operands[0]), shared(step, step.operands[2])
    return f"{{ {arrays} kw_tensor_load({to}, {base}, {place}, {told}, {ranks}); }}"


def _place(step: Step, box: Operand, count: int, mode: str) -> tuple[str, str, str]:
    """Return the tensor map's address, the C++ value that describes the box, and the arrays it points to."""
    if box.kind != "address" or len(box.parts) != 2 or len(box.parts[1].parts) != count:
        raise step.unknown()
    arrays = [_array(step, "int32_t at", box.parts[1], _S32)]
    if mode == "im2col":
        offsets = step.operands[3]
        if offsets.kind != "vector" or len(offsets.parts) != count - 2:
            raise step.unknown()
        arrays.append(_array(step, "uint16_t offsets", offsets, _U16))
    base = step.frame.address(replace(box, parts=box.parts[:1]), "")
    off = "offsets" if mode == "im2col" else "nullptr"
    return base, f"kw_tensor_place{{{count}, at, {off}, {int(mode != 'tile')}}}", " ".join(arrays)


def _array(step: Step, name: str, operand: Operand, type: Type) -> str:
    values = ", ".join(step.frame.read(part, type) for part in operand.parts)
    return f"const {name}[] = {{{values}}};"


def _reduction(step: Step, operation: str, type: Type) -> str:
    step.frame.features.add("bulk")
    suffix = f"_{type.name}" if type.is_half else f"<{type.c}>"
    carrier = "uint16_t" if type.is_half else type.c
    return f"reduce_all<{carrier}, atomic_{operation}{suffix}>"


def _reductions(step: Step, operation: str) -> str:
    """Return a C++ table of reduction functions by element type, null for types that `operation` excludes.

    The element type of a tensor map is known only when the kernel runs.
    """
    takes = _REDUCTIONS[operation]
    bits = {f"b{TYPES[name].bits}": name for name in takes if name.startswith("b") and name != "bf16"}
    names = [name if name in takes else bits.get(f"b{TYPES[name].bits}") for name in _MAP_TYPES]
    table = ", ".join(_reduction(step, operation, TYPES[name]) if name else "nullptr" for name in names)
    return f"static const kw_reduction by_type[] = {{{table}}}; "


def _store(step: Step, *, reduces: bool) -> str:
    step.several(3)
    reduction = "nullptr"
    if reduces:
        step.flag("noftz")
        operation, type = step.choice(*_REDUCTIONS), step.type()
        if operation is None or type.name not in _REDUCTIONS[operation]:
            raise step.unknown()
        reduction = _reduction(step, operation, type)
    to, source = step.frame.address(step.operands[0], "global"), shared(step, step.operands[1])
    return f"kw_bulk_store({to}, {source}, {step.read(2, _U32)}, {reduction});"


def _groups(step: Step, what: str) -> str:
    if what == "prefetch":
        return memory.nothing(step)
    if what == "commit_group":
        step.several(0)
        return "kw_bulk_commit();"
    step.several(1)
    return f"kw_bulk_wait({step.read(0, _U32)}, {int(step.flag('read'))});"


def _copies_arrive(step: Step) -> str:
    """Translate cp.async.mbarrier.arrive, by which the thread's earlier copies arrive at the mbarrier."""
    step.several(1)
    if not (step.flag("async") and step.flag("mbarrier") and step.flag("arrive") and step.flag("b64")):
        raise step.unknown()
    counted = step.flag("noinc")
    space = step.choice(*_SHARED)
    at = shared(step, step.operands[0]) if space else step.frame.address(step.operands[0], "")
    return f"kw_copies_arrive({at}, {int(counted)});"


def fence(step: Step) -> str:
    """Translate membar and fence; fence.proxy.async orders accesses of threads and of bulk copies."""
    if step.flag("mbarrier_init") or step.flag("proxy"):
        asynchronous = any(modifier.startswith("async") for modifier in step.instruction.modifiers)
        memory.nothing(step)
        return "kw_proxy_fence();" if asynchronous else "__atomic_thread_fence(__ATOMIC_SEQ_CST);"
    return memory.fence(step)


def map_shared(step: Step) -> str:
    """Translate mapa, which maps an address in shared memory to another block of the cluster."""
    step.several(3)
    type, rank = step.type(), step.read(2, _U32)
    if step.flag("shared::cluster"):
        source = step.operands[1]
        address = step.read(1, _U32)
        if source.kind != "name" or type.bits not in (32, 64):
            raise step.unknown()
        return step.write(type, f"{type.c}(kw_map_shared({address}, {rank}))")
    if type.bits != 64:
        raise step.unknown()
    code = (
        f"reinterpret_cast<uint64_t>(kw_map_generic(reinterpret_cast<char*>({step.read(1, _U64)}), {rank}))"
    )
    return step.write(_U64, code)


def rank_of(step: Step) -> str:
    """Translate getctarank."""
    step.several(2)
    if step.flag("shared::cluster"):
        step.type()
        address = f"cluster_shared(shared, {step.read(1, _U32)})"
    else:
        step.type()
        address = f"reinterpret_cast<char*>({step.read(1, _U64)})"
    return step.write(_U32, f"kw_rank_of({address})")
