"""Replay of the last judged call without its host code, to see what each of its kernels writes.

It only explains where a wrong output comes from and has no influence on a verdict.
"""

import re
from typing import Any

from agent.emulator.replay import calls, player_commands
from agent.emulator.replay.events import extent, itemsize
from agent.emulator.replay.program import Program
from agent.harness.integrity.replay_check import STEPS, Evidence, Forgery, Recorded, Replay
from agent.harness.messages import where_commands
from agent.harness.messages.commands import to_oracle
from agent.sandbox import messages

MOST_BYTES = 32 << 20
"""Maximum bytes of values written by kernels; as many are read again twice to see who wrote them."""
MOST_LAUNCHES = 4095
"""Maximum number of launches that the runtime can count."""
_STEM = "followed"
_NAME = re.compile(r"[A-Za-z_]\w{0,63}")


class FollowedReplay(Replay):
    """Replay on the oracle's current parameters and inputs."""

    def written(self) -> where_commands.Where:
        """Return what the kernels wrote, for the oracle. Raises Unrepeatable, or Forgery for a bad answer."""
        show = where_commands.Show(self._stem("")[:-1], self._stem(calls.INPUTS))
        self._evidence.oracle.ask(to_oracle(show))
        self._write_steps()
        program = self.program
        pieces = [(piece.start, len(piece)) for piece in program.pieces]
        first, spans = len(program.before), _spans(program)
        command = player_commands.Follow(STEPS, first, pieces, spans, _STEM, MOST_BYTES)
        try:
            answer = self._told(command, "written")
            told: player_commands.Followed = messages.read(answer, player_commands.Followed)
        except messages.Malformed as error:
            raise Forgery(f"tells what was written as it is not told{error}") from None
        launches = [_launched(words[0]) for kind, *words in program.after if kind == "launch"]
        return where_commands.Where(
            stem=str(self._folder / _STEM),
            launches=launches,
            written=_within(told.written, pieces, len(launches)),
            outputs=[(o.dtype, o.shape, o.strides) for o in program.outputs],
            operators=any(kind == "operator" for kind, *_ in program.after),
        )


def written(recorded: Recorded, evidence: Evidence) -> where_commands.Where | None:
    """Return what the kernels of a call wrote, or None if it has no launches, too many, or large outputs.

    Raises whatever a replay raises.
    """
    needed = calls.alone(recorded.segments, recorded.chosen, earlier="first")
    replay = FollowedReplay(evidence, recorded, needed, everything=True)
    few = 0 < replay.program.launches <= MOST_LAUNCHES
    small = sum(size for _, size in _spans(replay.program)) <= MOST_BYTES
    return replay.written() if few and small else None


def _spans(program: Program) -> list[tuple[int, int]]:
    """Return the address of each output and its size in bytes up to its end."""
    return [(o.address, extent(o.shape, o.strides, itemsize(o.dtype))) for o in program.outputs]


def _launched(step: dict[str, Any]) -> where_commands.Launched:
    name = _NAME.search(step["name"])
    kernel = name.group() if name else "?"
    return where_commands.Launched(kernel, step["line"], step["grid"], step["block"])


def _within(
    written: list[tuple[int, int, int]], pieces: list[tuple[int, int]], launches: int
) -> list[tuple[int, int, int, int]]:
    """Add the bytes of each piece. Raises Forgery for launches or pieces out of range or too large."""
    known = all(1 <= a <= b <= launches and 0 <= piece < len(pieces) for a, b, piece in written)
    if not known or len({(a, piece) for a, _, piece in written}) < len(written):
        raise Forgery("tells of memory that is not there")
    sized = [(a, b, piece, pieces[piece][1]) for a, b, piece in written]
    if sum(size for *_, size in sized) > MOST_BYTES:
        raise Forgery("tells of more memory than it was asked for")
    return sized
