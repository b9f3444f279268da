"""Branches, calls, barriers and warp operations."""

from agent.emulator.ptx.step import Step
from agent.emulator.ptx.syntax import Operand
from agent.emulator.ptx.types import TYPES

_U32, _U64, _B32, _PRED = (TYPES[name] for name in ("u32", "u64", "b32", "pred"))
_SHUFFLES = {"idx": "INDEX", "up": "UP", "down": "DOWN", "bfly": "XOR"}
_BARRIERS = {"popc": "COUNT", "and": "AND", "or": "OR"}
_VOTES = {"all": "KW_ALL", "any": "KW_ANY", "ballot": "KW_BALLOT", "uni": "KW_MATCH_ALL"}
# System calls of CUDA device code; every other callee must have a body.
_LIBRARY = {
    "vprintf": ("print", 2),
    "__assertfail": ("assert_fail", 5),
}


def branch(step: Step) -> str:
    step.several(1)
    step.flag("uni")
    binding = step.frame.find(step.operands[0].text)
    if binding.kind != "label":
        raise step.unknown()
    return f"goto {binding.code};"


def indexed_branch(step: Step) -> str:
    step.several(2)
    if not step.flag("idx"):
        raise step.unknown()
    step.flag("uni")
    targets = step.frame.find(step.operands[1].text)
    if targets.kind != "targets":
        raise step.unknown()
    labels = [step.frame.find(name).code for name in targets.labels]
    cases = " ".join(f"case {index}: goto {label};" for index, label in enumerate(labels[:-1]))
    return f"switch ({step.read(0, _U32)}) {{ {cases} default: goto {labels[-1]}; }}"


def leave(step: Step) -> str:
    """Translate ret, and exit in the kernel's entry function. Raise Untranslated for any other exit."""
    step.several(0)
    step.flag("uni")
    if step.instruction.opcode == "exit" and not step.frame.is_entry:
        raise step.unknown()
    return "return;"


def trap(step: Step) -> str:
    step.several(0)
    return f"kw_trap({step.instruction.place.line});"


def wait(step: Step) -> str:
    """Translate nanosleep."""
    step.several(1)
    step.type()
    return "kw_yield();"


def call(step: Step) -> str:
    step.flag("uni")
    operands = list(step.operands)
    results = _names(step, operands.pop(0)) if operands and operands[0].kind == "list" else []
    target = operands.pop(0)
    arguments = _names(step, operands.pop(0)) if operands else []
    passed = [*results, *arguments]
    if target.kind != "name":
        raise step.unknown()
    binding = step.frame.find(target.text)
    if operands:
        if step.frame.find(operands[0].text).kind != "prototype" or binding.kind != "register":
            raise step.unknown()
        kinds = ", ".join(["char*"] * len(passed))
        return f"reinterpret_cast<void (*)({kinds})>({binding.code})({', '.join(passed)});"
    if target.text in _LIBRARY and binding.kind == "library":
        name, count = _LIBRARY[target.text]
        if len(arguments) != count:
            raise step.unknown()
        step.frame.features.add("library")
        return f"{name}({', '.join([*results, *arguments])});"
    if binding.kind != "function":
        raise step.unknown()
    return f"{binding.code}({', '.join(passed)});"


def is_library(name: str) -> bool:
    return name in _LIBRARY


def _names(step: Step, operand: Operand) -> list[str]:
    """Return the C++ names of a call's parameter variables."""
    found = []
    for part in operand.parts:
        binding = step.frame.find(part.text)
        if part.kind != "name" or binding.kind != "param":
            raise step.unknown()
        found.append(binding.code)
    return found


def barrier(step: Step) -> str:
    """Translate bar and barrier of the block (by number), the warp and the cluster."""
    step.choice("cta")
    if step.flag("cluster"):
        return _cluster_barrier(step)
    if step.flag("warp"):
        step.several(1)
        if not step.flag("sync"):
            raise step.unknown()
        return f"{_warp(step, 'KW_SYNC', step.read(0, _U32), '0')};"
    step.flag("aligned")
    if step.flag("red"):
        operation = step.choice(*_BARRIERS)
        result = step.type()
        if operation is None or (operation == "popc") != (result.name == "u32"):
            raise step.unknown()
        step.several(3, 4)
        code = _barrier(step, 1, f"KW_BARRIER_{_BARRIERS[operation]}", step.read(-1, _PRED))
        return step.write(result, f"{code} != 0" if result.kind == "p" else code)
    if step.flag("arrive"):
        step.several(2)
        number, threads = (f"int({step.read(index, _U32)})" for index in (0, 1))
        return f"kw_named_arrive({number}, {threads}, {step.instruction.place.line});"
    if not step.flag("sync"):
        raise step.unknown()
    step.several(1, 2)
    return f"{_barrier(step, 0, 'KW_BARRIER_PLAIN', '0')};"


def _cluster_barrier(step: Step) -> str:
    step.several(0)
    step.flag("aligned")
    line, relaxed = step.instruction.place.line, step.flag("relaxed")
    step.choice("release", "acquire")
    if step.flag("arrive"):
        return f"kw_cluster_arrive({int(relaxed)}, {line});"
    if relaxed or not step.flag("wait"):
        raise step.unknown()
    return f"kw_cluster_wait({line});"


def _barrier(step: Step, index: int, kind: str, value: str) -> str:
    """Return the call for the barrier whose number is operand `index`; a thread count may follow it."""
    place, number = step.instruction.place, step.operands[index]
    counted = len(step.operands) > (index + 1 if kind == "KW_BARRIER_PLAIN" else index + 2)
    if number.kind == "immediate" and number.text == "0" and not counted:
        return f"kw_barrier({kind}, {value}, {place.line}, {place.column})"
    threads = step.read(index + 1, _U32) if counted else "0"
    return f"kw_named_sync(int({step.read(index, _U32)}), int({threads}), {kind}, {value}, {place.line})"


def _warp(step: Step, kind: str, mask: str, value: str, more: str = "0, 32") -> str:
    return f"kw_warp_op({kind}, {mask}, {value}, {more}, {step.instruction.place.line})"


def shuffle(step: Step) -> str:
    """Translate shfl.sync. In the destination `d|p`, p is true if the source lane lies within the segment."""
    step.several(5)
    if not step.flag("sync"):
        raise step.unknown()
    mode = step.choice(*_SHUFFLES)
    if mode is None or step.type().bits != 32:
        raise step.unknown()
    value, lane, clamp, mask = (step.read(index, _U32) for index in (1, 2, 3, 4))
    target, inside = step.target_pair()
    kind = f"KW_SHUFFLE_{_SHUFFLES[mode]}"
    code = f"shuffle({kind}, {mask}, {value}, {lane}, {clamp}, {step.instruction.place.line})"
    if inside is None or inside.text == "_":
        return step.frame.write(target, _B32, f"{code}.value")
    outcome = (
        step.frame.write(target, _B32, "outcome.value"),
        step.frame.write(inside, _PRED, "outcome.inside"),
    )
    return f"{{ const Shuffled outcome = {code}; {' '.join(outcome)} }}"


def vote(step: Step) -> str:
    step.several(3)
    if not step.flag("sync"):
        raise step.unknown()
    kind = step.choice(*_VOTES)
    if kind is None or (step.type().kind == "p") == (kind == "ballot"):
        raise step.unknown()
    code = _warp(step, _VOTES[kind], step.read(2, _U32), step.read(1, _PRED))
    return step.write(_B32, f"uint32_t({code})") if kind == "ballot" else step.write(_PRED, f"{code} != 0")


def match(step: Step) -> str:
    step.several(3)
    if not step.flag("sync"):
        raise step.unknown()
    kind, type = step.choice("any", "all"), step.type()
    if kind is None or type.kind != "b" or type.bits < 32:
        raise step.unknown()
    code = f"uint32_t({_warp(step, f'KW_MATCH_{kind.upper()}', step.read(2, _U32), step.read(1, type))})"
    target, equal = step.target_pair()
    if equal is None:
        return step.frame.write(target, _B32, code)
    writes = step.frame.write(target, _B32, "lanes"), step.frame.write(equal, _PRED, "lanes != 0")
    return f"{{ const uint32_t lanes = {code}; {' '.join(writes)} }}"


def reduce(step: Step) -> str:
    """Translate redux.sync."""
    step.several(3)
    if not step.flag("sync"):
        raise step.unknown()
    operation, type = step.choice("add", "min", "max", "and", "or", "xor"), step.type()
    bitwise = operation in ("and", "or", "xor")
    if operation is None or type.bits != 32 or bitwise != (type.kind == "b") or type.kind == "f":
        raise step.unknown()
    unsigned = "_UNSIGNED" if type.kind == "u" and operation in ("min", "max") else ""
    kind = f"KW_REDUCE_{operation.upper()}{unsigned}"
    return step.write(type, f"{type.c}({_warp(step, kind, step.read(2, _U32), step.read(1, _U32))})")


def elect(step: Step) -> str:
    """Translate `elect.sync d|p, mask` by electing the mask's lowest lane; a GPU may elect any lane."""
    step.several(2)
    if not step.flag("sync"):
        raise step.unknown()
    lane, chosen = step.target_pair()
    if chosen is None:
        raise step.unknown()
    mask = step.read(1, _U32)
    writes = step.frame.write(lane, _B32, "leader")
    writes += step.frame.write(chosen, _PRED, "uint32_t(kw_lane) == leader")
    first = f"{{ const uint32_t mask = {mask}, leader = uint32_t(__builtin_ctz(mask));"
    return f"{first} {_warp(step, 'KW_SYNC', 'mask', '0')}; {writes} }}"


def active_mask(step: Step) -> str:
    step.several(1)
    step.type()
    return step.write(_B32, f"uint32_t({_warp(step, 'KW_ACTIVE_MASK', '0', '0')})")
