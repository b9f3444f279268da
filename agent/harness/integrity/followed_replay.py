"""Replay of the last judged call without its host code, to see the memory that each of its kernels writes.

The replay explains where a wrong output comes from. It has no influence on a verdict.
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
"""Maximum bytes of values written by kernels, and of the outputs."""
MOST_LAUNCHES = 4095
"""Maximum number of launches that the emulator's runtime can tell apart as writers of a byte."""
_STEM = "followed"
_NAME = re.compile(r"[A-Za-z_]\w{0,63}")


class FollowedReplay(Replay):
    """Replay on the oracle's current parameters and inputs."""

    def written(self) -> where_commands.Where:
        """Return the values that the kernels wrote, for the oracle.

        Raises Unrepeatable, or Forgery for an invalid answer.
        """
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
    """Return the values that a call's kernels wrote; None for no or too many launches, or large outputs.

    Raises Forged, Forgery, Unrepeatable and NotLoadable.
    """
    needed = calls.alone(recorded.segments, recorded.chosen, earlier="first")
    replay = FollowedReplay(evidence, recorded, needed, everything=True)
    few = 0 < replay.program.launches <= MOST_LAUNCHES
    small = sum(size for _, size in _spans(replay.program)) <= MOST_BYTES
    return replay.written() if few and small else None


def _spans(program: Program) -> list[tuple[int, int]]:
    """Return each output's address and the bytes from there to the end of its last element."""
    return [(o.address, extent(o.shape, o.strides, itemsize(o.dtype))) for o in program.outputs]


def _launched(step: dict[str, Any]) -> where_commands.Launched:
    name = _NAME.search(step["name"])
    kernel = name.group() if name else "?"
    return where_commands.Launched(kernel, step["line"], step["grid"], step["block"])


def _within(
    written: list[tuple[int, int, int]], pieces: list[tuple[int, int]], launches: int
) -> list[tuple[int, int, int, int]]:
    """Return the entries of `written` (launches and piece of memory), each with the piece's size in bytes.

    Raises Forgery if a launch or piece does not exist, or if the pieces are too large together.
    """
    known = all(1 <= a <= b <= launches and 0 <= piece < len(pieces) for a, b, piece in written)
    if not known or len({(a, piece) for a, _, piece in written}) < len(written):
        raise Forgery("tells of memory that is not there")
    sized = [(a, b, piece, pieces[piece][1]) for a, b, piece in written]
    if sum(size for *_, size in sized) > MOST_BYTES:
        raise Forgery("tells of more memory than it was asked for")
    return sized
