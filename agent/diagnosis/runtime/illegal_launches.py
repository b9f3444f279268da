"""Explanation of an illegal launch: the size over its limit, and the source expression behind it.

The sizes are those that the emulator saw. The expression is searched as text near the launch and omitted if
not found. Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

import itertools
import re

from agent.build.cuda_text import split_at_commas
from agent.records import Finding, TensorSpec, Trace
from agent.torch_shim import c_abi
from agent.torch_shim.finding_kinds import FindingKind

MAX_GRID = {"x": c_abi.MAX_GRID_X, "y": c_abi.MAX_GRID_Y, "z": c_abi.MAX_GRID_Z}
_SHARED = (
    c_abi.REFUSED_SHARED_BEYOND_DEFAULT,
    c_abi.REFUSED_SHARED_BEYOND_ASKED,
    c_abi.REFUSED_SHARED_BEYOND_DEVICE,
)
_RAISE = " (cudaFuncSetAttribute with cudaFuncAttributeMaxDynamicSharedMemorySize raises the limit)"
_AXES = ("x", "y", "z")


def because(finding: Finding, source: str, trace: Trace) -> Finding:
    """Return an `illegal-launch` finding with the wrong size and its origin, and others unchanged."""
    if finding.kind != FindingKind.ILLEGAL_LAUNCH or finding.location is None:
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
    """Return which size is wrong (grid, block or shared), its axis, its value and the fault in words."""
    for pattern in _SHARED:
        if shared := re.search(pattern, message):
            words = f"{shared[1]} bytes of dynamic shared memory > {shared[2]}"
            raised = _RAISE if pattern == c_abi.REFUSED_SHARED_BEYOND_DEFAULT else ""
            return "shared", "x", int(shared[1]), words + raised
    if empty := re.search(c_abi.REFUSED_EMPTY_LAUNCH, message):
        places = zip(itertools.product(("grid", "block"), _AXES), empty.groups(), strict=True)
        for (what, axis), size in places:
            if int(size) == 0:
                return what, axis, 0, f"{what}.{axis} = 0"
    if large := re.search(c_abi.REFUSED_LARGE_GRID, message):
        for axis, size in zip(_AXES, map(int, large.groups()), strict=False):
            if size > MAX_GRID[axis]:
                return "grid", axis, size, f"grid.{axis} = {_signed(size)} > {MAX_GRID[axis]}"
    if large := re.search(c_abi.REFUSED_LARGE_BLOCK, message):
        return _large_block([int(size) for size in large.groups()[:3]])
    return None


def _large_block(sizes: list[int]) -> tuple[str, str, int, str]:
    total = sizes[0] * sizes[1] * sizes[2]
    if total <= c_abi.MAX_THREADS:
        return "block", "z", sizes[2], f"block.z = {sizes[2]} > {c_abi.MAX_BLOCK_Z}"
    product = " x ".join(str(size) for size in sizes if size > 1)
    shown = f"{product} = {total}" if product != str(total) else product
    axis = _AXES[sizes.index(max(sizes))]
    return "block", axis, max(sizes), f"a block of {shown} threads > {c_abi.MAX_THREADS}"


def _signed(size: int) -> str:
    return f"{size} (a negative number)" if size > MAX_GRID["x"] else str(size)


def _arguments(source: str, line: int | None) -> list[str]:
    """Return the arguments between `<<<` and `>>>` of the launch at a line."""
    if line is None:
        return []
    text = "\n".join(source.splitlines()[line - 1 : line + 4])
    found = re.search(r"<<<(.*?)>>>", text, re.S)
    return [" ".join(found[1][a:b].split()) for a, b in split_at_commas(found[1])] if found else []


def _origin(source: str, argument: list[str], axis: str, line: int | None) -> str:
    """Return the expression of the wrong size, followed through at most two names."""
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
    """Return the part of `dim3(a, b)` or `{a, b}` along one axis; any other expression is the size itself."""
    found = re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", expression.strip(), re.S)
    if found is None or (not expression.strip().startswith("dim3") and "," not in found[1]):
        return expression.strip()
    parts = [found[1][a:b].strip() for a, b in split_at_commas(found[1])]
    index = _AXES.index(axis)
    return parts[index] if index < len(parts) else "1"


def _definition(source: str, name: str, line: int) -> tuple[str, int] | None:
    """Return the nearest definition of a name above a line, with its line."""
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
    """Name the input dimension that equals the value; empty if there is none."""
    for number, spec in enumerate(trace.inputs):
        if isinstance(spec, TensorSpec) and value > 1 and value in spec.shape:
            return f"; {value} is dimension {spec.shape.index(value)} of input {number}"
    return ""
