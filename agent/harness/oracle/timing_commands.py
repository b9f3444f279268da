"""Commands for timing: inputs of the timed calls, times of the reference, and checks of timed outputs."""

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
"""Divisor of GPU memory that gives the part left free while a candidate is timed.

The part can be small, since the candidate has already allocated its memory in earlier calls.
"""
KEPT_BYTES = 512 << 20
"""Bytes that may stay allocated after a draw that is discarded."""


class TimingCommands:
    """Handlers of the commands. Most commands need `Baselines` to have been sent before."""

    def __init__(self, state: OracleState) -> None:
        self._state = state
        self._seed = 0
        self._baselines: Baselines | None = None

    def do_expect_baselines(self, command: oracle_commands.ExpectBaselines) -> dict[str, Any]:
        """Import torch's compiler in a thread, as this takes most of the first compilation's time."""
        threading.Thread(target=_import_compiler, daemon=True).start()
        return {}

    def do_comparison_kernels(self, command: oracle_commands.ComparisonKernels) -> dict[str, Any]:
        """Load the comparison kernels, and return True under `used` if they work.

        Comparisons without these kernels give the same results, but need more passes over memory.
        """
        return {"used": passes.use(Path(command.file))}

    def do_warm_up(self, command: oracle_commands.WarmUp) -> dict[str, Any]:
        """Run a draw or a compiled reference, whose first run in a process is slow, and discard the results.

        The first draw reuses the memory if the GPU has enough for the candidate as well.
        """
        self._state.reference.perturb(command.seed)
        before = torch.cuda.memory_allocated()
        self._warm_up(command)
        gc.collect()  # baselines refer to themselves
        if command.compiled and torch.cuda.memory_allocated() > before + KEPT_BYTES:
            # Compiled code holds tensors of its own. Compiling again is better than running out of memory.
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
        """Prepare the baselines at the parameters of the last draw."""
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
        """Return the kernels and copies that one call of a baseline runs on the GPU."""
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
        """Restore the inputs of the command's seed, from which a row's call computed its outputs."""
        self._seed = command.seed
        self._timing.recall(self._seed)
        return {}

    def do_glance(self, command: oracle_commands.Glance) -> dict[str, Any]:
        """Return True under `doubtful` if the outputs in `taken` need a comparison with the ground truth."""
        # A reference that writes to its inputs would also change the inputs of the candidate's next call.
        return {"doubtful": "input" not in self._state.reference.changes and self._timing.doubtful()}

    def do_card(self, command: oracle_commands.Card) -> dict[str, Any]:
        return {"card": card()}

    def do_judge_taken(self, command: oracle_commands.JudgeTaken) -> dict[str, Any]:
        """Compare the outputs in `taken` with the ground truth of the inputs they were computed from.

        Stricter tolerances, which are faster to compute, come first. Outputs that fail them are compared with
        the tolerances of a full draw.
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
    with contextlib.suppress(Exception):  # The compilation itself reports what is missing.
        for name in COMPILER:
            importlib.import_module(name)
