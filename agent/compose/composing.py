"""The composing child process: from the reference at several sizes to the file. Imports torch.

Started as `python -m agent.compose.composing FOLDER`, with the files of `agent.problems.tracer`.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent.compose import holding
from agent.compose.apart import Knobs
from agent.compose.declined import Declined, ProductsAlone
from agent.compose.dims import Dim
from agent.compose.expressions import Sizes
from agent.compose.lowering import Lowering
from agent.compose.program import Program
from agent.compose.tracing import Node, Traced, nodes, placed, traced
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
    about = About(sources[0], name, arch, own_products)
    return from_traces([traced(source) for source in sources], about, change)


class About(NamedTuple):
    """The reference's text and name, the GPU architecture, and whether no product may be torch's."""

    source: str
    name: str
    arch: str | None = None
    own_products: bool = False


def from_traces(traces: list[Traced], about: About, change: Mapping[str, int] | None = None) -> str:
    """Return the file for a reference that was traced at several sizes. See `composed`."""
    try:
        return _from_traces(traces, about, change or {})
    except ProductsAlone:
        return _from_traces(traces, about._replace(own_products=True), change or {})


def _from_traces(traces: list[Traced], about: About, change: Mapping[str, int]) -> str:
    calls, outputs = nodes(traces)
    points, first = len(traces), traces[0]
    program = Program(points, Sizes(points, _integers(traces)), change=change)
    lowering = Lowering(program, about.arch, about.own_products)
    arguments = argument_names(about.source)[: len(first.inputs)]  # the remaining arguments have defaults
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
    program.statements += holding.checks([(inputs[c.name], c.shapes[0]) for c in order if c.name in inputs])
    for call in order:
        text = inputs.get(call.name) or f'self.get_parameter("{first.state[call.name]}")'
        if call.name in first.state and first.state[call.name] in first.buffers:
            text = text.replace("get_parameter", "get_buffer")
        lowering.place(call.name, Buffer(call.shapes[0], call.dtypes[0], "", text))
        program.sizes.add(text, call.shapes[0])
        lowering.note(call)
    for call in calls:
        if call.op != "placeholder":
            with _at_line(call, about.source):
                lowering.call(call)
    results = [program.result(lowering.value(output)) for output in outputs]
    returned = {
        "tensor": results[0],
        "tuple": f"({', '.join(results)},)",
        "list": f"[{', '.join(results)}]",
    }[first.outputs]
    said = (returned, lowering.shipped.parts())
    return written(about.source, program, (arguments, list(inputs.values())), said, about.name)


@contextlib.contextmanager
def _at_line(call: Node, source: str) -> Iterator[None]:
    """Add the reference's line to a refusal. A setting that a lowering does not take is a refusal as well."""
    try:
        yield
    except ProductsAlone:
        raise
    except Declined as why:
        raise Declined(f"{why}{placed(call.line, source)}") from None
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, AssertionError) as error:
        said = f"the operator {call.op} is not composed with these arguments yet{placed(call.line, source)}"
        raise Declined(said) from error


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
    about = About(sources[0], job["name"], job["arch"], job["own_products"])
    try:
        return {"sources": _at_all_sizes(sources, about, job["changes"])}
    except Declined as why:
        return {"declined": str(why)}


def _at_all_sizes(sources: list[str], about: About, changes: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the file for each change of schedules, composed at as many sizes as the reference allows.

    A reference that cannot be composed at its own sizes is declined after that one trace.
    """
    base = traced(about.source)
    from_traces([base], about)

    def composes(traces: list[Traced]) -> bool:
        try:
            from_traces(traces, about)
        except Declined:
            return False
        return True

    traces = Knobs(about.source, composes).traces()
    for source in sources[1:]:  # the sizes that are judged, where they are others
        with contextlib.suppress(Declined, tracer.ReferenceFault):
            copy = traced(source)
            if copy.calls == base.calls and composes([*traces, copy]):
                traces.append(copy)
    return [from_traces(traces, about, change) for change in changes]


if __name__ == "__main__":
    tracer.main(Path(sys.argv[1]), _job)
