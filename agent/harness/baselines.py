"""What a candidate is timed against: the reference, in the oracle's process.

The reference runs eagerly, under torch.compile and, where it is bound by launches, replayed as a CUDA graph,
all at the precision that the truth is held against: TF32 off.
"""

import subprocess
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from agent.harness.evidence import leaves
from agent.harness.exchange import Exchange
from agent.harness.reference import Reference, tree_map
from agent.harness.timing import Timer, slope

Call = Callable[[], Any]
ALONE = 15
"""Calls of the reference once the candidate's process is gone."""
_CARD = (
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "clocks_event_reasons.active",
)
_REASONS = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)", 0x80: "external power brake",
}  # fmt: skip


class Baselines:
    """Callables over inputs whose memory stays and whose contents change."""

    def __init__(self, reference: Reference, exchange: Exchange, inputs: list[Any], like: Any) -> None:
        """Takes the inputs over; `like` is an output of the reference."""
        self._reference, self._exchange = reference, exchange
        self.inputs = inputs
        self._like = tree_map(lambda t: torch.empty_like(t, device="meta"), like)
        self._timer = Timer()
        self._calls: dict[str, Call] = {"eager": self._eager}
        self.problems: dict[str, str] = {}
        """Why a baseline is missing."""
        self.taken: Any = None
        """The outputs that were taken last."""

    def prepare(self, compiled: bool, launch_bound_ms: float) -> list[str]:
        """The names of the baselines that there are."""
        makers: dict[str, Callable[[], Call]] = {"compile": self._compiled} if compiled else {}
        if median(self.timed("eager") for _ in range(5)) < launch_bound_ms:
            makers["graph"] = self._graphed
        for name, make in makers.items():
            try:
                with torch.no_grad():
                    self._calls[name] = make()
            except Exception as error:  # noqa: BLE001 - torch's compiler raises what it likes
                cause = next(iter(str(error).splitlines()), "")
                self.problems[name] = f"{type(error).__name__}: {cause}"[:300]
        return list(self._calls)

    def refresh(self, seed: int) -> None:
        """Fresh contents for the next calls, of the candidate too."""
        fresh = self._reference.inputs(seed, None)
        for mine, new in zip(leaves(self.inputs), leaves(fresh), strict=True):
            mine.data.copy_(new)
        del fresh
        self._exchange.refresh(self.inputs)

    def timed(self, name: str) -> float:
        """Milliseconds of one call."""
        return self._timer.timed(self._calls[name])[0]

    def slope(self, name: str, few: int, many: int) -> float:
        """Milliseconds of each call in a row of them."""
        return slope(self._calls[name], few, many)

    def take(self) -> None:
        """Copies what lies where outputs belong."""
        self.taken = self._exchange.outputs({"there": True}, self._like)
        torch.cuda.synchronize()

    def alone(self) -> float:
        """Median milliseconds of the eager reference."""
        return median(self.timed("eager") for _ in range(ALONE))

    def _eager(self) -> Any:
        return self._reference.model(*self.inputs)

    def _compiled(self) -> Call:
        model: Callable[..., Any] = torch.compile(self._reference.model)
        for _ in range(3):
            model(*self.inputs)
        return lambda: model(*self.inputs)

    def _graphed(self) -> Call:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._eager()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = self._eager()

        def replay() -> Any:
            graph.replay()
            return result

        return replay


def card() -> dict[str, Any]:
    """Clocks, temperature and what holds the clocks back just now; empty where nvidia-smi does not say."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(_CARD)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        sm, most, memory, degrees, watts, reasons = (word.strip() for word in answer.strip().split(","))
        active = int(reasons, 16)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    held = ", ".join(words for bit, words in _REASONS.items() if active & bit)
    named = {"sm_mhz": sm, "sm_most_mhz": most, "memory_mhz": memory, "celsius": degrees, "watts": watts}
    return {name: float(value) for name, value in named.items()} | {"throttle": held}
