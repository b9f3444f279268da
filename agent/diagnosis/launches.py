"""Why a launch is illegal: which size is over which limit, and the expression in the source that made it.

The sizes are those the emulator saw; the expression is looked for near the launch, textually, and left out
where it is not found. Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

import re

from agent.emulator.cuda_text import split_at_commas
from agent.records import Finding, TensorSpec, Trace

MAX_GRID = {"x": 2_147_483_647, "y": 65_535, "z": 65_535}
MAX_THREADS = 1024
_SIZES = r"\((\d+), (\d+), (\d+)\)"
_SHARED = re.compile(
    r"(\d+) bytes of dynamic shared memory; (?:the limit is|a block cannot have more than) "
    r"(\d+)"
)
_AXES = ("x", "y", "z")


def because(finding: Finding, source: str, trace: Trace) -> Finding:
    """An `illegal-launch` with the size that is wrong first and where it comes from; others as they are."""
    if finding.kind != "illegal-launch" or finding.location is None:
        return finding
    wrong = _wrong(finding.message)
    if wrong is None:
        return finding
    what, axis, value, said = wrong
    arguments = _arguments(source, finding.location.line)
    position = {"grid": 0, "block": 1, "shared": 2}[what]
    reason = _origin(source, arguments[position : position + 1], axis, finding.location.line)
    because = f"{said}, because {reason}" if reason else said
    dimension = _dimension(value, trace) if what == "grid" else ""
    kernel = finding.location.kernel or "The kernel"
    message = f"`{kernel}` is never launched: {because}{dimension}."
    return finding.model_copy(update={"message": message, "evidence": finding.message})


def _wrong(message: str) -> tuple[str, str, int, str] | None:
    """Grid, block or shared memory; the axis; its value; what is wrong with it in words."""
    shared = _SHARED.search(message)
    if shared:
        words = f"{shared[1]} bytes of dynamic shared memory > {shared[2]}"
        if "cudaFuncSetAttribute" in message and "as set" not in message:
            words += " (cudaFuncSetAttribute with cudaFuncAttributeMaxDynamicSharedMemorySize raises the "
            "limit)"
        return "shared", "x", int(shared[1]), words
    for what in ("grid", "block"):
        found = re.search(rf"\b{what} {_SIZES}", message)
        sizes = [int(size) for size in found.groups()] if found else []
        for axis, size in zip(_AXES, sizes, strict=False):
            if size == 0:
                return what, axis, size, f"{what}.{axis} = 0"
            if what == "grid" and size > MAX_GRID[axis]:
                return what, axis, size, f"grid.{axis} = {_signed(size)} > {MAX_GRID[axis]}"
        if what == "block" and sizes and sizes[0] * sizes[1] * sizes[2] > MAX_THREADS:
            product = " x ".join(str(size) for size in sizes if size > 1)
            axis = _AXES[sizes.index(max(sizes))]
            total = sizes[0] * sizes[1] * sizes[2]
            shown = f"{product} = {total}" if product != str(total) else product
            return what, axis, max(sizes), f"a block of {shown} threads > {MAX_THREADS}"
        if what == "block" and sizes and sizes[2] > 64:
            return what, "z", sizes[2], f"block.z = {sizes[2]} > 64"
    return None


def _signed(size: int) -> str:
    return f"{size} (a negative number)" if size > MAX_GRID["x"] else str(size)


def _arguments(source: str, line: int | None) -> list[str]:
    """What stands between `<<<` and `>>>` of the launch at a line."""
    if line is None:
        return []
    text = "\n".join(source.splitlines()[line - 1 : line + 4])
    found = re.search(r"<<<(.*?)>>>", text, re.S)
    return [" ".join(found[1][a:b].split()) for a, b in split_at_commas(found[1])] if found else []


def _origin(source: str, argument: list[str], axis: str, line: int | None) -> str:
    """The expression of the wrong size, followed through at most two names."""
    if not argument or line is None:
        return ""
    expression, at = _axis_of(argument[0], axis), line
    name = expression
    for _ in range(2):
        defined = _definition(source, expression, at) if re.fullmatch(r"\w+", expression) else None
        if defined is None:
            break
        expression, at = _axis_of(defined[0], axis), defined[1]
    if not expression or (expression == name and expression.isdigit()):
        return ""
    return f"it is `{expression}` (line {at})" if at != line else f"it is `{expression}`"


def _axis_of(expression: str, axis: str) -> str:
    """`dim3(a, b)` and `{a, b}` along one axis; another expression is the size itself."""
    found = re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", expression.strip(), re.S)
    if found is None or (not expression.strip().startswith("dim3") and "," not in found[1]):
        return expression.strip()
    parts = [found[1][a:b].strip() for a, b in split_at_commas(found[1])]
    index = _AXES.index(axis)
    return parts[index] if index < len(parts) else "1"


def _definition(source: str, name: str, line: int) -> tuple[str, int] | None:
    """The nearest definition of a name above a line, with its line."""
    rows = source.splitlines()
    for number in range(min(line, len(rows)), 0, -1):
        found = re.search(
            rf"\b{re.escape(name)}\s*(?:=\s*([^=;][^;]*);|(\(.*\)"
            rf"|\{{.*\}})\s*;)",
            rows[number - 1],
        )
        if found:
            value = found[1] or f"dim3{found[2]}"
            return value.strip(), number
    return None


def _dimension(value: int, trace: Trace) -> str:
    """A size of an input that is the value."""
    for number, spec in enumerate(trace.inputs):
        if isinstance(spec, TensorSpec) and value > 1 and value in spec.shape:
            return f"; {value} is dimension {spec.shape.index(value)} of input {number}"
    return ""
