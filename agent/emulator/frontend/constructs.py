"""Recognition, by name, of CUDA C++ constructs that the emulator does not run or runs only from PTX."""

import re
from dataclasses import dataclass

from agent.build.cuda_text import RewriteError, closing, code_only, directives, line_of


@dataclass(frozen=True)
class Construct:
    """Unsupported construct: `name` for messages, its line, and the text of that line."""

    name: str
    line: int
    text: str


_UNSUPPORTED = (
    ("inline PTX (asm)", r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile\b|__volatile__\b)?\s*\("),
    ("tensor cores (wmma, mma)", r"\bnvcuda\b|\bwmma\s*::|<\s*mma\.h\s*>"),
    ("CUTLASS or CuTe", r"\b(?:cutlass|cute)\s*(?:::|/)"),
    (
        "pipelines with roles and barriers beyond a block's (cuda::pipeline_role, cuda::latch, semaphores)",
        r"\bpipeline_role\b|\bcuda\s*::\s*(?:\w+\s*::\s*)*(?:binary_semaphore|counting_semaphore|latch)\b"
        r"|\b__pipeline_arrive_on\b|\bbarrier_native_handle\b|<\s*cuda/(?:latch|semaphore)\s*>",
    ),
    ("tensor memory access (TMA)", r"\bcp_async_bulk\w*|\b[Cc][Uu][Tt]ensorMap\w*"),
    (
        "textures and surfaces",
        r"\bcuda(?:Texture|Surface)Object_t\b|\btexture\s*<|\btex[123]D\w*\s*[<(]|\bsurf[123]D(?:read|write)\b",
    ),
    (
        "cuBLAS, cuDNN and the other CUDA libraries",
        r"\b(?:cublas|cudnn|cusparse|cusolver|cufft)\w*|CUDABlasHandle\b",
    ),
    ("cuRAND", r"\bcurand\w*"),
    ("Thrust", r"\bthrust\s*(?:::|/)"),
    ("CUB device-wide algorithms", r"\bcub\s*::\s*Device[A-Z]\w*"),
    ("launches on several devices", r"\bcudaLaunchCooperativeKernelMultiDevice\b|\bthis_multi_grid\b"),
    (
        "thread block clusters",
        r"\bthis_cluster\b|\bcluster_group\b|\b__cluster_dims__\b|\bcudaLaunchKernelEx\b(?!C)",
    ),
    (
        "cudaLaunchKernel with untyped arguments",
        r"\b(?:cudaLaunchKernel|cudaLaunchKernelExC|cuLaunchKernel\w*)\b",
    ),
    ("run-time compilation (NVRTC)", r"\bnvrtc[A-Z]\w*"),
    ("CUDA graphs", r"\bcudaGraph\w*|\bcudaStreamBeginCapture\b"),
)


MAY_RUN_FROM_PTX = frozenset(
    (
        "inline PTX (asm)",
        "tensor cores (wmma, mma)",
        "thread block clusters",
        "tensor memory access (TMA)",
        "asynchronous copies and barriers (cuda::barrier, cuda::pipeline, memcpy_async)",
        "extern __shared__ inside a macro",
    )
)
"""Names of constructs that occur only in device code and that NVIDIA's compiler translates to PTX."""


def unsupported(text: str) -> list[Construct]:
    """Return the unsupported constructs in `text`, in line order; ignore comments and strings.

    Each construct appears once, at its first use. An empty list does not mean that the text compiles.
    """
    code = code_only(text)
    lines = text.split("\n")
    found = {name: match.start() for name, pattern in _UNSUPPORTED if (match := re.search(pattern, code))}
    for name, pattern in _IN_DEVICE_CODE:
        at = _in_device_code(code, pattern)
        if at is not None:
            found[name] = at
    for start, end in directives(code):
        if re.search(r"\bextern\b.*\b__shared__\b", code[start:end]):
            found.setdefault("extern __shared__ inside a macro", start)
    ordered = sorted(found.items(), key=lambda item: item[1])
    return [
        Construct(name, line_of(code, position), lines[line_of(code, position) - 1].strip())
        for name, position in ordered
    ]


_IN_DEVICE_CODE = (
    ("dynamic parallelism (a launch from device code)", re.compile("<<<")),
    ("allocation in device code (malloc)", re.compile(r"\bmalloc\s*\(")),
)
"""Name and pattern of each construct that is unsupported in device code and allowed in host code."""


def _in_device_code(code: str, pattern: re.Pattern[str]) -> int | None:
    """Return the offset of the pattern's first match in a function that runs only on the device, or None."""
    for function in re.finditer(r"\b(?:__global__|__device__)\b", code):
        stop = re.compile(r"[;{]").search(code, function.end())
        if stop is None or stop[0] == ";" or "__host__" in code[function.start() : stop.start()]:
            continue
        try:
            end = closing(code, stop.start())
        except RewriteError:
            return None
        used = pattern.search(code, stop.start(), end)
        if used is not None:
            return used.start()
    return None
