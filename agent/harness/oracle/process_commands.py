"""Commands about the reference as a whole, and about its process and machine."""

import sys
from pathlib import Path
from typing import Any

import torch

from agent.harness.messages import oracle_commands
from agent.harness.mutation import mutation_testing
from agent.harness.oracle.state import OracleState
from agent.problems import tracer


class ProcessCommands:
    """Handlers of commands that compare no output of the candidate."""

    def __init__(self, state: OracleState) -> None:
        self._state = state

    def do_probe(self, command: oracle_commands.Probe) -> dict[str, Any]:
        """Return the wrong answers that this problem would accept."""
        return mutation_testing.probe(self._state.reference, command.seed)

    def do_duration(self, command: oracle_commands.Duration) -> dict[str, Any]:
        """Return the seconds of the reference's forward and constructor, 0 if it has not run yet."""
        reference = self._state.reference
        return {"forward_s": reference.forward_s, "construct_s": reference.construct_s}

    def do_trace(self, command: oracle_commands.Trace) -> dict[str, Any]:
        """Return a trace of the reference with the command's source, or null if it raises."""
        fast = torch.backends.mha.get_fastpath_enabled()
        try:
            return {"trace": tracer.trace(command.source).model_dump(mode="json")}
        except tracer.ReferenceFault:
            return {"trace": None}
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)

    def do_rest(self, command: oracle_commands.Rest) -> dict[str, Any]:
        """Release the present draw, because the next command needs its memory."""
        self._state.draw = self._state.output = None
        torch.cuda.empty_cache()
        return {}

    def do_health(self, command: oracle_commands.Health) -> dict[str, Any]:
        """Return True under `healthy` if the GPU still adds integers correctly."""
        numbers = torch.arange(1 << 20, device=self._state.device, dtype=torch.int64)
        return {"healthy": int(numbers.sum()) == (1 << 19) * ((1 << 20) - 1)}

    def do_environment(self, command: oracle_commands.Environment) -> dict[str, Any]:
        on_gpu = self._state.device == "cuda"
        return {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": torch.version.cuda if on_gpu else None,
            "gpu": torch.cuda.get_device_name() if on_gpu else None,
            "driver": _driver() if on_gpu else None,
        }


def _driver() -> str | None:
    version = Path("/proc/driver/nvidia/version")
    if not version.is_file():
        return None
    words = version.read_text().split("Kernel Module", 1)[-1].split()
    return next((word for word in words if word[0].isdigit()), None)
