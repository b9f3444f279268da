"""The CUDA text of a program's kernels: device code, and the functions that launch it."""

from pathlib import Path

from agent.compose.body import C_TYPES
from agent.compose.program import Launch

HEAD = (Path(__file__).parent / "rows.cuh").read_text("utf-8")


def text(launches: list[Launch]) -> str:
    """All kernels, each with the function that checks its tensors and launches it."""
    return HEAD + "\n" + "\n".join(_kernel(launch) for launch in launches)


def declarations(launches: list[Launch]) -> str:
    """The functions as C++ declares them."""
    return "\n".join(f"{_signature(launch)};" for launch in launches)


def _signature(launch: Launch) -> str:
    tensors = ", ".join(f"at::Tensor {name}" for name in launch.kernel.pointers.values())
    return f"void {launch.kernel.name}({tensors}, std::vector<int64_t> n)"


def _kernel(launch: Launch) -> str:
    kernel = launch.kernel
    pointers = [
        f"{'' if buffer is launch.out else 'const '}{C_TYPES[buffer.dtype]}* __restrict__ {name}"
        for buffer, name in kernel.pointers.items()
    ]
    parameters = [*pointers, *(f"I {name}" for name in kernel.sizes.values())]
    about = ", ".join(dict.fromkeys(kernel.abouts)) or "copy"
    lines = [
        f"// {launch.out.name}: {about}.",
        "template <typename I>",
        f"__global__ void __launch_bounds__(256) {kernel.name}_of({', '.join(parameters)}) {{",
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


def _sizes(launch: Launch) -> list[str]:
    names = list(launch.kernel.sizes.values())
    check = f'TORCH_CHECK(n.size() == {len(names)}, "{launch.kernel.name} takes {len(names)} sizes");'
    return [f"    {check}", *(f"    const int64_t {name} = n[{at}];" for at, name in enumerate(names))]


def _checks(launch: Launch) -> list[str]:
    """Sizes are taken from some tensors: the others have to fit."""
    lines = []
    for buffer, name in launch.kernel.pointers.items():
        elements = " * ".join(launch.kernel.size(size) for size in buffer.shape) or "1"
        said = buffer.name.replace('"', "'")
        lines += [
            f"    TORCH_CHECK({name}.is_contiguous() && {name}.numel() == {elements},",
            f'                "{launch.kernel.name}: {said} has another shape");',
        ]
    return lines


def _launched(launch: Launch) -> list[str]:
    kernel, pointers = launch.kernel, launch.kernel.pointers
    rows, inner = kernel.size(launch.rows), kernel.size(launch.inner)
    across = "true" if launch.across else "false"
    shape = (
        [f"block = block_of({inner}, {across});", f"grid = ({rows} + block.y - 1) / block.y;"]
        if launch.by_rows
        else ["block(256);", f"grid = std::min<int64_t>(({rows} + 255) / 256, 1 << 20);"]
    )
    given = [
        *(f"{name}.data_ptr<{C_TYPES[buffer.dtype]}>()" for buffer, name in pointers.items()),
        *kernel.sizes.values(),
    ]
    largest = [f"{name}.numel()" for name in pointers.values()]
    return [
        f"    const dim3 {shape[0]}",
        f"    const int64_t {shape[1]}",
        "    if (grid == 0) return;",
        "    const auto stream = at::cuda::getCurrentCUDAStream();",
        f"    const int64_t most = std::max<int64_t>({{{rows} * {inner}, {', '.join(largest)}}});",
        "    if (most > INT32_MAX / 2) {",
        f"        {kernel.name}_of<int64_t><<<unsigned(grid), block, 0, stream>>>({', '.join(given)});",
        "    } else {",
        f"        {kernel.name}_of<int><<<unsigned(grid), block, 0, stream>>>({', '.join(given)});",
        "    }",
        "    C10_CUDA_KERNEL_LAUNCH_CHECK();",
    ]
