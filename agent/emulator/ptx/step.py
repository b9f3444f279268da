"""Translation state of one instruction. Handlers consume its modifiers; a leftover modifier is an error."""

from agent.emulator.ptx.frame import Frame
from agent.emulator.ptx.syntax import Instruction, Operand, Untranslated
from agent.emulator.ptx.types import TYPES, Type

ROUNDINGS = {"rn": "kNearest", "rz": "kZero", "rm": "kDown", "rp": "kUp"}


class Step:
    def __init__(self, frame: Frame, instruction: Instruction) -> None:
        self.frame = frame
        self.instruction = instruction
        self.operands = instruction.operands
        self._left = list(instruction.modifiers)
        if self.flag("L2::cache_hint"):  # the policy is the last operand and changes no value
            self.operands = self.operands[:-1]

    def flag(self, name: str) -> bool:
        if name not in self._left:
            return False
        self._left.remove(name)
        return True

    def choice(self, *names: str) -> str | None:
        """Consume and return the first of `names` that is present, or return None."""
        return next((name for name in names if self.flag(name)), None)

    def rounding(self) -> str | None:
        """Consume the rounding mode and return its C++ name, or return None."""
        chosen = self.choice(*ROUNDINGS)
        return ROUNDINGS[chosen] if chosen else None

    def type(self) -> Type:
        """Consume and return the last type among the remaining modifiers. Raise Untranslated without one."""
        for index in reversed(range(len(self._left))):
            found = TYPES.get(self._left[index])
            if found is not None:
                del self._left[index]
                return found
        raise self.unknown()

    def finish(self) -> None:
        if self._left:
            raise self.unknown()

    def unknown(self) -> Untranslated:
        return Untranslated(self.instruction.name, self.instruction.place.line)

    def several(self, *counts: int) -> None:
        if len(self.operands) not in counts:
            raise self.unknown()

    def read(self, index: int, type: Type) -> str:
        return self.frame.read(self.operands[index], type)

    def write(self, type: Type, code: str) -> str:
        """Return a C++ statement that assigns `code` to the instruction's first operand."""
        return self.frame.write(self.operands[0], type, code)

    def target_pair(self) -> tuple[Operand, Operand | None]:
        """Return both destinations of `d|p`, or the single destination and None."""
        first = self.operands[0]
        return (first.parts[0], first.parts[1]) if first.kind == "pair" else (first, None)
