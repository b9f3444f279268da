"""One instruction while it is translated: its modifiers are taken one by one, and none may be left over."""

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
        if self.flag("L2::cache_hint"):  # its policy is the last operand, and changes no value
            self.operands = self.operands[:-1]

    def flag(self, name: str) -> bool:
        if name not in self._left:
            return False
        self._left.remove(name)
        return True

    def choice(self, *names: str) -> str | None:
        """The first of `names` that is there."""
        return next((name for name in names if self.flag(name)), None)

    def rounding(self) -> str | None:
        """The C++ name of the rounding mode, or None where none is written."""
        chosen = self.choice(*ROUNDINGS)
        return ROUNDINGS[chosen] if chosen else None

    def type(self) -> Type:
        """The last type among the modifiers that are left."""
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
        """To the first operand."""
        return self.frame.write(self.operands[0], type, code)

    def target_pair(self) -> tuple[Operand, Operand | None]:
        """The two destinations of `d|p`, or the one."""
        first = self.operands[0]
        return (first.parts[0], first.parts[1]) if first.kind == "pair" else (first, None)
