"""Baselines of a candidate: the reference, timed in the oracle's process.

The reference runs eagerly, under torch.compile and, where launches dominate its time, replayed as a CUDA
graph. On request it also runs under max-autotune, and each variant as a CUDA graph. All baselines run with
TF32 off, like the float32 runs that give the tolerance.
"""

import math
from collections.abc import Callable, Collection
from functools import partial
from statistics import median
from typing import Any

import torch

from agent.harness.oracle.batched_calls import Rows
from agent.harness.oracle.transport import Exchange
from agent.harness.truth import passes
from agent.harness.truth.draws import tree_map
from agent.harness.truth.limits import CHUNK
from agent.harness.truth.reference import Reference
from agent.harness.worker.memory_guards import leaves
from agent.harness.worker.timing import FLUSHES, Sample, Timer, slope

Call = Callable[[], Any]
AUTOTUNED = "max-autotune-no-cudagraphs"
"""max-autotune without its own CUDA graph, which is a separate baseline here."""
LEAST_ALONE, ALONE = 7, 15
"""Minimum and maximum number of calls of the reference after the candidate's process has ended.

With seven calls, the true median lies between the smallest and largest time with a probability of 98 %.
"""
ALIKE = 0.006
"""Range of the times, relative to their median, at which no further calls are timed."""
NEAR = 1e-4
"""Maximum relative difference of float32 outputs that are near; lower precision exceeds it."""
NEAR_IN_HALF = 0.02
"""Maximum relative difference of 16-bit outputs that are near: more than twice the eps of bfloat16."""
PIECE = 1 << 26


class Baselines:
    """Baselines of one reference, all on the same inputs.

    New contents are written to the inputs in place once a CUDA graph reads them.
    """

    def __init__(self, reference: Reference, exchange: Exchange, inputs: list[Any], like: Any) -> None:
        """Make baselines on `inputs`, which may be overwritten. `like` is an output of the reference."""
        self._reference, self._exchange = reference, exchange
        self.inputs = inputs
        self._like = tree_map(lambda t: torch.empty_like(t, device="meta"), like)
        self._timer = Timer()
        self._calls: dict[str, Call] = {"eager": self._eager}
        self._rows: Rows | None = None
        self._replays = False
        """True if a CUDA graph reads the inputs, which then have to keep their addresses."""
        self.problems: dict[str, str] = {}
        """Reason why a baseline is missing, by name."""
        self.taken: Any = None
        """Copy of the candidate's outputs that were taken last."""

    def prepare(self, compiled: bool, launch_bound_ms: float, more: Collection[str] = ()) -> list[str]:
        """Prepare the baselines and return the names of those available.

        `more` names further baselines (`records.MoreBaselines`).
        """
        graphed = "graphs" in more or median(self.timed("eager").ms for _ in range(5)) < launch_bound_ms
        if compiled:
            self._add("compile", self._compiled)
        if "max-autotune" in more:
            self._add("max-autotune", lambda: self._compiled(AUTOTUNED))
        if graphed:
            self._add("graph", lambda: self._graphed(self._eager))
        if "graphs" in more:
            for name in [name for name in ("compile", "max-autotune") if name in self._calls]:
                self._add(f"{name}-graph", partial(self._graphed, self._calls[name]))
        return list(self._calls)

    def _add(self, name: str, make: Callable[[], Call]) -> None:
        try:
            with torch.no_grad():
                self._calls[name] = make()
        except Exception as error:  # noqa: BLE001 - torch's compiler raises what it likes
            cause = next(iter(str(error).splitlines()), "")
            self.problems[name] = f"{type(error).__name__}: {cause}"[:300]

    def refresh(self, seed: int) -> None:
        """Write new inputs for the next calls of reference and candidate, and flush the L2 cache."""
        self.recall(seed)
        self._exchange.refresh(self.inputs)
        self._timer.flush()
        torch.cuda.synchronize()

    def recall(self, seed: int) -> None:
        """Restore the inputs of a seed for the reference, without handing them to the candidate."""
        fresh = self._reference.inputs(seed, None)
        assert fresh is not None
        if not self._replays:
            self.inputs = fresh
            return
        for mine, new in zip(leaves(self.inputs), leaves(fresh), strict=True):
            mine.data.copy_(new)

    def rest(self) -> None:
        """Release the inputs, which `recall` restores, unless a CUDA graph reads them in place."""
        if not self._replays:
            self.inputs = []

    def room_for_row(self, least: int, most: int) -> dict[str, Any]:
        """Allocate a row of calls; return its length, 0 if too short, and the layout that workers need."""
        try:
            self._rows = self._exchange.rows(self.inputs, self._like, least=least, most=most)
        except MemoryError:
            return {"calls": 0}
        return {"calls": self._rows.calls} | ({"row": self._rows.described} if self._rows.calls else {})

    def fill_row(self, seeds: list[int]) -> None:
        """Write the inputs of the first calls of the row, one seed for each call, and blank its outputs."""
        assert self._rows is not None
        for number, seed in enumerate(seeds):
            self._rows.fill(number, self._reference.inputs(seed, None))
        self._rows.forget()
        self._timer.flush()
        torch.cuda.synchronize()

    def take_of_row(self, number: int) -> None:
        """Copy the outputs of call `number` of the row to `taken`."""
        assert self._rows is not None
        self.taken = self._rows.outputs(number)
        torch.cuda.synchronize()

    def doubtful(self) -> bool:
        """Return True if the outputs in `taken` differ from the reference's on the present inputs.

        This quick check of all elements costs one call of the reference. Doubtful outputs are then compared
        with the ground truth.
        """
        with torch.no_grad():
            native = leaves(self._eager())
        return not all(
            near(mine, its.to(mine.device)) for mine, its in zip(leaves(self.taken), native, strict=True)
        )

    def timed(self, name: str, flushes: int = FLUSHES) -> Sample:
        """Return the times of one call of a baseline after `flushes` overwrites of the L2 cache."""
        return self._timer.timed(self._calls[name], flushes)[0]

    def slope(self, name: str, few: int, many: int) -> float:
        """Return a baseline's milliseconds per call, from rows of `few` and of `many` calls."""
        return slope(self._calls[name], few, many)

    def take(self) -> None:
        """Copy the candidate's outputs from their assigned places to `taken`."""
        self.taken = self._exchange.outputs({"there": True}, self._like)
        torch.cuda.synchronize()

    def alone(
        self, rows: dict[str, tuple[int, int]], enough_ms: dict[str, float]
    ) -> dict[str, tuple[float, float]]:
        """Return, for each baseline, the median milliseconds of a single call and of a call in a row.

        For a baseline whose single call takes `enough_ms` or more, both numbers are that of the single call.
        """
        found = {}
        for name, lengths in rows.items():
            call = self._alone(name, enough_ms[name])
            found[name] = (call, call if call >= enough_ms[name] else self.slope(name, *lengths))
        return found

    def _alone(self, name: str, enough_ms: float) -> float:
        found: list[float] = []
        while len(found) < ALONE:
            found.append(self.timed(name).ms)
            if len(found) < LEAST_ALONE:
                continue
            if median(found) >= enough_ms or max(found) - min(found) <= ALIKE * median(found):
                break
        return median(found)

    def launches(self, name: str) -> list[dict[str, Any]]:
        """Return the kernels and copies of one call on cold caches by CUDA's profiler, or [] if it fails."""
        from torch import profiler

        self._timer.flush()
        torch.cuda.synchronize()
        try:
            watched = [profiler.ProfilerActivity.CUDA]
            with torch.no_grad(), profiler.profile(activities=watched, acc_events=True) as seen:
                self._calls[name]()
                torch.cuda.synchronize()
        except Exception:  # noqa: BLE001 - no verdict depends on the profile
            return []
        return [
            {"name": event.name, "us": event.device_time, "stream": event.device_resource_id}
            for event in seen.events()
            if event.device_type.name == "CUDA"
        ]

    def _eager(self) -> Any:
        return self._reference.model(*self.inputs)

    def _compiled(self, mode: str | None = None) -> Call:
        model: Callable[..., Any] = torch.compile(self._reference.model, mode=mode)
        for _ in range(3):
            model(*self.inputs)
        return lambda: model(*self.inputs)

    def _graphed(self, call: Call) -> Call:
        self._replays = True
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()

        def replay() -> Any:
            graph.replay()
            return result

        return replay


def near(output: torch.Tensor, native: torch.Tensor) -> bool:
    """Return True if all elements of `output` and `native` agree except for rounding.

    The allowed difference is relative to the native value or to the root mean square of `native`.
    """
    if not output.is_floating_point():
        return torch.equal(output, native)
    share = NEAR_IN_HALF if output.dtype.itemsize < 4 else NEAR
    found, wanted = output.reshape(-1), native.reshape(-1)
    at_once = passes.differences(found, wanted)
    if at_once is not None and at_once[1] <= share * at_once[0] / wanted.numel() ** 0.5:
        return True
    scale = float(torch.linalg.vector_norm(wanted, dtype=torch.float32)) / max(wanted.numel(), 1) ** 0.5
    floor = share * scale if math.isfinite(scale) else 0.0
    if not wanted.numel() or _apart_at_most(found, wanted, floor):
        return True
    for begin in range(0, wanted.numel(), PIECE):
        mine, its = (flat[begin : begin + PIECE] for flat in (found, wanted))
        same = torch.isclose(mine, its, rtol=share, atol=floor, equal_nan=True)
        if not bool(same.all()):
            return False
    return True


def _apart_at_most(output: torch.Tensor, native: torch.Tensor, limit: float) -> bool:
    """Return True if no element of `output` differs from `native` by more than `limit`; False for NaN.

    The check needs fewer passes over memory than `isclose`.
    """
    pieces = zip(torch.split(output, CHUNK), torch.split(native, CHUNK), strict=True)
    most = [torch.linalg.vector_norm(mine - its, float("inf")) for mine, its in pieces]
    return bool((torch.stack(most) <= limit).all())
