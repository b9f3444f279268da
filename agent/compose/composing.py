"""The composing child process: from the reference at several sizes to the file. Imports torch.

Started as `python -m agent.compose.composing FOLDER`, with the files of `agent.problems.tracer`.
"""

import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.compose.apart import told_apart
from agent.compose.declined import Declined, ProductsAlone
from agent.compose.dims import Dim
from agent.compose.expressions import Sizes
from agent.compose.lowering import Lowering
from agent.compose.program import Program
from agent.compose.tracing import Traced, nodes, traced
from agent.compose.values import Buffer
from agent.compose.writing import argument_names, written
from agent.problems import tracer


def composed(
    sources: list[str], name: str, arch: str | None = None, own_products: bool = False,
    change: Mapping[str, int] | None = None,
) -> str:  # fmt: skip
    """Return the file that answers `sources[0]`. The other sources are the same reference at other sizes.

    `arch`: GPU architecture whose shipped products may be part of the file. `own_products`: leave no product
    or convolution to torch. This also happens if the reference consists of nothing else. `change`: change of
    the kernels' schedules (`Schedule.changed`).

    Raises Declined. Raises ReferenceFault if the reference does not run.
    """
    try:
        return _composed(sources, name, arch, own_products, change or {})
    except ProductsAlone:
        return _composed(sources, name, arch, own_products=True, change=change or {})


def _composed(
    sources: list[str], name: str, arch: str | None, own_products: bool, change: Mapping[str, int]
) -> str:
    traces = [traced(source) for source in sources]
    calls, outputs = nodes(traces)
    points, first = len(traces), traces[0]
    program = Program(points, Sizes(points, _integers(traces)), change=change)
    lowering = Lowering(program, arch, own_products)
    arguments = argument_names(sources[0])[: len(first.inputs)]  # the remaining arguments have defaults
    inputs = {
        place: name for place, name in zip(first.inputs, arguments, strict=False) if isinstance(place, str)
    }
    for value, argument in zip(first.inputs, arguments, strict=False):
        if not isinstance(value, str):
            program.statements.append(f"if {argument} != {value!r}:")
            program.statements.append(
                f'    raise ValueError("these kernels were composed for {argument} = {value!r}")'
            )
    order = sorted((call for call in calls if call.op == "placeholder"), key=lambda c: c.name not in inputs)
    program.names |= {*arguments, "self", "torch", "stages", "min", "max"}
    for call in order:
        text = inputs.get(call.name) or f'self.get_parameter("{first.state[call.name]}")'
        if call.name in first.state and first.state[call.name] in first.buffers:
            text = text.replace("get_parameter", "get_buffer")
        lowering.place(call.name, Buffer(call.shapes[0], call.dtypes[0], "", text))
        program.sizes.add(text, call.shapes[0])
        lowering.note(call)
    for call in calls:
        if call.op != "placeholder":
            lowering.call(call)
    results = [program.result(lowering.value(output)) for output in outputs]
    returned = {
        "tensor": results[0],
        "tuple": f"({', '.join(results)},)",
        "list": f"[{', '.join(results)}]",
    }[first.outputs]
    said = (returned, lowering.shipped.parts())
    return written(sources[0], program, (arguments, list(inputs.values())), said, name)


def _integers(traces: list[Traced]) -> dict[Dim, str]:
    found: dict[Dim, str] = {}
    for text in traces[0].integers:
        size: tuple[Any, ...] = tuple(trace.integers.get(text) for trace in traces)
        if all(isinstance(value, int) and value > 1 for value in size):
            found.setdefault(size, text)
    return found


def _job(job: dict[str, Any], note_step: Callable[[str], object]) -> dict[str, Any]:
    note_step("composing")
    sources: list[str] = job["sources"]
    changes: list[dict[str, int]] = job["changes"]

    def made(given: list[str]) -> list[str]:
        about = (job["name"], job["arch"], job["own_products"])
        return [composed(given, *about, change) for change in changes]

    with contextlib.suppress(Declined):
        apart = told_apart(sources[-1], job["sizes"])
        if apart is not None:
            return {"sources": made([*sources, apart])}
    try:
        return {"sources": made(sources)}
    except Declined as why:
        declined = why
    if len(sources) > 2:  # the smallest copy may make other calls
        with contextlib.suppress(Declined):
            said = [_saying(source, len(sources) - 1, str(declined)) for source in made(sources[:-1])]
            return {"sources": said}
    return {"declined": str(declined)}


def _saying(source: str, points: int, why: str) -> str:
    """Return the file with a note that its sizes were told apart at fewer sizes of the reference."""
    note = f"Sizes were told apart at {points} sizes of the reference; with its smallest copy: {why}."
    return source.replace('."""\n', f'.\n\n{note}\n"""\n', 1)


if __name__ == "__main__":
    tracer.main(Path(sys.argv[1]), _job)
