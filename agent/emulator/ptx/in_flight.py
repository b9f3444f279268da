"""Checks for registers of wgmma products in flight: use before the wait, and writes without a fence.

Between two products the compiler's PTX moves accumulators between registers. Such a move does not count as
a use; the destination takes over the state of its source. The registers of one product form a unit. The C++
code has two variables per unit: the product group to wait for, and the fence that must follow the last write.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.emulator.ptx.syntax import Block, Function, Instruction, Operand

_NOW = "products = kw_products_now();"
_NO_TARGET = ("st", "red", "bar", "barrier", "cp", "mbarrier", "wgmma")


@dataclass
class InFlight:
    """Registers of a function that issues wgmma products, grouped in numbered units."""

    sums: dict[str, int] = field(default_factory=dict)
    """Number of the unit of each accumulator register."""
    factors: dict[str, int] = field(default_factory=dict)
    """Number of the unit of each register that holds elements of A."""

    def declarations(self) -> list[str]:
        units = sorted({*self.sums.values(), *self.factors.values()})
        variables = [f"flight_{unit} = 0, written_{unit} = 0" for unit in units]
        return ["kw_products products = kw_products_now();", f"uint32_t {', '.join(variables)};"]

    def around(self, instruction: Instruction, code: str, adds: str) -> str:
        """Return an instruction's C++ `code` with the checks and updates before and after it.

        `adds` is the C++ condition under which a product reads its accumulators.
        """
        if instruction.opcode == "wgmma" and instruction.modifiers[0] == "mma_async":
            return self._product(instruction, code, adds)
        if instruction.opcode in ("wgmma", "call"):
            return code + _NOW
        if _is_move(instruction):
            return code + self._move(*(part.text for part in instruction.operands))
        line, written = instruction.place.line, self._written(instruction)
        used = {self.sums[n] for part in instruction.operands for n in _names(part) if n in self.sums}
        used |= {self.factors[name] for name in written if name in self.factors}
        units = {table[name] for name in written for table in (self.sums, self.factors) if name in table}
        before = [
            f"if (flight_{unit} > products.done) kw_product_touched(flight_{unit}, {line}); "
            for unit in sorted(used)
        ]
        after = [f" written_{unit} = products.fences + 1;" for unit in sorted(units)]
        return "".join([*before, code, *after])

    def _written(self, instruction: Instruction) -> list[str]:
        if instruction.opcode in _NO_TARGET or not instruction.operands:
            return []
        if instruction.opcode == "mov" and instruction.operands[1].kind == "immediate":
            return []  # the compiler may place initial values anywhere
        return list(_names(instruction.operands[0]))

    def _move(self, to: str, source: str) -> str:
        code = ""
        for table in (self.sums, self.factors):
            if to in table and source in table and table[to] != table[source]:
                for kind in ("flight", "written"):
                    one, other = f"{kind}_{table[to]}", f"{kind}_{table[source]}"
                    code += f" if ({one} < {other}) {one} = {other};"
        return code

    def _product(self, instruction: Instruction, code: str, adds: str) -> str:
        line = instruction.place.line
        sums = {self.sums[name] for name in _names(instruction.operands[0]) if name in self.sums}
        factors = {self.factors[name] for name in _factors(instruction) if name in self.factors}
        late = [f"(({adds}) && written_{unit} > products.fences)" for unit in sorted(sums)]
        late += [f"written_{unit} > products.fences" for unit in sorted(factors)]
        asked = " || ".join(["products.fences == 0", *late])
        after = [
            f" flight_{unit} = products.committed + 1; written_{unit} = 0;" for unit in sorted(sums | factors)
        ]
        return f"if ({asked}) kw_product_unfenced({line}); {code}{''.join(after)}"


def track_registers(function: Function) -> InFlight | None:
    """Return the tracked registers of `function`, or None if it has no products."""
    instructions = list(_instructions(function.body)) if function.body else []
    products = [one for one in instructions if one.opcode == "wgmma" and one.modifiers[0] == "mma_async"]
    if not products:
        return None
    moves: dict[str, set[str]] = defaultdict(set)
    for one in instructions:
        if _is_move(one):
            to, source = (part.text for part in one.operands)
            moves[to].add(source)
            moves[source].add(to)
    sums = _units(moves, [list(_names(one.operands[0])) for one in products], 0)
    begin = max(sums.values(), default=-1) + 1
    factors = _units(moves, [_factors(one) for one in products if _factors(one)], begin)
    return InFlight(sums, factors)


def _units(moves: dict[str, set[str]], tuples: list[list[str]], begin: int) -> dict[str, int]:
    """Return the unit number of each register, counted from `begin`; overlapping tuples share a unit.

    Each register that only moves connect to a tuple gets a unit of its own.
    """
    unit_of: dict[str, int] = {}
    members: dict[int, list[str]] = {}
    for number, names in enumerate(tuples, begin):
        members[number] = []
        for name in names:
            before = unit_of.get(name, number)
            joining = [name] if before == number else members.pop(before)
            unit_of |= dict.fromkeys(joining, number)
            members[number] += joining
    open_names, following = list(unit_of), begin + len(tuples)
    while open_names:
        for name in moves[open_names.pop()]:
            if name not in unit_of and name.startswith("%"):
                unit_of[name] = following
                following += 1
                open_names.append(name)
    return unit_of


def _is_move(instruction: Instruction) -> bool:
    return instruction.opcode == "mov" and all(part.kind == "name" for part in instruction.operands)


def _factors(product: Instruction) -> list[str]:
    left = product.operands[1]
    return list(_names(left)) if left.kind == "vector" else []


def _names(operand: Operand) -> Iterator[str]:
    if operand.kind == "name":
        yield operand.text
    for part in operand.parts:
        yield from _names(part)


def _instructions(block: Block) -> Iterator[Instruction]:
    for statement in block.statements:
        if isinstance(statement, Instruction):
            yield statement
        elif isinstance(statement, Block):
            yield from _instructions(statement)
