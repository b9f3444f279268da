"""Proof that a candidate's own kernels compute its result: a replay of the kernels alone in another process.

The worker records what each call does to device memory (agent.emulator.replay), and the judge picks the call
to replay. A clean process loads the built libraries without their initialisers. It replays the kernels, and
the operators that `--library-ops` allows, on parameters and inputs of the judge.

The replay's inputs are a fresh draw, made after the record was taken. A value that host code computed from
the call's own inputs is wrong for the fresh ones. If the replay's result is wrong, the host may have read a
scalar back. Then the call is replayed on its own inputs, and so is an additional call on new inputs. The
values that the host passed to such a call, but not to calls on other inputs, have to be far fewer than the
output's elements.

The comparator checks outputs against the float64 ground truth. They have to be right with the kernels, and
wrong without any launch. Forging a record does not help a candidate, as kernels of the built library have to
compute the result all the same.
"""

import contextlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent.emulator.replay import device_library, host_words, player_commands, program
from agent.emulator.replay.calls import INPUTS, Segment
from agent.emulator.replay.events import Event, itemsize
from agent.emulator.replay.program import FILES
from agent.errors import defect
from agent.harness.integrity import launch_limits, replay_findings
from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle
from agent.harness.messages.device_answers import DeviceFinding
from agent.harness.messages.oracle_client import OracleClient
from agent.records import Finding, LibraryOps
from agent.sandbox import Box, Child, ChildFault, Limits, ProcessServer, TimedOut, messages
from agent.torch_shim import c_abi

STEPS = "steps.jsonl"
_PLAYER = (
    Path(program.__file__).with_name("player.py"),
    Path(program.__file__).with_name("following.py"),
    *(Path(str(module.__file__)) for module in (c_abi, messages, player_commands)),
)
_SAID = 2_000
"""Maximum number of characters kept of the player's messages."""


class Evidence(NamedTuple):
    """Resources of the judge for the replay of recorded calls."""

    libraries: list[Path]
    """Paths of all extensions that the candidate built."""
    runtime: Path
    setting: LibraryOps
    oracle: OracleClient
    folder: Path
    """Empty folder for replays, which the candidate's process does not see."""
    environment: dict[str, str]
    limits: Limits
    only_fresh: bool
    """True if a replay on a call's own inputs proves nothing, as a build followed after they were seen."""
    timeout_s: float
    on_a_gpu: launch_limits.Limits | None = None
    """Resource limits of the candidate's kernels on a GPU."""
    server: ProcessServer | None = None
    """Server that forks the replay's process."""
    most_words: int = host_words.FEW
    """Maximum number of words that the host may derive from the inputs, even for a large output."""
    checks: bool = False
    """True if calls are replayed with memory checks."""


class Recorded(NamedTuple):
    """Recorded calls of a process, in order, and the one of them to replay (`chosen`)."""

    segments: Sequence[Segment]
    chosen: int
    others: Sequence[int]
    """Numbers of calls with the chosen call's parameters but other, independently drawn inputs."""
    parameters_seed: int
    inputs_seed: int
    fresh_seed: int
    """Seed of inputs that are drawn for the replay."""
    family: str | None
    """Family of the inputs, or None for stated inputs."""
    tree: Any
    """Structure of the output."""


class Replay:
    """One replay of a call, in a new folder: kernels of earlier replays may have written to their folders."""

    def __init__(
        self, evidence: Evidence, recorded: Recorded, needed: Sequence[Event], *, everything: bool = False
    ) -> None:
        """Prepare the replay. With `everything`, torch's operators run even if they are not allowed."""
        self._evidence, self._recorded = evidence, recorded
        self.hung = False
        """True if the replay ran out of time, so that it is not worth another try."""
        self._folder = folder = evidence.folder / str(len(list(evidence.folder.iterdir())))
        folder.mkdir()
        for part in _PLAYER:
            shutil.copy(part, folder)
        self._copies: list[str] = []
        known: dict[str, tuple[int, set[int]]] = {}
        for number, library in enumerate(dict.fromkeys(evidence.libraries)):
            self._copies.append(f"library{number}.so")
            known[str(library)] = number, device_library.prepared(library, folder / self._copies[-1])
        setting: LibraryOps = "any" if everything else evidence.setting
        self.program = program.read(needed, known, setting)

    def launched(self) -> list[launch_limits.Launched]:
        return launch_limits.recorded((*self.program.before, *self.program.after))

    def refusal(self, seed: int) -> Finding | None:
        """Return a finding if the kernels do not account for the output on one draw, or None if they do.

        The run without launches comes first. Its output is compared before any candidate code runs.
        """
        self._prepare(seed)
        try:
            with self._player() as child:
                self._open(child)
                self._play(child, "without", launches=False)
                if self._right("without"):
                    return replay_findings.unneeded(self.program)
                self._play(child, "with", launches=True)
        except Unrepeatable as error:
            self.hung = isinstance(error, TooLong)
            return replay_findings.unrepeatable(str(error))
        return None if self._right("with") else self.foreign()

    def foreign(self) -> Finding:
        """Return the finding that something other than the kernels computes the output."""
        return replay_findings.foreign(self.program, self._evidence.setting)

    def is_blind(self) -> bool:
        """Return True if the call's result on its own inputs is also right on the replay's last inputs."""
        recorded = self._recorded
        own = oracle_commands.FitsOther(recorded.inputs_seed, recorded.family)
        return bool(self._evidence.oracle.ask(to_oracle(own))["fits"])

    def checked(self, seed: int, order: int, noise: int) -> list[DeviceFinding]:
        """Return the forbidden memory accesses of the call's launches on one draw.

        Raises Unrepeatable, or Forgery for an answer that is not valid.
        """
        self._prepare(seed)
        pieces = [(piece.start, len(piece)) for piece in self.program.pieces]
        first = len(self.program.before)
        answer = self._told(player_commands.Check(STEPS, first, pieces, order, noise), "findings")
        try:
            found: list[DeviceFinding] = messages.read(
                answer.get("findings", []), list[DeviceFinding], finite=True
            )
        except messages.Malformed as error:
            raise Forgery(f"tells of findings that are none{error}") from None
        return found

    def original(self, library: str) -> str:
        """Return the original path of a library that was copied for the replay."""
        known = dict(zip(self._copies, dict.fromkeys(self._evidence.libraries), strict=True))
        return str(known.get(Path(library).name, library))

    def _prepare(self, seed: int) -> None:
        """Have the oracle write parameters and inputs, and write the steps that the player runs."""
        oracle, recorded = self._evidence.oracle, self._recorded
        oracle.ask(to_oracle(oracle_commands.Parameters(recorded.parameters_seed, self._stem("")[:-1])))
        for family in dict.fromkeys((recorded.family, None)):
            draw = oracle_commands.Draw(seed, self._stem(INPUTS), family)
            if "left_out" not in oracle.ask(to_oracle(draw)):
                break
        self._write_steps()

    def _write_steps(self) -> None:
        steps = (*self.program.before, *self.program.after)
        (self._folder / STEPS).write_text("".join(json.dumps(step) + "\n" for step in steps))

    def _stem(self, what: str) -> str:
        """Return the path prefix for the oracle's tensors, in a folder hidden from the worker."""
        return str(self._folder / f"{FILES}-{what}")

    def _player(self) -> Child:
        home = {"HOME": str(self._folder), "TMPDIR": str(self._folder)}
        return Child(
            [sys.executable, "-I", "player.py"],
            env=self._evidence.environment | home,
            box=Box(self._folder, sees=(self._evidence.runtime.parent,), python=True),
            limits=self._evidence.limits,
            server=self._evidence.server,
        )

    def _opening(self) -> player_commands.Open:
        runtime, memory = str(self._evidence.runtime), self.program.memory
        return player_commands.Open(runtime, self._copies, memory, threads=2)

    def _play(self, child: Child, stem: str, *, launches: bool) -> None:
        outputs = [(o.address, itemsize(o.dtype), o.shape, o.strides) for o in self.program.outputs]
        answer = self._asked(child, player_commands.Play(STEPS, launches, stem, outputs))
        _check(answer, trusted=not launches)

    def _told(self, command: player_commands.Command, key: str) -> dict[str, Any]:
        """Return the answer of a new player process to one command. An answer without `key` is an error."""
        with self._player() as child:
            self._open(child)
            answer = self._asked(child, command)
        if key not in answer:
            _check(answer, trusted=False)
        return answer

    def _asked(self, child: Child, command: player_commands.Command) -> dict[str, Any]:
        try:
            return child.ask(_written(command), self._evidence.timeout_s)
        except TimedOut as fault:
            raise TooLong(f"the process gave {fault}") from None
        except ChildFault as fault:
            raise Unrepeatable(f"the process {fault}") from None

    def _open(self, child: Child) -> None:
        """Open the replay in the player. No candidate code has run yet, so any failure is our defect."""
        try:
            answer = child.ask(_written(self._opening()), self._evidence.timeout_s)
        except ChildFault as fault:
            raise defect("the player", f"its process {fault}", child.log) from None
        _check(answer, trusted=True)

    def _right(self, stem: str) -> bool:
        tensors = [{"shape": output.shape, "dtype": output.dtype} for output in self.program.outputs]
        outputs = {"stem": str(self._folder / stem), "tree": self._recorded.tree, "tensors": tensors}
        return self._evidence.oracle.fits(outputs)


class Unrepeatable(Exception):
    """Exception raised if the steps cannot be run; the message says why."""


class Forgery(Exception):
    """Exception raised if the player gave an invalid answer after kernels had run."""


class TooLong(Unrepeatable):
    """Exception raised if the steps did not finish within the time limit."""


def _written(command: player_commands.Command) -> dict[str, Any]:
    return dict(messages.written(command, player_commands.Command))


def _check(answer: dict[str, Any], *, trusted: bool) -> None:
    """Raise Unrepeatable if the player reports that the steps cannot be run.

    If `trusted`, no candidate code has run in the player's process, so any other failure is our defect. If
    not, candidate code may have written the answer, and any other failure raises Forgery.
    """
    if not answer:
        return
    told: player_commands.NotRepeatable | player_commands.Failed | None = None
    with contextlib.suppress(messages.Malformed):
        kind = player_commands.Failed if "error" in answer else player_commands.NotRepeatable
        told = messages.read(answer, kind)
    if isinstance(told, player_commands.NotRepeatable):
        raise Unrepeatable(told.not_repeatable[:_SAID])
    said = f"answered {str(answer)[:_SAID]}" if told is None else f"failed: {told.error[:_SAID]}"
    if not trusted:
        raise Forgery(said)
    raise defect("the player", f"it {said}" if told is None else told.error, told.traceback if told else "")
