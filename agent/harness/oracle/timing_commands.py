"""Commands of timing: contents of the timed calls, times of the reference, and the outputs taken."""

import contextlib
import gc
import importlib
import threading
from pathlib import Path
from typing import Any

import torch

from agent.harness.messages import oracle_commands
from agent.harness.oracle.baselines import Baselines
from agent.harness.oracle.card import card, sample
from agent.harness.oracle.state import OracleState
from agent.harness.task.servers import COMPILER
from agent.harness.truth import passes
from agent.harness.truth.tolerance import Expected, leaves
from agent.harness.worker import wire

SETTLED = 8
"""The part of the GPU's memory that is left free while a candidate is timed: it has been called before."""
KEPT_BYTES = 512 << 20
"""What may stay in use after a draw that nothing comes of."""


class TimingCommands:
    """Handlers; `do_baselines` comes first."""

    def __init__(self, state: OracleState) -> None:
        self._state = state
        self._seed = 0
        self._baselines: Baselines | None = None

    def do_expect_baselines(self, command: oracle_commands.ExpectBaselines) -> dict[str, Any]:
        """Imports torch's compiler, which takes most of the first compilation's time, in a thread."""
        threading.Thread(target=_import_compiler, daemon=True).start()
        return {}

    def do_comparison_kernels(self, command: oracle_commands.ComparisonKernels) -> dict[str, Any]:
        """Whether they are used; without them the same is found in more passes over the memory."""
        return {"used": passes.use(Path(command.file))}

    def do_warm_up(self, command: oracle_commands.WarmUp) -> dict[str, Any]:
        """What a process does on the GPU for the first time takes longer: nothing of this is used.

        Its memory is, by the first draw, where the GPU has enough for the candidate beside it.
        """
        self._state.reference.perturb(command.seed)
        before = torch.cuda.memory_allocated()
        self._warm_up(command)
        gc.collect()  # baselines refer to themselves
        if command.compiled and torch.cuda.memory_allocated() > before + KEPT_BYTES:
            # What is compiled holds tensors of its own: rather compiled again than without that memory.
            importlib.import_module("torch._dynamo").reset()
            gc.collect()
        self._state.make_room()
        return {}

    def _warm_up(self, command: oracle_commands.WarmUp) -> None:
        reference = self._state.reference
        if command.compiled:
            Baselines(reference, self._state.exchange, *reference.sample(command.seed)).prepare(True, 0.0)
            return
        draw = reference.draw(command.seed)
        assert draw is not None
        draw.expected.accepts(leaves(draw.expected.native))

    def do_baselines(self, command: oracle_commands.Baselines) -> dict[str, Any]:
        """Makes ready what the candidate is timed against, at the parameters of the last draw."""
        reference = self._state.reference
        self._baselines = Baselines(reference, self._state.exchange, *reference.sample(self._seed))
        torch.cuda.empty_cache()
        names = self._baselines.prepare(command.compiled, command.launch_bound_ms, command.more)
        return {"names": names, "problems": self._baselines.problems}

    def do_refresh(self, command: oracle_commands.Refresh) -> dict[str, Any]:
        self._seed = command.seed
        self._timing.refresh(self._seed)
        return {}

    def do_timed(self, command: oracle_commands.Timed) -> dict[str, Any]:
        times = self._timing.timed(command.what, command.flushes)
        return {"ms": times.ms, "host_ms": times.host_ms, "is_late": times.is_late}

    def do_slope(self, command: oracle_commands.Slope) -> dict[str, Any]:
        return {"ms": self._timing.slope(command.what, command.few, command.many)}

    def do_take(self, command: oracle_commands.Take) -> dict[str, Any]:
        self._timing.take()
        return {"card": sample()}

    def do_alone(self, command: oracle_commands.Alone) -> dict[str, Any]:
        return {"ms": self._timing.alone(command.rows, command.enough_ms)}

    def do_launches(self, command: oracle_commands.Launches) -> dict[str, Any]:
        """What the GPU does in one call of a baseline."""
        return {"kernels": self._timing.launches(command.what)}

    def do_room_for_row(self, command: oracle_commands.RoomForRow) -> dict[str, Any]:
        return self._timing.room_for_row(command.least, command.most)

    def do_fill_row(self, command: oracle_commands.FillRow) -> dict[str, Any]:
        self._timing.fill_row(command.seeds)
        return {}

    def do_take_of_row(self, command: oracle_commands.TakeOfRow) -> dict[str, Any]:
        self._timing.take_of_row(command.number)
        return {}

    def do_recall(self, command: oracle_commands.Recall) -> dict[str, Any]:
        """The contents that outputs taken of a row were computed from, as the present inputs."""
        self._seed = command.seed
        self._timing.recall(self._seed)
        return {}

    def do_glance(self, command: oracle_commands.Glance) -> dict[str, Any]:
        """Whether the outputs that were taken have to be held against the truth."""
        # Such a reference would change the contents that the candidate was given, too.
        return {"doubtful": "input" not in self._state.reference.changes and self._timing.doubtful()}

    def do_card(self, command: oracle_commands.Card) -> dict[str, Any]:
        return {"card": card()}

    def do_judge_taken(self, command: oracle_commands.JudgeTaken) -> dict[str, Any]:
        """The outputs that were taken, against the truth about the contents they were computed from.

        A draw's limits are found only where the outputs are not within stricter ones, which cost less.
        """
        reference = self._state.reference
        try:
            self._timing.rest()
            if not reference.changes:
                told = self._held_against(reference.strict(self._seed), command)
                if "finding" not in told:
                    return told
            return self._held_against(self._expected(), command)
        finally:
            self._state.make_room(SETTLED)
            self._timing.recall(self._seed)

    def _expected(self) -> Expected:
        draw = self._state.reference.draw(self._seed)
        assert draw is not None
        return draw.expected

    def _held_against(self, expected: Expected, command: oracle_commands.JudgeTaken) -> dict[str, Any]:
        finding = expected.structure(wire.checked(command.outputs)) if command.outputs else None
        finding = finding or self._state.foreign(command.claims.types, command.claims.devices)
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        return expected.compare(self._timing.taken)

    @property
    def _timing(self) -> Baselines:
        assert self._baselines is not None
        return self._baselines


def _import_compiler() -> None:
    with contextlib.suppress(Exception):  # the compilation says what is missing
        for name in COMPILER:
            importlib.import_module(name)
