"""What a candidate is timed against: the reference, in the oracle's process.

The reference runs eagerly, under torch.compile and, where it is bound by launches, replayed as a CUDA graph;
where that is asked for also under max-autotune, and each of them as a CUDA graph. All at the precision that
the truth is held against: TF32 off.
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
"""max-autotune without the CUDA graph that it replays by itself: that is a baseline of its own."""
LEAST_ALONE, ALONE = 7, 15
"""Calls of the reference once the candidate's process is gone; the median of seven lies between the least and
the largest of them with 98 %."""
ALIKE = 0.006
"""Share of their median by which they may be apart for further ones to tell nothing."""
NEAR = 1e-4
"""Relative difference that two ways to compute in float32 stay below, and lower precision does not."""
NEAR_IN_HALF = 0.02
"""The same for outputs of 16 bits: twice the precision of bfloat16 and more."""
PIECE = 1 << 26


class Baselines:
    """Callables over inputs whose contents change; their memory stays where graphs read it."""

    def __init__(self, reference: Reference, exchange: Exchange, inputs: list[Any], like: Any) -> None:
        """Takes the inputs over; `like` is an output of the reference."""
        self._reference, self._exchange = reference, exchange
        self.inputs = inputs
        self._like = tree_map(lambda t: torch.empty_like(t, device="meta"), like)
        self._timer = Timer()
        self._calls: dict[str, Call] = {"eager": self._eager}
        self._rows: Rows | None = None
        self._replays = False
        """Whether a graph reads the inputs where they were when it was recorded."""
        self.problems: dict[str, str] = {}
        """Why a baseline is missing."""
        self.taken: Any = None
        """The outputs that were taken last."""

    def prepare(self, compiled: bool, launch_bound_ms: float, more: Collection[str] = ()) -> list[str]:
        """The names of the baselines that there are; `more`: of `records.MoreBaselines`."""
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
        """Fresh contents for the next calls, of the candidate too, and nothing of them in the L2 cache."""
        self.recall(seed)
        self._exchange.refresh(self.inputs)
        self._timer.flush()
        torch.cuda.synchronize()

    def recall(self, seed: int) -> None:
        """The contents of this seed for the reference alone."""
        fresh = self._reference.inputs(seed, None)
        assert fresh is not None
        if not self._replays:
            self.inputs = fresh
            return
        for mine, new in zip(leaves(self.inputs), leaves(fresh), strict=True):
            mine.data.copy_(new)

    def rest(self) -> None:
        """Lets go of the present contents, which `recall` brings back, unless a graph reads them there."""
        if not self._replays:
            self.inputs = []

    def room_for_row(self, least: int, most: int) -> dict[str, Any]:
        """How many calls in a row there is room for, and what workers have to know of it."""
        try:
            self._rows = self._exchange.rows(self.inputs, self._like, least=least, most=most)
        except MemoryError:
            return {"calls": 0}
        return {"calls": self._rows.calls} | ({"row": self._rows.described} if self._rows.calls else {})

    def fill_row(self, seeds: list[int]) -> None:
        """Contents of their own for the first calls of a row."""
        assert self._rows is not None
        for number, seed in enumerate(seeds):
            self._rows.fill(number, self._reference.inputs(seed, None))
        self._rows.forget()
        self._timer.flush()
        torch.cuda.synchronize()

    def take_of_row(self, number: int) -> None:
        """Copies the outputs of one call of a row."""
        assert self._rows is not None
        self.taken = self._rows.outputs(number)
        torch.cuda.synchronize()

    def doubtful(self) -> bool:
        """Whether the outputs that were taken are far from the reference's own on the present inputs.

        A glance at all of them that costs one call; what it doubts is held against the truth.
        """
        with torch.no_grad():
            native = leaves(self._eager())
        return not all(
            near(mine, its.to(mine.device)) for mine, its in zip(leaves(self.taken), native, strict=True)
        )

    def timed(self, name: str, flushes: int = FLUSHES) -> Sample:
        """Return the times of one call behind so many overwrites of the L2 cache."""
        return self._timer.timed(self._calls[name], flushes)[0]

    def slope(self, name: str, few: int, many: int) -> float:
        """Milliseconds of each call in a row of them."""
        return slope(self._calls[name], few, many)

    def take(self) -> None:
        """Copies what lies where outputs belong."""
        self.taken = self._exchange.outputs({"there": True}, self._like)
        torch.cuda.synchronize()

    def alone(
        self, rows: dict[str, tuple[int, int]], enough_ms: dict[str, float]
    ) -> dict[str, tuple[float, float]]:
        """Median milliseconds of a call, and of each call in a row, for each baseline; the former twice where
        they are enough.
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
        """What the GPU does in one call on cold caches, by CUDA's profiler; none where it does not tell."""
        from torch import profiler

        self._timer.flush()
        torch.cuda.synchronize()
        try:
            watched = [profiler.ProfilerActivity.CUDA]
            with torch.no_grad(), profiler.profile(activities=watched, acc_events=True) as seen:
                self._calls[name]()
                torch.cuda.synchronize()
        except Exception:  # noqa: BLE001 - no verdict hangs on it
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
    """Whether all elements agree but for rounding, relative to the native one or to the root mean square."""
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
    """Whether no two elements are further apart, in few passes over the memory; False where one is NaN."""
    pieces = zip(torch.split(output, CHUNK), torch.split(native, CHUNK), strict=True)
    most = [torch.linalg.vector_norm(mine - its, float("inf")) for mine, its in pieces]
    return bool((torch.stack(most) <= limit).all())
