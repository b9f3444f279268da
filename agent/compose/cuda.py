"""CUDA source of a program's kernels: device code, and the functions that launch it."""

import re
from pathlib import Path

from agent.compose.body import STATES, STORED
from agent.compose.dims import Dim
from agent.compose.kernel import Kernel
from agent.compose.program import Launch

HEAD, PLACES = ((Path(__file__).parent / f"{name}.cuh").read_text("utf-8") for name in ("rows", "places"))


def text(launches: list[Launch]) -> str:
    """Return the source of all kernels, each with the function that checks its tensors and launches it."""
    kernels = "\n".join(_kernel(launch) for launch in launches)
    return "\n".join([HEAD, *([PLACES] if "Place{" in kernels else []), kernels])


def alike(launches: list[Launch]) -> dict[str, str]:
    """Map each kernel's name to that of the first kernel with the same text, apart from names.

    Only that one is written.
    """
    first: dict[str, str] = {}
    return {
        launch.kernel.name: first.setdefault(_nameless(launch), launch.kernel.name) for launch in launches
    }


def _nameless(launch: Launch) -> str:
    """Return the source of a kernel with its own name and those of its tensors replaced by neutral ones."""
    lines = [line for line in _kernel(launch).split("\n") if not line.lstrip().startswith(("//", '"'))]
    places = {name: f"tensor{place}" for place, name in enumerate(launch.kernel.pointers.values())}
    places |= {launch.kernel.name: "kernel", f"{launch.kernel.name}_of": "kernel_of"}
    return re.sub(r"[A-Za-z_]\w*", lambda found: places.get(found[0], found[0]), "\n".join(lines))


def declarations(launches: list[Launch]) -> str:
    """Return the C++ declarations of the launching functions."""
    return "\n".join(f"{_signature(launch)};" for launch in launches)


def _signature(launch: Launch) -> str:
    tensors = ", ".join(f"at::Tensor {name}" for name in launch.kernel.pointers.values())
    return f"void {launch.kernel.name}({tensors}, std::vector<int64_t> n)"


def _kernel(launch: Launch) -> str:
    kernel = launch.kernel
    pointers = [
        f"{'' if buffer is launch.out else 'const '}{STORED[buffer.dtype]}* __restrict__ {name}"
        for buffer, name in kernel.pointers.items()
    ]
    parameters = [
        *pointers,
        *(f"I {name}" for name in kernel.sizes.values()),
        *(f"Divisor<I> {name}" for name in _divisors(kernel).values()),
    ]
    about = ", ".join(dict.fromkeys(kernel.abouts)) or "copy"
    lines = [
        f"// {launch.out.name}: {about}.",
        f"// {_schedule(launch)}.",
        f"template <typename I{', int V' if kernel.is_wide else ''}>",
        f"__global__ void __launch_bounds__({_threads(kernel)}) {kernel.name}_of({', '.join(parameters)}) {{",
        *(_aligned(launch) if kernel.is_wide else []),
        *kernel.body.lines,
        "}",
        "",
        f"{_signature(launch)} {{",
        *_sizes(launch),
        *_checks(launch),
        *_launched(launch),
        "}",
        "",
    ]
    return "\n".join(lines)


def _schedule(launch: Launch) -> str:
    """Return a comment that describes the schedule. The launch and the loops hold its numbers."""
    own = launch.kernel.schedule
    at_once = f"{own.unroll} steps of a row" if launch.by_rows else f"{own.vectors} groups of neighbours"
    return f"Schedule: blocks of {_threads(launch.kernel)} threads, {at_once} read at once"


def _threads(kernel: Kernel) -> str:
    """Return the threads per block as a shift, so that the number does not look like a problem size."""
    return f"1 << {kernel.schedule.threads.bit_length() - 1}"


def _divisors(kernel: Kernel) -> dict[tuple[Dim, bool], str]:
    """Return the divisors that the body reads."""
    read = kernel.body.read
    return {key: name for key, name in kernel.divisors.items() if name in read}


def _sizes(launch: Launch) -> list[str]:
    names = list(launch.kernel.sizes.values())
    check = f'TORCH_CHECK(n.size() == {len(names)}, "{launch.kernel.name} takes {len(names)} sizes");'
    return [f"    {check}", *(f"    const int64_t {name} = n[{at}];" for at, name in enumerate(names))]


def _checks(launch: Launch) -> list[str]:
    """Return checks of the tensors' shapes. Sizes are taken from some tensors, and the others have to fit."""
    lines = []
    for buffer, name in launch.kernel.pointers.items():
        sizes = [launch.kernel.size(size) for size in buffer.shape]
        elements = (
            " * ".join([*sizes, *([str(STATES[buffer.dtype])] if buffer.dtype in STATES else [])]) or "1"
        )
        said = buffer.name.replace('"', "'")
        lines += [
            f"    TORCH_CHECK({name}.is_contiguous() && {name}.numel() == {elements},",
            f'                "{launch.kernel.name}: {said} has another shape");',
        ]
    return lines


def _aligned(launch: Launch) -> list[str]:
    """Return alignment hints, with which the compiler merges the accesses of V neighbours into one."""
    return [
        f"    {name} = static_cast<{'' if buffer is launch.out else 'const '}{STORED[buffer.dtype]}*>"
        f"(__builtin_assume_aligned({name}, 4 * V));"
        for buffer, name in launch.kernel.pointers.items()
        if buffer.dtype not in STATES
    ]


def _launched(launch: Launch) -> list[str]:
    kernel, pointers = launch.kernel, launch.kernel.pointers
    rows, inner = kernel.size(launch.rows), kernel.size(launch.inner)
    across, by = "true" if launch.across else "false", " / by" if kernel.is_wide else ""
    threads = _threads(kernel)
    shape = (
        [f"block = block_of({inner}{by}, {across}, {threads});", f"grid = ({rows} + block.y - 1) / block.y;"]
        if launch.by_rows
        else [f"block({threads});", f"grid = std::min<int64_t>(({rows}{by} + each - 1) / each, 1 << 20);"]
    )
    given = [
        *(_data(name, buffer.dtype) for buffer, name in pointers.items()),
        *kernel.sizes.values(),
        *(f"Divisor<I>({kernel.size(by)}{' / by' * wide})" for by, wide in _divisors(kernel)),
    ]
    largest = [f"{name}.numel()" for name in pointers.values()]
    wide = [
        *(f"{size} % 4 == 0" for size in dict.fromkeys(map(kernel.size, kernel.last))),
        *(f"is_aligned({name})" for buffer, name in pointers.items() if buffer.dtype not in STATES),
    ]
    return [
        *([f"    const int by = {' && '.join(wide)} ? 4 : 1;"] if kernel.is_wide else []),
        f"    const dim3 {shape[0]}",
        *([] if launch.by_rows else [f"    const int64_t each = block.x * {kernel.schedule.vectors};"]),
        f"    const int64_t {shape[1]}",
        "    if (grid == 0) return;",
        "    const auto stream = at::cuda::getCurrentCUDAStream();",
        f"    const int64_t most = std::max<int64_t>({{{rows} * {inner}, {', '.join(largest)}}});",
        *_calls(kernel, f"<<<unsigned(grid), block, 0, stream>>>({', '.join(given)});"),
        "    C10_CUDA_KERNEL_LAUNCH_CHECK();",
    ]


def _data(name: str, dtype: str) -> str:
    if dtype in STATES:
        return f"reinterpret_cast<{STORED[dtype]}*>({name}.data_ptr<float>())"
    return f"{name}.data_ptr<{STORED[dtype]}>()"


def _calls(kernel: Kernel, call: str) -> list[str]:
    """Return the choice between the kernel's versions: indices of 64 or 32 bits, and elements per step."""
    lines: list[str] = []
    # A loop over single elements may count one step past the end, a loop over four at a time one block.
    limits = {4: "INT32_MAX - (1 << 16)"}
    for index in ("int64_t", "int"):
        for by in (4, 1) if kernel.is_wide else (0,):
            last = index == "int" and by != 4
            large = [f"most > {limits.get(by, 'INT32_MAX / 2')}"] if index == "int64_t" else []
            tests = [*large, *([f"by == {by}"] if by and not last else [])]
            head = f"if ({' && '.join(tests)}) {{" if tests else "{"
            lines.append(f"    {'} else ' if lines else ''}{head}")
            arguments = f"{index}, {by}" if by else index
            lines.append(f"        {kernel.name}_of<{arguments}>{call.replace('<I>', f'<{index}>')}")
    return [*lines, "    }"]
