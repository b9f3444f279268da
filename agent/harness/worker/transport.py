"""Exchange of tensors with the oracle, on the worker's side. Standalone: the worker runs a copy.

CPU tensors pass as files of raw bytes, GPU tensors through shared memory. `agent.harness.oracle.transport`
is the other side.
"""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

# In the worker's folder, copies of these modules lie beside this file.
import memory_guards  # type: ignore[import-not-found]
import shared_memory  # type: ignore[import-not-found]
import torch
import wire  # type: ignore[import-not-found]

State = dict[int, torch.Tensor]
"""Parameters and buffers that still exist in ModelNew, by index among those in the command."""


class Files:
    """Exchange by files; inputs lie in buffers of this process, between guard bands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places = memory_guards.Inputs("cuda")

    def forget(self) -> None:
        """Allocate new buffers for the next inputs."""
        self._places = memory_guards.Inputs("cuda")

    def inputs(self, description: dict[str, Any], in_place: bool) -> Any:
        """Return the inputs, with `in_place` in the buffers of the previous call."""
        return self._places.place(wire.load(description, self._folder), in_place)

    def hand_in(
        self, outputs: Any, inputs: Any, state: State, earlier: list[torch.Tensor], command: Any
    ) -> dict[str, Any]:
        """Write the outputs, and the tensors that the call had to leave unchanged; `command` is a `Call`."""
        described = wire.dump(outputs, self._folder, command.stem)
        after = command.send_back
        wire.dump(memory_guards.leaves(inputs), self._folder, after + "-input")
        wire.dump(earlier, self._folder, after + "-output")
        for number, tensor in state.items():
            wire.dump(tensor, self._folder, f"{after}-parameter.{number}")
        return {"outputs": described, "written_bands": self._places.written_bands()}


class SharedMemory:
    """Exchange by GPU memory that oracle and worker map.

    The oracle writes inputs and parameters to the memory, and the worker writes outputs.
    """

    def __init__(self, descriptor: int, private: bool = False) -> None:
        """Use the socket `descriptor`. With `private`, inputs are copied to separate allocations."""
        self._private = private
        self._oracle = socket.socket(fileno=descriptor)
        self._number = 0
        self._region: Any = None
        self._segment: Any = None
        self._mapped: list[Any] = []
        """Two mappings of the segment, of which each call's command selects one for the inputs."""
        self._tensors: dict[Any, torch.Tensor] = {}
        self._row: list[tuple[Any, list[torch.Tensor]]] = []
        self._state_number = 0
        self._state_segment: Any = None
        """Memory of the parameters, written by the oracle."""

    def state(self, description: dict[str, Any]) -> Any:
        """Return the parameters that the oracle has written to memory; later ones may overwrite them."""
        if description["segment"] != self._state_number:
            self._state_segment = shared_memory.Segment.received(self._oracle, description["bytes"])
            self._state_number = description["segment"]
        tensors = [
            self._state_segment.tensor(spec["offset"], spec["shape"], getattr(torch, spec["dtype"]))
            for spec in description["tensors"]
        ]
        return wire.rebuild(description["tree"], tensors)

    def forget(self) -> None:
        """Make new tensor objects for the next inputs, even at equal addresses."""
        self._tensors = {}

    def inputs(self, description: dict[str, Any], in_place: bool) -> Any:
        """Return the inputs. Inputs at an earlier call's address are that call's tensor objects.

        Their version number does not change, as after a kernel's write.
        """
        if description["segment"] != self._number:
            self._segment = shared_memory.Segment.received(self._oracle, description["bytes"])
            self._mapped = [self._segment, self._segment.again()]
            self._number, self._tensors = description["segment"], {}
        tensors = [self._tensor(description["mapping"], spec) for spec in description["tensors"]]
        return wire.rebuild(description["tree"], [t.clone() for t in tensors] if self._private else tensors)

    def hand_in(
        self, outputs: Any, inputs: Any, state: State, earlier: list[torch.Tensor], command: Any
    ) -> dict[str, Any]:
        """Copy the outputs, and the tensors that the call had to leave unchanged, to the shared memory."""
        self._region = command.outputs
        answer = self.answer(outputs)
        answer["outputs"]["stem"] = command.stem
        self.put(earlier, command.earlier)
        region, sizes = command.parameters, command.state_bytes
        places, _ = shared_memory.laid(sizes, region.begin)
        gone = []
        for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
            tensor = state.get(number)
            if tensor is None or tensor.numel() * tensor.element_size() != size:
                gone.append(number)
            else:
                self._segment.tensor(place, tensor.shape, tensor.dtype).copy_(tensor)
        torch.cuda.synchronize()
        return answer | {"gone": gone}

    def answer(self, outputs: Any) -> dict[str, Any]:
        """Copy outputs to the memory region of the previous call's outputs, and return their description."""
        described = wire.describe(outputs)
        described["stem"] = None
        described["there"] = self.put(memory_guards.leaves(outputs), self._region)
        torch.cuda.synchronize()
        return {"outputs": described}

    def put(self, tensors: list[torch.Tensor], region: Any) -> bool:
        return bool(shared_memory.put(tensors, self._segment, region.begin, region.end))

    def prepare_row(self, row: dict[str, Any]) -> None:
        """Map the memory of a row of calls; see `agent.harness.oracle.batched_calls`."""
        segment = shared_memory.Segment.received(self._oracle, row["bytes"])
        self._row = []
        for places in row["places"]:
            inputs, outputs = (
                [segment.tensor(at, spec["shape"], getattr(torch, spec["dtype"]))
                 for at, spec in zip(group, row[name], strict=True)]
                for group, name in zip(places, ("inputs", "outputs"), strict=True)
            )  # fmt: skip
            self._row.append((wire.rebuild(row["tree"], inputs), outputs))

    def in_a_row(self, call: Callable[..., Any], times: int) -> bool:
        """Make `times` calls and copy their outputs. Return True if all had the right shapes and dtypes."""
        fits = True
        with torch.no_grad():
            for inputs, places in self._row[:times]:
                outputs = memory_guards.leaves(call(*inputs))
                same = [(t.shape, t.dtype) for t in outputs] == [(t.shape, t.dtype) for t in places]
                fits &= same
                for tensor, place in zip(outputs, places, strict=True) if same else ():
                    place.copy_(tensor)
        torch.cuda.synchronize()
        return fits

    def _tensor(self, mapping: int, spec: dict[str, Any]) -> torch.Tensor:
        key = mapping, spec["offset"], tuple(spec["shape"]), spec["dtype"]
        if key not in self._tensors:
            self._tensors[key] = self._mapped[mapping].tensor(
                spec["offset"], spec["shape"], getattr(torch, spec["dtype"])
            )
        return self._tensors[key]
